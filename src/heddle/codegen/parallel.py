"""What a parallel loop needs to become a function of its own.

The loop's annotation `grain` is the least number of iterations worth a thread; with `sweep`, every other run
of the loop goes backwards, to find in the caches what the run before read last.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.tir.allocation import num_elements
from heddle.tir.grain import GRAIN
from heddle.tir.nodes import AllocBuffer, Buffer, For

SWEEP = "sweep"
_INT64 = DataType("int64")


def captured_vars(node: For, known: Collection[Any]) -> tuple[Var, ...]:
    """The variables of the enclosing function, `known`, that a loop uses, in order of occurrence. One that
    allocates needs those of the size."""
    used: dict[Var, None] = {}
    for item in walk(node):
        var = item.data if isinstance(item, Buffer) else item
        sizes = free_vars(num_elements(item.buffer)) if isinstance(item, AllocBuffer) else ()
        used.update(dict.fromkeys(each for each in (var, *sizes) if isinstance(each, Var) and each in known))
    return tuple(used)


def stated_grain(node: For) -> PrimExpr:
    """The grain as int64, negative for a loop that sweeps."""
    grain = node.annotations.get(GRAIN, 1)
    if not isinstance(grain, PrimExpr):
        grain = constant(int(grain), _INT64)
    return cast(_INT64, -grain if node.annotations.get(SWEEP) else grain)
