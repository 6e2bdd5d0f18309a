"""Which functions of a module lead to which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.ir.visitor import walk_distinct


def names_in(*roots: Node) -> set[GlobalVar]:
    """The functions of a module that are named somewhere."""
    return {node for node in walk_distinct(*roots) if isinstance(node, GlobalVar)}


def reachable(mod: IRModule | Mapping[GlobalVar, Any], entries: Iterable[GlobalVar]) -> set[GlobalVar]:
    """The functions that the entries name, directly or through others, and the entries; those that are not
    in the module are left out."""
    live: set[GlobalVar] = set()
    todo = list(entries)
    while todo:
        var = todo.pop()
        if var in live or var not in mod:
            continue
        live.add(var)
        todo += names_in(mod[var])
    return live


def with_functions_of(mod: IRModule, names: set[GlobalVar]) -> IRModule:
    """The module with these functions alone; the same object where it has no others."""
    kept = {var: func for var, func in mod.functions.items() if var in names}
    return mod if len(kept) == len(mod) else mod.with_functions(kept)


def is_recursive(mod: IRModule, var: GlobalVar) -> bool:
    """Whether a function leads back to itself."""
    return var in reachable(mod, names_in(mod[var]))


def on_cycles(mod: IRModule) -> frozenset[GlobalVar]:
    """The functions that lead to themselves, with those that lead from one of them to another."""
    below = {var: names_in(func) for var, func in mod.functions.items()}
    for _ in range(2):  # without those that lead to none, then without those that none leads to
        above: dict[GlobalVar, set[GlobalVar]] = {var: set() for var in below}
        for var, others in below.items():
            for other in others & below.keys():
                above[other].add(var)
        ends = [var for var, others in below.items() if not others & below.keys()]
        while ends:
            gone = ends.pop()
            del below[gone]
            for var in above[gone]:
                below[var].discard(gone)
                if not below[var] & above.keys():
                    ends.append(var)
        below = {var: above[var] & below.keys() for var in below}
    return frozenset(below)
