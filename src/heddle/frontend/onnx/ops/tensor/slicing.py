"""Slice and Pad: bounds that count from the end or lie outside are resolved by scalar arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.axes import (
    FreeAxes,
    RunTimeAxes,
    fixed_axes,
    free_axes,
    known_axes,
    length_of,
    run_time_axes,
)
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.ops.tensor.shape_math import result
from heddle.frontend.onnx.registry import converts, symbolic
from heddle.frontend.onnx.values import Value, content_value
from heddle.graph.contents import vector
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.runtime.dtype import DataType

_FAR, _NO_SIZE = (1 << 31) - 1, 1 << 62
"""Bounds that mean an end of the axis, as `topi.transform` takes them."""
_ZERO = constant(0, "int64")


@symbolic("Slice")
def slice_content(ctx: NodeContext) -> Value | None:
    """Slice of sizes by constants."""
    first = ctx.inputs[0]
    known = first.elements() if first is not None else None
    if known is None:
        return None
    if ctx.opset < 10:
        starts, ends = ctx.attr("starts"), ctx.attr("ends")
        axes, steps = ctx.attr("axes", None), None
    else:
        if any(ctx.has(index) and ctx.array(index) is None for index in range(1, 5)):
            return None
        starts, ends = ctx.ints(1, "starts"), ctx.ints(2, "ends")
        axes = ctx.ints(3, "axes") if ctx.has(3) else None
        steps = ctx.ints(4, "steps") if ctx.has(4) else None
    found = ctx.axes(axes if axes is not None else range(len(starts)), known.ndim)
    picks: list[slice] = [slice(None)] * known.ndim
    for axis, low, high, step in zip(found, starts, ends, steps or (1,) * len(starts), strict=True):
        if step == 0:
            ctx.malformed("a step of 0")
        size = known.shape[axis]
        low = max(low, -size) if step < 0 else low  # ONNX: a start before the first is the first
        picks[axis] = slice(low, high, step)
    return result(ctx, known[tuple(picks)])


@converts("Slice", since=1)
def slice_1(ctx: NodeContext) -> Result:
    """Slice before version 10: starts, ends and axes are attributes."""
    starts, ends = ([constant(item, "int64") for item in ctx.attr(name)] for name in ("starts", "ends"))
    axes = ctx.attr("axes", None) or range(len(starts))
    return _sliced(ctx, starts, ends, axes, [1] * len(starts))


@converts("Slice", since=10)
def slice_10(ctx: NodeContext) -> Result:
    """Slice: everything is an input, which may be known at run time only."""
    rank, count = ctx.ndim(0), length_of(ctx, 1, 2, 3, 4)
    if not isinstance(count, IntImm):
        return _sliced_on_free_axes(ctx, free_axes(ctx, 3, count, rank))
    number = int(count.value)
    starts, ends = (ctx.shape_values(index, False, number) for index in (1, 2))
    axes = known_axes(ctx, 3, rank, number) if ctx.has(3) else list(range(len(starts)))
    steps = ctx.shape_values(4, False, len(starts)) if ctx.has(4) else [constant(1, "int64")] * len(starts)
    if axes is None or not all(isinstance(step, IntImm) for step in steps):
        numbers = run_time_axes(ctx, 3, rank, number) if ctx.has(3) else fixed_axes(axes or [], rank)
        return _sliced_at_run_time(ctx, starts, ends, numbers, steps)
    return _sliced(ctx, starts, ends, axes, [int(step) for step in steps])  # type: ignore[call-overload]


def _sliced_on_free_axes(ctx: NodeContext, axes: FreeAxes) -> Expr:
    """Bounds for every axis, those that are not named whole."""
    axes.hits()
    far, given = (1 << 63) - 1, []
    for index, default in ((1, 0), (2, far), (4, 1)):
        if ctx.has(index):
            values = ctx.astype(ctx.importer.cast_shape(ctx.tensor(index), (axes.count,)), "int64")
            given.append(axes.spread(values, default))
        else:
            given.append((constant(default, "int64"),) * axes.rank)
    starts, ends, steps = given
    return _sliced_at_run_time(ctx, starts, ends, fixed_axes(range(axes.rank), axes.rank), steps)


def _sliced_at_run_time(
    ctx: NodeContext,
    starts: Sequence[PrimExpr],
    ends: Sequence[PrimExpr],
    axes: RunTimeAxes,
    steps: Sequence[PrimExpr],
) -> Expr:
    """Bounds for every axis, those that are not named whole. A start before the first is the first."""
    if not len(starts) == len(ends) == len(axes.numbers) == len(steps):
        ctx.malformed("starts, ends, axes and steps have different lengths")
    ctx.require_equal(
        [(ops.select(ops.equal(step, 0), constant(1, "int64"), step), step) for step in steps], "steps"
    )
    one, far = constant(1, "int64"), constant((1 << 63) - 1, "int64")
    firsts = [ops.maximum(start, -far) for start in starts]
    columns: list[list[PrimExpr]] = [[], [], []]
    for axis, dim in enumerate(ctx.dims(0)):
        first = axes.pick(axis, firsts, _ZERO)
        columns[0].append(ops.maximum(first, _ZERO - dim))
        columns[1].append(axes.pick(axis, ends, far))
        columns[2].append(axes.pick(axis, steps, one))
    bounds = [ctx.importer.tensor_of(content_value(vector(column))) for column in columns]
    return ctx.known_dims(ctx.call("dynamic_strided_slice", ctx.tensor(0), *bounds))


def _sliced(
    ctx: NodeContext,
    starts: Sequence[PrimExpr],
    ends: Sequence[PrimExpr],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Expr:
    if not len(starts) == len(ends) == len(axes) == len(steps):
        ctx.malformed("starts, ends, axes and steps have different lengths")
    dims = ctx.dims(0)
    found = ctx.axes(axes, len(dims))
    forward: list[tuple[int, PrimExpr, PrimExpr, int]] = []
    backward: list[tuple[int, PrimExpr, PrimExpr, int]] = []
    for axis, start, end, step in zip(found, starts, ends, steps, strict=True):
        if step == 0:
            ctx.malformed("a step of 0")
        if step < 0:
            first = _clamped(ctx, start, dims[axis], _ZERO, ctx.importer.simplify(dims[axis] - 1))
            backward.append((axis, first, end, step))
            continue
        low, high = bounds(ctx, start, end, dims[axis])
        if step > 1 or not is_const_int(low, 0) or not ctx.importer.simplify.equal(high, dims[axis]):
            forward.append((axis, low, high, step))
    x = ctx.tensor(0)
    for plan, inbound in ((forward, True), (backward, False)):
        if plan:
            x = slice_of(ctx, x, *(list(column) for column in zip(*plan, strict=True)), inbound=inbound)
    return x


def bounds(ctx: NodeContext, start: PrimExpr, end: PrimExpr, dim: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Where a slice of a positive step begins and ends, within the dimension, counted from 0."""
    simplify = ctx.importer.simplify
    low, high = (_clamped(ctx, bound, dim, _ZERO, dim) for bound in (start, end))
    distance = simplify(high - low)
    if isinstance(distance, IntImm):
        return low, high if distance.value >= 0 else low
    if simplify.analyzer.const_int_bound(distance).min_value < 0:
        high = simplify(ops.maximum(high, low))
    return low, high


def _clamped(ctx: NodeContext, bound: PrimExpr, dim: PrimExpr, first: PrimExpr, last: PrimExpr) -> PrimExpr:
    """A bound counted from the front, in [first, last]; the least of the two where there is nothing."""
    simplify = ctx.importer.simplify
    if isinstance(bound, IntImm) and (bound.value == _FAR or bound.value >= _NO_SIZE):
        return last
    if isinstance(bound, IntImm) and (bound.value in (-_FAR, -_FAR - 1) or bound.value <= -_NO_SIZE):
        return first
    limits = simplify.analyzer.const_int_bound(bound)
    if limits.max_value < 0:
        bound = bound + dim
    elif limits.min_value < 0:
        bound = ops.select(ops.less(bound, 0), bound + dim, bound)
    bound = simplify(bound)
    if simplify.analyzer.const_int_bound(bound - first).min_value < 0:
        bound = ops.maximum(bound, first)
    if simplify.analyzer.const_int_bound(last - bound).min_value < 0:
        bound = ops.minimum(bound, last)
    return simplify(bound)


# ---- Pad


@converts("Pad", since=1)
def pad_2(ctx: NodeContext) -> Result:
    """Pad before version 11: pads and value are attributes."""
    pads = [constant(item, "int64") for item in ctx.attr("pads", None) or ctx.attr("paddings")]
    return _padded(ctx, pads, list(range(ctx.ndim(0))), ctx.attr("value", 0.0))


@converts("Pad", since=11)
def pad(ctx: NodeContext) -> Result:
    """Pad: pads, value and axes are inputs, which may be known at run time only."""
    rank = ctx.ndim(0)
    count = length_of(ctx, 3) if ctx.has(3) else constant(rank, "int64")
    both = length_of(ctx, 1)
    if not isinstance(count, IntImm) and isinstance(both, IntImm) and both.value % 2 == 0:
        count = constant(both.value // 2, "int64")
    if not isinstance(count, IntImm):
        return _padded_at_run_time(
            ctx, _pads_on_free_axes(ctx, free_axes(ctx, 3, count, rank)), list(range(rank))
        )
    number = int(count.value)
    pads = ctx.shape_values(1, False, 2 * number)
    axes = known_axes(ctx, 3, rank, number) if ctx.has(3) else list(range(rank))
    if axes is None:
        chosen = run_time_axes(ctx, 3, rank, number)
        if len(pads) != 2 * len(chosen.numbers):
            ctx.malformed(f"pads must be {2 * len(chosen.numbers)} numbers, got {len(pads)}")
        half = len(pads) // 2
        pads = tuple(
            chosen.pick(axis, side, _ZERO) for side in (pads[:half], pads[half:]) for axis in range(rank)
        )
        axes = list(range(rank))
    known = ctx.array(2) if ctx.has(2) else np.zeros(())
    if known is not None and all(isinstance(amount, IntImm) for amount in pads):
        return _padded(ctx, pads, axes, ctx.scalar(2, "the value of Pad") if ctx.has(2) else 0)
    return _padded_at_run_time(ctx, pads, axes)


def _pads_on_free_axes(ctx: NodeContext, axes: FreeAxes) -> tuple[PrimExpr, ...]:
    """The amounts before all axes, and those behind them; 0 for axes that are not named."""
    axes.hits()
    given = ctx.importer.cast_shape(ctx.tensor(1), (axes.count * 2,))
    sides = ctx.reshape(ctx.astype(given, "int64"), (2, axes.count))
    before, after = (
        axes.spread(ctx.call("take", sides, ctx.const(side, "int64"), axis=0), 0) for side in (0, 1)
    )
    return before + after


def _padded_at_run_time(ctx: NodeContext, pads: Sequence[PrimExpr], axes: Sequence[int]) -> Expr:
    """Amounts and a value that are read when the model runs. Negative amounts cut first."""
    mode = ctx.attr("mode", "constant")
    if mode not in _MODES:
        ctx.malformed(f"unknown mode {mode!r}")
    x, widths = _cut_at_run_time(ctx, *_sides(ctx, pads, axes))
    value = ctx.astype(ctx.tensor(2), ctx.dtype(0)) if ctx.has(2) else ctx.like(0, 0)
    return ctx.call(
        "dynamic_pad",
        x,
        ctx.reshape(value, ()),
        ShapeExpr(ctx.importer.short_dims(widths, "pad")),
        pad_mode=_MODES[mode],
    )


def _sides(
    ctx: NodeContext, pads: Sequence[PrimExpr], axes: Sequence[int]
) -> tuple[list[PrimExpr], list[PrimExpr]]:
    """The amounts before and after every axis."""
    if len(pads) != 2 * len(axes):
        ctx.malformed(f"pads must be {2 * len(axes)} numbers, got {len(pads)}")
    before: list[PrimExpr] = [_ZERO] * ctx.ndim(0)
    after: list[PrimExpr] = [_ZERO] * ctx.ndim(0)
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    return before, after


def _cut_at_run_time(
    ctx: NodeContext, before: Sequence[PrimExpr], after: Sequence[PrimExpr]
) -> tuple[Expr, list[PrimExpr]]:
    """The data without what negative amounts cut, and what is left to add before and after every axis.

    The result is a window of `before + size + after` elements; the first is number `-before` of the data. The
    window may lie outside the data: a cut of more than there is takes from what the other side adds.
    """
    bound = ctx.importer.simplify.analyzer.const_int_bound
    dims = ctx.dims(0)
    widths = [amount for pair in zip(before, after, strict=True) for amount in pair]
    axes = [k for k in range(len(dims)) if bound(before[k]).min_value < 0 or bound(after[k]).min_value < 0]
    if not axes:
        return ctx.tensor(0), widths
    totals = [dims[k] + before[k] + after[k] for k in axes]
    ctx.require_equal([(ops.maximum(total, _ZERO), total) for total in totals], "padded_sizes")
    low = [ops.minimum(ops.maximum(_ZERO - before[k], _ZERO), dims[k]) for k in axes]
    begin = ctx.importer.named_dims(low, "begin")
    high = [
        ops.maximum(ops.minimum(dims[k] + after[k], dims[k]), first)
        for k, first in zip(axes, begin, strict=True)
    ]
    end = ctx.importer.named_dims(high, "end")
    for k, total, first, last in zip(axes, totals, begin, end, strict=True):
        widths[2 * k] = ops.minimum(ops.maximum(before[k], _ZERO), total)
        widths[2 * k + 1] = total - (last - first) - widths[2 * k]
    return slice_of(ctx, ctx.tensor(0), axes, list(begin), list(end), [1] * len(axes)), widths


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}


def _padded(ctx: NodeContext, pads: Sequence[PrimExpr], axes: Sequence[int], value: float) -> Expr:
    """Constant amounts. Negative ones cut: first, where padding repeats what is left, but last where it is a
    constant, so that they may cut more than there is."""
    mode = ctx.attr("mode", "constant")
    before, after = _sides(ctx, pads, axes)
    flat = tuple(max(0, int(amount)) for pair in zip(before, after, strict=True) for amount in pair)  # type: ignore[call-overload]
    if not any(flat):
        return _cut(ctx, ctx.tensor(0), before, after)
    if mode not in _MODES:
        ctx.malformed(f"unknown mode {mode!r}")
    if mode == "constant":
        number = float(value) if DataType(ctx.dtype(0)).is_float else int(value)
        x = ctx.call("nn.pad", ctx.tensor(0), pad_width=flat, pad_mode=_MODES[mode], pad_value=number)
        return _cut(ctx, x, before, after)
    x = _cut(ctx, ctx.tensor(0), before, after)
    if mode == "reflect":
        _require_reach(ctx, x, flat)
    else:
        _require_elements(ctx, x, flat, mode)
    return ctx.call("nn.pad", x, pad_width=flat, pad_mode=_MODES[mode])


def _require_reach(ctx: NodeContext, x: Expr, flat: Sequence[int]) -> None:
    """A reflection does not reach beyond the other end. The operator checks constant dimensions."""
    for axis, dim in enumerate(ctx.dims_of(x)):
        least = max(flat[2 * axis : 2 * axis + 2]) + 1
        if least > 1 and not isinstance(dim, IntImm):
            ctx.require_equal([(dim, ops.maximum(dim, constant(least, "int64")))], "reflected_sizes")


def _cut(ctx: NodeContext, x: Expr, before: list[PrimExpr], after: list[PrimExpr]) -> Expr:
    """Without what negative amounts cut. As much must be there: constant sizes say so now, free ones when the
    model runs."""
    plan, checks = [], []
    for axis, dim in enumerate(ctx.dims_of(x)):
        low, high = (max(0, -int(side[axis])) for side in (before, after))  # type: ignore[call-overload]
        if not low and not high:
            continue
        least = ctx.importer.simplify.analyzer.const_int_bound(dim).min_value
        if isinstance(dim, IntImm) and dim.value < low + high:
            ctx.malformed(f"negative pads cut {low} and {high} elements of axis {axis}, which has {dim}")
        if least < low + high:
            checks.append((ops.maximum(dim, constant(low + high, "int64")), dim))
        plan.append((axis, constant(low, "int64"), ctx.importer.simplify(dim - high), 1))
    ctx.require_equal(checks, "cut_sizes")
    return slice_of(ctx, x, *(list(column) for column in zip(*plan, strict=True))) if plan else x


def _require_elements(ctx: NodeContext, x: Expr, flat: Sequence[int], mode: str) -> None:
    """Edges and wrapping repeat elements that are there."""
    for axis, dim in enumerate(ctx.dims_of(x)):
        if is_const_int(dim, 0) and any(flat[2 * axis : 2 * axis + 2]):
            ctx.malformed(f"mode {mode} repeats elements of axis {axis}, which has none")


@converts("ReverseSequence")
def reverse_sequence(ctx: NodeContext) -> Result:
    """The first `lengths[b]` elements of each sequence reversed."""
    return ctx.call(
        "reverse_sequence",
        ctx.tensor(0),
        ctx.tensor(1),
        seq_axis=ctx.attr("time_axis", 0),
        batch_axis=ctx.attr("batch_axis", 1),
    )
