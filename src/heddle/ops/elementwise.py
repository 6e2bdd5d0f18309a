"""Elementwise operators of one or two tensors, from two tables: name, scalar function, numpy reference,
sample range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.ir.op import OP_RECORDS
from heddle.ir.op_def import AnyLayout, ErrorSample, Input, OpDef, Sample, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import broadcast_rule, float_same_as_input, number_same_as_input, same_as_input, to_bool
from heddle.prim import intrinsics, ops, values
from heddle.prim.nodes import PrimExpr
from heddle.support.frozen import frozen
from heddle.topi import math
from heddle.topi.broadcast import elementwise

ANY_LAYOUT = AnyLayout()
FLOATS = ("float32", "float16", "float64")
INTS = ("int32", "int64", "int8", "uint8")
_X = (Input("x", meaning="a tensor"),)
_XY = (Input("lhs", meaning="a tensor"), Input("rhs", meaning="a tensor that broadcasts with lhs"))


@frozen
class _Unary:
    """`low` and `high` bound the samples; `floats_only` says whether integers are accepted, and bool, which
    `takes_bool` may refuse."""

    name: str
    scalar: Callable[[Any], PrimExpr]
    reference: Callable[..., Any]
    formula: str
    low: float = -4.0
    high: float = 4.0
    floats_only: bool = True
    takes_bool: bool = True


def evaluate_of(name: str) -> Callable[..., Any]:
    """The numpy form of an intrinsic."""
    function: Callable[..., Any] = OP_RECORDS[f"tir.{name}"].evaluate
    return function


def _rounded(x: Any) -> Any:
    return np.rint(x) if values.is_float_array(x) else x


def _intrinsic(name: str, formula: str, low: float = -4.0, high: float = 4.0) -> _Unary:
    return _Unary(name, getattr(intrinsics, name), evaluate_of(name), formula, low, high)


_UNARY = (
    _intrinsic("exp", "e ** x"),
    _intrinsic("log", "the natural logarithm of x", 0.01, 9.0),
    _intrinsic("sqrt", "the square root of x", 0.0, 9.0),
    _intrinsic("rsqrt", "1 / sqrt(x)", 0.01, 9.0),
    _intrinsic("sin", "sin(x)"),
    _intrinsic("cos", "cos(x)"),
    _intrinsic("tan", "tan(x)", -1.5, 1.5),
    _intrinsic("asin", "arcsin(x)", -1.0, 1.0),
    _intrinsic("acos", "arccos(x)", -1.0, 1.0),
    _intrinsic("atan", "arctan(x)"),
    _intrinsic("sinh", "sinh(x)"),
    _intrinsic("cosh", "cosh(x)"),
    _intrinsic("tanh", "tanh(x)"),
    _intrinsic("asinh", "arsinh(x)"),
    _intrinsic("acosh", "arcosh(x)", 1.0, 9.0),
    _intrinsic("atanh", "artanh(x)", -0.99, 0.99),
    _intrinsic("sigmoid", "1 / (1 + e ** -x)", -9.0, 9.0),
    _intrinsic("erf", "the error function of x"),
    _intrinsic("log2", "the logarithm of x to base 2", 0.01, 9.0),
    _intrinsic("log10", "the logarithm of x to base 10", 0.01, 9.0),
    _intrinsic("log1p", "log(1 + x)", -0.9, 9.0),
    _intrinsic("exp2", "2 ** x"),
    _Unary("abs", intrinsics.abs, np.abs, "|x|", floats_only=False),
    _Unary("negative", ops.negative, np.negative, "-x", floats_only=False, takes_bool=False),
    _Unary("square", lambda x: x * x, np.square, "x * x", floats_only=False),
    _Unary(
        "sign",
        math.sign_value,
        lambda x: x if x.dtype == bool else np.sign(x),
        "-1, 0, 1 or NaN as x is negative, zero, positive or NaN",
        floats_only=False,
    ),
    _Unary("floor", intrinsics.floor, np.floor, "x rounded down", floats_only=False),
    _Unary("ceil", intrinsics.ceil, np.ceil, "x rounded up", floats_only=False),
    _Unary("trunc", intrinsics.trunc, np.trunc, "x rounded to zero", floats_only=False),
    _Unary(
        "round",
        intrinsics.nearbyint,
        _rounded,
        "x rounded to the nearest integer, halves to even",
        floats_only=False,
    ),
)


def _uniform(shape: tuple[int, ...], low: float, high: float) -> Callable[[Any, str], tuple[Any, ...]]:
    return lambda rng, dtype: (np.asarray(rng.uniform(low, high, size=shape)).astype(dtype),)


def unary_samples(low: float, high: float, dtypes: tuple[str, ...]) -> tuple[Sample, ...]:
    """Uniform values of [low, high) in odd shapes; the first also in bfloat16, where floats are accepted."""
    shapes = ((3, 7), (), (1,), (0, 4), (33,))
    return tuple(
        Sample((shape,), dtypes=first_narrow(dtypes, k), make=_uniform(shape, low, high))
        for k, shape in enumerate(shapes)
    )


def first_narrow(dtypes: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The dtypes of a sample by its number: of floats the first takes bfloat16 too."""
    return (*dtypes, "bfloat16") if number == 0 and "float32" in dtypes else dtypes


def _infer_unary(row: _Unary) -> Callable[[Inference], Type]:
    if row.floats_only:
        return float_same_as_input
    return same_as_input if row.takes_bool else number_same_as_input


def _unary_errors(row: _Unary) -> tuple[ErrorSample, ...]:
    if row.floats_only:
        return (ErrorSample(((2, 3),), {}, "R0204", "float", "int32"),)
    return () if row.takes_bool else (ErrorSample(((2, 3),), {}, "R0204", "integers or floats", "bool"),)


def _declare_unary(row: _Unary) -> None:
    scalar = row.scalar
    declare_op(
        OpDef(
            name=row.name,
            inputs=_X,
            attrs=(),
            doc=f"Elementwise {row.formula}. NaN gives NaN."
            if row.floats_only
            else f"Elementwise {row.formula}.",
            infer=_infer_unary(row),
            reference=lambda attrs, x: _same_dtype(row.reference, x),
            lower=lambda attrs, x: elementwise(scalar, x, name=row.name),
            layout=ANY_LAYOUT,
            samples=unary_samples(row.low, row.high, FLOATS if row.floats_only else (*FLOATS, "int32")),
            errors=_unary_errors(row),
        )
    )


def _same_dtype(function: Callable[..., Any], *arrays: Any) -> Any:
    """A numpy function computed at least in float32 and given back in the input's dtype."""
    dtype = np.asarray(arrays[0]).dtype
    wide = [
        np.asarray(a, np.float32) if values.kind_of(dtype) == "f" and dtype.itemsize < 4 else np.asarray(a)
        for a in arrays
    ]
    with np.errstate(all="ignore"):
        return np.asarray(function(*wide)).astype(dtype)


@frozen
class _Binary:
    name: str
    scalar: Callable[[Any, Any], PrimExpr]
    reference: Callable[..., Any]
    formula: str
    dtypes: tuple[str, ...] = (*FLOATS, *INTS)
    positive: tuple[str, ...] = ()
    """The dtypes whose samples are positive."""
    kinds: tuple[str, ...] = ()
    """Of bool, integer and float, those that it is defined on; all where it is empty."""


_BITS = ("bool", "integer")
_REMAINDER = "the remainder with the sign of rhs; of integers 0 where rhs is"
_ARITHMETIC = (
    _Binary("add", ops.add, np.add, "lhs + rhs; of bool lhs or rhs"),
    _Binary("subtract", ops.subtract, np.subtract, "lhs - rhs", kinds=("integer", "float")),
    _Binary("multiply", ops.multiply, np.multiply, "lhs * rhs"),
    _Binary(
        "divide",
        math.divide_values,
        values.trunc_divide,
        "lhs / rhs; of integers the quotient rounded to zero, 0 where rhs is",
        (*FLOATS, *INTS),
    ),
    _Binary(
        "floor_divide",
        math.floor_divide_values,
        np.floor_divide,
        "lhs / rhs rounded down; of integers 0 where rhs is",
        ("float32", *INTS),
        ("float32",),
    ),
    _Binary("mod", math.floor_mod_values, np.mod, _REMAINDER, ("float32", *INTS), ("float32",)),
    _Binary("floor_mod", math.floor_mod_values, np.mod, _REMAINDER, ("float32", *INTS), ("float32",)),
    _Binary(
        "fmod",
        math.mod_values,
        values.trunc_mod,
        "the remainder with the sign of lhs, as C's fmod; of integers 0 where rhs is",
        ("float32", *INTS),
        ("float32",),
    ),
    _Binary(
        "power",
        intrinsics.power,
        values.power,
        "lhs ** rhs; of integers it wraps, and 1 / lhs ** -rhs is rounded to zero where rhs is negative",
        (*FLOATS, *INTS),
        FLOATS,
        ("integer", "float"),
    ),
    _Binary(
        "atan2", intrinsics.atan2, np.arctan2, "the angle of the point (rhs, lhs)", FLOATS, (), ("float",)
    ),
    _Binary("maximum", intrinsics.fmaximum, np.maximum, "the greater of lhs and rhs, NaN where one is NaN"),
    _Binary("minimum", intrinsics.fminimum, np.minimum, "the lesser of lhs and rhs, NaN where one is NaN"),
    _Binary(
        "left_shift",
        ops.shift_left,
        values.shift_left,
        "lhs * 2 ** rhs; 0 where rhs is negative or as great as the width",
        ("int32", "uint8"),
        ("int32",),
        ("integer",),
    ),
    _Binary(
        "right_shift",
        ops.shift_right,
        values.shift_right,
        "lhs // 2 ** rhs; 0 or -1, as the sign is, where rhs is negative or as great as the width",
        ("int32", "uint8"),
        ("int32",),
        ("integer",),
    ),
    _Binary("bitwise_and", ops.bitwise_and, np.bitwise_and, "the bitwise and", ("int32", "uint8"), (), _BITS),
    _Binary("bitwise_or", ops.bitwise_or, np.bitwise_or, "the bitwise or", ("int32", "uint8"), (), _BITS),
    _Binary(
        "bitwise_xor",
        ops.bitwise_xor,
        np.bitwise_xor,
        "the bitwise exclusive or",
        ("int32", "uint8"),
        (),
        _BITS,
    ),
)
_COMPARISONS = (
    _Binary("equal", ops.equal, np.equal, "whether lhs = rhs"),
    _Binary("not_equal", ops.not_equal, np.not_equal, "whether lhs ≠ rhs"),
    _Binary("less", ops.less, np.less, "whether lhs < rhs"),
    _Binary("less_equal", ops.less_equal, np.less_equal, "whether lhs ≤ rhs"),
    _Binary("greater", ops.greater, np.greater, "whether lhs > rhs"),
    _Binary("greater_equal", ops.greater_equal, np.greater_equal, "whether lhs ≥ rhs"),
)
_LOGIC = (
    _Binary("logical_and", math.and_values, np.logical_and, "lhs and rhs", ("bool",), (), ("bool",)),
    _Binary("logical_or", math.or_values, np.logical_or, "lhs or rhs", ("bool",), (), ("bool",)),
    _Binary(
        "logical_xor",
        ops.not_equal,
        np.logical_xor,
        "whether exactly one of lhs and rhs holds",
        ("bool",),
        (),
        ("bool",),
    ),
)


def random_array(rng: Any, shape: tuple[int, ...], dtype: str, positive: bool = False) -> Any:
    """Small random values of any dtype: halves for floats, so that results are exact where they can be."""
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, size=shape)).astype(bool)
    low = 1 if positive else (0 if dtype.startswith("uint") else -8)
    values = rng.integers(low, 9, size=shape)
    return np.asarray(values / 2 if "float" in dtype else values).astype(dtype)


def random_values(shape: tuple[int, ...]) -> Callable[[Any, str], tuple[Any, ...]]:
    """The arguments of a sample: one random array."""
    return lambda rng, dtype: (random_array(rng, shape, dtype),)


def binary_samples(dtypes: tuple[str, ...], positive: tuple[str, ...] = ()) -> tuple[Sample, ...]:
    """Equal shapes, broadcasts on either side, scalars, empty and odd sizes."""
    pairs = (((3, 7), (3, 7)), ((5, 1, 4), (3, 1)), ((), (2, 3)), ((0, 3), (3,)), ((31,), (1,)))

    def make(pair: Any) -> Callable[[Any, str], tuple[Any, ...]]:
        return lambda rng, dtype: tuple(
            random_array(rng, shape, dtype, dtype in positive or dtype == "bfloat16") for shape in pair
        )

    return tuple(
        Sample(pair, dtypes=first_narrow(dtypes, k), make=make(pair)) for k, pair in enumerate(pairs)
    )


def _declare_binary(row: _Binary, is_bool: bool) -> None:
    scalar = row.scalar
    refused = {"float": "float32", "integer": "int32", "bool": "bool"}
    wrong = next((dtype for kind, dtype in refused.items() if kind not in row.kinds), "")
    errors = [ErrorSample(((2, 3), (4, 3)), {}, "R0203", "broadcast", row.dtypes[0])]
    if row.kinds:
        errors.append(ErrorSample(((2, 3), (2, 3)), {}, "R0204", " or ".join(row.kinds), wrong))
    declare_op(
        OpDef(
            name=row.name,
            inputs=_XY,
            attrs=(),
            doc=f"Elementwise {row.formula}; shapes broadcast and element types are equal.",
            infer=broadcast_rule(to_bool, row.kinds) if is_bool else broadcast_rule(kinds=row.kinds),
            reference=(lambda attrs, a, b: row.reference(a, b))
            if is_bool
            else (lambda attrs, a, b: _same_dtype(row.reference, a, b)),
            lower=lambda attrs, a, b: elementwise(scalar, a, b, name=row.name),
            layout=ANY_LAYOUT,
            samples=binary_samples(row.dtypes, row.positive),
            errors=tuple(errors),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for unary in _UNARY:
        _declare_unary(unary)
    for row in _ARITHMETIC:
        _declare_binary(row, False)
    for row in (*_COMPARISONS, *_LOGIC):
        _declare_binary(row, True)
