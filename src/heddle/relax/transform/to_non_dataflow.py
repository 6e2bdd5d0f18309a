"""ToNonDataflow: convert dataflow blocks to ordinary blocks, because later passes add side effects.

with R.dataflow():
    lv = R.add(x, x)            →      lv = R.add(x, x)
    R.output(lv)
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Function, Var
from heddle.ir.transform import FunctionPass, PassContext


class ToNonDataflow(FunctionPass):
    """Establishes: no dataflow blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)
    establishes: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Flatten().run(func)


class _Flatten(BindingRewriter):
    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """One ordinary block of all bindings."""
        if not any(block.is_dataflow for block in expr.blocks) and len(expr.blocks) <= 1:
            return super().rewrite_sequence(expr)
        with self.scope() as scope:
            for binding in expr.bindings():
                self.binding(binding)
            result = self.leaf(self.substitute(expr.body))
            scope.close_block()
        return SeqExpr(tuple(scope.blocks), result, type_of(result), span=expr.span)

    def binding(self, binding: Binding) -> None:
        super().binding(binding)
        var = binding.var
        if not var.is_dataflow:
            return
        plain = Var(var.name_hint, var.ty, False, span=var.span)
        last = self.scopes[-1].bindings.pop()
        made = (
            MatchCast(plain, last.value, last.ty, span=last.span)
            if isinstance(last, MatchCast)
            else VarBinding(plain, last.value, span=last.span)
        )
        self.scopes[-1].bindings.append(made)
        self.renamed[var] = plain
