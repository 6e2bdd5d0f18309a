"""Elementwise operators: arithmetic, comparisons, logic, rounding, casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.text import strings
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.registry import add_converter, converts
from heddle.frontend.onnx.values import TextKind, array_value
from heddle.ir.expr import Expr
from heddle.prim.values import convert
from heddle.runtime.dtype import DataType

_UNARY = {
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Abs": "abs",
    "Neg": "negative",
    "Sign": "sign",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
    "IsNaN": "isnan",
}
_ROUNDING = {"Floor": "floor", "Ceil": "ceil", "Round": "round"}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Less": "less",
    "Greater": "greater",
    "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


MAX_FOLDED = 64
"""Constants of as many elements at most are cast while importing."""
LARGEST = {
    "float4_e2m1fn": 6.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
POWERS_OF_TWO = "float8_e8m0fnu"
_ADDED_TO_FRACTION = {"up": (1 << 52) - 1, "down": 0, "nearest": 1 << 51}


def _unary(op: str) -> Callable[[NodeContext], Result]:
    return lambda ctx: ctx.call(op, ctx.tensor(0))


def _rounding(op: str) -> Callable[[NodeContext], Result]:
    """Integers are whole already."""
    return lambda ctx: ctx.call(op, ctx.tensor(0)) if DataType(ctx.dtype(0)).is_float else ctx.tensor(0)


def aligned(ctx: NodeContext) -> tuple[Expr, Expr]:
    """The two inputs; before operator set 7 the second one may start at an axis of the first."""
    a, b = ctx.tensor(0), ctx.tensor(1)
    if ctx.opset < 7 and ctx.flag("broadcast") and "axis" in ctx.node.attrs:
        rank, own = ctx.ndim(0), ctx.ndim(1)
        axis = ctx.axis(ctx.attr("axis"), rank)
        tail = rank - axis - own
        if tail < 0:
            ctx.malformed(f"axis {axis} leaves no room for {own} dimensions")
        b = ctx.reshape(b, (*ctx.dims_of(b), *([1] * tail)))
    return a, b


def _binary(op: str) -> Callable[[NodeContext], Result]:
    return lambda ctx: ctx.binary(op, *aligned(ctx))


def _variadic(op: str) -> Callable[[NodeContext], Result]:
    return lambda ctx: reduce(lambda a, b: ctx.binary(op, a, b), ctx.tensors())


def _equal(ctx: NodeContext) -> Result:
    if isinstance(ctx.value(0).kind, TextKind):
        return strings.equal(ctx)
    return _binary("equal")(ctx)


for _name, _op in _UNARY.items():
    add_converter(_name, _unary(_op))
for _name, _op in _ROUNDING.items():
    add_converter(_name, _rounding(_op))
for _name, _op in _BINARY.items():
    add_converter(_name, _binary(_op))
add_converter("Equal", _equal)
for _name, _op in _VARIADIC.items():
    add_converter(_name, _variadic(_op))


@converts("Mean")
def mean(ctx: NodeContext) -> Result:
    """Mean of any number of inputs: their sum, from the left, over their number."""
    total = reduce(lambda a, b: ctx.binary("add", a, b), ctx.tensors())
    return ctx.call("divide", total, ctx.like(ctx.num_inputs, 0))


@converts("Reciprocal")
def reciprocal(ctx: NodeContext) -> Result:
    """Reciprocal: 1 / x."""
    return ctx.call("divide", ctx.like(1, 0), ctx.tensor(0))


_TWO_TO_63 = float(1 << 63)


def _whole_power(ctx: NodeContext, base: Expr, exponent: Expr, dtype: str) -> Expr:
    """The power of integers in a type that holds the exponent's values; a narrower or unsigned base loses no
    bit that its power has."""
    kind = DataType(dtype)
    if kind.is_unsigned and kind.bits == 64:
        work = "uint64"
    else:
        wide = DataType(ctx.dtype(0)).bits == 64 or kind.bits + kind.is_unsigned > 32
        work = "int64" if wide else "int32"
    made = ctx.binary("power", ctx.astype(base, work), ctx.astype(exponent, work))
    return ctx.astype(made, ctx.dtype(0))


def _power_of_integers(ctx: NodeContext, base: Expr, exponent: Expr, known: float | None) -> Expr:
    """Whole exponents, be they floats, give powers of integers, which wrap; others go through float64, whose
    fraction is dropped."""
    dtype = ctx.dtype(1)
    if not DataType(dtype).is_float:
        return _whole_power(ctx, base, exponent, dtype)
    real = ctx.astype(exponent, "float64")
    is_whole = known is not None and known.is_integer() and abs(known) < _TWO_TO_63
    if is_whole:
        return _whole_power(ctx, base, ctx.astype(exponent, "int64"), "int64")
    power = ctx.astype(ctx.binary("power", ctx.astype(base, "float64"), real), ctx.dtype(0))
    if known is not None:
        return power
    whole = _whole_power(ctx, base, ctx.astype(exponent, "int64"), "int64")
    fits = ctx.call("less", ctx.call("abs", real), ctx.const(_TWO_TO_63, "float64"))
    is_one = ctx.call("logical_and", fits, ctx.call("equal", ctx.call("floor", real), real))
    return ctx.call("where", is_one, whole, power)


@converts("Pow")
def power(ctx: NodeContext) -> Result:
    """The result has the base's element type."""
    base, exponent = aligned(ctx)
    known, value = ctx.array(1), None
    if known is not None and known.size == 1 and known.ndim <= ctx.ndim(0):
        value = float(known.reshape(-1)[0])
        if value == 2:
            return ctx.call("square", base)
        if value == 1:
            return base
        exponent = ctx.const(known.reshape(()), ctx.dtype(1))
    dtype = ctx.dtype(0)
    if not DataType(dtype).is_float:
        return _power_of_integers(ctx, base, exponent, value)
    return ctx.binary("power", base, ctx.astype(exponent, dtype))


@converts("Mod")
def mod(ctx: NodeContext) -> Result:
    """fmod=0: the sign of the divisor; fmod=1: that of the dividend, as in C."""
    a, b = ctx.tensor(0), ctx.tensor(1)
    if not ctx.flag("fmod"):
        return ctx.binary("floor_mod", a, b)
    return ctx.binary("fmod", a, b)


@converts("BitShift")
def bit_shift(ctx: NodeContext) -> Result:
    """Bits shifted out are lost: shifting as far as the width or further gives 0."""
    op = {"LEFT": "left_shift", "RIGHT": "right_shift"}.get(ctx.attr("direction"))
    if op is None:
        ctx.malformed(f"direction must be LEFT or RIGHT, got {ctx.attr('direction')!r}")
    return ctx.binary(op, ctx.tensor(0), ctx.tensor(1))


@converts("IsInf")
def is_inf(ctx: NodeContext) -> Result:
    """IsInf, of both signs or of the one that the attributes leave."""
    x = ctx.tensor(0)
    found = ctx.call("isinf", x)
    positive, negative = ctx.flag("detect_positive", True), ctx.flag("detect_negative", True)
    if positive and negative:
        return found
    sign = ctx.call("greater" if positive else "less", x, ctx.like(0, 0))
    if not positive and not negative:
        return ctx.call("logical_and", found, ctx.call("logical_not", found))
    return ctx.call("logical_and", found, sign)


@converts("Cast")
def cast(ctx: NodeContext) -> Result:
    """Before operator set 6 the target is a name."""
    target = ctx.attr("to")
    dtype = target.lower() if isinstance(target, str) else dtype_name(target, "the target of Cast")
    return cast_to(ctx, {"float": "float32", "double": "float64"}.get(dtype, dtype))


def cast_to(ctx: NodeContext, dtype: str) -> Result:
    """Float to integer drops the fraction; to bool compares with 0; to 8-bit floats saturates unless told not
    to; to integers of 2 and 4 bits rounds halves to even and keeps the low bits."""
    known = ctx.array(0)
    if (
        known is not None
        and known.size <= MAX_FOLDED
        and DataType(dtype).bits >= 16
        and known.dtype.kind in "iubf"
    ):
        return array_value(convert(known, DataType(dtype)), dtype)
    x = ctx.tensor(0)
    if dtype == POWERS_OF_TWO and ctx.dtype(0) != dtype:
        return _to_power_of_two(ctx, ctx.astype(x, "float64"))
    if dtype in LARGEST and ctx.flag("saturate", True) and ctx.dtype(0) != dtype:
        return to_small_float(ctx, ctx.astype(x, "float32"), dtype)
    target = DataType(dtype)
    if target.is_int and target.bits < 8 and ctx.dtype(0) != dtype:
        if DataType(ctx.dtype(0)).is_float:
            x = ctx.call("round", x if DataType(ctx.dtype(0)).bits > 8 else ctx.astype(x, "float32"))
        x = ctx.call("bitwise_and", ctx.astype(x, "int32"), ctx.const((1 << target.bits) - 1, "int32"))
        if target.is_signed:
            sign = ctx.const(1 << (target.bits - 1), "int32")
            x = ctx.call("subtract", ctx.call("bitwise_xor", x, sign), sign)
    return ctx.astype(x, dtype)


def to_small_float(ctx: NodeContext, x: Expr, dtype: str) -> Expr:
    """What is larger than the largest number becomes that; NaN stays."""
    limit = LARGEST[dtype]
    return ctx.astype(ctx.call("where", ctx.call("isnan", x), x, ctx.call("clip", x, -limit, limit)), dtype)


def _to_power_of_two(ctx: NodeContext, x: Expr) -> Expr:
    """float64, which holds all powers, by its bits: what is added to the fraction carries into the exponent.

    Beyond the range: its ends, for what is negative the least power; without `saturate` NaN.
    """
    mode = ctx.attr("round_mode", "up")
    if mode not in _ADDED_TO_FRACTION:
        ctx.malformed(f"round_mode must be one of {', '.join(_ADDED_TO_FRACTION)}, got {mode!r}")
    inside = ctx.call("clip", x, 2.0**-127, 2.0**127)
    bits = ctx.call("bitcast", inside, dtype="int64")
    bits = ctx.call("add", bits, ctx.const(_ADDED_TO_FRACTION[mode], "int64"))
    power = ctx.call(
        "subtract", ctx.call("right_shift", bits, ctx.const(52, "int64")), ctx.const(896, "int64")
    )
    bad = ctx.call("isnan", x) if ctx.flag("saturate", True) else ctx.call("not_equal", inside, x)
    power = ctx.call("where", bad, ctx.const(255, "int64"), power)
    return ctx.call("bitcast", ctx.astype(power, "uint8"), dtype=POWERS_OF_TWO)


@converts("BitCast", since=26)
def bit_cast(ctx: NodeContext) -> Result:
    """The same bits as another element type of the same width."""
    target = dtype_name(ctx.attr("to"), "the target of BitCast")
    if DataType(target).itemsize != DataType(ctx.dtype(0)).itemsize:
        ctx.malformed(f"{ctx.dtype(0)} and {target} have different widths")
    if "bool" in (target, ctx.dtype(0)):
        return ctx.astype(ctx.tensor(0), target)
    return ctx.call("bitcast", ctx.tensor(0), dtype=target)


@converts("CastLike")
def cast_like(ctx: NodeContext) -> Result:
    """CastLike: to the element type of the second input."""
    return cast_to(ctx, ctx.dtype(1))


@converts("Where")
def where(ctx: NodeContext) -> Result:
    """Where: elements of the second input where the first is true, else of the third."""
    return ctx.call("where", ctx.tensor(0), ctx.tensor(1), ctx.tensor(2))


@converts("Clip", since=1)
def clip_6(ctx: NodeContext) -> Result:
    """Clip before version 11: bounds are attributes."""
    return _clip(ctx, ctx.attr("min", None), ctx.attr("max", None))


@converts("Clip", since=11)
def clip(ctx: NodeContext) -> Result:
    """A missing bound does not bind. Bounds that are known only when the model runs become minimum and
    maximum."""
    low, high = (ctx.first(index) if ctx.has(index) else None for index in (1, 2))
    if all(known is not None or not ctx.has(index) for index, known in ((1, low), (2, high))):
        return _clip(ctx, low, high)
    made = ctx.tensor(0)
    if ctx.has(1):
        made = ctx.call("maximum", made, ctx.tensor(1))
    return ctx.call("minimum", made, ctx.tensor(2)) if ctx.has(2) else made


def _clip(ctx: NodeContext, low: float | None, high: float | None) -> Expr:
    made = ctx.tensor(0)
    if low is not None and high is not None and np.isfinite([low, high]).all() and low <= high:
        from_type = float if DataType(ctx.dtype(0)).is_float else int
        return ctx.call("clip", made, from_type(low), from_type(high))
    if low is not None:
        made = ctx.call("maximum", made, ctx.like(low, 0))
    return ctx.call("minimum", made, ctx.like(high, 0)) if high is not None else made


@converts("Identity")
def identity(ctx: NodeContext) -> Result:
    """Identity: the same value, whatever its kind."""
    return ctx.value(0)


@converts("Dropout", since=1)
def dropout_1(ctx: NodeContext) -> Result:
    """The input itself, and a mask of ones: these operator sets are for inference. Before the tenth set the
    mask is of the type of x."""
    if not ctx.has_output(1):
        return ctx.value(0)
    x, dtype = ctx.tensor(0), "bool" if ctx.opset >= 10 else ctx.dtype(0)
    return x, ctx.call("full", ctx.dims(0), ctx.const(1, dtype), dtype=dtype)
