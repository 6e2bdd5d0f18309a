"""A graph for sizes that a function is called with.

    def main(x: R.Tensor(("n",)), ...): ... Module.main(R.concat([x, x])) ...

Calls from outside have n = 3, and those from inside have what they have: these go to a copy for every size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.graph.copying import copy_with_new_vars
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.relax.transform.bind_symbolic_vars import BindSymbolicVars


def bind_sizes(graph: IRModule, function: str, sizes: Mapping[str, int]) -> IRModule:
    """The graph in which a function, called from outside, has these sizes. Raises: BindingError R0208."""
    var = graph.get_global_var(function)
    found = (node for func in graph.functions.values() for node in walk_distinct(func))
    if any(isinstance(node, GlobalVar) and node == var for node in found):
        every = GlobalVar(graph.names().fresh(f"{function}_of_every_size"), var.ty)
        calls = _Calls(var, every)
        functions = {each: calls.visit(func) for each, func in graph.functions.items()}
        functions[every] = copy_with_new_vars(functions[var]).without_attr("global_symbol")
        graph = graph.with_functions(functions)
    return BindSymbolicVars(dict(sizes), function)(graph)


class _Calls(Rewriter):
    """References to a function become references to another one."""

    def __init__(self, old: GlobalVar, new: GlobalVar) -> None:
        self._old, self._new = old, new

    def visit_GlobalVar(self, node: Any) -> Any:
        return self._new if node == self._old else node
