"""The table of scalar operations: what each one gives, by an oracle that shares no code with Heddle.

Integers are computed by Python's, which have no width, and wrapped; floats by numpy in their own dtype,
narrower ones than float32 in float32 and rounded once. docs/semantics.md states the same in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the 8-bit floats with numpy)
import numpy as np

from heddle.prim import intrinsics, ops
from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType

SIGNED, UNSIGNED = (
    ("int4", "int8", "int16", "int32", "int64"),
    ("uint4", "uint8", "uint16", "uint32", "uint64"),
)
INTS, WIDE_FLOATS, HALVES = (*SIGNED, *UNSIGNED), ("float32", "float64"), ("float16", "bfloat16")
EIGHTS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
FLOATS = (*WIDE_FLOATS, *HALVES, *EIGHTS)
ELEMENTARY = (*WIDE_FLOATS, *HALVES)
ALL = ("bool", *INTS, *FLOATS)
Oracle = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation. `ulps` is how far floats may lie from the oracle, a dtype each; others must be equal.

    `result` is the result's dtype where it is not the operands'. `operator` names the operator whose numpy
    reference is compared as well. `zero_sign`: whether the sign of a zero is defined.
    """

    name: str
    arity: int
    build: Callable[..., PrimExpr]
    oracle: Oracle
    dtypes: Sequence[str]
    result: str | None = None
    operator: str | None = None
    ulps: float = 0.0
    zero_sign: bool = True


def wrapped(value: int, dtype: DataType) -> int:
    size = 1 << dtype.bits
    value %= size
    return value - size if dtype.is_signed and value >= size // 2 else value


def of_integers(function: Callable[..., int]) -> Oracle:
    """An oracle from a function of Python integers (and the width); its result wraps."""

    def oracle(dtype: DataType, *arrays: Any) -> Any:
        points = zip(*(array.tolist() for array in arrays), strict=True)
        made = [wrapped(function(*map(int, point)), dtype) for point in points]
        return np.array(made, dtype.numpy())

    return oracle


def of_floats(function: Callable[..., Any]) -> Oracle:
    """An oracle from a numpy function of floats."""

    def oracle(dtype: DataType, *arrays: Any) -> Any:
        wide = [array.astype(np.float32) if dtype.bits < 32 else array for array in arrays]
        made = np.asarray(function(*wide))
        return made if made.dtype == bool else made.astype(dtype.numpy())

    return oracle


def in_long_double(function: Callable[..., Any]) -> Oracle:
    """An oracle for elementary functions, more precise than the result."""
    return lambda dtype, *arrays: function(*(a.astype(np.longdouble) for a in arrays))


def by_point(function: Callable[..., float]) -> Oracle:
    """An oracle for elementary functions, from one of Python's floats."""

    def oracle(dtype: DataType, *arrays: Any) -> Any:
        return np.array([function(*map(float, point)) for point in zip(*arrays, strict=True)], np.float64)

    return oracle


def either(for_integers: Callable[..., int], for_floats: Callable[..., Any]) -> Oracle:
    whole, real = of_integers(for_integers), of_floats(for_floats)
    return lambda dtype, *arrays: (real if dtype.is_float else whole)(dtype, *arrays)


def plain(function: Callable[..., Any]) -> Oracle:
    """An oracle from a numpy function that takes every dtype."""
    return lambda dtype, *arrays: np.asarray(function(*arrays))


def trunc_div(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def trunc_mod(a: int, b: int) -> int:
    return 0 if b == 0 else a - b * trunc_div(a, b)


def whole_power(bits: int) -> Callable[[int, int], int]:
    """Of integers: modulo 2**bits; a negative exponent gives 1 / x**-y rounded to zero, and 0 of 0."""

    def power(x: int, y: int) -> int:
        if y >= 0:
            return pow(x, y, 1 << bits)
        return 0 if abs(x) != 1 else x if y % 2 else 1

    return power


def of_integer_powers(dtype: DataType, *arrays: Any) -> Any:
    return of_integers(whole_power(dtype.bits))(dtype, *arrays)


def of_set_bits(dtype: DataType, x: Any) -> Any:
    return of_integers(lambda value: (value & ((1 << dtype.bits) - 1)).bit_count())(dtype, x)


def shifted_left(dtype: DataType, a: Any, count: Any) -> Any:
    fits = [0 <= n < dtype.bits for n in count.tolist()]
    made = [
        wrapped(v << n, dtype) if ok else 0 for v, n, ok in zip(a.tolist(), count.tolist(), fits, strict=True)
    ]
    return np.array(made, dtype.numpy())


def shifted_right(dtype: DataType, a: Any, count: Any) -> Any:
    most = [n if 0 <= n < dtype.bits else dtype.bits for n in count.tolist()]
    return np.array([v >> n for v, n in zip(a.tolist(), most, strict=True)], dtype.numpy())


def clipped(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def converted(source: DataType, target: DataType, x: Any) -> Any:
    """Saturate floats, wrap integers; float64 and integers become the narrowest floats by way of float32."""
    if target.is_bool:
        return x != 0
    if target.is_int:
        low, high = (
            (-(1 << target.bits - 1), (1 << target.bits - 1) - 1)
            if target.is_signed
            else (0, (1 << target.bits) - 1)
        )

        def whole(v: float) -> int:
            if math.isnan(v):
                return 0
            return (
                int(min(max(v, low), high))
                if math.isfinite(v) and low <= v <= high
                else (high if v > 0 else low)
            )

        values = x.astype(np.float64).tolist() if source.is_float else x.tolist()
        made = [whole(v) if source.is_float else wrapped(int(v), target) for v in values]
        return np.array(made, target.numpy())
    through = (target.code != "float" and source.bits > 16) or source.is_small_float
    return (x.astype(np.float32) if through else x).astype(target.numpy())


def _power(x: Any, y: Any) -> Any:
    """Of infinities by float64, which loses nothing of them: some long doubles' pow(-inf, -2**63) is inf."""
    return np.where(np.isinf(x), np.power(x.astype(np.float64), y.astype(np.float64)), np.power(x, y))


def _known_power(y: float) -> Row:
    """Powers whose exponent the compiler knows have code of their own."""
    oracle = in_long_double(lambda x: _power(x, np.full_like(x, y)))
    return Row(f"pow_{y:g}", 1, lambda x: intrinsics.power(x, y), oracle, ELEMENTARY, None, None, 4.0)


def _known_whole_power(y: int) -> Row:
    """Of the integer dtypes that hold the exponent."""
    dtypes = tuple(dtype for dtype in INTS if wrapped(y, DataType(dtype)) == y)
    return Row(
        f"whole_pow_{y}".replace("-", "minus_"),
        1,
        lambda x: intrinsics.power(x, ops.cast(x.dtype, y)),
        lambda dtype, x: of_integer_powers(dtype, x, np.full_like(x, y)),
        dtypes,
    )


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _unary(name: str, function: Callable[..., Any], dtypes: Sequence[str], **more: Any) -> Row:
    return Row(name, 1, getattr(intrinsics, name), of_floats(function), dtypes, **more)


def _elementary(name: str, oracle: Oracle, arity: int = 1, ulps: float = 4.0, operator: bool = True) -> Row:
    return Row(
        name,
        arity,
        getattr(intrinsics, name),
        oracle,
        ELEMENTARY,
        ulps=ulps,
        operator=name if operator else None,
    )


def _compare(name: str, function: Callable[..., Any]) -> Row:
    return Row(name, 2, getattr(ops, name), plain(function), ALL, result="bool", operator=name)


ROWS: tuple[Row, ...] = (
    Row("add", 2, ops.add, either(lambda a, b: a + b, np.add), (*INTS, *FLOATS), operator="add"),
    Row(
        "subtract",
        2,
        ops.subtract,
        either(lambda a, b: a - b, np.subtract),
        (*INTS, *FLOATS),
        operator="subtract",
    ),
    Row(
        "multiply",
        2,
        ops.multiply,
        either(lambda a, b: a * b, np.multiply),
        (*INTS, *FLOATS),
        operator="multiply",
    ),
    Row("truncdiv", 2, ops.truncdiv, either(trunc_div, np.divide), (*INTS, *FLOATS), operator="divide"),
    Row("truncmod", 2, ops.truncmod, either(trunc_mod, np.fmod), (*INTS, *FLOATS), operator="fmod"),
    Row(
        "floordiv",
        2,
        ops.floordiv,
        either(lambda a, b: b and a // b, np.floor_divide),
        (*INTS, *FLOATS),
        operator="floor_divide",
    ),
    Row(
        "floormod",
        2,
        ops.floormod,
        either(lambda a, b: b and a % b, np.mod),
        (*INTS, *FLOATS),
        operator="floor_mod",
    ),
    Row("minimum", 2, ops.minimum, either(min, lambda a, b: np.where(a < b, a, b)), (*INTS, *FLOATS)),
    Row("maximum", 2, ops.maximum, either(max, lambda a, b: np.where(a > b, a, b)), (*INTS, *FLOATS)),
    Row(
        "fminimum",
        2,
        intrinsics.fminimum,
        either(min, np.minimum),
        (*INTS, *FLOATS),
        operator="minimum",
        zero_sign=False,
    ),
    Row(
        "fmaximum",
        2,
        intrinsics.fmaximum,
        either(max, np.maximum),
        (*INTS, *FLOATS),
        operator="maximum",
        zero_sign=False,
    ),
    Row(
        "negative", 1, ops.negative, either(lambda a: -a, np.negative), (*INTS, *FLOATS), operator="negative"
    ),
    Row("abs", 1, intrinsics.abs, either(abs, np.abs), (*INTS, *FLOATS), operator="abs"),
    Row("bitwise_not", 1, ops.bitwise_not, of_integers(lambda a: ~a), INTS, operator="bitwise_not"),
    Row("popcount", 1, intrinsics.popcount, of_set_bits, INTS),
    Row("bitwise_and", 2, ops.bitwise_and, of_integers(lambda a, b: a & b), INTS, operator="bitwise_and"),
    Row("bitwise_or", 2, ops.bitwise_or, of_integers(lambda a, b: a | b), INTS, operator="bitwise_or"),
    Row("bitwise_xor", 2, ops.bitwise_xor, of_integers(lambda a, b: a ^ b), INTS, operator="bitwise_xor"),
    Row("shift_left", 2, ops.shift_left, shifted_left, INTS, operator="left_shift"),
    Row("shift_right", 2, ops.shift_right, shifted_right, INTS, operator="right_shift"),
    _compare("equal", np.equal),
    _compare("not_equal", np.not_equal),
    _compare("less", np.less),
    _compare("less_equal", np.less_equal),
    _compare("greater", np.greater),
    _compare("greater_equal", np.greater_equal),
    Row("logical_and", 2, ops.logical_and, plain(np.logical_and), ("bool",), operator="logical_and"),
    Row("logical_or", 2, ops.logical_or, plain(np.logical_or), ("bool",), operator="logical_or"),
    Row("logical_not", 1, ops.logical_not, plain(np.logical_not), ("bool",), operator="logical_not"),
    _unary("sqrt", np.sqrt, ELEMENTARY, operator="sqrt"),
    _unary("floor", np.floor, FLOATS, operator="floor"),
    _unary("ceil", np.ceil, FLOATS, operator="ceil"),
    _unary("trunc", np.trunc, FLOATS, operator="trunc"),
    _unary("round", np.rint, FLOATS, operator="round"),
    _unary("nearbyint", np.rint, FLOATS),
    _unary("isnan", np.isnan, FLOATS, result="bool", operator="isnan"),
    _unary("isinf", np.isinf, FLOATS, result="bool", operator="isinf"),
    _unary("isfinite", np.isfinite, FLOATS, result="bool", operator="isfinite"),
    Row("copysign", 2, intrinsics.copysign, of_floats(np.copysign), ELEMENTARY),
    Row("nextafter", 2, intrinsics.nextafter, of_floats(np.nextafter), WIDE_FLOATS),
    Row(
        "clip",
        3,
        lambda x, low, high: intrinsics.fminimum(high, intrinsics.fmaximum(low, x)),
        either(lambda x, low, high: min(max(x, low), high), clipped),
        (*INTS, *FLOATS),
        zero_sign=False,
    ),
    Row(
        "select",
        3,
        lambda c, a, b: ops.select(ops.not_equal(c, ops.cast(c.dtype, 0)), a, b),
        plain(lambda c, a, b: np.where(c != 0, a, b)),
        ALL,
    ),
    _elementary("exp", in_long_double(np.exp)),
    _elementary("exp2", in_long_double(np.exp2)),
    _elementary("log", in_long_double(np.log)),
    _elementary("log2", in_long_double(np.log2)),
    _elementary("log10", in_long_double(np.log10)),
    _elementary("log1p", in_long_double(np.log1p)),
    _elementary("sin", in_long_double(np.sin)),
    _elementary("cos", in_long_double(np.cos)),
    _elementary("tan", in_long_double(np.tan)),
    _elementary("asin", in_long_double(np.arcsin)),
    _elementary("acos", in_long_double(np.arccos)),
    _elementary("atan", in_long_double(np.arctan)),
    _elementary("sinh", in_long_double(np.sinh)),
    _elementary("cosh", in_long_double(np.cosh)),
    _elementary("tanh", in_long_double(np.tanh)),
    _elementary("asinh", in_long_double(np.arcsinh)),
    _elementary("acosh", in_long_double(np.arccosh)),
    _elementary("atanh", in_long_double(np.arctanh)),
    _elementary("sigmoid", in_long_double(_sigmoid)),
    _elementary("rsqrt", in_long_double(lambda x: 1 / np.sqrt(x))),
    _elementary("erf", by_point(math.erf), ulps=12.0),
    _elementary("atan2", in_long_double(np.arctan2), 2),
    _elementary("hypot", in_long_double(np.hypot), 2, operator=False),
    _elementary("pow", in_long_double(_power), 2, operator=False),
    Row("pow", 2, intrinsics.power, of_integer_powers, INTS, operator="power"),
    *(_known_whole_power(y) for y in (-3, -2, -1, 0, 1, 2, 3, 7, 12, 70)),
    *(_known_power(y) for y in (-1.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)),
)


def cast_row(source: str, target: str) -> Row:
    """The conversion of one dtype into another."""
    return Row(
        f"cast_{target}",
        1,
        lambda x: ops.cast(DataType(target).with_lanes(x.dtype.lanes), x),
        lambda dtype, x: converted(dtype, DataType(target), x),
        (source,),
        result=target,
    )


def rows_of(dtype: str) -> list[Row]:
    """All rows for operands of a dtype."""
    return [row for row in ROWS if dtype in row.dtypes] + [
        cast_row(dtype, target) for target in ALL if target != dtype
    ]
