"""Dimensions computed through floats, as `floor(cast(n, float32) * 2.3)`: the result is the one that the
model's own float arithmetic gives.

The floats are written as expressions of float64 whose constants are already rounded to the model's dtype. A
dimension times a fraction of few digits is exact in that dtype, so its floor is an integer formula. Another
product or quotient rounds: it stays a computation in that dtype, and nothing but rounding to an integer may
follow it. Sums, differences and extremes of exact ones are exact too: they are formed of the numerators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from heddle.frontend.onnx.importing import Importing
from heddle.frontend.onnx.proto import numpy_dtype
from heddle.prim import ops
from heddle.prim.intrinsics import ceil, floor, trunc
from heddle.prim.nodes import Cast, Div, FloatImm, IntImm, Mul, PrimExpr, constant

_MAX_NUMERATOR = {"float32": 1 << 4, "float64": 1 << 24}
"""The greatest odd part of a numerator whose product with a size is exact, up to sizes of 2**20 and 2**29."""
_MAX_SUMMAND, _MAX_PARTS = 1 << 20, 1 << 4
"""Of a constant that is added: its greatest numerator and denominator."""


def float_constant(value: float, dtype: str) -> PrimExpr:
    """A number as the dtype has it."""
    return constant(float(numpy_dtype(dtype).type(value)), "float64")


def as_float(item: PrimExpr, dtype: str) -> PrimExpr:
    """An integer expression, or a constant, as a float of the dtype."""
    if isinstance(item, (IntImm, FloatImm)):
        return float_constant(item.value, dtype)
    return ops.cast("float64", item)


def float_product(a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    """a * b, at once where both are constants."""
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return float_constant(a.value * b.value, dtype)
    return ops.multiply(a, b)


def float_quotient(a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    """a / b, at once where both are constants."""
    if isinstance(a, FloatImm) and isinstance(b, FloatImm) and b.value:
        return float_constant(a.value / b.value, dtype)
    return ops.div(a, b)


def float_combined(
    a: PrimExpr, b: PrimExpr, dtype: str, function: Callable[[PrimExpr, PrimExpr], PrimExpr]
) -> PrimExpr | None:
    """The sum, difference, maximum or minimum of two floats, by the function that forms it of integers; None
    where the dtype may round one of them or the result."""
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        made = function(a, b)
        if isinstance(made, FloatImm):
            return float_constant(made.value, dtype)
    parts = [_numerator(item, dtype) for item in (a, b)]
    if None in parts:
        return None
    (x, below_x), (y, below_y) = (part for part in parts if part is not None)
    below = max(below_x, below_y)
    above = function(ops.multiply(x, below // below_x), ops.multiply(y, below // below_y))
    whole = ops.cast("float64", above)
    return whole if below == 1 else ops.div(whole, constant(float(below), "float64"))


def _numerator(expr: PrimExpr, dtype: str) -> tuple[PrimExpr, int] | None:
    """An exact multiple of an integer as the quotient of an integer expression by a power of two."""
    known = _known(_exact_dim, expr, dtype)
    if known is None:
        return None
    dim, factor = known
    if isinstance(dim, IntImm) and (abs(factor.numerator) > _MAX_SUMMAND or factor.denominator > _MAX_PARTS):
        return None
    return ops.multiply(dim, factor.numerator), factor.denominator


def scaled_dim(expr: PrimExpr, dtype: str) -> tuple[PrimExpr, Fraction]:
    """An expression of floats as (integer expression, factor), of which it is the product, rounded once to
    the dtype.

    Raises: ValueError where it is no such product, or rounds more than once.
    """
    if isinstance(expr, FloatImm):
        return constant(1, "int64"), Fraction(expr.value)
    if isinstance(expr, IntImm) or expr.dtype.is_int:
        return expr, Fraction(1)
    if isinstance(expr, Cast):
        return scaled_dim(expr.value, dtype)
    if isinstance(expr, Mul):
        (a, p), (b, q) = _exact_dim(expr.a, dtype), _exact_dim(expr.b, dtype)
        return ops.multiply(a, b), p * q
    if isinstance(expr, Div) and isinstance(expr.b, FloatImm) and expr.b.value:
        a, p = _exact_dim(expr.a, dtype)
        return a, p / Fraction(expr.b.value)
    raise ValueError(f"{expr} is not a multiple of an integer")


def _exact_dim(expr: PrimExpr, dtype: str) -> tuple[PrimExpr, Fraction]:
    dim, factor = scaled_dim(expr, dtype)
    if not isinstance(dim, IntImm) and not (_is_short(factor, dtype) and _is_power_of_2(factor.denominator)):
        raise ValueError(f"{expr} is rounded")
    return dim, factor


def _is_short(factor: Fraction, dtype: str) -> bool:
    """Whether the floor of a rounded product with a size is that of the exact product."""
    numerator = abs(factor.numerator)
    if numerator and _is_power_of_2(factor.denominator):
        numerator //= numerator & -numerator
    is_exact = numerator <= _MAX_NUMERATOR[dtype] and factor.denominator <= 1 << 24
    return is_exact and abs(factor.numerator) <= 1 << 30


def _is_power_of_2(number: int) -> bool:
    return number & (number - 1) == 0


def is_scaled_dim(expr: PrimExpr, dtype: str) -> bool:
    """Whether `scaled_dim` knows the expression, and an integer holds what it is rounded to."""
    if isinstance(expr, FloatImm):
        return abs(expr.value) < 1 << 62
    return _known(scaled_dim, expr, dtype) is not None


def is_exact_dim(expr: PrimExpr, dtype: str) -> bool:
    """Whether the dtype holds every value of a scaled dimension."""
    return _known(_exact_dim, expr, dtype) is not None


_Scaled = tuple[PrimExpr, Fraction]


def _known(rule: Callable[[PrimExpr, str], _Scaled], expr: PrimExpr, dtype: str) -> _Scaled | None:
    """What `scaled_dim` or `_exact_dim` says; None where they know no product."""
    if dtype not in _MAX_NUMERATOR:
        return None
    try:
        return rule(expr, dtype)
    except (ValueError, OverflowError):
        return None


def whole_dim(importer: Importing, expr: PrimExpr, dtype: str, rounding: str) -> PrimExpr:
    """A scaled dimension as an integer. `rounding`: "floor", "ceil" or "trunc". What no formula gives is
    computed once when the model runs, and has a name.
    """
    if isinstance(expr, FloatImm):
        return constant(int(getattr(math, rounding)(expr.value)), "int64")
    dim, factor = scaled_dim(expr, dtype)
    total = importer.simplify(ops.multiply(dim, factor.numerator))
    has_sign = importer.simplify.analyzer.const_int_bound(total).min_value < 0
    if not _is_short(factor, dtype):
        made = ops.cast("int64", _ROUNDINGS[rounding](_in_dtype(expr, dtype)))
        return importer.named_dims([made], "size", not has_sign)[0]
    if rounding == "ceil":
        return ops.floordiv(total + (factor.denominator - 1), factor.denominator)
    divide = ops.truncdiv if rounding == "trunc" and has_sign else ops.floordiv
    return divide(total, factor.denominator)


_ROUNDINGS = {"floor": floor, "ceil": ceil, "trunc": trunc}


def _in_dtype(expr: PrimExpr, dtype: str) -> PrimExpr:
    """A scaled dimension as a computation in the dtype."""
    if isinstance(expr, Cast):
        return _in_dtype(expr.value, dtype)
    if isinstance(expr, (Mul, Div)) and expr.dtype.is_float:
        return type(expr)(_in_dtype(expr.a, dtype), _in_dtype(expr.b, dtype))
    return ops.cast(dtype, expr)


def scaling(factors: Sequence[Fraction]) -> Iterator[tuple[str, list[float]]]:
    """The operators that scale a vector of dimensions, rounding once: a product with a number that
    floats have, and the quotient by another."""
    above = [float(f if _is_power_of_2(f.denominator) else f.numerator) for f in factors]
    below = [1.0 if _is_power_of_2(f.denominator) else float(f.denominator) for f in factors]
    if any(number != 1 for number in above):
        yield "multiply", above
    if any(number != 1 for number in below):
        yield "divide", below
