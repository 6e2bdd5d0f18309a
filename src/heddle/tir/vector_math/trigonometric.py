"""Sine, cosine, tangent and their inverses."""

from __future__ import annotations

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import call_pure_extern, copysign, fma, isinf, isnan, sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    cast,
    div,
    equal,
    greater,
    if_then_else,
    less,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    select,
    subtract,
)
from heddle.runtime.dtype import DataType
from heddle.tir.kernel_abi import any_lane
from heddle.tir.vector_math.build import (
    Scope,
    flip_sign,
    float_bits,
    less_or_equal,
    polynomial,
    rounded,
)

_SIN = (-0.1666666666362283, 0.008333331785217696, -0.0001984003887255674, 2.724378140946073e-06)
_COS = (0.04166666453632113, -0.0013888279330556913, 2.4542871110869853e-05)
_ASIN = (
    0.16666666337430908,
    0.0750009454349743,
    0.044599401528510565,
    0.031100662735509467,
    0.017149238357617256,
    0.03369084720291786,
)
_ATAN = (
    -0.33333331686451945,
    0.19999523397227675,
    -0.14263366579724945,
    0.10737396967157622,
    -0.0643103871070242,
)
_PI, _HALF_PI, _QUARTER_PI = 3.141592653589793, 1.5707963267948966, 0.7853981633974483
_HALF_PI_PARTS = (1.57079601287841796875, 3.1391647326017846e-07, 5.390302529957765e-15)
_BIG_ANGLE = 100000.0


def reduced_angle(scope: Scope, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """(r, quadrant) with x = quadrant * pi/2 + r and |r| <= pi/4, for |x| <= 100000."""
    x = scope.let(select(less(absolute(x), _BIG_ANGLE), x, constant(0.0, x.dtype)))
    n_float, n = rounded(scope, x, 0.6366197723675814)
    for part in _HALF_PI_PARTS:
        x = fma(n_float, constant(-part, x.dtype), x)
    return scope.let(x), n


def sin_cos_reduced(scope: Scope, r: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """sin(r), of r's sign where it is zero too, and cos(r)."""
    square = scope.let(multiply(r, r))
    sine = copysign(fma(multiply(polynomial(scope, square, _SIN), square), r, r), r)
    cosine = fma(
        multiply(polynomial(scope, square, _COS), square),
        square,
        fma(square, constant(-0.5, r.dtype), constant(1.0, r.dtype)),
    )
    return scope.let(sine), scope.let(cosine)


def large_angles(c_name: str, x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """`value`, but C's function where |x| is beyond the reduction; not called where no lane needs it."""
    big = logical_not(less(absolute(x), _BIG_ANGLE))
    return if_then_else(any_lane(big), select(big, call_pure_extern(x.dtype, c_name, x), value), value)


def sin(scope: Scope, x: PrimExpr) -> PrimExpr:
    """The sine, in float32. Where |x| is too large for the reduction, the C library's `sinf`."""
    r, n = reduced_angle(scope, x)
    sine, cosine = sin_cos_reduced(scope, r)
    chosen = select(equal(bitwise_and(n, 1), constant(0, n.dtype)), sine, cosine)
    return large_angles("sinf", x, scope.let(flip_sign(chosen, n)))


def cos(scope: Scope, x: PrimExpr) -> PrimExpr:
    """The cosine, in float32. Where |x| is too large for the reduction, the C library's `cosf`."""
    r, n = reduced_angle(scope, x)
    sine, cosine = sin_cos_reduced(scope, r)
    chosen = select(equal(bitwise_and(n, 1), constant(0, n.dtype)), cosine, sine)
    return large_angles("cosf", x, scope.let(flip_sign(chosen, add(n, 1))))


def tan(scope: Scope, x: PrimExpr) -> PrimExpr:
    """The tangent, in float32. Where |x| is too large for the reduction, the C library's `tanf`."""
    r, n = reduced_angle(scope, x)
    sine, cosine = sin_cos_reduced(scope, r)
    even = scope.let(equal(bitwise_and(n, 1), constant(0, n.dtype)))
    value = div(select(even, sine, negative(cosine)), select(even, cosine, sine))
    return large_angles("tanf", x, scope.let(value))


def asin_small(scope: Scope, x: PrimExpr) -> PrimExpr:
    """The inverse sine of |x| <= 1/2, an odd polynomial."""
    square = multiply(x, x)
    return fma(multiply(polynomial(scope, square, _ASIN), square), x, x)


def asin(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial up to 1/2, else pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    size = scope.let(absolute(x))
    root = scope.let(sqrt(multiply(subtract(1.0, size), 0.5)))
    large = copysign(fma(asin_small(scope, root), constant(-2.0, x.dtype), constant(_HALF_PI, x.dtype)), x)
    return select(less_or_equal(size, 0.5), asin_small(scope, x), large)


def acos(scope: Scope, x: PrimExpr) -> PrimExpr:
    """pi/2 - asin(x) in the middle, 2 asin(sqrt((1 - |x|) / 2)) at the ends."""
    size = scope.let(absolute(x))
    root = scope.let(sqrt(multiply(subtract(1.0, size), 0.5)))
    end = scope.let(multiply(asin_small(scope, root), 2.0))
    ends = select(less(x, 0.0), subtract(_PI, end), end)
    middle = subtract(_HALF_PI, asin_small(scope, x))
    return select(less_or_equal(size, 0.5), middle, ends)


def atan_ratio(scope: Scope, over: PrimExpr, under: PrimExpr) -> PrimExpr:
    """atan(over / under) for over >= 0 and under >= 0: one division after reduction to |t| <= tan(pi/8)."""
    upper = scope.let(greater(over, multiply(under, 2.414213562373095)))
    middle = scope.let(logical_and(logical_not(upper), greater(over, multiply(under, 0.41421356237309503))))
    top = select(upper, negative(under), select(middle, subtract(over, under), over))
    bottom = select(upper, over, select(middle, add(over, under), under))
    t = scope.let(div(top, bottom))
    square = scope.let(multiply(t, t))
    zero = constant(0.0, t.dtype)
    base = select(upper, constant(_HALF_PI, t.dtype), select(middle, constant(_QUARTER_PI, t.dtype), zero))
    return add(base, fma(multiply(polynomial(scope, square, _ATAN), square), t, t))


def atan(scope: Scope, x: PrimExpr) -> PrimExpr:
    """The inverse tangent, in float32: ±π/2 at ±infinity, the sign of a zero kept."""
    value = atan_ratio(scope, scope.let(absolute(x)), constant(1.0, x.dtype))
    value = select(isinf(x), constant(_HALF_PI, x.dtype), value)
    return copysign(value, x)


def atan2(scope: Scope, y: PrimExpr, x: PrimExpr) -> PrimExpr:
    """The angle of (x, y): atan(|y| / |x|) moved to its quadrant; scaled first, so that nothing over- or
    underflows.
    """
    wide = DataType("float64").with_lanes(x.dtype.lanes)
    both = logical_and(isinf(x), isinf(y))
    one = constant(1.0, wide)
    over = scope.let(select(both, one, cast(wide, absolute(y))))
    under = scope.let(select(both, one, cast(wide, absolute(x))))
    steep = scope.let(greater(over, under))
    ratio = cast(x.dtype, div(minimum(over, under), maximum(over, under)))
    ratio = select(equal(over + under, constant(0.0, wide)), constant(0.0, x.dtype), ratio)
    flat = scope.let(atan_ratio(scope, scope.let(ratio), constant(1.0, x.dtype)))
    angle = scope.let(select(steep, subtract(_HALF_PI, flat), flat))
    negative_x = less(float_bits(x), 0)
    angle = copysign(select(negative_x, subtract(_PI, angle), angle), y)
    return select(logical_or(isnan(x), isnan(y)), add(x, y), angle)
