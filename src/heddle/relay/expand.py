"""What a call of a Relay operator is: an expression of the operators' records.

Types, values and code of a call all come from this expression; a dimension `?` is a symbolic dimension of its
own in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from heddle.graph.codes import R0201, R0205
from heddle.graph.normalize import Normalizer
from heddle.graph.op_builder import expand_alias
from heddle.graph.types import TensorType
from heddle.ir.attrs import Attrs
from heddle.ir.expr import Expr, Tuple, Var
from heddle.ir.node import Node
from heddle.ir.op_def import OpAlias, OpDef
from heddle.ir.types import FuncType, TupleType, Type
from heddle.prim.nodes import IntImm, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.relay.codes import Q0310
from heddle.relay.nodes import AnyDim
from heddle.relay.op import lookup
from heddle.relay.text_values import type_text
from heddle.support.diagnostics import HeddleError, IRTypeError


def given_arguments(record: OpDef, alias: OpAlias, args: Sequence[Any], attrs: Attrs) -> dict[str, Any]:
    """All arguments by name, as mappings see them. Raises: IRTypeError R0201 for too many or too few."""
    given: dict[str, Any] = dict(attrs.items())
    rest = list(args)
    for spec in alias.inputs_of(record):
        if spec.variadic:
            given[spec.name], rest = tuple(rest), []
        elif rest:
            given[spec.name] = rest.pop(0)
        elif spec.optional:
            given[spec.name] = None
        else:
            raise IRTypeError(R0201, f"{alias.name} needs the argument {spec.name!r}")
    if rest:
        most = len(alias.inputs_of(record))
        raise IRTypeError(R0201, f"{alias.name} takes {most} arguments, got {len(args)}")
    return given


def expand(name: str, args: Sequence[Expr], attrs: Attrs) -> Expr:
    """The expression of records that a call is; `args` are typed. Raises: HeddleError of the mapping."""
    record, alias = lookup(name)
    given = given_arguments(record, alias, args, attrs)
    with fitting(name):
        return expand_alias(record, alias, given)  # type: ignore[no-any-return]


@contextmanager
def fitting(name: str) -> Iterator[None]:
    """Inside, sizes and layouts are taken apart as those that the operator states. Raises: IRTypeError R0205
    where they are others."""
    try:
        yield
    except HeddleError:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:
        what = "ranks of arguments and attributes (lengths, layouts) do not fit each other"
        raise IRTypeError(R0205, f"{name}: {what}") from error


def placeholder(ty: Type, hint: str = "x") -> Expr:
    """A variable of a type, a tuple of them for a tuple type; each `?` is a new symbolic dimension."""
    if isinstance(ty, TupleType):
        return Tuple(tuple(placeholder(item, f"{hint}_{place}") for place, item in enumerate(ty.fields)))
    return Var(hint, with_symbols(ty), dialect="relay")


def with_symbols(ty: Type) -> Type:
    """A tensor type with a new symbolic dimension for each `?`."""
    if not isinstance(ty, TensorType) or not any(isinstance(dim, AnyDim) for dim in ty.dims or ()):
        return ty
    dims = (SizeVar("any") if isinstance(dim, AnyDim) else dim for dim in ty.dims or ())
    return TensorType(tuple(dims), ty.dtype)


def without_symbols(ty: Type) -> Type:
    """A type of a graph as Relay has it: each symbolic dimension is `?`."""
    if isinstance(ty, TupleType):
        return TupleType(tuple(map(without_symbols, ty.fields)))
    if isinstance(ty, FuncType) and ty.params is not None:
        return FuncType(tuple(map(without_symbols, ty.params)), without_symbols(ty.ret), ty.is_pure)
    if not isinstance(ty, TensorType) or ty.dtype is None or ty.ndim < 0:
        return ty
    dims = ty.dims if ty.dims is not None else (None,) * ty.ndim
    return TensorType(tuple(dim if isinstance(dim, IntImm) else AnyDim() for dim in dims), ty.dtype)


def relay_words(node: Node) -> str | None:
    """A type as Relay's text has it; None for other nodes, and for types that Relay lacks."""
    if not isinstance(node, (FuncType, TensorType, TupleType)):
        return None
    text = type_text(without_symbols(node))
    return None if "meta[" in text else text


def result_type(name: str, args: Sequence[Type], attrs: Attrs) -> Type:
    """The type of a call: what depends on an unknown dimension is `?`. Raises: HeddleError of the operator's
    rule, IRTypeError Q0310 where not even the rank is known."""
    known: set[PrimVar] = {var for ty in args for var in free_vars(ty)}
    call = expand(name, [placeholder(ty) for ty in args], attrs)
    normalizer = Normalizer()
    with normalizer.scope():
        found = normalizer.value(call).ty
    return _with_unknowns(name, found, known)


def _with_unknowns(name: str, ty: Type, known: set[PrimVar]) -> Type:
    if isinstance(ty, TupleType):
        return TupleType(tuple(_with_unknowns(name, item, known) for item in ty.fields))
    if not isinstance(ty, TensorType) or ty.ndim < 0 or ty.dtype is None:
        raise IRTypeError(Q0310, f"{name}: the rank or element type of the result is not known")
    if ty.dims is None:
        return TensorType(tuple(AnyDim() for _ in range(ty.ndim)), ty.dtype)
    if all(isinstance(dim, IntImm) for dim in ty.dims):
        return ty if ty.vdevice is None else TensorType(ty.dims, ty.dtype)
    dims = (dim if set(free_vars(dim)) <= known else AnyDim() for dim in ty.dims)
    return TensorType(tuple(dims), ty.dtype)
