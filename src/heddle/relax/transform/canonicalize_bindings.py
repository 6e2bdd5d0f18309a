"""CanonicalizeBindings: remove variables that only rename values, and replace items of known tuples.

y = x
t = (a, y)                 →       z = R.add(a, x)
z = R.add(t[0], t[1])
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import BaseCheck, base_check
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Constant, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.relax.transform.dead_code_elimination import remove_unused_bindings
from heddle.support.frozen import frozen


@frozen(slots=False)
class CanonicalizeBindings(FunctionPass):
    """Requires the normal form. Bindings that nothing uses any more are removed; `keep_packed_calls` as in
    DeadCodeElimination.
    """

    keep_packed_calls: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        changed = _Canonicalizer(mod).run(func)
        return func if changed is func else remove_unused_bindings(changed, mod, self.keep_packed_calls)


class _Canonicalizer(BindingRewriter):
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._tuples: dict[Var, Tuple] = {}
        self._checks = Analyzer()
        self._promoted: dict[Var, Var] = {}
        self._block_of: dict[Var, BindingBlock] = {}

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """`gv = lv` at the end of a dataflow block: what defines lv defines gv instead."""
        for block in expr.blocks:
            own = {binding.var for binding in block.bindings}
            self._block_of.update(dict.fromkeys(own, block))
            for binding in block.bindings:
                source = binding.value
                is_alias = (
                    type(binding) is VarBinding and isinstance(source, Var) and not binding.var.is_dataflow
                )
                if is_alias and source in own and source.is_dataflow and source not in self._promoted:
                    if structural_equal(source.ty, binding.var.ty):
                        self._promoted[source] = self.renamed[source] = binding.var
        return super().rewrite_sequence(expr)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, TupleGetItem):
            value = self._item(var, value)
        if isinstance(value, Tuple):
            self._tuples[var] = value
        if isinstance(value, (Var, Constant, ShapeExpr)) and self._may_replace(var, value):
            self.renamed[var] = value
            return None
        return value

    def _item(self, var: Var, value: TupleGetItem) -> Expr:
        """The part that `var` is to be, where it is known and can be seen."""
        source = value.tuple_value
        known = self._tuples.get(source) if isinstance(source, Var) else source
        if not isinstance(known, Tuple):
            return value
        part = known.fields[value.index]
        if isinstance(part, Var) and part.is_dataflow and isinstance(source, Var):
            return part if self._block_of.get(var) is self._block_of.get(source) else value
        return part

    def _may_replace(self, var: Var, value: Expr) -> bool:
        """An output of a dataflow block keeps its name while its value is seen only inside the block."""
        if var.ty is not None and not structural_equal(var.ty, type_of(value)):
            return False
        return var.is_dataflow or not (isinstance(value, Var) and value.is_dataflow)

    def binding(self, binding: Binding) -> None:
        source = binding.var
        target = self._promoted.get(source)
        if target is not None:
            binding = replace(binding, var=target)
        elif isinstance(binding.value, Var) and self._promoted.get(binding.value) is binding.var:
            return
        if isinstance(binding, MatchCast):
            value = self.substitute(binding.value)
            surely = base_check(binding.ty, type_of(value), self._checks) is BaseCheck.PASS
            if surely and isinstance(value, Var) and structural_equal(binding.var.ty, type_of(value)):
                if self._may_replace(binding.var, value):
                    self.renamed[binding.var] = value
                    return
        super().binding(binding)
        if target is not None and target in self.renamed:  # made anew, since its value's type became another
            self.renamed[source] = self.renamed[target]
