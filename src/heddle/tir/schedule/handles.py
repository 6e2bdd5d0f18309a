"""Handles of blocks and loops. A sampled number is a scalar variable that stands for its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType

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


def map_handles(value: Any, renewed: dict[int, Any]) -> Any:
    """An argument with handles exchanged (by identity), inside lists and expressions too."""
    if isinstance(value, (list, tuple)):
        return type(value)(map_handles(item, renewed) for item in value)
    if id(value) in renewed:
        return renewed[id(value)]
    if isinstance(value, PrimExpr):
        return substitute(value, lambda var: renewed.get(id(var)))
    return value
