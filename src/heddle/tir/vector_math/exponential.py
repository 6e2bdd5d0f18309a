"""Exponentials and what is made of them: tanh, sigmoid, erf, sinh, cosh."""

from __future__ import annotations

import math

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import copysign, fma
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    div,
    less,
    maximum,
    minimum,
    multiply,
    negative,
    select,
    subtract,
)
from heddle.tir.vector_math.build import (
    LN2,
    LN2_HI,
    LN2_LO,
    LN10,
    LOG2E,
    LOG10_2_HI,
    LOG10_2_LO,
    Scope,
    clamped,
    float_bits,
    polynomial,
    power_of_two,
    rounded,
    upper_bound,
    with_sign,
)

_EXP = (
    0.5000000014286223,
    0.16666666682534356,
    0.04166645680967788,
    0.008333310024225292,
    0.0013934541928270264,
    0.0001989198131397769,
)
_TANH_BOUND = 10.0
_ERF = (
    0.36491942405700684,
    -0.18215011060237885,
    0.13545122742652893,
    -0.10996592789888382,
    0.09074098616838455,
    -0.07349099963903427,
    0.057270944118499756,
    -0.04203055426478386,
    0.02841666340827942,
    -0.018739264458417892,
    0.012827347032725811,
    -0.006837411317974329,
    0.0018750535091385245,
    -0.0012640896020457149,
    0.001720177591778338,
    -0.000678965647239238,
)
_ERF_BOUND = 3.875
"""erf of anything larger is 1 in float32, and so is the polynomial's value here."""
_SINH = (0.16666666646842135, 0.00833333967591706, 0.0001983810196868388, 2.8062802582277454e-06)


_TOP = 43.0
"""e to this is below 2**63."""


def exp_part(scope: Scope, r: PrimExpr) -> PrimExpr:
    """exp(r) - 1 for |r| <= ln(2) / 2: r and a polynomial times its square. Terms are joined in pairs: what
    waits for each other, and not the number of operations, is what an exponential takes its time for."""
    r = scope.let(r)
    square = scope.let(multiply(r, r))
    coefficients = [constant(value, r.dtype) for value in _EXP]
    *pairs, result = (
        fma(high, r, low) for low, high in zip(coefficients[::2], coefficients[1::2], strict=True)
    )
    for pair in (*reversed(pairs), r):
        result = fma(result, square, pair)
    return result


def exp_scaled(scope: Scope, x: PrimExpr, scale: int = 0, top: float = math.inf) -> PrimExpr:
    """exp(x) * 2**scale without intermediate overflow, for an x of at most `top`."""
    low, high, is_small = -105.0 - 0.7 * scale, 90.0 - 0.7 * scale, top <= _TOP
    x = scope.let(maximum(constant(low, x.dtype), x) if is_small else clamped(x, low, high))
    n_float, n = rounded(scope, x, LOG2E)
    r = fma(n_float, constant(-LN2_LO, x.dtype), fma(n_float, constant(-LN2_HI, x.dtype), x))
    return scope.scaled(exp_part(scope, r), add(n, scale) if scale else n, 63 if is_small else 254)


def exp(x: PrimExpr, has_ldexp: bool = False) -> PrimExpr:
    """e to the x: x = n ln 2 + r, a polynomial in r, scaled by 2**n. Softmax and its like say that x is at
    most 0, by a minimum; scaling is shorter then."""
    scope = Scope(has_ldexp)
    return scope.close(exp_scaled(scope, scope.let(x), top=upper_bound(x)))


def exp2(scope: Scope, x: PrimExpr) -> PrimExpr:
    """2 to the x."""
    x = scope.let(clamped(x, -151.0, 129.0))
    n_float, n = rounded(scope, x)
    return scope.scaled(exp_part(scope, multiply(subtract(x, n_float), LN2)), n, 254)


def exp10(scope: Scope, x: PrimExpr) -> PrimExpr:
    """10 to the x."""
    x = scope.let(clamped(x, -46.0, 39.0))
    n_float, n = rounded(scope, x, 3.321928094887362)
    r = fma(n_float, constant(-LOG10_2_LO, x.dtype), fma(n_float, constant(-LOG10_2_HI, x.dtype), x))
    return scope.scaled(exp_part(scope, multiply(r, LN10)), n, 254)


def tanh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """e / (e + 2) with e = exp(2|x|) - 1, which is 2**n (exp(r) - 1) + (2**n - 1) and so keeps its digits
    where it is small. The bound gives 1, and n of at most 29, for which ln 2 is precise enough in one part.
    """
    size = scope.let(minimum(constant(_TANH_BOUND, x.dtype), absolute(x)))
    n_float, n = rounded(scope, size, 2 * LOG2E)
    part = exp_part(scope, fma(n_float, constant(-LN2, x.dtype), add(size, size)))
    scale = scope.let(power_of_two(n))
    e = scope.let(fma(part, scale, subtract(scale, 1.0)))
    return with_sign(div(e, add(e, 2.0)), x)


def sigmoid(scope: Scope, x: PrimExpr) -> PrimExpr:
    """1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow."""
    e = scope.let(exp_scaled(scope, negative(absolute(x)), top=0.0))
    return div(select(less(float_bits(x), 0), e, constant(1.0, x.dtype)), add(e, 1.0))


def erf(scope: Scope, x: PrimExpr) -> PrimExpr:
    """x times a polynomial in t, the square of the bounded x moved to [-1, 1]: no branch, no exponential, no
    division. Around the middle of the interval the terms stay below 1, so that Horner's scheme does not
    cancel. The sign, which is right already, is set once more: between the product and a sum like 1 + erf(x)
    it keeps the two from becoming an `fma` of the product before it was rounded to -1.
    """
    x = scope.let(clamped(x, -_ERF_BOUND, _ERF_BOUND))
    t = scope.let(fma(multiply(x, x), constant(2.0 / _ERF_BOUND**2, x.dtype), constant(-1.0, x.dtype)))
    return copysign(multiply(polynomial(scope, t, _ERF), x), x)


def sinh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 1, else (e**|x| - e**-|x|) / 2."""
    size, square = scope.let(absolute(x)), scope.let(multiply(x, x))
    small = fma(multiply(polynomial(scope, square, _SINH), square), x, x)
    half = scope.let(exp_scaled(scope, size, -1))
    large = subtract(half, div(0.25, half))
    return select(less(size, 1.0), small, copysign(large, x))


def cosh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """(e**|x| + e**-|x|) / 2."""
    half = scope.let(exp_scaled(scope, absolute(x), -1))
    return add(half, div(0.25, half))
