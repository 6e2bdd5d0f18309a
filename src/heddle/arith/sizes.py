"""Arithmetic on sizes, and on positions in row-major order: int64 scalar expressions that may be symbolic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.prim.nodes import IntImm, PrimExpr, as_expr, constant, is_const_int
from heddle.prim.ops import cast


def as_dim(value: Any) -> PrimExpr:
    """Convert a dimension or index to a simplified int64 expression."""
    expr = as_expr(value, "int64")
    return expr if isinstance(expr, IntImm) and expr.dtype == "int64" else simplified(cast("int64", expr))


def simplified(expr: PrimExpr) -> PrimExpr:
    """The expression as the analyzer simplifies it."""
    return expr if isinstance(expr, IntImm) else Analyzer().simplify(expr)


def product(dims: Iterable[Any]) -> PrimExpr:
    """Return the product of dimensions; 1 if there are none."""
    result = constant(1, "int64")
    for dim in dims:
        result = result * dim
    return simplified(result)


def ceil_div(a: Any, b: Any) -> PrimExpr:
    """a / b rounded up, for a positive b."""
    a, b = as_expr(a, "int64"), as_expr(b, "int64")
    return simplified((a + (b - 1)) // b)


def ravel(index: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the row-major position of an index."""
    flat = constant(0, "int64")
    for position, dim in zip(index, shape, strict=True):
        flat = flat * dim + position
    return flat


def unravel(flat: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the index of a row-major position. The first axis takes the remaining quotient."""
    index: list[PrimExpr] = []
    for size in reversed(shape[1:]):
        dim = constant(1, size.dtype) if is_const_int(size, 0) else size  # an empty tensor has no positions
        index.insert(0, flat % dim)
        flat = flat // dim
    return [flat, *index] if shape else []
