"""Kinds: which types stand where a type of values is expected."""

from __future__ import annotations

from heddle.graph.types import TensorType
from heddle.ir.module import IRModule
from heddle.ir.type_data import GlobalTypeVar, TypeCall, TypeKind
from heddle.ir.types import FuncType, TupleType, Type, TypeVar
from heddle.relay.codes import Q0306
from heddle.relay.nodes import IncompleteType, RefType, TypeRelation
from heddle.relay.text_values import type_text
from heddle.support.diagnostics import IRTypeError


def check_kind(t: Type, mod: IRModule | None = None) -> TypeKind:
    """The kind of a type. Raises: IRTypeError Q0306 where its parts have wrong kinds, MissingNameError I0305
    for a data type that the module lacks."""
    if isinstance(t, (TypeVar, GlobalTypeVar, IncompleteType)):
        return TypeKind(t.kind)
    if isinstance(t, TupleType):
        _need_types(t.fields, mod, "a field of a tuple")
    elif isinstance(t, FuncType):
        _need_types((*t.arg_types, t.ret), mod, "an argument or result of a function")
    elif isinstance(t, RefType):
        _need_types((t.value,), mod, "what a reference refers to")
    elif isinstance(t, TypeCall):
        _check_call(t, mod)
    elif isinstance(t, TypeRelation):
        return TypeKind.Constraint
    elif not isinstance(t, TensorType):
        raise _wrong(t, f"{type_text(t)} is no type of Relay values")
    return TypeKind.Type


def _need_types(types: tuple[Type, ...], mod: IRModule | None, what: str) -> None:
    for ty in types:
        kind = check_kind(ty, mod)
        if kind not in (TypeKind.Type, TypeKind.BaseType):
            raise _wrong(ty, f"{what} must be a type, got {type_text(ty)} of kind {kind.name}")


def _check_call(ty: TypeCall, mod: IRModule | None) -> None:
    name = type_text(ty.func)
    if isinstance(ty.func, GlobalTypeVar):
        count = len(mod.type_definition(ty.func).type_vars) if mod is not None else len(ty.args)
        if len(ty.args) != count:
            raise _wrong(ty, f"type {name} takes {count} arguments, got {len(ty.args)}")
    elif not isinstance(ty.func, IncompleteType) or ty.func.kind != TypeKind.AdtHandle:
        raise _wrong(ty, f"only a data type can be applied to types, got {name}")
    _need_types(ty.args, mod, f"an argument of {name}")


def _wrong(ty: Type, message: str) -> IRTypeError:
    return IRTypeError(Q0306, message, span=ty.span)
