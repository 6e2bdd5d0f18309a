"""Sampling of images on a grid, affine grids, and col2im."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, ravel
from heddle.prim.intrinsics import floor, nearbyint, trunc
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, equal, floormod, if_then_else, logical_or, maximum, minimum, select
from heddle.runtime.dtype import DataType
from heddle.topi.image import Resize
from heddle.topi.reduce import accumulator, convert

PADDINGS = ("zeros", "border", "reflection")
_FLOAT = DataType("float32")
_KEYS = Resize("cubic")


def grid_sample(x: te.Tensor, grid: te.Tensor, method: str, padding: str, align_corners: bool) -> te.Tensor:
    """Sample x (n, c, spatial...) at the positions `grid` (n, out..., ndim). The last axis of `grid` holds
    coordinates, that of x's last axis first. -1 and 1 are the ends of an axis: the centres of the border
    elements with `align_corners`, else their outer edges. `padding` says what lies outside: 0, the nearest
    element, or a reflection at the ends."""
    ndim = x.ndim - 2
    wide = accumulator(x.dtype) if x.dtype.is_float else _FLOAT
    if method == "nearest_neighbor":
        wide = x.dtype
    taps = {"nearest_neighbor": 1, "linear": 2}.get(method, 4)
    at = [_positions(x, grid, k, method, padding, align_corners) for k in range(ndim)]
    places = [
        [
            _places(at[k], f"{k}_{tap}", x.shape[2 + k], tap - taps // 4, padding, align_corners)
            for tap in range(taps)
        ]
        for k in range(ndim)
    ]

    def element(*index: PrimExpr) -> PrimExpr:
        batch, channel, out = index[0], index[1], index[2:]

        def value(found: list[PrimExpr]) -> PrimExpr:
            inside = all_of(*(place >= 0 for place in found)) if padding == "zeros" else None
            own = cast(wide, x[(batch, channel, *(maximum(place, 0) for place in found))])
            return own if inside is None else select(inside, own, constant(0, wide))

        def weighted(found: list[PrimExpr]) -> PrimExpr:
            k = len(found)
            if k == ndim:
                return value(found)
            parts = [weighted([*found, place[(batch, *out)]]) for place in places[k]]
            if taps == 1:
                return parts[0]
            base = at[k][(batch, *out)]
            weights = _weights(base - floor(base), taps)
            terms = [part * cast(wide, weight) for part, weight in zip(parts, weights, strict=True)]
            total: PrimExpr = reduce(operator.add, terms)
            return total

        return cast(x.dtype, weighted([]))

    shape = (x.shape[0], x.shape[1], *grid.shape[1:-1])
    result: te.Tensor = te.compute(shape, element, name="grid_sample")
    return result


def affine_grid(matrices: te.Tensor, size: Sequence[Any], align_corners: bool) -> te.Tensor:
    """Return positions for `grid_sample` from one affine matrix per image: (n, ndim, ndim + 1) → (n, ndim,
    size...).

    The coordinates of the result range from -1 to 1 along each axis, the last axis first. The matrix is
    multiplied by these coordinates and a 1. -1 and 1 mean the same as in `grid_sample`. The coordinate along
    an axis of one element is 0, or -1 with `align_corners`.
    """
    sizes = [as_dim(dim) for dim in size]
    ndim, wide = len(sizes), accumulator(matrices.dtype)

    def element(*index: PrimExpr) -> PrimExpr:
        row, at = index[:2], index[2:]
        total: PrimExpr | None = None
        for column in range(ndim):
            axis = ndim - 1 - column
            factor = cast(wide, matrices[(*row, constant(column, "int64"))])
            term = factor * _evenly(at[axis], sizes[axis], align_corners, wide)
            total = term if total is None else total + term
        last = cast(wide, matrices[(*row, constant(ndim, "int64"))])
        return cast(matrices.dtype, last if total is None else total + last)

    shape = (matrices.shape[0], constant(ndim, "int64"), *sizes)
    result: te.Tensor = te.compute(shape, element, name="affine_grid")
    return result


def _evenly(place: PrimExpr, size: PrimExpr, align_corners: bool, dtype: DataType) -> PrimExpr:
    """An element's place along an axis, from -1 to 1."""
    x, n, one = cast(dtype, place), cast(dtype, size), constant(1, dtype)
    ends: PrimExpr = x * 2 / maximum(n - one, one) - one
    middle: PrimExpr = (x * 2 + one) / n - one
    return ends if align_corners else middle


def _positions(
    x: te.Tensor, grid: te.Tensor, axis: int, method: str, padding: str, align_corners: bool
) -> te.Tensor:
    """(n, out...) positions along an axis, in elements."""
    column, size = constant(x.ndim - 3 - axis, "int64"), x.shape[2 + axis]

    def element(*index: PrimExpr) -> PrimExpr:
        return _place(cast(_FLOAT, grid[(*index, column)]), size, method, padding, align_corners)

    result: te.Tensor = te.compute(grid.shape[:-1], element, name=f"grid_positions{axis}")
    return result


def _places(
    at: te.Tensor, name: str, size: PrimExpr, offset: int, padding: str, align_corners: bool
) -> te.Tensor:
    """(n, out...) elements of an axis to read, so far from the one before the position; with padding by zeros
    -1 where there is none."""

    def element(*index: PrimExpr) -> PrimExpr:
        place = cast("int64", floor(at[index])) + offset
        if padding == "zeros":
            return select(all_of(place >= 0, place < size), place, constant(-1, "int64"))
        if padding == "reflection":
            low, high = _ends(size, align_corners)
            place = cast("int64", _reflected(cast(_FLOAT, place), low, high))
        return maximum(minimum(place, size - 1), 0)

    result: te.Tensor = te.compute(at.shape, element, name=f"grid_places{name}")
    return result


def _weights(rest: PrimExpr, taps: int) -> list[PrimExpr]:
    return [1 - rest, rest] if taps == 2 else _KEYS.cubic_weights(rest)


def _ends(size: PrimExpr, align_corners: bool) -> tuple[PrimExpr, PrimExpr]:
    half = constant(0.0 if align_corners else 0.5, _FLOAT)
    return -half, cast(_FLOAT, size - 1) + half


def _place(position: PrimExpr, size: PrimExpr, method: str, padding: str, align_corners: bool) -> PrimExpr:
    """A position in elements; one outside moved as the padding says."""
    n, one, half = cast(_FLOAT, size), constant(1, _FLOAT), constant(0.5, _FLOAT)
    at = (position + one) * half * (n - one) if align_corners else ((position + one) * n - one) * half
    if method == "nearest_neighbor":
        at = nearbyint(at)
    low, high = _ends(size, align_corners)
    outside = logical_or(at < low, at > high)
    if padding == "border":
        return select(outside, maximum(minimum(at, n - one), constant(0, _FLOAT)), at)
    return select(outside, _reflected(at, low, high), at) if padding == "reflection" else at


def _reflected(at: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """The position mirrored at the ends as often as it takes; the end itself where there is nothing between
    them."""
    width = maximum(high - low, constant(1e-6, _FLOAT))
    distance = select(at < low, low - at, at - high)
    turns = trunc(distance / width)
    rest = distance - turns * width
    is_even = equal(turns - floor(turns / 2) * 2, constant(0, _FLOAT))
    from_low = equal(is_even, at < low)
    inside = select(from_low, low + rest, high - rest)
    return select(at < low, inside, select(at > high, inside, at))


def col2im(
    x: te.Tensor,
    image: Sequence[Any],
    block: Sequence[Any],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> te.Tensor:
    """Combine blocks to images (ONNX Col2Im): (n, c * elements of a block, blocks) → (n, c, image...). Each
    element is the sum over all blocks that contain it. `padding` lists the begins of all axes, then the ends.
    """
    ndim = len(image)
    sizes, kernel = [as_dim(size) for size in image], [as_dim(size) for size in block]
    counts = [
        (size + padding[k] + padding[k + ndim] - (kernel[k] - 1) * dilation[k] - 1) // strides[k] + 1
        for k, size in enumerate(sizes)
    ]
    channels = x.shape[1]
    for size in kernel:
        channels = channels // size
    taps = [te.reduce_axis((0, size), name=f"k{k}") for k, size in enumerate(kernel)]
    wide = accumulator(x.dtype)

    def element(*index: PrimExpr) -> PrimExpr:
        batch, channel, out = index[0], index[1], index[2:]
        rows, inside = [], []
        for k, position in enumerate(out):
            moved = position + padding[k] - taps[k].var * dilation[k]
            row = moved // strides[k]
            inside += [equal(floormod(moved, strides[k]), 0), row >= 0, row < counts[k]]
            rows.append(row)
        source = ravel([channel, *(tap.var for tap in taps)], [channels, *kernel])
        value = x[(batch, source, ravel(rows, counts))]
        total: PrimExpr = te.sum(
            if_then_else(all_of(*inside), cast(wide, value), constant(0, wide)), axis=taps
        )
        return total

    result: te.Tensor = te.compute((x.shape[0], channels, *sizes), element, name="col2im")
    return convert(result, x.dtype)
