"""Selections whose size is known only when the model runs: Compress and Unique."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.rearrange import slice_of
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, constant


@converts("Compress", since=9)
def compress(ctx: NodeContext) -> Result:
    """The slices along an axis (or elements of the flattened tensor) where the condition holds.

    What a condition has beyond the axis does not matter, as in ONNX Runtime.
    """
    x, condition = ctx.tensor(0), ctx.tensor(1)
    axis = ctx.attr("axis", None)
    if axis is None:
        x, axis = ctx.call("flatten", x) if ctx.ndim(0) else ctx.reshape(x, (1,)), 0
    axis = ctx.axis(axis, ctx.type_of(x).ndim)
    size, length = ctx.dims_of(x)[axis], ctx.dims(1)[0]
    if not (isinstance(size, IntImm) and isinstance(length, IntImm) and int(length) <= int(size)):
        end = ctx.importer.simplify(ops.minimum(length, size))
        condition = slice_of(ctx, condition, [0], [constant(0, "int64")], [end], [1])
    rows = ctx.known_dims(ctx.call("nonzero", condition))
    return ctx.call("take", x, ctx.reshape(rows, (ctx.dims_of(rows)[1],)), axis=axis)


@converts("Unique")
def unique(ctx: NodeContext) -> Result:
    """Values, first positions, inverse, counts."""
    if ctx.attr("axis", None) is not None and ctx.ndim(0) != 1:
        ctx.unsupported("Unique along an axis", "flatten the tensor")
    if not ctx.flag("sorted", True):
        ctx.unsupported("the order of first occurrence", "ask for sorted values")
    made = ctx.call("unique", ctx.tensor(0), return_index=True, return_inverse=True, return_counts=True)
    parts: list[Expr] = [ctx.item(made, index) for index in range(4)]
    return [ctx.known_dims(part) for part in parts]
