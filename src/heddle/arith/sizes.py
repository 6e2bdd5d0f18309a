"""Arithmetic on sizes: int64 scalar expressions that may be symbolic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.prim.nodes import IntImm, PrimExpr, as_expr, constant
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
