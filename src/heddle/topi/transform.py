"""Rearrange elements: reshape, transpose, join, split, slice and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, ceil_div, product, simplified, unravel
from heddle.prim.checked_index import checked_index
from heddle.prim.nodes import IntImm, PrimExpr, as_expr, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import equal, if_then_else, less, maximum, minimum, select
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0103, E0104
from heddle.topi.choice import choice
from heddle.topi.dims import positive_axes, positive_axis, reshaped_index, wide_index

_HUGE, _NO_SIZE = 2**31 - 1, 2**62
"""A slice bound of at least the first number means the end of a symbolic axis, because exporters write the
largest int32 or int64 for it; the second number exceeds any size. Along a constant axis all bounds are taken
literally."""


def reshaped_dims(shape: Sequence[PrimExpr], target: Sequence[Any]) -> tuple[PrimExpr, ...]:
    """Return the target shape with -1 (inferred) and 0 (copied from the input) resolved. The 0 of a tensor
    without elements is the number where the copied size would make elements: (0, 3) to (3, 0).
    """
    given = [as_dim(dim) for dim in target]
    dims = [shape[k] if is_const_int(dim, 0) and k < len(shape) else dim for k, dim in enumerate(given)]
    holes = [k for k, dim in enumerate(dims) if is_const_int(dim, -1)]
    is_empty, stays_empty = (any(is_const_int(dim, 0) for dim in sizes) for sizes in (shape, dims))
    if is_empty and not stays_empty and not holes:
        dims = given
    if len(holes) > 1:
        raise IRTypeError(E0104, "only one dimension of the new shape may be -1")
    for k in holes:
        dims[k] = _quotient(list(shape), dims[:k] + dims[k + 1 :])
    return tuple(dims)


def _quotient(above: list[PrimExpr], below: list[PrimExpr]) -> PrimExpr:
    """product(above) // product(below), equal factors cancelled first."""
    rest = []
    for dim in below:
        same = next((k for k, other in enumerate(above) if other is dim), None)
        if same is None:
            rest.append(dim)
        else:
            above.pop(same)
    divisor = product(rest)
    if is_const_int(divisor, 0):
        return constant(0, "int64")
    return simplified(product(above) // divisor)


def reshape(x: te.Tensor, shape: Sequence[Any]) -> te.Tensor:
    """Return the elements in row-major order in another shape."""
    dims = reshaped_dims(x.shape, shape)
    result: te.Tensor = te.compute(
        dims, lambda *i: x[tuple(reshaped_index(i, dims, x.shape))], name="reshape"
    )
    return result


def transpose(x: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """Permute axes: axis k of the result is axis axes[k] of x. By default the axes are reversed."""
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(positive_axis(a, x.ndim) for a in axes)
    shape = [x.shape[axis] for axis in order]

    def element(*index: PrimExpr) -> PrimExpr:
        result: PrimExpr = x[tuple(index[order.index(axis)] for axis in range(x.ndim))]
        return result

    result: te.Tensor = te.compute(shape, element, name="transpose")
    return result


def expanded_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """New axes as numbers from 0, in a result that has `ndim` axes more than there are new ones."""
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    return positive_axes(tuple(given), ndim + len(given))


def expand_dims(x: te.Tensor, axis: Any) -> te.Tensor:
    """Insert axes of size 1 at these positions of the result."""
    axes = expanded_axes(axis, x.ndim)
    rest = iter(x.shape)
    shape = [constant(1, "int64") if k in axes else next(rest) for k in range(x.ndim + len(axes))]
    result: te.Tensor = te.compute(
        shape, lambda *i: x[tuple(p for k, p in enumerate(i) if k not in axes)], name="expand_dims"
    )
    return result


def squeezed_axes(shape: Sequence[PrimExpr], axis: Any) -> tuple[int, ...]:
    """Return the axes to remove; by default those of constant size 1."""
    if axis is None:
        return tuple(k for k, dim in enumerate(shape) if is_const_int(dim, 1))
    return positive_axes(axis, len(shape))


def squeeze(x: te.Tensor, axis: Any = None) -> te.Tensor:
    """Remove axes of size 1."""
    axes = squeezed_axes(x.shape, axis)

    def element(*index: PrimExpr) -> PrimExpr:
        rest = iter(index)
        result: PrimExpr = x[tuple(constant(0, "int64") if k in axes else next(rest) for k in range(x.ndim))]
        return result

    result: te.Tensor = te.compute(
        [d for k, d in enumerate(x.shape) if k not in axes], element, name="squeeze"
    )
    return result


def flatten(x: te.Tensor) -> te.Tensor:
    """Reshape to one axis."""
    return reshape(x, (product(x.shape),))


def batch_flatten(x: te.Tensor) -> te.Tensor:
    """Merge all axes except the first: (n, ...) → (n, m)."""
    return reshape(x, (x.shape[0], product(x.shape[1:])))


def concatenate(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Concatenate tensors along an existing axis."""
    axis = positive_axis(axis, tensors[0].ndim)
    ends: list[PrimExpr] = []
    total = constant(0, "int64")
    for tensor in tensors:
        total = simplified(total + tensor.shape[axis])
        ends.append(total)
    shape = (*tensors[0].shape[:axis], total, *tensors[0].shape[axis + 1 :])

    def element(*index: PrimExpr) -> PrimExpr:
        begins = [constant(0, "int64"), *ends]
        own = [
            tensor[(*index[:axis], index[axis] - begin, *index[axis + 1 :])]
            for tensor, begin in zip(tensors, begins, strict=False)
        ]
        return choice(own, lambda k: index[axis] < ends[k], lambda k: index[axis] < ends[k - 1])

    result: te.Tensor = te.compute(shape, element, name="concatenate")
    return result


def stack(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Join tensors of equal shape along a new axis."""
    axis = positive_axis(axis, tensors[0].ndim + 1)
    shape = (*tensors[0].shape[:axis], constant(len(tensors), "int64"), *tensors[0].shape[axis:])

    def element(*index: PrimExpr) -> PrimExpr:
        rest = (*index[:axis], *index[axis + 1 :])
        own = [tensor[rest] if rest else tensor() for tensor in tensors]
        return choice(own, lambda k: equal(index[axis], k), lambda k: less(index[axis], k))

    result: te.Tensor = te.compute(shape, element, name="stack")
    return result


def split_bounds(size: PrimExpr, sections: Any) -> list[tuple[PrimExpr, PrimExpr]]:
    """Begin and length of every part: of a number of parts (of equal length as far as the axis goes) or at
    indices that rise. Where the axis is too short, parts at its end are empty."""
    if isinstance(sections, (tuple, list)):
        given = [as_dim(cut) for cut in sections]
    else:
        length = ceil_div(size, int(sections))
        given = [length * k for k in range(1, int(sections))]
    cuts = [constant(0, "int64"), *(simplified(minimum(cut, size)) for cut in given), size]
    return [(begin, simplified(end - begin)) for begin, end in pairwise(cuts)]


def split(x: te.Tensor, indices_or_sections: Any, axis: int = 0) -> tuple[te.Tensor, ...]:
    """Split along an axis into a number of parts, or at the given indices."""
    axis = positive_axis(axis, x.ndim)
    made = []
    for begin, length in split_bounds(x.shape[axis], indices_or_sections):
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        made.append(
            te.compute(
                shape,
                lambda *i, b=begin: x[(*i[:axis], i[axis] + b, *i[axis + 1 :])],
                name="split",
            )
        )
    return tuple(made)


def tile(x: te.Tensor, repeats: Sequence[int]) -> te.Tensor:
    """Repeat the whole tensor along axes. The last number in `repeats` belongs to the last axis."""
    ndim = max(x.ndim, len(repeats))
    counts = (*(1,) * (ndim - len(repeats)), *repeats)
    dims = (*(constant(1, "int64"),) * (ndim - x.ndim), *x.shape)
    shape = [simplified(dim * as_dim(count)) for dim, count in zip(dims, counts, strict=True)]
    skip = ndim - x.ndim

    def element(*index: PrimExpr) -> PrimExpr:
        own = [
            p if is_const_int(as_dim(c), 1) or is_const_int(d, 0) else p % d
            for p, d, c in zip(index, dims, counts, strict=True)
        ]
        result: PrimExpr = x[tuple(own[skip:])] if x.ndim else x()
        return result

    result: te.Tensor = te.compute(shape, element, name="tile")
    return result


def repeat(x: te.Tensor, repeats: int, axis: int | None = None) -> te.Tensor:
    """Repeat every element along an axis. None flattens the tensor first."""
    if axis is None:
        total = product(x.shape)
        flat: te.Tensor = te.compute(
            (simplified(total * repeats),), lambda i: x[tuple(unravel(i // repeats, x.shape))], name="repeat"
        )
        return flat
    axis = positive_axis(axis, x.ndim)
    shape = (*x.shape[:axis], simplified(x.shape[axis] * repeats), *x.shape[axis + 1 :])
    result: te.Tensor = te.compute(
        shape, lambda *i: x[(*i[:axis], i[axis] // repeats, *i[axis + 1 :])], name="repeat"
    )
    return result


def flip(x: te.Tensor, axis: Any) -> te.Tensor:
    """Reverse the elements along axes."""
    axes = positive_axes(axis, x.ndim)
    result: te.Tensor = te.compute(
        x.shape,
        lambda *i: x[tuple(x.shape[k] - 1 - p if k in axes else p for k, p in enumerate(i))],
        name="flip",
    )
    return result


def slice_bounds(
    size: PrimExpr, begin: Any, end: Any, stride: Any, assume_inbound: bool
) -> tuple[PrimExpr, PrimExpr, int]:
    """Begin, length and stride of a slice with Python's rules; strides must be constant.

    With `assume_inbound` the bounds are taken as they are, but for negative constants, which count from the
    end; `inbound_checks` gives what must hold then.
    """
    step = constant_stride(stride)
    low, high = (0, 0) if step > 0 else (-1, -1)
    first, last = (_slice_bound(size, as_dim(b), low, high, assume_inbound) for b in (begin, end))
    length = ceil_div(last - first if step > 0 else first - last, abs(step))
    return first, length if assume_inbound else simplified(maximum(length, 0)), step


def constant_stride(stride: Any) -> int:
    """The stride, at most as far as any axis could be long, so that distances do not overflow.

    Raises: IRTypeError E0103 where it is symbolic, E0104 where it is 0.
    """
    step = as_dim(stride)
    if not isinstance(step, IntImm):
        raise IRTypeError(E0103, f"the stride of a slice must be a constant, got {step}")
    if step.value == 0:
        raise IRTypeError(E0104, "the stride of a slice must not be 0")
    return max(min(step.value, _NO_SIZE), -_NO_SIZE)


def inbound_checks(
    size: PrimExpr, begin: Any, end: Any, stride: Any
) -> tuple[tuple[PrimExpr, PrimExpr], ...]:
    """Pairs that are equal where bounds lie within the axis and in order, as `assume_inbound` takes it."""
    step = constant_stride(stride)
    low, high = (0, 0) if step > 0 else (-1, -1)
    bounds = [_slice_bound(size, as_dim(b), low, high, True) for b in (begin, end)]
    first, last = bounds
    order = (maximum(last, first) if step > 0 else minimum(last, first), last)
    return (order, *((limited(bound, low, simplified(size + high)), bound) for bound in bounds))


def limited(bound: PrimExpr, low: int, high: PrimExpr) -> PrimExpr:
    """The bound moved into [low, high]; low where there is nothing between them."""
    return simplified(maximum(minimum(bound, high), low))


def _slice_bound(size: PrimExpr, bound: PrimExpr, low: int, high: int, assume_inbound: bool) -> PrimExpr:
    """A bound counted from the front and limited to [low, size + high]."""
    if isinstance(bound, IntImm):
        if isinstance(size, IntImm):
            counted = bound.value + size.value if bound.value < 0 else bound.value
            whole = not assume_inbound or abs(bound.value) >= _HUGE
            return constant(max(min(counted, size.value + high), low) if whole else counted, "int64")
        if bound.value == _HUGE or bound.value >= _NO_SIZE:
            return simplified(size + high)
        if bound.value in (-_HUGE, -_HUGE - 1) or bound.value <= -_NO_SIZE:
            return constant(low, "int64")
        if bound.value < 0:
            bound = simplified(size + bound)
            return bound if assume_inbound else simplified(maximum(bound, low))
        return bound if assume_inbound else limited(bound, low, simplified(size + high))
    if assume_inbound:
        return bound
    return limited(select(less(bound, 0), bound + size, bound), low, simplified(size + high))


def strided_slice(
    x: te.Tensor,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Sequence[Any] | None = None,
    axes: Sequence[int] | None = None,
    assume_inbound: bool = False,
) -> te.Tensor:
    """x[begin:end:stride] along axes (by default the first ones), with Python's rules."""
    over = tuple(range(len(begin))) if axes is None else tuple(positive_axis(a, x.ndim) for a in axes)
    steps = strides or (1,) * len(over)
    bounds = {
        axis: slice_bounds(x.shape[axis], b, e, s, assume_inbound)
        for axis, b, e, s in zip(over, begin, end, steps, strict=True)
    }
    shape = [bounds[k][1] if k in bounds else dim for k, dim in enumerate(x.shape)]

    def element(*index: PrimExpr) -> PrimExpr:
        source = [bounds[k][0] + p * bounds[k][2] if k in bounds else p for k, p in enumerate(index)]
        result: PrimExpr = x[tuple(source)] if source else x()
        return result

    result: te.Tensor = te.compute(shape, element, name="strided_slice")
    return result


def sliced(x: te.Tensor, begin: te.Tensor, strides: te.Tensor, shape: Sequence[PrimExpr]) -> te.Tensor:
    """The tensor of `shape` from run-time begins and strides of every axis; `slice_lengths` gives it."""

    def element(*index: PrimExpr) -> PrimExpr:
        source = []
        for k, position in enumerate(index):
            at, step = constant(k, "int64"), run_time_stride(strides, constant(k, "int64"))
            source.append(run_time_bound(x.shape[k], wide_index(begin[at]), step) + position * step)
        result: PrimExpr = x[tuple(source)]
        return result

    result: te.Tensor = te.compute(shape, element, name="dynamic_strided_slice")
    return result


def slice_lengths(x: te.Tensor, begin: te.Tensor, end: te.Tensor, strides: te.Tensor) -> te.Tensor:
    """The int64 sizes of a slice with run-time bounds, Python's rules."""

    def element(axis: PrimExpr) -> PrimExpr:
        size = x.shape[-1]
        for k in reversed(range(x.ndim - 1)):
            size = select(equal(axis, k), x.shape[k], size)
        step = run_time_stride(strides, axis)
        first = run_time_bound(size, wide_index(begin[axis]), step)
        last = run_time_bound(size, wide_index(end[axis]), step)
        width = maximum(select(step < 0, -step, step), 1)
        distance = select(step < 0, first - last, last - first)
        return maximum((distance + width - 1) // width, 0)

    result: te.Tensor = te.compute((constant(x.ndim, "int64"),), element, name="slice_lengths")
    return result


def run_time_stride(strides: te.Tensor, axis: PrimExpr) -> PrimExpr:
    """The stride of an axis, limited as `constant_stride` limits it."""
    far = constant(_NO_SIZE, "int64")
    return maximum(minimum(wide_index(strides[axis]), far), -far)


def run_time_bound(size: PrimExpr, bound: PrimExpr, step: PrimExpr) -> PrimExpr:
    """A bound counted from the front and limited to [0, size] ([-1, size - 1] for negative strides)."""
    positive = select(bound < 0, bound + size, bound)
    low = select(step < 0, constant(-1, "int64"), constant(0, "int64"))
    return maximum(minimum(positive, size + low), low)


def trilu(x: te.Tensor, k: Any, upper: bool) -> te.Tensor:
    """The triangle on and above (`upper`) or below diagonal k of the last two axes, zeros elsewhere."""
    offset = as_expr(k, "int64")

    def element(*index: PrimExpr) -> PrimExpr:
        row, column = index[-2] + offset, index[-1]
        keep = column >= row if upper else column <= row
        return select(keep, x[index], constant(0, x.dtype))

    result: te.Tensor = te.compute(x.shape, element, name="trilu")
    return result


def meshgrid(tensors: Sequence[te.Tensor], indexing: str = "ij") -> tuple[te.Tensor, ...]:
    """Expand vectors to a grid: output k varies along axis k ("xy" swaps the first two axes)."""
    ndim = len(tensors)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[0], order[1] = 1, 0
    sizes = [t.shape[0] if t.ndim else constant(1, "int64") for t in tensors]
    shape = [sizes[k] for k in order]
    made = []
    for k, tensor in enumerate(tensors):
        axis = order.index(k)
        made.append(
            te.compute(shape, lambda *i, t=tensor, a=axis: t[i[a]] if t.ndim else t(), name="meshgrid")
        )
    return tuple(made)


def sequence_reverse(x: te.Tensor, lengths: te.Tensor, seq_axis: int = 1, batch_axis: int = 0) -> te.Tensor:
    """The first lengths[b] elements along `seq_axis` reversed for each b of `batch_axis`."""
    seq, batch = positive_axis(seq_axis, x.ndim), positive_axis(batch_axis, x.ndim)

    def element(*index: PrimExpr) -> PrimExpr:
        length = checked_index(lengths[index[batch]], x.shape[seq] + 1, from_end=False)
        position = index[seq]
        moved = if_then_else(position < length, length - 1 - position, position)
        result: PrimExpr = x[tuple(moved if k == seq else p for k, p in enumerate(index))]
        return result

    result: te.Tensor = te.compute(x.shape, element, name="reverse_sequence")
    return result


def collapse_axes(
    shape: Sequence[PrimExpr], target: Sequence[PrimExpr]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Leading axes that the target lacks, and axes (of the input) that it has as 1."""
    lead = len(shape) - len(target)
    ones = [
        lead + k
        for k, dim in enumerate(target)
        if is_const_int(dim, 1) and not is_const_int(shape[lead + k], 1)
    ]
    return tuple(range(lead)), tuple(ones)


def is_inside(index: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Whether each index is in range: at least 0 and less than its dimension."""
    return all_of(*(all_of(p >= 0, p < dim) for p, dim in zip(index, shape, strict=True)))
