"""Sequences and optionals: known while importing, so that no sequence exists when the model runs."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.rearrange import joined, split_values
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import Value, array_value, sequence_value, tensor_value
from heddle.ir.expr import Expr


def _items(ctx: NodeContext, index: int) -> tuple[Value, ...]:
    items = ctx.value(index).items
    if items is None:
        ctx.unsupported(f"input {index} must be a sequence of known length")
    return items


def _place(ctx: NodeContext, index: int, length: int, default: int) -> int:
    if not ctx.has(index):
        return default
    found = int(ctx.scalar(index, "the position in a sequence"))
    if not -length <= found <= length:
        ctx.malformed(f"position {found} of a sequence of {length}")
    return found + length if found < 0 else found


@converts("SequenceConstruct")
def construct(ctx: NodeContext) -> Result:
    return sequence_value(tuple(ctx.value(index) for index in range(ctx.num_inputs)))


@converts("SequenceEmpty")
def empty(ctx: NodeContext) -> Result:
    return sequence_value(())


@converts("SequenceInsert")
def insert(ctx: NodeContext) -> Result:
    items = _items(ctx, 0)
    at = _place(ctx, 2, len(items), len(items))
    return sequence_value((*items[:at], ctx.value(1), *items[at:]))


@converts("SequenceErase")
def erase(ctx: NodeContext) -> Result:
    items = _items(ctx, 0)
    at = _place(ctx, 1, len(items), len(items) - 1)
    return sequence_value((*items[:at], *items[at + 1 :]))


@converts("SequenceAt")
def element(ctx: NodeContext) -> Result:
    items = _items(ctx, 0)
    at = _place(ctx, 1, len(items), 0)
    if at >= len(items):
        ctx.malformed(f"position {at} of a sequence of {len(items)}")
    return items[at]


@converts("SequenceLength")
def length(ctx: NodeContext) -> Result:
    return array_value(np.asarray(len(_items(ctx, 0)), np.int64))


@converts("SplitToSequence")
def split_to_sequence(ctx: NodeContext) -> Result:
    """Without sizes into slices of 1; a scalar size repeats, and the last part is the rest."""
    axis = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0))
    total = ctx.static_dim(0, axis, "the dimension split into a sequence")
    if not ctx.has(1):
        sizes, drop = [1] * total, not ctx.flag("keepdims", True)
    else:
        given = ctx.constant(1, "the sizes of the parts")
        step = int(given.reshape(-1)[0]) if given.size else 1
        if step < 1 and given.ndim == 0:
            ctx.malformed(f"parts of {step}")
        whole = (
            [min(step, total - at) for at in range(0, total, step)]
            if given.ndim == 0
            else [int(i) for i in given]
        )
        sizes, drop = whole, False
    parts = split_values(ctx, axis, sizes, len(sizes))
    if drop:
        parts = [
            tensor_value(ctx.call("squeeze", ctx.importer.tensor_of(part), axis=(axis,))) for part in parts
        ]
    return sequence_value(tuple(parts))


@converts("ConcatFromSequence")
def concat_from_sequence(ctx: NodeContext) -> Result:
    items: list[Expr] = [ctx.importer.tensor_of(item) for item in _items(ctx, 0)]
    if not items:
        ctx.malformed("an empty sequence cannot be joined")
    axis = ctx.attr("axis")
    if ctx.flag("new_axis"):
        axis = ctx.axis(axis, ctx.type_of(items[0]).ndim + 1)
        items = [ctx.call("expand_dims", item, axis=(axis,)) for item in items]
    return joined(ctx, items, axis)


@converts("Optional", "OptionalGetElement")
def optional(ctx: NodeContext) -> Result:
    return ctx.value(0)


@converts("OptionalHasElement")
def has_element(ctx: NodeContext) -> Result:
    return array_value(np.asarray(ctx.has(0)))
