"""What types lead to in a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.ir.type_data import GlobalTypeVar
from heddle.ir.types import FuncType
from heddle.ir.visitor import walk_distinct
from heddle.relay.nodes import RefCreate


def types_within(mod: IRModule, *types: Any) -> Iterator[Node]:
    """The nodes of types, and of the definitions of the data types that they lead to."""
    seen: set[str] = set()
    todo = list(types)
    while todo:
        for node in walk_distinct(todo.pop()):
            yield node
            if isinstance(node, GlobalTypeVar) and node.name_hint not in seen:
                seen.add(node.name_hint)
                data = mod.type_definitions.get(node)
                todo += [] if data is None else [item for each in data.signatures for item in each]


def has_knots(mod: IRModule) -> bool:
    """Whether a function may lead to itself without a name: by data that hold functions, or by a cell."""
    fields = types_within(mod, *mod.type_definitions)
    cells = (node for func in mod.functions.values() for node in walk_distinct(func))
    return any(isinstance(node, FuncType) for node in fields) or any(
        isinstance(node, RefCreate) and not isinstance(node.value.ty, TensorType) for node in cells
    )
