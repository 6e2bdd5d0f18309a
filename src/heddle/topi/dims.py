"""Dimensions and axes: arithmetic on int64 scalar expressions that may be symbolic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.prim.nodes import IntImm, PrimExpr, as_expr, constant, is_const_int
from heddle.prim.ops import cast
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0103, E0104


def as_dim(value: Any) -> PrimExpr:
    """A dimension or index as an int64 expression, simplified."""
    expr = as_expr(value, "int64")
    return expr if isinstance(expr, IntImm) and expr.dtype == "int64" else simplified(cast("int64", expr))


def simplified(expr: PrimExpr) -> PrimExpr:
    """The expression as the analyzer simplifies it."""
    return expr if isinstance(expr, IntImm) else Analyzer().simplify(expr)


def product(dims: Iterable[Any]) -> PrimExpr:
    """The product of dimensions; of none it is 1."""
    result = constant(1, "int64")
    for dim in dims:
        result = result * dim
    return simplified(result)


def ceil_div(a: Any, b: Any) -> PrimExpr:
    """a / b rounded up, for a positive b."""
    a, b = as_expr(a, "int64"), as_expr(b, "int64")
    return simplified((a + (b - 1)) // b)


def static(value: Any, what: str) -> int:
    """A Python integer. Raises: IRTypeError E0103 where the expression is not constant."""
    expr = as_dim(value)
    if not isinstance(expr, IntImm):
        raise IRTypeError(E0103, f"{what} must be a constant, got {expr}")
    return expr.value


def positive_axis(axis: int, ndim: int) -> int:
    """An axis counted from 0. Raises: IRTypeError E0104."""
    if not -ndim <= axis < ndim:
        raise IRTypeError(E0104, f"axis {axis} is out of range for a tensor of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def positive_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from 0, in rising order; None means all. Raises: IRTypeError E0104."""
    if axes is None:
        return tuple(range(ndim))
    given: Sequence[Any] = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = sorted(positive_axis(int(axis), ndim) for axis in given)
    if len(set(found)) != len(found):
        raise IRTypeError(E0104, f"an axis occurs twice in {list(given)}")
    return tuple(found)


def ravel(index: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """The row-major position of an index."""
    flat = constant(0, "int64")
    for position, dim in zip(index, shape, strict=True):
        flat = flat * dim + position
    return flat


def unravel(flat: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The index of a row-major position; the first axis takes what is left."""
    index: list[PrimExpr] = []
    for size in reversed(shape[1:]):
        dim = constant(1, size.dtype) if is_const_int(size, 0) else size  # there is no position
        index.insert(0, flat % dim)
        flat = flat // dim
    return [flat, *index] if shape else []
