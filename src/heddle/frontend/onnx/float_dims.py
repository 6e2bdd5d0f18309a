"""Dimensions computed through floats, as `floor(cast(n, float) * 2.0)`: kept exact as an integer times a
fraction."""

from __future__ import annotations

from fractions import Fraction

from heddle.prim import ops
from heddle.prim.nodes import Cast, Div, FloatImm, IntImm, Mul, PrimExpr, constant


def scaled_dim(expr: PrimExpr) -> tuple[PrimExpr, Fraction]:
    """An expression of floats as (integer expression, factor). Raises: ValueError where it is no such
    product."""
    if isinstance(expr, FloatImm):
        return constant(1, "int64"), Fraction(expr.value)
    if isinstance(expr, IntImm) or expr.dtype.is_int:
        return expr, Fraction(1)
    if isinstance(expr, Cast):
        return scaled_dim(expr.value)
    if isinstance(expr, Mul):
        (a, p), (b, q) = scaled_dim(expr.a), scaled_dim(expr.b)
        return ops.multiply(a, b), p * q
    if isinstance(expr, Div) and isinstance(expr.b, FloatImm) and expr.b.value:
        a, p = scaled_dim(expr.a)
        return a, p / Fraction(expr.b.value)
    raise ValueError(f"{expr} is not a multiple of an integer")


def is_scaled_dim(expr: PrimExpr) -> bool:
    try:
        scaled_dim(expr)
    except (ValueError, OverflowError):
        return False
    return True


def round_down(expr: PrimExpr) -> PrimExpr | None:
    """floor(expr) as an integer expression, for a factor that a shape can have."""
    dim, factor = scaled_dim(expr)
    if factor.denominator > 1 << 24 or abs(factor.numerator) > 1 << 30:
        return None
    return ops.floordiv(ops.multiply(dim, factor.numerator), factor.denominator)


def round_up(expr: PrimExpr) -> PrimExpr | None:
    """ceil(expr) as an integer expression."""
    dim, factor = scaled_dim(expr)
    if factor.denominator > 1 << 24 or abs(factor.numerator) > 1 << 30:
        return None
    return ops.floordiv(ops.multiply(dim, factor.numerator) + (factor.denominator - 1), factor.denominator)
