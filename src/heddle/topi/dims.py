"""Axes of shapes whose sizes may be symbolic, and positions in reshaped tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from heddle.arith.sizes import as_dim, ravel, unravel
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import IntImm, Mul, PrimExpr, constant
from heddle.prim.ops import cast, minimum
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0103, E0104


def static(value: Any, what: str) -> int:
    """Return the value of a constant expression as an int. Raises: IRTypeError E0103 if it is not
    constant.
    """
    expr = as_dim(value)
    if not isinstance(expr, IntImm):
        raise IRTypeError(E0103, f"{what} must be a constant, got {expr}")
    return expr.value


def positive_axis(axis: int, ndim: int) -> int:
    """Convert a negative axis to a nonnegative one. Raises: IRTypeError E0104 if it is out of range."""
    if not -ndim <= axis < ndim:
        raise IRTypeError(E0104, f"axis {axis} is out of range for a tensor of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def positive_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Convert axes to nonnegative ones, sorted; None means all axes. Raises: IRTypeError E0104 if one is out
    of range."""
    if axes is None:
        return tuple(range(ndim))
    given: Sequence[Any] = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = sorted(positive_axis(int(axis), ndim) for axis in given)
    if len(set(found)) != len(found):
        raise IRTypeError(E0104, f"an axis occurs twice in {list(given)}")
    return tuple(found)


def reshaped_index(
    index: Sequence[PrimExpr], shape: Sequence[PrimExpr], other: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """Convert an index into `shape` to the index of the same element after a row-major reshape to `other`.

    Ranges of dimensions with equal products on both sides are converted separately: (n, c, h, w) and (n, c, h
    * w) have n and c in common, so no index is divided by a symbolic size.
    """
    found: list[PrimExpr] = []
    for mine, others in _common_parts(shape, other):
        flat = ravel(index[mine.start : mine.stop], shape[mine.start : mine.stop])
        found += unravel(flat, other[others.start : others.stop])
    return found


def _common_parts(shape: Sequence[PrimExpr], other: Sequence[PrimExpr]) -> list[tuple[range, range]]:
    """Return matching ranges of dimensions with provably equal products, as short as possible."""
    sizes, others = ([_factors(dim) for dim in dims] for dims in (shape, other))
    parts: list[tuple[range, range]] = []
    start, start_other = 0, 0
    for end in range(1, len(shape)):
        for end_other in range(start_other + 1, len(other)):
            if _are_equal(sizes[start:end], others[start_other:end_other]):
                parts.append((range(start, end), range(start_other, end_other)))
                start, start_other = end, end_other
                break
    return [*parts, (range(start, len(shape)), range(start_other, len(other)))]


_Factors = tuple[int, list[PrimExpr]]
"""A size as a constant times non-constant factors."""


def _factors(dim: PrimExpr) -> _Factors:
    if isinstance(dim, IntImm):
        return dim.value, []
    if not isinstance(dim, Mul):
        return 1, [dim]
    (a, left), (b, right) = _factors(dim.a), _factors(dim.b)
    return a * b, left + right


def _are_equal(sizes: Sequence[_Factors], others: Sequence[_Factors]) -> bool:
    """Whether two products have the same factors. If a dimension is 0, there are no elements, and the answer
    does not matter."""
    known, known_other = prod(item[0] for item in sizes), prod(item[0] for item in others)
    if known != known_other or known == 0:
        return False
    rest = [factor for _, factors in others for factor in factors]
    for factor in (factor for _, factors in sizes for factor in factors):
        same = next((k for k, item in enumerate(rest) if structural_equal(item, factor)), None)
        if same is None:
            return False
        rest.pop(same)
    return not rest


def wide_index(position: PrimExpr) -> PrimExpr:
    """Convert an index to int64. One of uint64 that is greater becomes the greatest int64, which is out of
    range as well."""
    if position.dtype == "uint64":
        position = minimum(position, constant(2**63 - 1, "uint64"))
    return cast("int64", position)
