"""Change signatures of private functions. Only calls inside the module can see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import children
from heddle.ir.visitor import walk_distinct


def changeable_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """Return the private graph functions that are only called and never used as values."""
    private = {
        var: func
        for var, func in mod.functions.items()
        if func.dialect == "relax" and "global_symbol" not in func.attrs
    }
    for func in mod.functions.values():
        for node in walk_distinct(func):
            used = children(node)
            if isinstance(node, Call):  # whose callee may be an argument as well
                used = [*node.args, *(child for child in used if child is not node.op)]
            for value in used:
                if isinstance(value, GlobalVar):
                    private.pop(value, None)
    return private


CallRewrite = Callable[[BindingRewriter, Call], Expr]


class CallSites(BindingRewriter):
    """Rewrites calls of given functions; each function has its own rule."""

    def __init__(self, mod: IRModule, rules: Mapping[GlobalVar, CallRewrite]) -> None:
        super().__init__(mod)
        self._rules = rules

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op in self._rules:
            return self._rules[value.op](self, value)
        return value


def with_new_signatures(
    mod: IRModule, functions: Mapping[GlobalVar, Function], rules: Mapping[GlobalVar, CallRewrite]
) -> IRModule:
    """Replace functions of the module, and rewrite all calls of them."""
    if not functions:
        return mod
    changed = mod.with_functions({var: functions.get(var, func) for var, func in mod.functions.items()})
    sites = CallSites(changed, rules)
    for var, func in changed.functions.items():
        if func.dialect == "relax":
            sites.update_func(var, sites.run(func))
    return sites.get()
