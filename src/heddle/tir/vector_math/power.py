"""Powers and roots; they use float64 inside."""

from __future__ import annotations

from collections.abc import Callable

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import floor, fma, isinf, isnan, reinterpret, sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    cast,
    div,
    equal,
    greater_equal,
    less,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    negative,
    not_equal,
    select,
    shift_left,
    shift_right,
    subtract,
)
from heddle.runtime.dtype import DataType
from heddle.tir.vector_math.build import (
    LOG2E,
    Scope,
    clamped,
    constant_lanes,
    float_bits,
    polynomial,
)

_INF = float("inf")


def rsqrt(scope: Scope, x: PrimExpr) -> PrimExpr:
    """1 / sqrt(x): infinite at 0, NaN below it."""
    return div(1.0, sqrt(x))


def hypot(scope: Scope, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """sqrt(x*x + y*y) in float64, where squares of float32 neither over- nor underflow."""
    wide = DataType("float64").with_lanes(x.dtype.lanes)
    a, b = scope.let(cast(wide, x)), scope.let(cast(wide, y))
    value = cast(x.dtype, sqrt(add(multiply(a, a), multiply(b, b))))
    return select(logical_or(isinf(x), isinf(y)), constant(_INF, x.dtype), value)


def log2_wide(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log2 of a positive float64 that came from a float32, to about 1e-12: an odd series in (m - 1) / (m +
    1).
    """
    wide, longs = x.dtype, DataType("int64").with_lanes(x.dtype.lanes)
    shifted = scope.let(add(reinterpret(longs, x), 0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    k = cast(wide, subtract(shift_right(shifted, 52), 1023))
    m = scope.let(reinterpret(wide, add(bitwise_and(shifted, 0x000FFFFFFFFFFFFF), 0x3FE6A09E667F3BCD)))
    s = scope.let(div(subtract(m, 1.0), add(m, 1.0)))
    series = polynomial(scope, scope.let(multiply(s, s)), [2 * LOG2E / (2 * i + 1) for i in range(8)])
    return fma(series, s, k)


def exp2_wide(scope: Scope, x: PrimExpr) -> PrimExpr:
    """2**x for |x| <= 300 in float64, to about 1e-11."""
    longs = DataType("int64").with_lanes(x.dtype.lanes)
    rounder = 6755399441055744.0
    shifted = scope.let(add(x, rounder))
    n = subtract(reinterpret(longs, shifted), 0x4338000000000000)
    r = scope.let(multiply(subtract(x, subtract(shifted, rounder)), 0.6931471805599453))
    coefficients, factorial = [1.0], 1.0
    for i in range(1, 11):
        factorial *= i
        coefficients.append(1.0 / factorial)
    return multiply(polynomial(scope, r, coefficients), reinterpret(x.dtype, shift_left(add(n, 1023), 52)))


def _cube(scope: Scope, x: PrimExpr) -> PrimExpr:
    return multiply(multiply(x, x), x)


def _fourth_power(scope: Scope, x: PrimExpr) -> PrimExpr:
    square = scope.let(multiply(x, x))
    return multiply(square, square)


def _root(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Minus infinity gives infinity, -0 gives 0, which the square root does not."""
    root = sqrt(add(x, constant(0.0, x.dtype)))
    return select(equal(x, constant(-_INF, x.dtype)), constant(_INF, x.dtype), root)


_OF_EXPONENT: dict[float | None, Callable[[Scope, PrimExpr], PrimExpr]] = {
    -1.0: lambda scope, x: div(1.0, x),
    0.5: _root,
    1.0: lambda scope, x: x,
    2.0: lambda scope, x: multiply(x, x),
    3.0: _cube,
    4.0: _fourth_power,
}
"""Exponent → the power, off by at most two units in the last place and with C's special cases."""


def pow(scope: Scope, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """x to the y as 2**(y log2|x|) in float64, with C's special cases; a product or a root where y
    is a known small number."""
    exponent = constant_lanes(y)
    if exponent in _OF_EXPONENT:
        return _OF_EXPONENT[exponent](scope, x)
    wide = DataType("float64").with_lanes(x.dtype.lanes)
    one, nan = constant(1.0, x.dtype), constant(float("nan"), x.dtype)
    size = scope.let(cast(wide, absolute(x)))
    log2 = scope.let(log2_wide(scope, size))
    log2 = select(equal(size, constant(0.0, wide)), constant(-_INF, wide), log2)
    log2 = scope.let(select(greater_equal(size, 1e300), size, log2))
    power_of_two = scope.let(clamped(multiply(log2, cast(wide, y)), -300.0, 300.0))
    value = cast(x.dtype, exp2_wide(scope, power_of_two))
    whole = scope.let(equal(floor(y), y))
    half = scope.let(multiply(y, 0.5))
    odd = logical_and(whole, not_equal(floor(half), half))
    value = scope.let(select(equal(absolute(x), one), select(isnan(y), nan, one), value))
    value = select(logical_and(odd, less(float_bits(x), 0)), negative(value), value)
    bad = logical_and(logical_and(less(x, 0.0), logical_not(whole)), logical_not(isinf(x)))
    value = select(bad, nan, value)
    value = select(logical_or(isnan(x), isnan(y)), nan, value)
    plain = logical_or(equal(y, constant(0.0, x.dtype)), equal(x, one))
    return select(plain, one, value)
