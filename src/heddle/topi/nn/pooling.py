"""Pooling: sliding windows, and adaptive windows for a given output size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, ceil_div, simplified
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, ceildiv, if_then_else, maximum, min_value, minimum
from heddle.topi.nn.window import output_size, pads, positions, spatial_letters, spread, window_extent
from heddle.topi.reduce import accumulator


def pool(
    data: te.Tensor,
    kind: str,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    layout: str,
) -> te.Tensor:
    """Return the maximum (`kind` "max"), the mean ("avg") or the sum ("sum") of each window.

    Padding is never the maximum, and it is averaged only with `count_include_pad`. If windows may reach the
    padding, a stage `pad` holds the padded data in the accumulation dtype.
    """
    ndim = data.ndim - 2
    at = positions(layout, "NC" + spatial_letters(ndim))[2:]
    sizes, steps, spaces = (spread(value, ndim) for value in (pool_size, strides, dilation))
    before, after = pads(padding, ndim)
    shape = list(data.shape)
    for k, axis in enumerate(at):
        shape[axis] = output_size(
            data.shape[axis], sizes[k], steps[k], before[k], after[k], spaces[k], ceil_mode
        )
    taps = [
        te.reduce_axis((constant(0, "int64"), as_dim(size)), name=f"k{k}") for k, size in enumerate(sizes)
    ]
    may_leave = [ceil_mode or before[k] or after[k] for k in range(ndim)]
    wide = data.dtype if kind == "max" else accumulator(data.dtype)
    nothing = min_value(wide) if kind == "max" else constant(0, wide)

    windows = data
    if any(may_leave):
        room = list(data.shape)
        for k, axis in enumerate(at):
            if may_leave[k]:  # as far as the last window reaches
                room[axis] = simplified((shape[axis] - 1) * steps[k] + window_extent(sizes[k], spaces[k]))
        low = {axis: before[k] for k, axis in enumerate(at) if may_leave[k]}
        windows = _padded(data, room, low, nothing)

    def element(*index: PrimExpr) -> Any:
        source = list(index)
        for k, axis in enumerate(at):
            source[axis] = index[axis] * steps[k] + taps[k].var * spaces[k]
        value = cast(wide, windows[tuple(source)])
        return (te.max if kind == "max" else te.sum)(value, axis=taps)

    name = f"{kind}_pool{ndim}d"
    is_whole = kind == "max" or (kind == "sum" and wide == data.dtype)
    joined: te.Tensor = te.compute(shape, element, name=name if is_whole else f"{name}_sum")
    if is_whole:
        return joined
    if kind == "sum":
        narrowed: te.Tensor = te.compute(shape, lambda *i: cast(data.dtype, joined[i]), name=name)
        return narrowed

    count = window_count(data.shape, at, sizes, steps, before, after, spaces, may_leave, count_include_pad)
    averaged: te.Tensor = te.compute(
        shape, lambda *i: cast(data.dtype, joined[i] / cast(wide, maximum(count(i), 1))), name=name
    )
    return averaged


def window_count(
    shape: Sequence[PrimExpr],
    at: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    spaces: Sequence[int],
    may_leave: Sequence[Any],
    count_include_pad: bool,
) -> Callable[[Sequence[PrimExpr]], PrimExpr]:
    """How many elements of the data, or of the padded data, lie in the window of an index of the result."""
    most = math.prod(size + before[k] + after[k] for k, size in enumerate(sizes))
    counter = "int32" if most < 1 << 31 else "int64"  # lanes multiply and convert the narrower one faster

    def count(index: Sequence[PrimExpr]) -> PrimExpr:
        result = constant(1, counter)
        for k, axis in enumerate(at):
            low = constant(0 if count_include_pad else before[k], "int64")
            size = shape[axis] + before[k]
            high = size + after[k] if count_include_pad else size
            found = _taps_between(index[axis] * steps[k], low, high, sizes[k], spaces[k], bool(may_leave[k]))
            result = result * cast(counter, found)
        return result

    return count


def _padded(data: te.Tensor, shape: Sequence[PrimExpr], low: dict[int, int], fill: PrimExpr) -> te.Tensor:
    """The data in the type of `fill`, which lies before and after it along the axes of `low`."""

    def element(*index: PrimExpr) -> PrimExpr:
        source, inside = list(index), []
        for axis, before in low.items():
            inside += [index[axis] >= before, index[axis] < data.shape[axis] + before]
            source[axis] = index[axis] - before
        return if_then_else(all_of(*inside), cast(fill.dtype, data[tuple(source)]), fill)

    result: te.Tensor = te.compute(shape, element, name="pad")
    return result


def _taps_between(
    start: PrimExpr, low: PrimExpr, high: PrimExpr, size: int, space: int, may_leave: bool
) -> PrimExpr:
    """How many of start, start + space, ... (`size` of them) lie in [low, high)."""
    if not may_leave:
        return constant(size, "int64")
    first = constant(0, "int64") if is_const_int(low, 0) else maximum(ceildiv(low - start, space), 0)
    last = minimum(ceildiv(high - start, space), size)
    result: PrimExpr = last - first
    return result


def adaptive_pool(data: te.Tensor, output_size: Any, kind: str, layout: str) -> te.Tensor:
    """Adaptive pooling: window i covers floor(i * size / outputs) to ceil((i + 1) * size / outputs) of each
    spatial axis."""
    ndim = data.ndim - 2
    at = positions(layout, "NC" + spatial_letters(ndim))[2:]
    outputs = adaptive_sizes(data.shape, at, output_size)
    shape = list(data.shape)
    for axis, size in zip(at, outputs, strict=True):
        shape[axis] = size
    extents = [_greatest_window(data.shape[axis], size) for axis, size in zip(at, outputs, strict=True)]
    taps = [te.reduce_axis((0, extent), name=f"k{k}") for k, (extent, _) in enumerate(extents)]
    wide = accumulator(data.dtype) if kind == "avg" else data.dtype
    nothing = constant(0, wide) if kind == "avg" else min_value(wide)

    def bounds(index: Sequence[PrimExpr], k: int) -> tuple[PrimExpr, PrimExpr]:
        axis = at[k]
        size, position = data.shape[axis], index[axis]
        return (position * size) // shape[axis], ceildiv((position + 1) * size, shape[axis])

    def element(*index: PrimExpr) -> Any:
        source, inside = list(index), []
        for k, axis in enumerate(at):
            extent, varies = extents[k]
            if not varies:
                source[axis] = index[axis] * extent + taps[k].var
                continue
            begin, end = bounds(index, k)
            source[axis] = begin + taps[k].var
            inside.append(source[axis] < end)
        value = if_then_else(all_of(*inside), cast(wide, data[tuple(source)]), nothing)
        return (te.sum if kind == "avg" else te.max)(value, axis=taps)

    name = f"adaptive_{kind}_pool{ndim}d"
    joined: te.Tensor = te.compute(shape, element, name=name if kind == "max" else f"{name}_sum")
    if kind == "max":
        return joined

    def average(*index: PrimExpr) -> PrimExpr:
        count = constant(1, "int64")
        for k, (extent, varies) in enumerate(extents):
            begin, end = bounds(index, k)
            count = count * (end - begin if varies else extent)
        return cast(data.dtype, joined[index] / cast(wide, count))

    result: te.Tensor = te.compute(shape, average, name=name)
    return result


def adaptive_sizes(shape: Sequence[PrimExpr], at: Sequence[int], output_size: Any) -> list[PrimExpr]:
    """The number of windows along each spatial axis; None keeps the size."""
    if output_size is None:
        return [shape[axis] for axis in at]
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
    if len(given) == 1:
        given = tuple(given) * len(at)
    return [shape[axis] if size is None else as_dim(size) for axis, size in zip(at, given, strict=True)]


def _greatest_window(size: PrimExpr, outputs: PrimExpr) -> tuple[PrimExpr, bool]:
    """An extent that no window exceeds, and whether windows differ from it."""
    if is_const_int(outputs, 1) or size is outputs:
        return (size, False) if is_const_int(outputs, 1) else (constant(1, "int64"), False)
    if isinstance(size, IntImm) and isinstance(outputs, IntImm) and size.value % outputs.value == 0:
        return constant(size.value // outputs.value, "int64"), False
    return simplified(ceil_div(size, outputs) + 1), True
