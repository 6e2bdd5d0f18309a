"""A function with fewer parameters in the place of one that others, or it itself, call with all of them.

main(t, w) = ... main(left, w) ...     →     main(t) = ... main_1(left, 3) ...
                                             main_1(t, w) = ... main_1(left, w) ...
"""

from __future__ import annotations

from typing import Any

from heddle.ir.call_graph import names_in
from heddle.ir.expr import BaseFunc, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Node, replace
from heddle.ir.visitor import rebuild


def with_bound_function(mod: IRModule, var: GlobalVar, bound: BaseFunc) -> IRModule:
    """The module with `bound` in the place of a function, of which some parameters are known. What calls the
    function gives it all of them, and calls a private copy under another name."""
    old = mod[var]
    if bound is old:
        return mod
    if var not in names_in(*mod.functions.values()):
        return mod.with_functions(mod.functions.with_item(var, bound))
    copy: GlobalVar = replace(var, name_hint=mod.names().fresh(var.name_hint))

    def change(before: Node, after: Any) -> Any:
        return copy if isinstance(before, GlobalVar) and before == var else after

    table = {name: rebuild(bound if name == var else func, change) for name, func in mod.functions.items()}
    table[copy] = rebuild(old.without_attr("global_symbol"), change)
    return mod.with_functions(table)
