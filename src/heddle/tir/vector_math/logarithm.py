"""Logarithms and the inverse hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable

from heddle.prim.intrinsics import abs as absolute
from heddle.prim.intrinsics import copysign, fma, isnan, reinterpret, sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    add,
    bitwise_and,
    cast,
    div,
    equal,
    greater,
    less,
    logical_or,
    multiply,
    select,
    shift_right,
    subtract,
)
from heddle.tir.vector_math.build import (
    LN2_HI,
    LN2_LO,
    Scope,
    float_bits,
    int_dtype,
    polynomial,
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
_INF = float("inf")


def split_float(scope: Scope, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """(m - 1, k) with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for positive normal or subnormal x."""
    small = scope.let(less(x, 1.1754943508222875e-38))
    normal = select(small, multiply(x, 8388608.0), x)
    shifted = scope.let(add(float_bits(normal), 0x3F800000 - 0x3F3504F3))
    k = subtract(
        shift_right(shifted, 23), select(small, constant(127 + 23, int_dtype(x)), constant(127, int_dtype(x)))
    )
    mantissa = reinterpret(x.dtype, add(bitwise_and(shifted, 0x007FFFFF), 0x3F3504F3))
    return scope.let(subtract(mantissa, 1.0)), scope.let(cast(x.dtype, k))


def log_tail(scope: Scope, f: PrimExpr) -> PrimExpr:
    """log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2))."""
    square = multiply(f, f)
    return fma(multiply(polynomial(scope, f, _LOG), f), square, multiply(square, -0.5))


def log_ends(x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """The value where x is positive and finite; log's limits elsewhere."""
    value = select(equal(x, constant(0.0, x.dtype)), constant(-_INF, x.dtype), value)
    value = select(less(x, 0.0), constant(float("nan"), x.dtype), value)
    return select(logical_or(equal(x, constant(_INF, x.dtype)), isnan(x)), x, value)


def log(scope: Scope, x: PrimExpr) -> PrimExpr:
    """Natural logarithm: x = m * 2**k, log x = k ln 2 + log m."""
    f, k = split_float(scope, x)
    tail = fma(k, constant(LN2_LO, x.dtype), log_tail(scope, f))
    return log_ends(x, fma(k, constant(LN2_HI, x.dtype), add(f, tail)))


def log_base(factor: float, k_hi: float, k_lo: float) -> Callable[..., PrimExpr]:
    """A builder of the logarithm whose unit is `factor`; `k_hi` + `k_lo` is the logarithm of 2 in it, in two
    parts.
    """
    high = float(cast("float32", constant(round(factor * 2**11) / 2**11)).value)  # type: ignore[attr-defined]

    def build(scope: Scope, x: PrimExpr) -> PrimExpr:
        """log(m) times a factor in two parts, plus k times the logarithm of 2."""
        f, k = split_float(scope, x)
        tail = scope.let(log_tail(scope, f))
        low = fma(f, constant(factor - high, x.dtype), multiply(tail, factor))
        if k_lo:
            low = fma(k, constant(k_lo, x.dtype), low)
        mantissa = scope.let(fma(f, constant(high, x.dtype), low))
        return log_ends(x, fma(k, constant(k_hi, x.dtype), mantissa))

    return build


def log1p(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log(1 + x): the logarithm of u = 1 + x rounded, corrected by what rounding lost, over u."""
    u = scope.let(add(x, 1.0))
    lost = select(greater(x, 1.0), subtract(1.0, subtract(u, x)), subtract(x, subtract(u, 1.0)))
    f, k = split_float(scope, u)
    tail = add(log_tail(scope, f), div(lost, u))
    value = fma(k, constant(LN2_HI, x.dtype), add(f, fma(k, constant(LN2_LO, x.dtype), tail)))
    value = log_ends(u, value)
    return select(equal(x, constant(0.0, x.dtype)), x, value)


def asinh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(|x| + x*x / (1 + sqrt(1 + x*x))), for large |x| log(2|x|)."""
    size = scope.let(absolute(x))
    huge = scope.let(greater(size, 1e9))
    tame = scope.let(select(huge, constant(1.0, x.dtype), size))
    square = scope.let(multiply(tame, tame))
    grown = add(tame, div(square, add(sqrt(add(square, 1.0)), 1.0)))
    large = add(log(scope, scope.let(select(huge, size, constant(1.0, x.dtype)))), 0.6931471805599453)
    return copysign(select(huge, large, log1p(scope, scope.let(grown))), x)


def acosh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(t + sqrt(2t + t*t)) with t = x - 1, for large x log(2x)."""
    huge = scope.let(greater(x, 1e9))
    t = scope.let(select(huge, constant(1.0, x.dtype), subtract(x, 1.0)))
    root = sqrt(fma(t, t, multiply(t, 2.0)))
    large = add(log(scope, scope.let(select(huge, x, constant(1.0, x.dtype)))), 0.6931471805599453)
    value = select(huge, large, log1p(scope, scope.let(add(t, root))))
    return select(less(x, 1.0), constant(float("nan"), x.dtype), value)


def atanh(scope: Scope, x: PrimExpr) -> PrimExpr:
    """log1p(2|x| / (1 - |x|)) / 2."""
    size = scope.let(absolute(x))
    ratio = div(add(size, size), subtract(1.0, size))
    return copysign(multiply(log1p(scope, scope.let(ratio)), 0.5), x)
