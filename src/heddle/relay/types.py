"""Questions about Relay types."""

from __future__ import annotations

from heddle.graph.types import TensorType
from heddle.ir.type_data import TypeKind
from heddle.ir.types import Type, TypeVar
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import IntImm


def is_dynamic(tensor_type: Type) -> bool:
    """Whether a dimension in the type is not a number."""
    return any(
        isinstance(node, TensorType) and not all(isinstance(dim, IntImm) for dim in node.dims or ())
        for node in walk_distinct(tensor_type)
    )


def ShapeVar(name: str) -> TypeVar:
    """A variable for a dimension."""
    return TypeVar(name, TypeKind.ShapeVar)
