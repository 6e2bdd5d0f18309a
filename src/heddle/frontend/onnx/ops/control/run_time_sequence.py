"""Sequences and optionals that exist when the model runs: inputs, results of branches, values that loops
carry.

Each is one value of the machine; its operators are builtins. What its elements are is known, but for their
dimensions, which are read when an element is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.values import OptionalKind, SequenceKind, TextKind, Value, tensor_value
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, ExternFunc
from heddle.ir.op import Op
from heddle.ir.types import AnyType, Type
from heddle.prim.nodes import PrimExpr, constant


def packed(ctx: NodeContext, name: str, args: list[Any], ty: Type) -> Expr:
    """Bind a call of a builtin."""
    callee = ExternFunc(f"vm.builtin.{name}")
    call = Call(Op.get("relax.call_pure_packed"), (callee, *args), NO_ATTRS, (ty,))
    return ctx.builder.emit(call)


def sequence_kind(ctx: NodeContext, value: Value) -> SequenceKind:
    """What a sequence holds: that of the first element, without dimensions that differ."""
    if isinstance(value.kind, SequenceKind):
        return value.kind
    if value.items is None:
        ctx.malformed("expected a sequence")
    types = [ctx.type_of(ctx.importer.tensor_of(item)) for item in value.items]
    if types:
        return SequenceKind(common_type(types))
    return SequenceKind(TensorType(None, value.dtype or None), is_empty=True)  # type: ignore[arg-type]


def common_type(types: list[TensorType]) -> TensorType:
    """Element type and rank that tensors have in common."""
    first = types[0]
    if any(ty.dtype != first.dtype for ty in types):
        return TensorType(None, None)
    rank = first.ndim if all(ty.ndim == first.ndim for ty in types) else -1
    return TensorType(None, first.dtype, None, rank)


def joined_kind(a: SequenceKind, b: SequenceKind) -> SequenceKind:
    """What holds elements of both."""
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    return SequenceKind(common_type([a.element, b.element]))


AnyKind = SequenceKind | OptionalKind | TextKind | TensorType
"""What a value is: a tensor of numbers, of strings, a sequence or an optional of one."""


def is_data_structure(value: Value) -> bool:
    """Whether a value is no tensor."""
    return value.kind is not None or value.items is not None


def kind_of_value(ctx: NodeContext, value: Value) -> AnyKind:
    """What a value is: an optional, text, a sequence, or a tensor of known element type and rank."""
    if isinstance(value.kind, (OptionalKind, TextKind)):
        return value.kind
    if is_data_structure(value):
        return sequence_kind(ctx, value)
    ty = ctx.type_of(ctx.importer.tensor_of(value))
    return TensorType(None, ty.dtype, None, ty.ndim)


def kind_of_either(ctx: NodeContext, a: AnyKind, b: AnyKind) -> SequenceKind | OptionalKind | TextKind:
    """What holds either of two values, of which one at least is no tensor of numbers."""
    if isinstance(a, TextKind) or isinstance(b, TextKind):
        if a != b:
            ctx.malformed("one value is a tensor of strings, and the other none, or of another rank")
        return a  # type: ignore[return-value]
    if isinstance(a, OptionalKind) or isinstance(b, OptionalKind):
        own, other = (kind.held if isinstance(kind, OptionalKind) else kind for kind in (a, b))
        if isinstance(own, TensorType) and isinstance(other, TensorType):
            return OptionalKind(common_type([own, other]))
        held = kind_of_either(ctx, own, other)
        assert isinstance(held, SequenceKind)
        return OptionalKind(held)
    if not (isinstance(a, SequenceKind) and isinstance(b, SequenceKind)):
        ctx.malformed("one value is a sequence, and the other a tensor")
    return joined_kind(a, b)


def same_kind(a: AnyKind, b: AnyKind) -> bool:
    """Whether two branches may give these values; sizes of tensors do not count."""
    if isinstance(a, TextKind):
        return a == b
    if isinstance(a, OptionalKind) and isinstance(b, OptionalKind):
        return same_kind(a.held, b.held)
    if isinstance(a, SequenceKind) and isinstance(b, SequenceKind):
        return a.is_empty == b.is_empty and same_kind(a.element, b.element)
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype and a.ndim == b.ndim
    return False


def sequence_value(expr: Expr, kind: SequenceKind) -> Value:
    """A sequence of the machine as a value of the graph."""
    return Value(expr=expr, dtype=str(kind.element.dtype or ""), kind=kind)


def element_value(ctx: NodeContext, expr: Expr, hint: str) -> Value:
    """An element with its dimensions read into fresh variables, where its rank is known."""
    ty = ctx.type_of(expr)
    if ty.ndim < 0:
        return tensor_value(expr)
    dims = [ctx.importer.fresh_dim(f"{hint}_d{axis}") for axis in range(ty.ndim)]
    return tensor_value(ctx.importer.bind_dims(expr, dims))


def sequence_expr(ctx: NodeContext, value: Value) -> Expr:
    """A sequence as one value of the machine."""
    if isinstance(value.kind, OptionalKind):
        ctx.malformed("expected a sequence, got an optional one")
    return ctx.importer.tensor_of(value)


def number(ctx: NodeContext, value: int) -> Expr:
    """An int64 constant of rank 0."""
    return ctx.const(np.asarray(value), "int64")


def position(ctx: NodeContext, index: int) -> Expr:
    """An input that is a position, as int64 of rank 0."""
    return ctx.reshape(ctx.astype(ctx.tensor(index), "int64"), ())


def at(ctx: NodeContext, value: Value, place: Expr) -> Value:
    """SequenceAt: the element at a place that may be negative."""
    kind = sequence_kind(ctx, value)
    found = packed(ctx, "sequence_at", [sequence_expr(ctx, value), place], kind.element)
    return element_value(ctx, found, ctx.node.label)


def inserted(ctx: NodeContext, value: Value, item: Value, place: Expr | None) -> Value:
    """SequenceInsert: before `place`, at the end where it is None."""
    kind = sequence_kind(ctx, value)
    own = SequenceKind(common_type([ctx.type_of(ctx.importer.tensor_of(item))]))
    args = [sequence_expr(ctx, value), ctx.importer.tensor_of(item)]
    name = "sequence_append" if place is None else "sequence_insert"
    made = packed(ctx, name, args if place is None else [*args, place], AnyType())
    return sequence_value(made, joined_kind(kind, own))


def erased(ctx: NodeContext, value: Value, place: Expr) -> Value:
    """SequenceErase: without the element at a place."""
    made = packed(ctx, "sequence_erase", [sequence_expr(ctx, value), place], AnyType())
    return sequence_value(made, sequence_kind(ctx, value))


def length(ctx: NodeContext, value: Value) -> Value:
    """SequenceLength: an int64 of rank 0."""
    ty = TensorType(ShapeExpr(()), "int64")  # type: ignore[arg-type]
    return tensor_value(packed(ctx, "sequence_length", [sequence_expr(ctx, value)], ty))


def concatenated(ctx: NodeContext, value: Value, axis: int, is_new: bool) -> Value:
    """ConcatFromSequence: along an axis of the elements, or along a new one."""
    kind = sequence_kind(ctx, value)
    rank = kind.element.ndim + is_new if kind.element.ndim >= 0 else -1
    ty = TensorType(None, kind.element.dtype, None, rank)
    numbers: list[PrimExpr] = [constant(axis, "int64"), constant(int(is_new), "int64")]
    made = packed(ctx, "sequence_concat", [sequence_expr(ctx, value), *numbers], ty)
    return element_value(ctx, made, ctx.node.label)


def split(ctx: NodeContext, x: Expr, sizes: Expr, axis: int, keeps_axis: bool) -> Value:
    """SplitToSequence: parts of the given sizes; parts of one may lose the axis."""
    numbers: list[PrimExpr] = [constant(axis, "int64"), constant(int(keeps_axis), "int64")]
    made = packed(ctx, "sequence_split", [x, sizes, *numbers], AnyType())
    ty = ctx.type_of(x)
    return sequence_value(made, SequenceKind(TensorType(None, ty.dtype, None, ty.ndim - (not keeps_axis))))


# ---- optionals


def has_value(ctx: NodeContext, value: Value) -> Value:
    """OptionalHasElement: a bool of rank 0."""
    ty = TensorType(ShapeExpr(()), "bool")  # type: ignore[arg-type]
    return tensor_value(packed(ctx, "has_value", [ctx.importer.tensor_of(value)], ty))


def held_value(ctx: NodeContext, value: Value) -> Value:
    """What an optional holds; none is an error when the model runs."""
    assert isinstance(value.kind, OptionalKind)
    held = value.kind.held
    if isinstance(held, SequenceKind):
        return sequence_value(
            packed(ctx, "value_of_optional", [ctx.importer.tensor_of(value)], AnyType()), held
        )
    found = packed(ctx, "value_of_optional", [ctx.importer.tensor_of(value)], held)
    return element_value(ctx, found, ctx.node.label)
