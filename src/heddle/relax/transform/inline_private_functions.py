"""InlinePrivateFunctions: inline calls of private functions that are not recursive.

def main(x): return cls.f(x)                  def main(x):
@R.function(private=True)             →           b = R.add(x, x)
def f(a): b = R.add(a, a); return b               return b
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.graph.copying import Copier
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import match_dims
from heddle.ir.call_graph import is_recursive
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.relax.private_functions import changeable_functions


class InlinePrivateFunctions(Pass):
    """Requires the normal form. Functions with control flow, or called as values, and those that others
    compile (attributes `Primitive`, `Codegen`, `Composite`) stay; inlined ones leave the module.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        private = changeable_functions(mod)
        found = {var: func for var, func in private.items() if _can_be_inlined(var, func, mod)}
        if not found:
            return mod
        rewriter = _Inliner(mod, found)
        for var, func in mod.functions.items():
            if func.dialect == "relax" and var not in found:
                rewriter.update_func(var, rewriter.run(func))
        done = rewriter.get()
        return done.with_functions({var: func for var, func in done.functions.items() if var not in found})


def _can_be_inlined(var: GlobalVar, func: Function, mod: IRModule) -> bool:
    has_control_flow = any(isinstance(node, (If, Function)) for node in walk_distinct(func.body))
    if has_control_flow or is_recursive(mod, var):
        return False
    return not any(key in func.attrs for key in ("Primitive", "Codegen", "Composite"))


class _Inliner(BindingRewriter):
    def __init__(self, mod: IRModule, found: dict[GlobalVar, Function]) -> None:
        super().__init__(mod)
        self._found = found

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or value.op not in self._found:
            return value
        func = self._found[value.op]  # type: ignore[index]
        dims: dict[PrimVar, PrimExpr] = {}
        for param, arg in zip(func.params, value.args, strict=True):
            match_dims(type_of(param), type_of(arg), arg, dims, Analyzer())
        args = dict(zip(func.params, value.args, strict=True))
        copier = _Body(self.scopes[-1].is_dataflow, args, dims)
        body: SeqExpr = copier.visit(func.body)
        for binding in body.bindings():
            self.binding(binding)
        result: Expr = self.substitute(body.body)
        return result


class _Body(Copier):
    """A body for a block of the caller: its variables are of that block's kind."""

    def __init__(self, is_dataflow: bool, args: dict[Var, Expr], dims: dict[PrimVar, PrimExpr]) -> None:
        super().__init__(args, dims)
        self._is_dataflow = is_dataflow

    def define(self, var: Var, is_dataflow: bool = False) -> Var:
        return super().define(var, self._is_dataflow)
