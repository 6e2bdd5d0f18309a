"""Which functions of a module lead to themselves."""

from __future__ import annotations

from collections.abc import Iterable

from heddle.graph.types import TensorType
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.types import FuncType
from heddle.ir.visitor import walk_distinct
from heddle.relay.nodes import RefCreate


def on_cycles(mod: IRModule) -> frozenset[str]:
    """The functions that lead to themselves, with those that lead from one of them to another."""
    below = {
        var.name_hint: {node.name_hint for node in walk_distinct(func) if isinstance(node, GlobalVar)}
        for var, func in mod.functions.items()
    }
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
    todo = list(starts)
    while todo:
        func = mod.get(todo.pop())
        for node in () if func is None else walk_distinct(func):
            if isinstance(node, GlobalVar) and node.name_hint not in seen:
                seen.add(node.name_hint)
                todo.append(node)
    return seen


def is_recursive(mod: IRModule, var: GlobalVar) -> bool:
    """Whether a function leads back to itself."""
    return var.name_hint in reached_from(mod, [var])


def has_knots(mod: IRModule) -> bool:
    """Whether a function may lead to itself without a name: by data that hold functions, or by a cell."""
    makers = (ctor for data in mod.type_definitions.values() for ctor in data.constructors)
    fields = (node for ctor in makers for ty in ctor.inputs for node in walk_distinct(ty))
    cells = (node for func in mod.functions.values() for node in walk_distinct(func))
    return any(isinstance(node, FuncType) for node in fields) or any(
        isinstance(node, RefCreate) and not isinstance(node.value.ty, TensorType) for node in cells
    )
