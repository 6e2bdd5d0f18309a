"""Values of nested tuples as rows of tensors, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Expr, Tuple, TupleGetItem
from heddle.ir.types import TupleType, Type
from heddle.relay.codes import Q0101
from heddle.relay.text_values import type_text
from heddle.support.diagnostics import UsageError


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """The tensors of a type, from left to right. Raises: UsageError Q0101 for a type with something else."""
    return [found for found, _ in _leaves(ty, None)]


def from_tuple_type(ty: Type, expr: Expr) -> list[Expr]:
    """The tensors of an expression of a type. Raises: as `flatten_tuple_type`."""
    return [found for _, found in _leaves(ty, expr)]


def to_tuple_type(ty: Type, exprs: Sequence[Expr]) -> Expr:
    """The expression of a type that these tensors make. Raises: UsageError Q0101 for another number of them,
    and as `flatten_tuple_type`."""
    count = len(flatten_tuple_type(ty))
    if count != len(exprs):
        raise UsageError(Q0101, f"the type has {count} tensors, got {len(exprs)}")
    return _packed(ty, iter(exprs))


def _packed(ty: Any, exprs: Iterator[Expr]) -> Expr:
    if isinstance(ty, TupleType):
        return Tuple(tuple(_packed(field, exprs) for field in ty.fields))
    return next(exprs)


def _leaves(ty: Any, expr: Any) -> Iterator[tuple[TensorType, Any]]:
    if isinstance(ty, TupleType):
        for number, field in enumerate(ty.fields):
            yield from _leaves(field, None if expr is None else TupleGetItem(expr, number))
    elif isinstance(ty, TensorType):
        yield ty, expr
    else:
        raise UsageError(Q0101, f"expected tensors and tuples of them, got {type_text(ty)}")
