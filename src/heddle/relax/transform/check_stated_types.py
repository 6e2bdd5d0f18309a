"""CheckStatedTypes: check stated types of values at run time, unless they are proved.

def main(x: R.Tensor(ndim=2), n: R.Prim)           def main(x: R.Tensor(ndim=2), n: R.Prim)
    y: R.Tensor((n, 4)) = R.exp(x)            →        y_1 = R.exp(x)
    z = R.call_tir(cls.f, (y,), ...)                   y = R.match_cast(y_1, R.Tensor((n, 4)))
                                                       y_2 = R.match_cast(y, R.Tensor((3, 4)))  # what f takes
                                                       z = R.call_tir(cls.f, (y_2,), ...)

Later passes trust types: they plan memory and fuse loops by them. A type that no value can have is a finding
of the verifier (R0307). Types of function values are trusted, because a function has no type at run time.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.claims import Claim, can_be_checked, loop_call_claims, operands_of
from heddle.graph.nodes import Binding, MatchCast
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import BaseCheck
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Call, Expr, Function, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import Type


class CheckStatedTypes(FunctionPass):
    """Requires: a program that verifies. Establishes: bindings state what is known of their values."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Checker(mod).run(func)


class _Checker(BindingRewriter):
    def binding(self, binding: Binding) -> None:
        var = binding.var
        known = binding.ty if isinstance(binding, MatchCast) else getattr(binding.value, "ty", None)
        if isinstance(binding.value, Function) or var.ty is None or known is None or var.ty is known:
            super().binding(binding)
            return
        if not self._is_open(Claim(var.name_hint, var.ty, known)):
            super().binding(binding)
            return
        first = Var(self.names.fresh(var.name_hint), known, self._scope().is_dataflow, span=var.span)
        super().binding(_with_variable(binding, first))
        self.add(MatchCast(var, self.leaf(self.substitute(first)), var.ty, span=binding.span))

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call):
            return value
        checked: dict[int, Expr] = {}
        operands = operands_of(value)
        for claim in loop_call_claims(value, self.mod or IRModule()):
            if not self._is_open(claim):
                continue
            if claim.operand is None:
                self._match_sizes(claim)
            else:
                operand = checked.get(claim.operand, operands[claim.operand])
                checked[claim.operand] = self.match_cast(operand, self._stated(claim), claim.who.split()[-1])
        if not checked:
            return value
        given = Tuple(tuple(checked.get(k, arg) for k, arg in enumerate(operands)))
        made: Call = replace(value, args=(value.args[0], given, *value.args[2:]), ty=None)
        return made

    def _is_open(self, claim: Claim) -> bool:
        return can_be_checked(claim.stated) and claim.check(self.analyzer) is BaseCheck.FAIL_L2

    def _match_sizes(self, claim: Claim) -> None:
        """The sizes that a result is allocated with are those that the loop function writes."""
        stated, known = claim.stated, claim.known
        if isinstance(stated, TensorType) and isinstance(known, TensorType) and stated.dims and known.dims:
            self.match_cast(ShapeExpr(known.dims), ShapeType(stated.dims), "sizes")

    @staticmethod
    def _stated(claim: Claim) -> Type:
        """The type to be matched: on the device where the value is."""
        stated = claim.stated
        if isinstance(stated, TensorType) and isinstance(claim.known, TensorType):
            return TensorType(stated.shape, stated.dtype, claim.known.vdevice, stated.ndim)
        return stated


def _with_variable(binding: Binding, var: Var) -> Binding:
    changed: Binding = replace(binding, var=var)
    return changed
