"""Selections whose size is known only when the model runs: Compress and Unique."""

from __future__ import annotations

from functools import reduce

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, constant


@converts("Compress", since=9)
def compress(ctx: NodeContext) -> Result:
    """The slices along an axis (or elements of the flattened tensor) where the condition holds.

    What a condition has beyond the axis does not matter, as in ONNX Runtime.
    """
    ctx.require_rank(1, 0, 1)
    x, condition = ctx.tensor(0), ctx.tensor(1)
    condition = condition if ctx.ndim(1) else ctx.reshape(condition, (1,))
    axis = ctx.attr("axis", None)
    if axis is None:
        x, axis = ctx.call("flatten", x) if ctx.ndim(0) else ctx.reshape(x, (1,)), 0
    axis = ctx.axis(axis, ctx.type_of(x).ndim)
    size, length = ctx.dims_of(x)[axis], ctx.dims_of(condition)[0]
    if not (isinstance(size, IntImm) and isinstance(length, IntImm) and int(length) <= int(size)):
        end = ctx.importer.simplify(ops.minimum(length, size))
        condition = slice_of(ctx, condition, [0], [constant(0, "int64")], [end], [1])
    rows = ctx.known_dims(ctx.call("nonzero", condition))
    return ctx.call("take", x, ctx.reshape(rows, (ctx.dims_of(rows)[1],)), axis=axis)


@converts("Unique")
def unique(ctx: NodeContext) -> Result:
    """Values, first positions, inverse, counts."""
    x, axis = ctx.tensor(0), ctx.attr("axis", None)
    if axis is not None and ctx.ndim(0) != 1:
        return _unique_along(ctx, ctx.axis(axis, ctx.ndim(0)))
    values, *parts = _unique_parts(ctx, x)
    if ctx.flag("sorted", True):
        return [values, *parts]
    order, parts = _in_order_of_occurrence(ctx, parts)
    return [ctx.call("take", values, order, axis=0), *parts]


def _unique_parts(ctx: NodeContext, x: Expr) -> list[Expr]:
    made = ctx.call("unique", x, return_index=True, return_inverse=True, return_counts=True)
    parts: list[Expr] = [ctx.item(made, index) for index in range(4)]
    return [ctx.known_dims(part) for part in parts]


def _in_order_of_occurrence(ctx: NodeContext, parts: list[Expr]) -> tuple[Expr, list[Expr]]:
    """Positions of the groups by their first occurrence, and first positions, inverse and counts in it."""
    first, inverse, counts = parts
    order = ctx.call("argsort", first, axis=0, dtype="int64")
    rank = ctx.call("argsort", order, axis=0, dtype="int64")
    return order, [
        ctx.call("take", first, order, axis=0),
        ctx.call("take", rank, inverse, axis=0),
        ctx.call("take", counts, order, axis=0),
    ]


def _unique_along(ctx: NodeContext, axis: int) -> list[Expr]:
    """Slices compared as wholes: each gets its number among the different ones, and numbers are compared."""
    rank, size = ctx.ndim(0), ctx.dims(0)[axis]
    order = (axis, *(k for k in range(rank) if k != axis))
    rows = ctx.call("permute_dims", ctx.tensor(0), axes=order)
    length = reduce(ops.multiply, ctx.dims_of(rows)[1:])
    rows = ctx.reshape(rows, (size, ctx.importer.simplify(length)))
    number = ctx.call("row_numbers", rows)
    _, *parts = _unique_parts(ctx, number)
    if not ctx.flag("sorted", True):
        _, parts = _in_order_of_occurrence(ctx, parts)
    return [ctx.call("take", ctx.tensor(0), parts[0], axis=axis), *parts]
