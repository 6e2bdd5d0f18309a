"""Elementary functions of float32 as scalar or vector expressions: range reduction and polynomials.

Each function takes an expression of float32 (any lanes) and gives one of the same dtype. Values that are used
more than once are bound by `Let`. Ends are exact: NaN in, NaN out; infinities, overflow and results below the
normal range as IEEE 754 has them. Errors over the whole range are measured by
`tests/unit/tir/test_vector_math.py`: at most 4 units in the last place. Polynomials come from
`tools/fit_vector_math.py`; `fma` keeps the reductions exact.

sin, cos and tan reduce by pi/2 in three parts up to 100000; above that, and only if some lane is, C's
functions serve. `pow`, `hypot` and `atan2`'s tail use float64 inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import call_pure_extern, copysign, floor, fma, isinf, isnan, reinterpret, sqrt
from heddle.prim.nodes import Let, PrimExpr, Var, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    cast,
    div,
    equal,
    greater,
    greater_equal,
    if_then_else,
    less,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    select,
    shift_left,
    shift_right,
    subtract,
)
from heddle.runtime.dtype import DataType
from heddle.tir.kernel_abi import any_lane

_EXP = (
    0.5000000014286223,
    0.16666666682534356,
    0.04166645680967788,
    0.008333310024225292,
    0.0013934541928270264,
    0.0001989198131397769,
)
_LOG = (
    0.33333331180030046,
    -0.24999996957950882,
    0.200007157488921,
    -0.16667802319501254,
    0.1424905764569748,
    -0.12425687331451106,
    0.1168541992348674,
    -0.11479733846637635,
    0.06971611471451178,
)
_SIN = (-0.1666666666362283, 0.008333331785217696, -0.0001984003887255674, 2.724378140946073e-06)
_COS = (0.04166666453632113, -0.0013888279330556913, 2.4542871110869853e-05)
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
_SINH = (0.16666666646842135, 0.00833333967591706, 0.0001983810196868388, 2.8062802582277454e-06)

_LOG2E, _LN2_HI, _LN2_LO = 1.4426950408889634, 0.693145751953125, 1.428606765330187e-06
_LOG10_2_HI, _LOG10_2_LO, _LN10 = 0.301025390625, 4.605038981195214e-06, 2.302585092994046
_ROUNDER = 12582912.0
"""1.5 * 2**23: adding it rounds a small float to an integer, which then stands in the low bits."""
_ROUNDER_BITS = 0x4B400000
_PI, _HALF_PI, _QUARTER_PI = 3.141592653589793, 1.5707963267948966, 0.7853981633974483
_HALF_PI_PARTS = (1.57079601287841796875, 3.1391647326017846e-07, 5.390302529957765e-15)
_BIG_ANGLE = 100000.0
_INF = float("inf")


class Scope:
    """Binds values that are used more than once; `close` wraps a result in the bindings."""

    def __init__(self) -> None:
        self._bound: list[tuple[Var, PrimExpr]] = []

    def let(self, value: PrimExpr) -> PrimExpr:
        if isinstance(value, Var):
            return value
        var = Var("t", value.dtype)
        self._bound.append((var, value))
        return var

    def close(self, result: PrimExpr) -> PrimExpr:
        for var, value in reversed(self._bound):
            result = Let(var, value, result)
        return result


def _scoped(build: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """Give `build` a scope and bound arguments."""

    def function(*args: PrimExpr) -> PrimExpr:
        scope = Scope()
        return scope.close(build(scope, *(scope.let(arg) for arg in args)))

    function.__name__, function.__doc__ = build.__name__.lstrip("_"), build.__doc__
    return function


def _polynomial(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    """Horner's scheme with fma; lowest coefficient first."""
    result = constant(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, constant(coefficient, x.dtype))
    return result


def _ints(x: PrimExpr) -> DataType:
    return DataType("int32").with_lanes(x.dtype.lanes)


def _bits(x: PrimExpr) -> PrimExpr:
    return reinterpret(_ints(x), x)


def _power_of_two(scope: Scope, exponent: PrimExpr) -> PrimExpr:
    """2**exponent for an int32 exponent in [-126, 127]."""
    return reinterpret(
        DataType("float32").with_lanes(exponent.dtype.lanes), shift_left(add(exponent, 127), 23)
    )


def _clamped(x: PrimExpr, low: float, high: float) -> PrimExpr:
    """x within bounds; NaN stays (min and max take their second operand then)."""
    return maximum(constant(low, x.dtype), minimum(constant(high, x.dtype), x))


def _rounded(scope: Scope, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """The nearest integer of |x| < 2**22, as float and as int32; nothing is undefined for NaN."""
    shifted = scope.let(add(x, _ROUNDER))
    return scope.let(subtract(shifted, _ROUNDER)), scope.let(subtract(_bits(shifted), _ROUNDER_BITS))


def _exp_reduced(scope: Scope, r: PrimExpr, n: PrimExpr) -> PrimExpr:
    """exp(r) * 2**n for |r| <= ln(2) / 2; the scale is applied in two steps, so that only the last one
    rounds.
    """
    r = scope.let(r)
    value = fma(_polynomial(r, _EXP), multiply(r, r), add(r, 1.0))
    half = scope.let(shift_right(n, 1))
    return multiply(multiply(value, _power_of_two(scope, half)), _power_of_two(scope, subtract(n, half)))


def exp_scaled(scope: Scope, x: PrimExpr, scale: int = 0) -> PrimExpr:
    """exp(x) * 2**scale without intermediate overflow."""
    x = scope.let(_clamped(x, -105.0 - 0.7 * scale, 90.0 - 0.7 * scale))
    n_float, n = _rounded(scope, multiply(x, _LOG2E))
    r = fma(n_float, constant(-_LN2_LO, x.dtype), fma(n_float, constant(-_LN2_HI, x.dtype), x))
    return _exp_reduced(scope, r, add(n, scale) if scale else n)


def _exp(scope: Scope, x: PrimExpr) -> PrimExpr:
    """e to the x: x = n ln 2 + r, a polynomial in r, scaled by 2**n."""
    return exp_scaled(scope, x)


def _exp2(scope: Scope, x: PrimExpr) -> PrimExpr:
    """2 to the x."""
    x = scope.let(_clamped(x, -151.0, 129.0))
    n_float, n = _rounded(scope, x)
    return _exp_reduced(scope, multiply(subtract(x, n_float), 0.6931471805599453), n)


def _exp10(scope: Scope, x: PrimExpr) -> PrimExpr:
    """10 to the x."""
    x = scope.let(_clamped(x, -46.0, 39.0))
    n_float, n = _rounded(scope, multiply(x, 3.321928094887362))
    r = fma(n_float, constant(-_LOG10_2_LO, x.dtype), fma(n_float, constant(-_LOG10_2_HI, x.dtype), x))
    return _exp_reduced(scope, multiply(r, _LN10), n)


def _split_float(scope: Scope, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """(m - 1, k) with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for positive normal or subnormal x."""
    small = scope.let(less(x, 1.1754943508222875e-38))
    normal = select(small, multiply(x, 8388608.0), x)
    shifted = scope.let(add(_bits(normal), 0x3F800000 - 0x3F3504F3))
    k = subtract(
        shift_right(shifted, 23), select(small, constant(127 + 23, _ints(x)), constant(127, _ints(x)))
    )
    mantissa = reinterpret(x.dtype, add(bitwise_and(shifted, 0x007FFFFF), 0x3F3504F3))
    return scope.let(subtract(mantissa, 1.0)), scope.let(cast(x.dtype, k))


def _log_tail(f: PrimExpr) -> PrimExpr:
    """log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2))."""
    square = multiply(f, f)
    return fma(multiply(_polynomial(f, _LOG), f), square, multiply(square, -0.5))


def _log_ends(x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """The value where x is positive and finite; log's limits elsewhere."""
    value = select(equal(x, constant(0.0, x.dtype)), constant(-_INF, x.dtype), value)
    value = select(less(x, 0.0), constant(float("nan"), x.dtype), value)
    return select(logical_or(equal(x, constant(_INF, x.dtype)), isnan(x)), x, value)


def _log(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Natural logarithm: x = m * 2**k, log x = k ln 2 + log m."""
    f, k = _split_float(scope, x)
    tail = fma(k, constant(_LN2_LO, x.dtype), _log_tail(f))
    return _log_ends(x, fma(k, constant(_LN2_HI, x.dtype), add(f, tail)))


def _log_base(factor: float, k_hi: float, k_lo: float) -> Callable[..., PrimExpr]:
    high = float(cast("float32", constant(round(factor * 2**11) / 2**11)).value)  # type: ignore[attr-defined]

    def build(scope: Scope, x: PrimExpr) -> PrimExpr:
        """log(m) times a factor in two parts, plus k times the logarithm of 2."""
        f, k = _split_float(scope, x)
        tail = scope.let(_log_tail(f))
        low = fma(f, constant(factor - high, x.dtype), multiply(tail, factor))
        if k_lo:
            low = fma(k, constant(k_lo, x.dtype), low)
        mantissa = scope.let(fma(f, constant(high, x.dtype), low))
        return _log_ends(x, fma(k, constant(k_hi, x.dtype), mantissa))

    return build


def _log1p(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log(1 + x): the logarithm of u = 1 + x rounded, corrected by what rounding lost, over u."""
    u = scope.let(add(x, 1.0))
    lost = select(greater(x, 1.0), subtract(1.0, subtract(u, x)), subtract(x, subtract(u, 1.0)))
    f, k = _split_float(scope, u)
    tail = add(_log_tail(f), div(lost, u))
    value = fma(k, constant(_LN2_HI, x.dtype), add(f, fma(k, constant(_LN2_LO, x.dtype), tail)))
    value = _log_ends(u, value)
    return select(equal(x, constant(0.0, x.dtype)), x, value)


def _tanh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 0.625, else 1 - 2 / (exp(2|x|) + 1)."""
    size, square = scope.let(absolute(x)), scope.let(multiply(x, x))
    small = fma(multiply(_polynomial(square, _TANH), square), x, x)
    large = subtract(1.0, div(2.0, add(exp_scaled(scope, multiply(size, 2.0)), 1.0)))
    return select(less(size, 0.625), small, copysign(large, x))


def _sigmoid(scope: Scope, x: PrimExpr) -> PrimExpr:
    """1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow."""
    e = scope.let(exp_scaled(scope, negative(absolute(x))))
    return div(select(less(x, 0.0), e, constant(1.0, x.dtype)), add(e, 1.0))


def _erf(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 0.93, else 1 - exp(polynomial)."""
    square, size = scope.let(multiply(x, x)), scope.let(minimum(constant(4.0, x.dtype), absolute(x)))
    small = fma(_polynomial(square, _ERF), x, x)
    exponent = fma(_polynomial(size, _ERFC_LOG), size, negative(size))
    large = copysign(subtract(1.0, exp_scaled(scope, exponent)), x)
    return select(less(size, 0.93), small, large)


def _reduced_angle(scope: Scope, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """(r, quadrant) with x = quadrant * pi/2 + r and |r| <= pi/4, for |x| <= 100000."""
    x = scope.let(select(less(absolute(x), _BIG_ANGLE), x, constant(0.0, x.dtype)))
    n_float, n = _rounded(scope, multiply(x, 0.6366197723675814))
    for part in _HALF_PI_PARTS:
        x = fma(n_float, constant(-part, x.dtype), x)
    return scope.let(x), n


def _sin_cos_reduced(scope: Scope, r: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    square = scope.let(multiply(r, r))
    sine = fma(multiply(_polynomial(square, _SIN), square), r, r)
    cosine = fma(
        multiply(_polynomial(square, _COS), square),
        square,
        fma(square, constant(-0.5, r.dtype), constant(1.0, r.dtype)),
    )
    return scope.let(sine), scope.let(cosine)


def _flip_sign(value: PrimExpr, bit: PrimExpr) -> PrimExpr:
    """Negate where bit 1 of an int32 is set."""
    return reinterpret(value.dtype, _bits(value) ^ shift_left(bitwise_and(bit, 2), 30))


def _large_angles(c_name: str, x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """`value`, but C's function where |x| is beyond the reduction; not called where no lane needs it."""
    big = logical_not(less(absolute(x), _BIG_ANGLE))
    return if_then_else(any_lane(big), select(big, call_pure_extern(x.dtype, c_name, x), value), value)


def _sin(scope: Scope, x: PrimExpr) -> PrimExpr:
    r, n = _reduced_angle(scope, x)
    sine, cosine = _sin_cos_reduced(scope, r)
    chosen = select(equal(bitwise_and(n, 1), constant(0, n.dtype)), sine, cosine)
    return _large_angles("sinf", x, scope.let(_flip_sign(chosen, n)))


def _cos(scope: Scope, x: PrimExpr) -> PrimExpr:
    r, n = _reduced_angle(scope, x)
    sine, cosine = _sin_cos_reduced(scope, r)
    chosen = select(equal(bitwise_and(n, 1), constant(0, n.dtype)), cosine, sine)
    return _large_angles("cosf", x, scope.let(_flip_sign(chosen, add(n, 1))))


def _tan(scope: Scope, x: PrimExpr) -> PrimExpr:
    r, n = _reduced_angle(scope, x)
    sine, cosine = _sin_cos_reduced(scope, r)
    even = scope.let(equal(bitwise_and(n, 1), constant(0, n.dtype)))
    value = div(select(even, sine, negative(cosine)), select(even, cosine, sine))
    return _large_angles("tanf", x, scope.let(value))


def _asin_small(x: PrimExpr) -> PrimExpr:
    square = multiply(x, x)
    return fma(multiply(_polynomial(square, _ASIN), square), x, x)


def _asin(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial up to 1/2, else pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    size = scope.let(absolute(x))
    root = scope.let(sqrt(multiply(subtract(1.0, size), 0.5)))
    large = copysign(fma(_asin_small(root), constant(-2.0, x.dtype), constant(_HALF_PI, x.dtype)), x)
    return select(less_or_equal(size, 0.5), _asin_small(x), large)


def less_or_equal(a: PrimExpr, b: float) -> PrimExpr:
    return logical_not(greater(a, b))


def _acos(scope: Scope, x: PrimExpr) -> PrimExpr:
    """pi/2 - asin(x) in the middle, 2 asin(sqrt((1 - |x|) / 2)) at the ends."""
    size = scope.let(absolute(x))
    root = scope.let(sqrt(multiply(subtract(1.0, size), 0.5)))
    end = scope.let(multiply(_asin_small(root), 2.0))
    ends = select(less(x, 0.0), subtract(_PI, end), end)
    middle = subtract(_HALF_PI, _asin_small(x))
    return select(less_or_equal(size, 0.5), middle, ends)


def _atan_ratio(scope: Scope, over: PrimExpr, under: PrimExpr) -> PrimExpr:
    """atan(over / under) for over >= 0 and under >= 0: one division after reduction to |t| <= tan(pi/8)."""
    upper = scope.let(greater(over, multiply(under, 2.414213562373095)))
    middle = scope.let(logical_and(logical_not(upper), greater(over, multiply(under, 0.41421356237309503))))
    top = select(upper, negative(under), select(middle, subtract(over, under), over))
    bottom = select(upper, over, select(middle, add(over, under), under))
    t = scope.let(div(top, bottom))
    square = scope.let(multiply(t, t))
    zero = constant(0.0, t.dtype)
    base = select(upper, constant(_HALF_PI, t.dtype), select(middle, constant(_QUARTER_PI, t.dtype), zero))
    return add(base, fma(multiply(_polynomial(square, _ATAN), square), t, t))


def _atan(scope: Scope, x: PrimExpr) -> PrimExpr:
    value = _atan_ratio(scope, scope.let(absolute(x)), constant(1.0, x.dtype))
    value = select(isinf(x), constant(_HALF_PI, x.dtype), value)
    return copysign(value, x)


def _atan2(scope: Scope, y: PrimExpr, x: PrimExpr) -> PrimExpr:
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
    flat = scope.let(_atan_ratio(scope, scope.let(ratio), constant(1.0, x.dtype)))
    angle = scope.let(select(steep, subtract(_HALF_PI, flat), flat))
    negative_x = less(_bits(x), 0)
    angle = copysign(select(negative_x, subtract(_PI, angle), angle), y)
    return select(logical_or(isnan(x), isnan(y)), add(x, y), angle)


def _sinh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Odd polynomial below 1, else (e**|x| - e**-|x|) / 2."""
    size, square = scope.let(absolute(x)), scope.let(multiply(x, x))
    small = fma(multiply(_polynomial(square, _SINH), square), x, x)
    half = scope.let(exp_scaled(scope, size, -1))
    large = subtract(half, div(0.25, half))
    return select(less(size, 1.0), small, copysign(large, x))


def _cosh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """(e**|x| + e**-|x|) / 2."""
    half = scope.let(exp_scaled(scope, absolute(x), -1))
    return add(half, div(0.25, half))


def _asinh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(|x| + x*x / (1 + sqrt(1 + x*x))), for large |x| log(2|x|)."""
    size = scope.let(absolute(x))
    huge = scope.let(greater(size, 1e9))
    tame = scope.let(select(huge, constant(1.0, x.dtype), size))
    square = scope.let(multiply(tame, tame))
    grown = add(tame, div(square, add(sqrt(add(square, 1.0)), 1.0)))
    large = add(_log(scope, scope.let(select(huge, size, constant(1.0, x.dtype)))), 0.6931471805599453)
    return copysign(select(huge, large, _log1p(scope, scope.let(grown))), x)


def _acosh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(t + sqrt(2t + t*t)) with t = x - 1, for large x log(2x)."""
    huge = scope.let(greater(x, 1e9))
    t = scope.let(select(huge, constant(1.0, x.dtype), subtract(x, 1.0)))
    root = sqrt(fma(t, t, multiply(t, 2.0)))
    large = add(_log(scope, scope.let(select(huge, x, constant(1.0, x.dtype)))), 0.6931471805599453)
    value = select(huge, large, _log1p(scope, scope.let(add(t, root))))
    return select(less(x, 1.0), constant(float("nan"), x.dtype), value)


def _atanh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(2|x| / (1 - |x|)) / 2."""
    size = scope.let(absolute(x))
    ratio = div(add(size, size), subtract(1.0, size))
    return copysign(multiply(_log1p(scope, scope.let(ratio)), 0.5), x)


def _rsqrt(scope: Scope, x: PrimExpr) -> PrimExpr:
    return div(1.0, sqrt(x))


def _hypot(scope: Scope, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """sqrt(x*x + y*y) in float64, where squares of float32 neither over- nor underflow."""
    wide = DataType("float64").with_lanes(x.dtype.lanes)
    a, b = scope.let(cast(wide, x)), scope.let(cast(wide, y))
    value = cast(x.dtype, sqrt(add(multiply(a, a), multiply(b, b))))
    return select(logical_or(isinf(x), isinf(y)), constant(_INF, x.dtype), value)


def _log2_wide(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log2 of a positive float64 that came from a float32, to about 1e-12: an odd series in (m - 1) / (m +
    1).
    """
    wide, longs = x.dtype, DataType("int64").with_lanes(x.dtype.lanes)
    shifted = scope.let(add(reinterpret(longs, x), 0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    k = cast(wide, subtract(shift_right(shifted, 52), 1023))
    m = scope.let(reinterpret(wide, add(bitwise_and(shifted, 0x000FFFFFFFFFFFFF), 0x3FE6A09E667F3BCD)))
    s = scope.let(div(subtract(m, 1.0), add(m, 1.0)))
    series = _polynomial(scope.let(multiply(s, s)), [2 * _LOG2E / (2 * i + 1) for i in range(8)])
    return fma(series, s, k)


def _exp2_wide(scope: Scope, x: PrimExpr) -> PrimExpr:
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
    return multiply(_polynomial(r, coefficients), reinterpret(x.dtype, shift_left(add(n, 1023), 52)))


def _pow(scope: Scope, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """x to the y as 2**(y log2|x|) in float64, with C's special cases."""
    wide = DataType("float64").with_lanes(x.dtype.lanes)
    one, nan = constant(1.0, x.dtype), constant(float("nan"), x.dtype)
    size = scope.let(cast(wide, absolute(x)))
    log2 = scope.let(_log2_wide(scope, size))
    log2 = select(equal(size, constant(0.0, wide)), constant(-_INF, wide), log2)
    log2 = scope.let(select(greater_equal(size, 1e300), size, log2))
    exponent = scope.let(_clamped(multiply(log2, cast(wide, y)), -300.0, 300.0))
    value = cast(x.dtype, _exp2_wide(scope, exponent))
    whole = scope.let(equal(floor(y), y))
    half = scope.let(multiply(y, 0.5))
    odd = logical_and(whole, not_equal(floor(half), half))
    value = scope.let(select(equal(absolute(x), one), select(isnan(y), nan, one), value))
    value = select(logical_and(odd, less(_bits(x), 0)), negative(value), value)
    bad = logical_and(logical_and(less(x, 0.0), logical_not(whole)), logical_not(isinf(x)))
    value = select(bad, nan, value)
    value = select(logical_or(isnan(x), isnan(y)), nan, value)
    plain = logical_or(equal(y, constant(0.0, x.dtype)), equal(x, one))
    return select(plain, one, value)


FLOAT32_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": _scoped(_exp),
    "exp2": _scoped(_exp2),
    "exp10": _scoped(_exp10),
    "log": _scoped(_log),
    "log2": _scoped(_log_base(_LOG2E, 1.0, 0.0)),
    "log10": _scoped(_log_base(0.4342944819032518, _LOG10_2_HI, _LOG10_2_LO)),
    "log1p": _scoped(_log1p),
    "tanh": _scoped(_tanh),
    "sigmoid": _scoped(_sigmoid),
    "erf": _scoped(_erf),
    "sin": _scoped(_sin),
    "cos": _scoped(_cos),
    "tan": _scoped(_tan),
    "asin": _scoped(_asin),
    "acos": _scoped(_acos),
    "atan": _scoped(_atan),
    "atan2": _scoped(_atan2),
    "sinh": _scoped(_sinh),
    "cosh": _scoped(_cosh),
    "asinh": _scoped(_asinh),
    "acosh": _scoped(_acosh),
    "atanh": _scoped(_atanh),
    "rsqrt": _scoped(_rsqrt),
    "hypot": _scoped(_hypot),
    "pow": _scoped(_pow),
}
"""Intrinsic name → its expression for float32."""
