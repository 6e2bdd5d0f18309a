"""What leads where in a module: functions to functions, types to types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.ir.type_data import GlobalTypeVar
from heddle.ir.types import FuncType
from heddle.ir.visitor import walk_distinct
from heddle.relay.nodes import RefCreate


def named_in(*roots: Node) -> set[str]:
    """The functions of a module that are named somewhere."""
    return {node.name_hint for node in walk_distinct(*roots) if isinstance(node, GlobalVar)}


def on_cycles(mod: IRModule) -> frozenset[str]:
    """The functions that lead to themselves, with those that lead from one of them to another."""
    below = {var.name_hint: named_in(func) for var, func in mod.functions.items()}
    for _ in range(2):  # without those that lead to none, then without those that none leads to
        above: dict[str, set[str]] = {name: set() for name in below}
        for name, others in below.items():
            for other in others & below.keys():
                above[other].add(name)
        ends = [name for name, others in below.items() if not others & below.keys()]
        while ends:
            gone = ends.pop()
            del below[gone]
            for name in above[gone]:
                below[name].discard(gone)
                if not below[name] & above.keys():
                    ends.append(name)
        below = {name: above[name] & below.keys() for name in below}
    return frozenset(below)


def reached_from(mod: IRModule, starts: Iterable[GlobalVar]) -> set[str]:
    """The functions that some functions name, to any depth; one of these too, where something leads to it."""
    seen: set[str] = set()
    todo: list[Any] = list(starts)
    while todo:
        func = mod.get(todo.pop())
        found = set() if func is None else named_in(func) - seen
        seen |= found
        todo += found
    return seen


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


def is_recursive(mod: IRModule, var: GlobalVar) -> bool:
    """Whether a function leads back to itself."""
    return var.name_hint in reached_from(mod, [var])


def has_knots(mod: IRModule) -> bool:
    """Whether a function may lead to itself without a name: by data that hold functions, or by a cell."""
    fields = types_within(mod, *mod.type_definitions)
    cells = (node for func in mod.functions.values() for node in walk_distinct(func))
    return any(isinstance(node, FuncType) for node in fields) or any(
        isinstance(node, RefCreate) and not isinstance(node.value.ty, TensorType) for node in cells
    )
