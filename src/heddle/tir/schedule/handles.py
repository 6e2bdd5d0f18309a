"""Handles of blocks and loops. A sampled number is a scalar variable that stands for its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import PrimFunc

ExprRV = Var
"""A number that a schedule sampled: a variable, so that expressions of it can be arguments too."""

AT_ROOT, INLINED = Var("at_root", DataType("int32")), Var("inlined", DataType("int32"))
"""Where a sampled location is no loop: the block stays, or goes into its consumers."""


@dataclass(eq=False, slots=True)
class SBlockRV:
    """A handle of a block."""

    name: str


@dataclass(eq=False, slots=True)
class LoopRV:
    """A handle of a loop."""

    var: Var


def size_variables(func: PrimFunc) -> tuple[Var, ...]:
    """The scalars that a program is given, in order: its parameters, then what else the shapes of buffers
    have. Those of an equal program have the same places."""
    scalars = [param for param in func.params if isinstance(param, Var) and param not in func.buffer_map]
    dims = (size for buffer in func.buffers for size in (*buffer.shape, *buffer.strides))
    return tuple(dict.fromkeys([*scalars, *free_vars(*dims)]))


def variables_of(value: PrimExpr | IndexMap) -> tuple[Var, ...]:
    """The variables of an expression; those of a map that are not its own."""
    if isinstance(value, IndexMap):
        return tuple(var for var in free_vars(*value.final_indices) if var not in value.initial_indices)
    return free_vars(value)


def map_handles(value: Any, renewed: dict[int, Any]) -> Any:
    """An argument with handles exchanged (by identity), inside lists and expressions too."""
    if isinstance(value, (list, tuple)):
        return type(value)(map_handles(item, renewed) for item in value)
    if id(value) in renewed:
        return renewed[id(value)]
    if isinstance(value, PrimExpr):
        return substitute(value, lambda var: renewed.get(id(var)))
    if isinstance(value, IndexMap):
        return replace(value, final_indices=map_handles(value.final_indices, renewed))
    return value
