"""Which dialect's normal form this room works on.

Fusion, layouts, packing and schedules see graph functions in one form: bindings in blocks, of `GRAPH`.
Another graph dialect comes in by a translation (`relay_to_relax`), as its own passes need its own form.
Passes over graphs have `dialects = GRAPHS` and ask `self.functions(mod)`; no pass compares a dialect's name.

Operators are named by their keys in the operator table ("relax.matmul"), where they are used. A constant for
each would be a second name of the same thing, and `Op.get` refuses a name that is not in the table.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import BaseFunc, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.transform import functions_in

GRAPH = "relax"
GRAPHS = (GRAPH,)


def is_graph(func: BaseFunc) -> bool:
    """Whether a function is a graph in normal form."""
    return func.dialect == GRAPH


def graph_functions(mod: IRModule) -> list[tuple[GlobalVar, Any]]:
    """The graph functions of a module with their names, in order."""
    return functions_in(mod, GRAPHS)
