"""Sequences and optionals. Those whose length is known while importing do not exist when the model runs; the
others are values of the machine (`run_time_sequence`)."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.inputs import kind_of
from heddle.frontend.onnx.ops.control import run_time_sequence as run_time
from heddle.frontend.onnx.ops.tensor.rearrange import joined, split_values
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import OptionalKind, Value, array_value, sequence_value, tensor_value
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType


def _known(ctx: NodeContext, *positions: int) -> tuple[Value, ...] | None:
    """The elements of the sequence that is input 0, where they and the positions that are given are known."""
    items = ctx.value(0).items
    fixed = all(not ctx.has(index) or ctx.array(index) is not None for index in positions)
    return items if fixed else None


def _place(ctx: NodeContext, index: int, length: int, default: int) -> int:
    if not ctx.has(index):
        return default
    found = int(ctx.scalar(index, "the position in a sequence"))
    if not -length <= found <= length:
        ctx.malformed(f"position {found} of a sequence of {length}")
    return found + length if found < 0 else found


@converts("SequenceConstruct")
def construct(ctx: NodeContext) -> Result:
    """SequenceConstruct: a sequence of the inputs."""
    return sequence_value(tuple(ctx.value(index) for index in range(ctx.num_inputs)))


@converts("SequenceEmpty")
def empty(ctx: NodeContext) -> Result:
    """float32 where the element type is left out."""
    return Value(items=(), dtype=dtype_name(ctx.attr("dtype", 1), "the elements of a sequence"))


@converts("SequenceInsert")
def insert(ctx: NodeContext) -> Result:
    """SequenceInsert: the value before a position, by default at the end."""
    items = _known(ctx, 2)
    if items is None:
        place = run_time.position(ctx, 2) if ctx.has(2) else None
        return run_time.inserted(ctx, ctx.value(0), ctx.value(1), place)
    at = _place(ctx, 2, len(items), len(items))
    return sequence_value((*items[:at], ctx.value(1), *items[at:]))


@converts("SequenceErase")
def erase(ctx: NodeContext) -> Result:
    """SequenceErase: the sequence without an element, by default the last."""
    items = _known(ctx, 1)
    if items is None:
        place = run_time.position(ctx, 1) if ctx.has(1) else run_time.number(ctx, -1)
        return run_time.erased(ctx, ctx.value(0), place)
    at = _place(ctx, 1, len(items), len(items) - 1)
    return sequence_value((*items[:at], *items[at + 1 :]))


@converts("SequenceAt")
def element(ctx: NodeContext) -> Result:
    """SequenceAt: an element; negative positions count from the end."""
    items = _known(ctx, 1)
    if items is None:
        return run_time.at(ctx, ctx.value(0), run_time.position(ctx, 1))
    at = _place(ctx, 1, len(items), 0)
    if at >= len(items):
        ctx.malformed(f"position {at} of a sequence of {len(items)}")
    return items[at]


@converts("SequenceLength")
def length(ctx: NodeContext) -> Result:
    """SequenceLength: an int64 of rank 0."""
    items = ctx.value(0).items
    if items is None:
        return run_time.length(ctx, ctx.value(0))
    return array_value(np.asarray(len(items), np.int64))


@converts("SplitToSequence")
def split_to_sequence(ctx: NodeContext) -> Result:
    """Without sizes into slices of 1; a scalar size repeats, and the last part is the rest."""
    axis = ctx.axis(ctx.attr("axis", 0), ctx.ndim(0))
    dim, given = ctx.dims(0)[axis], ctx.array(1) if ctx.has(1) else np.asarray(1)
    if not isinstance(dim, IntImm) or given is None:
        wanted = ctx.astype(ctx.tensor(1), "int64") if ctx.has(1) else run_time.number(ctx, 1)
        return run_time.split(ctx, ctx.tensor(0), wanted, axis, ctx.has(1) or ctx.flag("keepdims", True))
    total = dim.value
    if not ctx.has(1):
        sizes, drop = [1] * total, not ctx.flag("keepdims", True)
    else:
        ctx.require_rank(1, 0, 1)
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
    """ConcatFromSequence: the elements joined along `axis`, a new one with `new_axis`."""
    known = ctx.value(0).items
    if known is None:
        return run_time.concatenated(ctx, ctx.value(0), ctx.attr("axis"), ctx.flag("new_axis"))
    items: list[Expr] = [ctx.importer.tensor_of(item) for item in known]
    if not items:
        ctx.malformed("an empty sequence cannot be joined")
    axis = ctx.attr("axis")
    if ctx.flag("new_axis"):
        axis = ctx.axis(axis, ctx.type_of(items[0]).ndim + 1)
        items = [ctx.call("expand_dims", item, axis=(axis,)) for item in items]
    return joined(ctx, items, axis)


@converts("Optional")
def optional(ctx: NodeContext) -> Result:
    """What is given; without an input the value that is missing."""
    if ctx.has(0):
        return ctx.value(0)
    held = kind_of(ctx.attr("type"), "the type of Optional")
    if isinstance(held, OptionalKind):
        ctx.unsupported("an optional optional value")
    if held is not None:
        return Value(expr=ctx.call("null_value"), kind=OptionalKind(held))
    dtype = DataType(dtype_name(ctx.attr("type").tensor_type.elem_type, "the type of Optional"))
    return Value(expr=ctx.call("null_value"), kind=OptionalKind(TensorType(None, dtype)))


@converts("OptionalGetElement")
def optional_element(ctx: NodeContext) -> Result:
    """OptionalGetElement: what an optional holds; a value is its own."""
    value = ctx.value(0)
    return run_time.held_value(ctx, value) if isinstance(value.kind, OptionalKind) else value


@converts("OptionalHasElement")
def has_element(ctx: NodeContext) -> Result:
    """OptionalHasElement: a bool of rank 0."""
    if ctx.has(0) and isinstance(ctx.value(0).kind, OptionalKind):
        return run_time.has_value(ctx, ctx.value(0))
    return array_value(np.asarray(ctx.has(0)))
