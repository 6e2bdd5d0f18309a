"""Squeeze. Without axes it drops dimensions of 1: a free dimension decides the rank when the model runs.

    Squeeze(x) of (n, 5)      →      if n == 1: (5,) else (n, 5)

What follows is imported for both, as behind an `If` whose branches differ in rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control.branch import both, is_possible, scalar_bool, with_rest
from heddle.frontend.onnx.ops.tensor.axes import known_axes, run_time_axes
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.scope import Finish, NotStraight, RanksDiffer, Run
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int

_ONE = constant(1, "int64")


@converts("Squeeze", since=1)
def squeeze_1(ctx: NodeContext) -> Result:
    """Squeeze before version 13: axes are an attribute."""
    axes = ctx.attr("axes", None)
    return _of_ones(ctx) if axes is None else _squeezed(ctx, axes)


@converts("Squeeze", since=13)
def squeeze(ctx: NodeContext) -> Result:
    """Squeeze: axes are an input, which may be known at run time only."""
    if not ctx.has(1):
        return _of_ones(ctx)
    axes = known_axes(ctx, 1, ctx.ndim(0))
    return _squeezed_at_run_time(ctx) if axes is None else _squeezed(ctx, axes)


def _squeezed_at_run_time(ctx: NodeContext) -> Expr:
    dims = ctx.dims(0)
    axes = run_time_axes(ctx, 1, len(dims))
    ctx.require_equal([(_ONE, dim) for dim in axes.split(dims)[1]], "squeezed_sizes")
    return ctx.reshape(ctx.tensor(0), ctx.importer.named_dims(axes.without(dims), "kept"))


def _squeezed(ctx: NodeContext, axes: Sequence[int]) -> Expr:
    dims = ctx.dims(0)
    found = ctx.axes(axes, len(dims))
    wrong = [axis for axis in found if isinstance(dims[axis], IntImm) and not is_const_int(dims[axis], 1)]
    if wrong:
        ctx.malformed(f"axis {wrong[0]} has the dimension {dims[wrong[0]]}, not 1")
    if not found:
        return ctx.tensor(0)
    ones = [_ONE if axis in found else dim for axis, dim in enumerate(dims)]
    return ctx.call("squeeze", ctx.cast_shape(ctx.tensor(0), ones), axis=tuple(found))


def _of_ones(ctx: NodeContext) -> Result:
    """All dimensions of 1 are dropped. Raises: RanksDiffer where it is not known which they are; NotStraight
    where the graph has no branches yet."""
    open_axes = [axis for axis, dim in enumerate(ctx.dims(0)) if _may_be_one(ctx, dim)]
    if not open_axes:
        return _without(ctx, {})
    if ctx.importer.is_straight:
        raise NotStraight
    axis, *others = open_axes
    runs = _branches(ctx, others, {}, axis)
    condition = _is_one(ctx, ctx.dims(0)[axis])
    raise RanksDiffer(ctx.node, partial(with_rest, ctx, runs, condition, needs_then=False))


def _may_be_one(ctx: NodeContext, dim: PrimExpr) -> bool:
    """Whether it is not known if a dimension is 1."""
    if isinstance(dim, IntImm):
        return False
    return not ctx.importer.simplify.analyzer.can_prove(ops.not_equal(dim, _ONE))


def _is_one(ctx: NodeContext, dim: PrimExpr) -> Expr:
    return scalar_bool(ctx, ctx.call("equal", ctx.size(dim), ctx.const([1], "int64")))


def _without(ctx: NodeContext, is_one: Mapping[int, bool]) -> Expr:
    """The tensor without the dimensions that are 1, and those that are said to be."""
    axes = [axis for axis, dim in enumerate(ctx.dims(0)) if is_const_int(dim, 1) or is_one.get(axis)]
    return _squeezed(ctx, axes)


def _decided(
    ctx: NodeContext, open_axes: Sequence[int], is_one: Mapping[int, bool], finish: Finish | None
) -> list[Value]:
    """The branch in which some axes are known to be 1 or not; others are decided inside. An axis that what
    follows needs stays where it is 1, too."""
    if not open_axes:
        values = [tensor_value(_without(ctx, is_one))]
        return values if finish is None else finish(values)
    axis, *others = open_axes
    first, second = _branches(ctx, others, is_one, axis)
    if not is_possible(ctx, first, finish):
        return second(finish)
    visible = ctx.importer.visible_dims()
    return both(ctx, _is_one(ctx, ctx.dims(0)[axis]), (first, second), finish, visible)


def _branches(
    ctx: NodeContext, open_axes: Sequence[int], is_one: Mapping[int, bool], axis: int
) -> tuple[Run, Run]:
    return (
        partial(_decided, ctx, open_axes, {**is_one, axis: True}),
        partial(_decided, ctx, open_axes, {**is_one, axis: False}),
    )
