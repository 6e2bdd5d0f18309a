"""Types of Relay as types of the shared normal form, and the types that generic functions are called with."""

from __future__ import annotations

from typing import Any

from heddle.graph.type_relations import definable_vars
from heddle.graph.types import ShapeType, TensorType
from heddle.graph.vdevices import on_device
from heddle.ir.expr import Call
from heddle.ir.type_data import GlobalTypeVar, TypeCall
from heddle.ir.types import AnyType, FuncType, TupleType, Type, TypeVar
from heddle.ir.visitor import tree_size
from heddle.lower.codes import L0301, L0302, L0303
from heddle.prim.nodes import SizeVar
from heddle.prim.substitute import substitute
from heddle.relay.nodes import AnyDim, RefType
from heddle.relay.text_values import type_text
from heddle.relay.unify import is_generic, replace_type_vars
from heddle.support.diagnostics import UsageError
from heddle.support.span import Span

INTERPRET = 'relay.create_executor("debug") runs the program'
"""The help where a program cannot be compiled."""
MOST_TYPE_NODES = 10_000
"""How large a type may be that a generic function is called with, counted as text shows it."""

TypeMap = dict[Any, Type]
_OF_ANY_TYPE = (TypeCall, GlobalTypeVar, RefType)
"""Types of Relay whose values have the type of any value in the normal form."""


def too_generic(message: str, span: Span | None) -> UsageError:
    """The refusal of a generic function that nobody says the types of."""
    hint = f"call it from a function whose parameters have types; {INTERPRET}"
    return UsageError(L0303, message, span=span, help=hint)


def named_dims(ty: Type | None, name: str) -> Type | None:
    """A type of known rank and unknown sizes with new symbolic dimensions; None for another type."""
    if not isinstance(ty, (TensorType, ShapeType)) or ty.ndim < 0:
        return None
    if (ty.dims if isinstance(ty, TensorType) else ty.values) is not None:
        return None
    made = tuple(SizeVar(f"{name}_{axis}") for axis in range(ty.ndim))
    return TensorType(made, ty.dtype, ty.vdevice) if isinstance(ty, TensorType) else ShapeType(made)


def normal_type(ty: Type, node: Any, dims: str | None = None, *, is_pure: bool = True) -> Type:
    """A type as the normal form has it. Each `?` becomes a new symbolic dimension that is called after
    `dims`; without that, a shape with one is of known rank alone. `is_pure`: whether functions have no
    effects.

    Raises: UsageError L0301 for a type that the normal form has not, L0303 for a generic one, at `node`.
    """
    if isinstance(ty, TensorType):
        if not any(isinstance(dim, AnyDim) for dim in ty.dims or ()):
            return ty
        if dims is None:
            return TensorType(None, ty.dtype, None, ty.ndim)
        made = (
            SizeVar(f"{dims}_{axis}") if isinstance(dim, AnyDim) else dim
            for axis, dim in enumerate(ty.dims or ())
        )
        return TensorType(tuple(made), ty.dtype)
    if isinstance(ty, TupleType):
        return TupleType(
            tuple(
                normal_type(item, node, dims and f"{dims}_{place}", is_pure=is_pure)
                for place, item in enumerate(ty.fields)
            )
        )
    if isinstance(ty, FuncType) and not ty.type_params:
        params = tuple(normal_type(param, node, is_pure=is_pure) for param in ty.arg_types)
        return FuncType(params, normal_type(ty.ret, node, is_pure=is_pure), is_pure)
    if isinstance(ty, _OF_ANY_TYPE):
        return AnyType()
    raise UsageError(
        L0303 if is_generic(ty) else L0301,
        f"a value of type {type_text(ty)} cannot be compiled",
        span=node.span,
        help=INTERPRET,
    )


def known_type(ty: Type, types: TypeMap, node: Any) -> Type:
    """A type with variables replaced. Raises: UsageError L0302 where it becomes too large."""
    made = replace_type_vars(ty, types)
    if tree_size(made) > MOST_TYPE_NODES:
        raise UsageError(
            L0302,
            f"the types that a generic function is called with grow beyond {MOST_TYPE_NODES} parts",
            span=node.span,
            help="a function that calls itself with ever larger types has no end of instances",
        )
    return made


def type_arguments(call: Call, types: TypeMap) -> tuple[Type, ...]:
    """The types that a call gives its callee."""
    return tuple(known_type(ty, types, call) for ty in call.ty_args)


def is_vaguer(found: Type, wanted: Type) -> bool:
    """Whether a type of the normal form says less about shapes than `wanted`, a type of Relay, does."""
    if isinstance(found, TensorType):
        return found.dims is None
    if isinstance(found, TupleType) and isinstance(wanted, TupleType):
        return any(is_vaguer(a, b) for a, b in zip(found.fields, wanted.fields, strict=True))
    return type(found) is not type(wanted) and not isinstance(wanted, _OF_ANY_TYPE)


def refined(found: Type, wanted: Type, node: Any, dims: str, *, is_pure: bool) -> Type:
    """The type `found` with what `wanted` adds; sizes of which nothing is known get names."""
    if isinstance(found, TupleType) and isinstance(wanted, TupleType):
        pairs = enumerate(zip(found.fields, wanted.fields, strict=True))
        parts = (refined(a, b, node, f"{dims}_{place}", is_pure=is_pure) for place, (a, b) in pairs)
        return TupleType(tuple(parts))
    if not is_vaguer(found, wanted):
        return found
    made = normal_type(wanted, node, dims, is_pure=is_pure)
    return on_device(made, found.vdevice) if isinstance(found, TensorType) else made


def type_map(variables: tuple[Any, ...], types: tuple[Type, ...]) -> dict[Any, Type]:
    """Type variables with the types that stand for them."""
    assert all(isinstance(var, TypeVar) for var in variables)
    return dict(zip(variables, types, strict=True))


def with_own_dims(ty: FuncType) -> FuncType:
    """The type of a variable: its symbolic dimensions are not those of the function that it is bound to."""
    dims = {dim: SizeVar(dim.name) for param in ty.params or () for dim in definable_vars(param)}
    found: FuncType = substitute(ty, dims)
    return found
