"""Count how often the stores of a loop function run for given arguments, that is, how long its interpretation
takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.ir.node import children
from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.tir.nodes import BufferLoad, BufferStore, For, PrimFunc, Stmt

_GUESS = 4
"""Turns of a loop whose extent depends on loops or elements."""

Nest = tuple[PrimExpr, ...]


def nests_of(stmt: Stmt) -> list[Nest]:
    """The extents of the loops around each store."""
    found: list[Nest] = []

    def visit(node: Any, extents: Nest) -> None:
        if isinstance(node, For):
            extents = (*extents, node.extent)
        elif isinstance(node, BufferStore):
            found.append(extents)
        for child in children(node):
            visit(child, extents)

    visit(stmt, ())
    return found


def num_turns(func: PrimFunc, nests: Sequence[Nest], args: Sequence[Any]) -> int:
    """How often stores run with these arguments: arrays or tensors, and scalars."""
    sizes: dict[Var, int] = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            sizes[param] = arg
        else:
            sizes.update(
                (dim, size) for dim, size in zip(buffer.shape, arg.shape, strict=True) if isinstance(dim, Var)
            )
    total = 0
    for extents in nests:
        count = 1
        for extent in extents:
            count *= _value(extent, sizes)
        total += count
    return total


def _value(extent: PrimExpr, sizes: Mapping[Var, int]) -> int:
    is_known = all(var in sizes for var in free_vars(extent))
    if is_known and not any(isinstance(node, BufferLoad) for node in walk(extent)):
        return int(evaluate(extent, sizes))
    return _GUESS
