"""Exponentials and what is made of them: tanh, sigmoid, erf, sinh, cosh."""

from __future__ import annotations

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import copysign, fma
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    div,
    less,
    minimum,
    multiply,
    negative,
    select,
    shift_right,
    subtract,
)
from heddle.tir.vector_math.build import (
    LN2_HI,
    LN2_LO,
    LN10,
    LOG2E,
    LOG10_2_HI,
    LOG10_2_LO,
    Scope,
    clamped,
    polynomial,
    power_of_two,
    rounded,
)

_EXP = (
    0.5000000014286223,
    0.16666666682534356,
    0.04166645680967788,
    0.008333310024225292,
    0.0013934541928270264,
    0.0001989198131397769,
)
_TANH = (
    -0.3333333317214036,
    0.1333330355691574,
    -0.05395925957720435,
    0.021768918651027074,
    -0.008343945515836258,
    0.0022927448161754573,
)
_ERF = (
    0.12837916662064427,
    -0.3761263351714081,
    0.11283691519733095,
    -0.026859151472438926,
    0.005200368586864849,
    -0.0008134709332118023,
    8.334718615206234e-05,
)
_ERFC_LOG = (
    -0.12873424113707332,
    -0.6348386282013635,
    -0.10666902192147967,
    0.024020303040535013,
    -0.003668697230723121,
    0.0002762448311595206,
    1.2793682133278364e-05,
    -4.499955173814758e-06,
    2.7748531289153523e-07,
)
_SINH = (0.16666666646842135, 0.00833333967591706, 0.0001983810196868388, 2.8062802582277454e-06)


def exp_reduced(scope: Scope, r: PrimExpr, n: PrimExpr) -> PrimExpr:
    """exp(r) * 2**n for |r| <= ln(2) / 2; the scale is applied in two steps, so that only the last one
    rounds.
    """
    r = scope.let(r)
    value = fma(polynomial(r, _EXP), multiply(r, r), add(r, 1.0))
    half = scope.let(shift_right(n, 1))
    return multiply(multiply(value, power_of_two(scope, half)), power_of_two(scope, subtract(n, half)))


def exp_scaled(scope: Scope, x: PrimExpr, scale: int = 0) -> PrimExpr:
    """exp(x) * 2**scale without intermediate overflow."""
    x = scope.let(clamped(x, -105.0 - 0.7 * scale, 90.0 - 0.7 * scale))
    n_float, n = rounded(scope, multiply(x, LOG2E))
    r = fma(n_float, constant(-LN2_LO, x.dtype), fma(n_float, constant(-LN2_HI, x.dtype), x))
    return exp_reduced(scope, r, add(n, scale) if scale else n)


def exp(scope: Scope, x: PrimExpr) -> PrimExpr:
    """e to the x: x = n ln 2 + r, a polynomial in r, scaled by 2**n."""
    return exp_scaled(scope, x)


def exp2(scope: Scope, x: PrimExpr) -> PrimExpr:
    """2 to the x."""
    x = scope.let(clamped(x, -151.0, 129.0))
    n_float, n = rounded(scope, x)
    return exp_reduced(scope, multiply(subtract(x, n_float), 0.6931471805599453), n)


def exp10(scope: Scope, x: PrimExpr) -> PrimExpr:
    """10 to the x."""
    x = scope.let(clamped(x, -46.0, 39.0))
    n_float, n = rounded(scope, multiply(x, 3.321928094887362))
    r = fma(n_float, constant(-LOG10_2_LO, x.dtype), fma(n_float, constant(-LOG10_2_HI, x.dtype), x))
    return exp_reduced(scope, multiply(r, LN10), n)


def tanh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 0.625, else 1 - 2 / (exp(2|x|) + 1)."""
    size, square = scope.let(absolute(x)), scope.let(multiply(x, x))
    small = fma(multiply(polynomial(square, _TANH), square), x, x)
    large = subtract(1.0, div(2.0, add(exp_scaled(scope, multiply(size, 2.0)), 1.0)))
    return select(less(size, 0.625), small, copysign(large, x))


def sigmoid(scope: Scope, x: PrimExpr) -> PrimExpr:
    """1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow."""
    e = scope.let(exp_scaled(scope, negative(absolute(x))))
    return div(select(less(x, 0.0), e, constant(1.0, x.dtype)), add(e, 1.0))


def erf(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 0.93, else 1 - exp(polynomial)."""
    square, size = scope.let(multiply(x, x)), scope.let(minimum(constant(4.0, x.dtype), absolute(x)))
    small = fma(polynomial(square, _ERF), x, x)
    exponent = fma(polynomial(size, _ERFC_LOG), size, negative(size))
    large = copysign(subtract(1.0, exp_scaled(scope, exponent)), x)
    return select(less(size, 0.93), small, large)


def sinh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 1, else (e**|x| - e**-|x|) / 2."""
    size, square = scope.let(absolute(x)), scope.let(multiply(x, x))
    small = fma(multiply(polynomial(square, _SINH), square), x, x)
    half = scope.let(exp_scaled(scope, size, -1))
    large = subtract(half, div(0.25, half))
    return select(less(size, 1.0), small, copysign(large, x))


def cosh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """(e**|x| + e**-|x|) / 2."""
    half = scope.let(exp_scaled(scope, absolute(x), -1))
    return add(half, div(0.25, half))
