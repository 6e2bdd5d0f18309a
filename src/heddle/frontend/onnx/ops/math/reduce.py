"""Reductions. Their axes are an attribute in older operator sets and an input in newer ones."""

from __future__ import annotations

import math
from collections.abc import Callable

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.axes import (
    RunTimeAxes,
    free_axes,
    known_axes,
    length_of,
    run_time_axes,
)
from heddle.frontend.onnx.registry import add_converter, converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.runtime.dtype import DataType

Reducer = Callable[[NodeContext, Expr, tuple[int, ...], bool], Expr]


def _plain(op: str) -> Reducer:
    return lambda ctx, x, axes, keep: ctx.call(op, x, axis=axes, keepdims=keep)


def _mean(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    """Of integers the sum over the count, the fraction dropped."""
    if DataType(ctx.dtype(0)).is_float:
        return ctx.call("mean", x, axis=axes, keepdims=keep)
    dims = ctx.dims_of(x)
    size = math.prod((dims[axis] for axis in axes), start=constant(1, "int64"))
    count = ctx.astype(ctx.size(size), ctx.dtype(0))
    total = ctx.call("sum", x, axis=axes, keepdims=keep)
    return ctx.call("divide", total, count if ctx.type_of(total).ndim else ctx.reshape(count, ()))


def _work_type(dtype: str) -> str:
    """What several steps are computed in: squares of float16 overflow from 256 on, and small ones are 0."""
    return dtype if dtype in ("float32", "float64") else "float32"


def _square_sum(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    dtype = ctx.dtype(0)
    wide = ctx.astype(x, _work_type(dtype)) if DataType(dtype).is_float else x
    return ctx.astype(ctx.call("sum", ctx.call("square", wide), axis=axes, keepdims=keep), dtype)


def _l1(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return ctx.call("sum", ctx.call("abs", x), axis=axes, keepdims=keep)


def _l2(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    dtype = ctx.dtype(0)
    work = _work_type(dtype)
    squares = ctx.call("square", ctx.astype(x, work))
    return ctx.astype(ctx.call("sqrt", ctx.call("sum", squares, axis=axes, keepdims=keep)), dtype)


def _log_sum(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    dtype = ctx.dtype(0)
    work = _work_type(dtype)
    return ctx.astype(ctx.call("log", ctx.call("sum", ctx.astype(x, work), axis=axes, keepdims=keep)), dtype)


def _log_sum_exp(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    """max + log(sum(exp(x - max))), so that large values do not overflow; an infinite maximum counts as 0."""
    dtype = ctx.dtype(0)
    work = _work_type(dtype)
    x = ctx.astype(x, work)
    top = ctx.call("max", x, axis=axes, keepdims=True)
    top = ctx.call("where", ctx.call("isfinite", top), top, ctx.const(0, work))
    inner = ctx.call("sum", ctx.call("exp", ctx.call("subtract", x, top)), axis=axes, keepdims=True)
    made = ctx.call("add", ctx.call("log", inner), top)
    return ctx.astype(made if keep else ctx.call("squeeze", made, axis=axes), dtype)


def _extreme(op: str) -> Reducer:
    """Of bools: any and all."""

    def run(ctx: NodeContext, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
        if ctx.dtype(0) != "bool":
            return ctx.call(op, x, axis=axes, keepdims=keep)
        return ctx.call({"max": "any", "min": "all"}[op], x, axis=axes, keepdims=keep)

    return run


_REDUCERS: dict[str, tuple[Reducer, int]] = {
    "ReduceSum": (_plain("sum"), 13),
    "ReduceMean": (_mean, 18),
    "ReduceProd": (_plain("prod"), 18),
    "ReduceMax": (_extreme("max"), 18),
    "ReduceMin": (_extreme("min"), 18),
    "ReduceSumSquare": (_square_sum, 18),
    "ReduceL1": (_l1, 18),
    "ReduceL2": (_l2, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
}


def _from_attribute(reducer: Reducer) -> Callable[[NodeContext], Result]:
    def run(ctx: NodeContext) -> Result:
        return _reduced(ctx, reducer, ctx.attr("axes", None))

    return run


def _from_input(reducer: Reducer) -> Callable[[NodeContext], Result]:
    def run(ctx: NodeContext) -> Result:
        count = length_of(ctx, 1)
        if not isinstance(count, IntImm) and ctx.flag("keepdims", True):
            return _reduced_over_free_axes(ctx, reducer, count)
        axes = known_axes(ctx, 1, ctx.ndim(0)) if ctx.has(1) else []
        if axes is None:
            return _reduced_at_run_time(ctx, reducer)
        if not axes and ctx.flag("noop_with_empty_axes"):
            return _reduced_each(ctx, reducer)
        return _reduced(ctx, reducer, tuple(axes) or None)

    return run


def _reduced_each(ctx: NodeContext, reducer: Reducer) -> Expr:
    """No axis: the elementwise part of the reduction remains."""
    x = ctx.call("expand_dims", ctx.tensor(0), axis=0)
    return reducer(ctx, x, (0,), False)


def _reduced(ctx: NodeContext, reducer: Reducer, axes: tuple[int, ...] | None) -> Expr:
    rank = ctx.ndim(0)
    if rank == 0:
        return _reduced_each(ctx, reducer)
    found = tuple(ctx.axes(axes, rank)) if axes else tuple(range(rank))
    return reducer(ctx, ctx.tensor(0), found, ctx.flag("keepdims", True))


def _reduced_at_run_time(ctx: NodeContext, reducer: Reducer) -> Expr:
    """Each axis as two, of which one is 1: (kept, reduced). The reduction is over every second axis."""
    dims = ctx.dims(0)
    axes = run_time_axes(ctx, 1, len(dims))
    made = _reduced_in_pairs(ctx, reducer, axes)
    if ctx.flag("keepdims", True):
        return made
    return ctx.reshape(made, ctx.importer.named_dims(axes.without(dims), "kept"))


def _reduced_over_free_axes(ctx: NodeContext, reducer: Reducer, count: PrimExpr) -> Expr:
    """No axes stand for all of them, or, with `noop_with_empty_axes`, for none."""
    hits = [ops.equal(hit, 1) for hit in free_axes(ctx, 1, count, ctx.ndim(0)).hits()]
    if not ctx.flag("noop_with_empty_axes"):
        hits = [ops.logical_or(hit, ops.equal(count, 0)) for hit in hits]
    return _reduced_in_pairs(ctx, reducer, RunTimeAxes((), tuple(hits)))


def _reduced_in_pairs(ctx: NodeContext, reducer: Reducer, axes: RunTimeAxes) -> Expr:
    """Reduced, with ones for the axes."""
    dims = ctx.dims(0)
    kept, taken = (ctx.importer.named_dims(part, "part") for part in axes.split(dims))
    pairs = [dim for pair in zip(kept, taken, strict=True) for dim in pair]
    return reducer(ctx, ctx.reshape(ctx.tensor(0), pairs), tuple(range(1, 2 * len(dims), 2)), False)


for _name, (_reducer, _since) in _REDUCERS.items():
    add_converter(_name, _from_attribute(_reducer))
    add_converter(_name, _from_input(_reducer), since=_since)


@converts("ArgMax", "ArgMin")
def arg_extreme(ctx: NodeContext) -> Result:
    """The first position of the extreme; with select_last_index the last: found in the reversed tensor."""
    op = ctx.node.op_type.lower()
    axis, keep = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0)), ctx.flag("keepdims", True)
    x = ctx.tensor(0)
    if not ctx.flag("select_last_index"):
        return ctx.call(op, x, axis=axis, keepdims=keep)
    found = ctx.call(op, ctx.call("flip", x, axis=axis), axis=axis, keepdims=keep)
    last = ctx.call("subtract", ctx.size(ctx.dims(0)[axis]), ctx.const(1, "int64"))
    return ctx.call("subtract", last if ctx.type_of(found).ndim else ctx.reshape(last, ()), found)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(ctx: NodeContext) -> Result:
    """GlobalAveragePool and GlobalMaxPool: over all axes but batch and channel."""
    axes = tuple(range(2, ctx.ndim(0)))
    op = "mean" if ctx.node.op_type == "GlobalAveragePool" else "max"
    return ctx.call(op, ctx.tensor(0), axis=axes, keepdims=True) if axes else ctx.tensor(0)


@converts("GlobalLpPool")
def global_lp_pool(ctx: NodeContext) -> Result:
    """GlobalLpPool: the norm of order `p` over all axes but batch and channel."""
    order, axes = ctx.attr("p", 2), tuple(range(2, ctx.ndim(0)))
    return lp_norm(ctx, ctx.tensor(0), float(order), axes)


def lp_norm(ctx: NodeContext, x: Expr, order: float, axes: tuple[int, ...]) -> Expr:
    """(sum |x| ** p) ** (1 / p), dimensions kept."""
    return norm_of(ctx, x, order, lambda powers: ctx.call("sum", powers, axis=axes, keepdims=True))


def norm_of(ctx: NodeContext, x: Expr, order: float, total: Callable[[Expr], Expr]) -> Expr:
    """(total of |x| ** p) ** (1 / p), rounded once."""
    if order <= 0:
        ctx.malformed(f"p must be positive, got {order}")
    dtype = ctx.dtype(0)
    work = _work_type(dtype)
    size = ctx.call("abs", ctx.astype(x, work))
    if order == 1:
        made = total(size)
    elif order == 2:
        made = ctx.call("sqrt", total(ctx.call("square", size)))
    else:
        powers = total(ctx.call("power", size, ctx.const(order, work)))
        made = ctx.call("power", powers, ctx.const(1 / order, work))
    return ctx.astype(made, dtype)
