"""Gathers, scatters, and what finds positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.axes import around_axis, one_axis
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import tensor_value
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.runtime.dtype import DataType


def positions(ctx: NodeContext, index: int, dim: PrimExpr) -> Expr:
    """Indices: constants are checked and resolved here, others by the operator when the model runs."""
    known = ctx.array(index)
    if known is not None and isinstance(dim, IntImm):
        return ctx.const(checked(ctx, known, int(dim)), ctx.dtype(index))
    return ctx.tensor(index)


def checked(ctx: NodeContext, known: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Constant indices as numbers from 0. Raises: N0106 out of range."""
    if known.size and (known.min() < -size or known.max() >= size):
        ctx.malformed(f"index out of range for a dimension of {size}")
    return np.where(known < 0, known + size, known).astype(known.dtype)


@converts("Gather")
def gather(ctx: NodeContext) -> Result:
    """Gather: slices of x along `axis`; negative indices count from the end."""
    axis = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0))
    return ctx.call("take", ctx.tensor(0), positions(ctx, 1, ctx.dims(0)[axis]), axis=axis)


@converts("GatherElements")
def gather_elements(ctx: NodeContext) -> Result:
    """GatherElements: an element for each index, along `axis`."""
    axis = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0))
    return ctx.call("gather_elements", ctx.tensor(0), positions(ctx, 1, ctx.dims(0)[axis]), axis=axis)


@converts("GatherND")
def gather_nd(ctx: NodeContext) -> Result:
    """GatherND: slices at vectors of indices."""
    batch = ctx.attr("batch_dims", 0)
    return ctx.call("gather_nd", ctx.tensor(0), _coordinates(ctx, batch), batch_dims=batch)


def _coordinates(ctx: NodeContext, batch: int = 0) -> Expr:
    """Tuples of indices along the last axis; constants are checked and resolved here."""
    if ctx.ndim(1) == 0:
        ctx.malformed("the tuples of indices are a scalar")
    depth = ctx.dims(1)[-1]
    if not isinstance(depth, IntImm):
        ctx.unsupported("index tuples of symbolic length")
    sizes = ctx.dims(0)[batch : batch + int(depth)]
    if len(sizes) != int(depth):
        ctx.malformed(f"index tuples of {depth} for a tensor of {ctx.ndim(0)} dimensions")
    known = ctx.array(1)
    if known is not None and all(isinstance(size, IntImm) for size in sizes):
        columns = [checked(ctx, known[..., i], int(size)) for i, size in enumerate(sizes)]  # type: ignore[call-overload]
        return ctx.const(np.stack(columns, axis=-1) if columns else known, ctx.dtype(1))
    return ctx.tensor(1)


MAX_DEPTH = 1 << 24
"""Of OneHot; each index takes as many elements."""
_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(ctx: NodeContext) -> str:
    name = ctx.attr("reduction", "none")
    if name not in _REDUCTIONS:
        ctx.malformed(f"unknown reduction {name!r}")
    return _REDUCTIONS[name]


@converts("ScatterElements", "Scatter")
def scatter_elements(ctx: NodeContext) -> Result:
    """ScatterElements: x with elements replaced, or combined by `reduction`."""
    axis = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0))
    return ctx.call(
        "scatter_elements",
        ctx.tensor(0),
        positions(ctx, 1, ctx.dims(0)[axis]),
        ctx.tensor(2),
        axis=axis,
        reduction=_reduction(ctx),
    )


@converts("ScatterND")
def scatter_nd(ctx: NodeContext) -> Result:
    """ScatterND: x with slices replaced, or combined by `reduction`."""
    return ctx.call("scatter_nd", ctx.tensor(0), _coordinates(ctx), ctx.tensor(2), reduction=_reduction(ctx))


@converts("TensorScatter", since=24)
def tensor_scatter(ctx: NodeContext) -> Result:
    """Rows of an update written along an axis, for each batch from an index of its own on."""
    rank = ctx.ndim(0)
    axis, mode = ctx.axis(ctx.attr("axis", -2), rank), ctx.attr("mode", "linear")
    if axis == 0 or mode not in ("linear", "circular"):
        ctx.malformed(f"axis {axis} and mode {mode!r}")
    if ctx.ndim(1) != rank:
        ctx.malformed(f"an update of {ctx.ndim(1)} dimensions for a cache of {rank}")
    dims, count = ctx.dims(0), ctx.dims(1)[axis]
    size, cache = dims[axis], ctx.tensor(0)
    if is_const_int(count, 0):
        return cache
    ctx.require_equal([(size, ops.maximum(size, count))], "written_rows")
    first = ctx.tensor(2) if ctx.has(2) else ctx.call("zeros", (dims[0],), dtype="int64")
    return ctx.call("scatter_rows", cache, ctx.tensor(1), first, axis=axis, mode=mode)


@converts("OneHot")
def one_hot(ctx: NodeContext) -> Result:
    """`values` holds the off and the on value; indices outside of the depth give rows of the off value."""
    stored = ctx.first(1)
    depth = (
        IntImm(DataType("int64"), int(stored))
        if stored is not None
        else ctx.importer.named_dims([_integer(ctx, 1)], "depth")[0]
    )
    rank = ctx.ndim(0)
    axis = ctx.axis(ctx.attr("axis", -1), rank + 1)
    if isinstance(depth, IntImm) and not 0 < depth.value <= MAX_DEPTH:
        ctx.malformed(f"a depth of {depth}: it must be at least 1 and at most {MAX_DEPTH}")
    indices = ctx.astype(ctx.tensor(0), "int64")
    # A uint64 beyond int64 becomes negative, which is no index from the end.
    if not ctx.dtype(0).startswith("uint"):
        below, size = ctx.call("less", indices, ctx.const(0, "int64")), ctx.size(depth)
        indices = ctx.call("where", below, ctx.binary("add", indices, _scalar(ctx, size, rank)), indices)
    steps = ctx.call("arange", 0, depth, 1, dtype="int64")
    steps = ctx.reshape(steps, (depth, *([1] * (rank - axis))))
    hits = ctx.call("equal", ctx.call("expand_dims", indices, axis=(axis,)), steps)
    off, on = (ctx.call("take", ctx.tensor(2), ctx.const(index, "int64"), axis=0) for index in (0, 1))
    return ctx.call("where", hits, on, off)


def _scalar(ctx: NodeContext, one: Expr, rank: int) -> Expr:
    """A vector of one element so that it broadcasts to a tensor of `rank`, of rank 0 too."""
    return one if rank else ctx.reshape(one, ())


def _integer(ctx: NodeContext, index: int) -> PrimExpr:
    """An input of one number, of any element type, as a scalar that is read when the model runs."""
    if not DataType(ctx.value(index).dtype).is_float:
        return ctx.number(index)
    found = tensor_value(ctx.astype(ctx.of_length(index, 1), "int64"))
    return ctx.importer.elements_of(found, sizes=False).reshape(-1)[0]  # type: ignore[no-any-return]


@converts("TopK", since=1)
def top_k(ctx: NodeContext) -> Result:
    """TopK: values and int64 places of the k greatest along `axis`, or of the smallest."""
    count = constant(ctx.attr("k"), "int64") if ctx.opset < 10 else ctx.number(1)
    axis = ctx.axis(ctx.attr("axis", -1), ctx.ndim(0))
    size = ctx.dims(0)[axis]
    if not isinstance(count, IntImm):
        count = ctx.importer.named_dims([count], "k")[0]
        # a positive number, which the axis has
        ctx.require_equal([(count, ops.maximum(ops.minimum(count, size), constant(0, "int64")))], "k")
        whole = _sorted_along(ctx, 0, axis)
        return tuple(_first(ctx, part, axis, count) for part in whole)
    if count.value < 0 or (isinstance(size, IntImm) and count.value > size.value):
        ctx.malformed(f"{count} elements of a dimension of {size}")
    if not isinstance(size, IntImm):
        ctx.require_equal([(size, ops.maximum(size, count))], "k")
    if count.value == 0:  # the operator takes it for all
        parts = _first(ctx, ctx.tensor(0), axis, count)
        return parts, ctx.astype(parts, "int64")
    return _sorted_along(ctx, count.value, axis)


def _first(ctx: NodeContext, x: Expr, axis: int, count: PrimExpr) -> Expr:
    return slice_of(ctx, x, [axis], [constant(0, "int64")], [count], [1])


def _sorted_along(ctx: NodeContext, count: int, axis: int) -> tuple[Expr, Expr]:
    """The first elements in order (0: all) and their positions."""
    made = ctx.call(
        "topk",
        ctx.tensor(0),
        k=count,
        axis=axis,
        ret_type="both",
        largest=ctx.flag("largest", True),
        dtype="int64",
    )
    return ctx.item(made, 0), ctx.item(made, 1)


@converts("NonZero")
def non_zero(ctx: NodeContext) -> Result:
    """One row for each dimension; the number of columns is known when the model runs."""
    return positions_of_nonzero(ctx, ctx.tensor(0))


def positions_of_nonzero(ctx: NodeContext, x: Expr) -> Expr:
    """(rank, count), the count read when the model runs."""
    found = ctx.call("nonzero", x)
    count = ctx.importer.fresh_dim(f"{ctx.node.label}_count")
    return ctx.importer.bind_dims(found, (constant(ctx.type_of(x).ndim, "int64"), count))


@converts("CumSum")
def cum_sum(ctx: NodeContext) -> Result:
    """CumSum along `axis`."""
    return _cumulated(ctx, "cumsum")


@converts("CumProd")
def cum_prod(ctx: NodeContext) -> Result:
    """CumProd along `axis`."""
    return _cumulated(ctx, "cumprod")


def _cumulated(ctx: NodeContext, op: str) -> Expr:
    axis, x = one_axis(ctx, 1, ctx.ndim(0)), ctx.tensor(0)
    if isinstance(axis, int):
        return _cumulated_along(ctx, op, x, axis)
    parts, dims = around_axis(ctx, x, axis)
    return ctx.reshape(_cumulated_along(ctx, op, parts, 1), dims)


def _cumulated_along(ctx: NodeContext, op: str, x: Expr, axis: int) -> Expr:
    if not ctx.flag("reverse"):
        return ctx.call(op, x, axis=axis, exclusive=ctx.flag("exclusive"))
    made = ctx.call(op, ctx.call("flip", x, axis=axis), axis=axis, exclusive=ctx.flag("exclusive"))
    return ctx.call("flip", made, axis=axis)
