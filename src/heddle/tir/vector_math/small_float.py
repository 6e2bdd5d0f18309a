"""float16 and the floats of 8 bits and fewer to float32 and back, by integer arithmetic on bits; rounds to
nearest even."""

from __future__ import annotations

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import isnan, reinterpret
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    bitwise_or,
    cast,
    equal,
    greater,
    less,
    logical_and,
    multiply,
    not_equal,
    select,
    shift_left,
    shift_right,
    subtract,
)
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.vector_math.build import Scope, float_bits, int_dtype


@frozen
class SmallFloat:
    """`largest`, `overflow` and `nan` are bits of magnitudes: the last finite one, what is larger, NaN.

    `has_infinity`: bits above `largest` start with it. `one_zero`: the bits of minus zero mean NaN. Without
    mantissa bits there is no sign and no zero: the bits are an exponent, as those of `float8_e8m0fnu`.
    """

    mantissa_bits: int
    bias: int
    largest: int
    overflow: int
    nan: int
    has_infinity: bool = False
    one_zero: bool = False


SMALL_FLOATS: dict[str, SmallFloat] = {
    "float16": SmallFloat(10, 15, 0x7BFF, 0x7C00, 0x7E00, has_infinity=True),
    "float8_e5m2": SmallFloat(2, 15, 0x7B, 0x7C, 0x7E, has_infinity=True),
    "float8_e4m3fn": SmallFloat(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2fnuz": SmallFloat(2, 16, 0x7F, 0x80, 0x80, one_zero=True),
    "float8_e4m3fnuz": SmallFloat(3, 8, 0x7F, 0x80, 0x80, one_zero=True),
    "float8_e8m0fnu": SmallFloat(0, 127, 0xFE, 0xFF, 0xFF),
    "float4_e2m1fn": SmallFloat(1, 1, 0x7, 0x7, 0x8),  # what is larger is 6, NaN is minus zero
}


def to_float32(x: PrimExpr) -> PrimExpr:
    """The magnitude's bits as a float32 that is 2**(127 - bias) too small; then the ends and the sign."""
    form, scope, bits = SMALL_FLOATS[str(x.dtype.element)], Scope(), x.dtype.bits
    if not form.mantissa_bits:
        return _power_to_float32(x, form)
    raw = scope.let(cast(int_dtype(x), reinterpret(DataType(f"uint{bits}").with_lanes(x.dtype.lanes), x)))
    size = scope.let(bitwise_and(raw, (1 << (bits - 1)) - 1))
    floats = DataType("float32").with_lanes(x.dtype.lanes)
    small = reinterpret(floats, shift_left(size, 23 - form.mantissa_bits))
    value = multiply(small, 2.0 ** (127 - form.bias))
    if form.has_infinity:
        infinity = equal(size, constant(form.overflow, size.dtype))
        value = select(infinity, constant(float("inf"), floats), value)
        value = select(greater(size, form.overflow), constant(float("nan"), floats), value)
    elif not form.one_zero:
        value = select(greater(size, form.largest), constant(float("nan"), floats), value)
    sign = shift_left(bitwise_and(raw, 1 << (bits - 1)), 32 - bits)
    result = reinterpret(floats, bitwise_or(float_bits(value), sign))
    if form.one_zero:
        result = select(equal(raw, constant(form.nan, raw.dtype)), constant(float("nan"), floats), result)
    return scope.close(result)


def rounded_to_odd(x: PrimExpr) -> PrimExpr:
    """A float64 as float32: where it does not fit, that neighbour whose last bit is set. Rounding this to a
    float of at most 22 bits gives what rounding the float64 once gives."""
    scope = Scope()
    x = scope.let(x)
    near = scope.let(cast(DataType("float32").with_lanes(x.dtype.lanes), x))
    back = scope.let(cast(x.dtype, near))
    below = scope.let(subtract(float_bits(near), cast(int_dtype(x), greater(absolute(back), absolute(x)))))
    inexact = cast(int_dtype(x), not_equal(back, x))
    return scope.close(reinterpret(near.dtype, bitwise_or(below, inexact)))


def from_float32(x: PrimExpr, target: DataType) -> PrimExpr:
    """Round the mantissa on the bits; below the normal range by a sum whose last place is the least step."""
    form, scope, bits = SMALL_FLOATS[str(target.element)], Scope(), target.element.bits
    if not form.mantissa_bits:
        return _power_from_float32(x, target, form)
    x = scope.let(x)
    size = scope.let(absolute(x))
    raw, dropped = scope.let(float_bits(size)), 23 - form.mantissa_bits
    odd = bitwise_and(shift_right(raw, dropped), 1)
    rounded = add(add(raw, odd), (1 << (dropped - 1)) - 1 - ((127 - form.bias) << 23))
    magic = constant(2.0 ** (1 - form.bias + dropped), size.dtype)
    tiny = subtract(float_bits(add(size, magic)), float_bits(magic))
    normal = shift_right(rounded, dropped)
    found = scope.let(select(less(size, 2.0 ** (1 - form.bias)), tiny, normal))
    found = select(greater(found, form.largest), constant(form.overflow, raw.dtype), found)
    found = scope.let(select(isnan(x), constant(form.nan, raw.dtype), found))
    sign = bitwise_and(shift_right(float_bits(x), 32 - bits), 1 << (bits - 1))
    if form.one_zero:
        unsigned = equal(bitwise_and(found, 0x7F), constant(0, raw.dtype))
        sign = select(unsigned, constant(0, raw.dtype), sign)
    words = cast(DataType(f"uint{bits}").with_lanes(target.lanes), bitwise_or(found, sign))
    return scope.close(reinterpret(target, words))


def _power_to_float32(x: PrimExpr, form: SmallFloat) -> PrimExpr:
    """The bits are those of a float32's exponent; the least power is a float32 below the normal range."""
    scope, words = Scope(), DataType(f"uint{x.dtype.bits}").with_lanes(x.dtype.lanes)
    raw = scope.let(cast(int_dtype(x), reinterpret(words, x)))
    least = constant(1 << 22, raw.dtype)
    found = select(equal(raw, constant(0, raw.dtype)), least, shift_left(raw, 23))
    found = select(equal(raw, constant(form.nan, raw.dtype)), constant(0x7FC00000, raw.dtype), found)
    return scope.close(reinterpret(DataType("float32").with_lanes(x.dtype.lanes), found))


def _power_from_float32(x: PrimExpr, target: DataType, form: SmallFloat) -> PrimExpr:
    """The nearest power of two, upwards from the middle between two; NaN for what is not positive and what is
    too large. What is less than the least power becomes that. What lies between it and the next one
    (the least normal float32) becomes the next, as in ml_dtypes."""
    scope = Scope()
    raw = scope.let(float_bits(x))
    normal = shift_right(add(raw, 1 << 22), 23)
    tiny = cast(raw.dtype, greater(raw, 1 << 22))
    found = scope.let(select(less(raw, 1 << 23), tiny, normal))
    good = logical_and(greater(raw, 0), less(raw, form.largest << 23 | 1 << 22))
    found = select(good, found, constant(form.nan, raw.dtype))
    words = cast(DataType(f"uint{target.element.bits}").with_lanes(target.lanes), found)
    return scope.close(reinterpret(target, words))
