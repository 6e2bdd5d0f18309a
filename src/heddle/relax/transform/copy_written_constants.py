"""CopyWrittenConstants: a call that writes its result over an operand never gets a constant for it.

s = R.reshape(const, (2, 2))                       s = R.reshape(const, (2, 2))
y = R.call_tir_inplace(cls.f, (s, x),              c = R.call_tir(cls.copied, (s,), out_ty=...)
        inplace_indices=[0], out_ty=...)     →     y = R.call_tir_inplace(cls.f, (c, x),
                                                           inplace_indices=[0], out_ty=...)

Constants belong to the program: every machine that runs it reads them, in this call and the next. An operand
need not have been one when the program was written, for what is known is computed when it is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from heddle.graph.nodes import SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Call, Constant, Expr, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.te import Tensor, compute

_VIEWS = ("relax.reshape", "relax.memory.view", "relax.call_pure_packed", "relax.flatten", "relax.squeeze")
"""What may give a part of its operand's memory."""


@dataclass(frozen=True)
class CopyWrittenConstants(Pass):
    """Requires: the normal form. Its place is after the last pass that folds or fuses."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        rewriter = _Rewriter(mod)
        for var, func in mod.functions.items():
            if func.dialect == "relax" and any(
                is_call(node, "relax.call_tir_inplace") for node in walk(func)
            ):
                rewriter.values = {
                    node.var: node.value for node in walk(func) if isinstance(node, VarBinding)
                }
                rewriter.update_func(var, rewriter.run(func))
        return rewriter.get() if rewriter.changed else mod


class _Rewriter(BindingRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.values: dict[Var, Expr] = {}
        self.changed = False

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not is_call(value, "relax.call_tir_inplace"):
            return value
        assert isinstance(value, Call) and isinstance(value.args[1], Tuple)
        fields = list(value.args[1].fields)
        for index in {index for index in value.attrs.inplace_indices if index >= 0}:
            if self._may_be_constant(fields[index]):
                fields[index] = self.emit(self.call_te(copied, fields[index]))
        if all(new is old for new, old in zip(fields, value.args[1].fields, strict=True)):
            return value
        self.changed = True
        return replace(value, args=(value.args[0], Tuple(tuple(fields)), *value.args[2:]))

    def _may_be_constant(self, expr: Expr) -> bool:
        pending, seen = [expr], set[Expr]()
        while pending:
            found = pending.pop()
            if isinstance(found, Constant):
                return True
            if found in seen:
                continue
            seen.add(found)
            if isinstance(found, Var) and found in self.values:
                pending.append(self.values[found])
            elif isinstance(found, TupleGetItem):
                pending.append(found.tuple_value)
            elif isinstance(found, Tuple):
                pending += found.fields
            elif isinstance(found, If):
                pending += [found.true_branch, found.false_branch]
            elif isinstance(found, Call) and any(is_call(found, name) for name in _VIEWS):
                pending += found.args
            elif isinstance(found, SeqExpr):
                pending.append(found.body)
        return False


def copied(x: Tensor) -> Any:
    """The same elements in memory of their own."""
    return compute(x.shape, lambda *index: x[index], name="copy")
