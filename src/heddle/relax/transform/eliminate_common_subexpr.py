"""EliminateCommonSubexpr: compute equal pure values only once.

a = R.exp(x)
b = R.exp(x)              →       a = R.exp(x)
c = R.add(a, b)                   c = R.add(a, a)
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.nodes import BindingBlock, SeqExpr
from heddle.graph.normalize import is_impure_call, is_unknown_call, known_functions
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.structural import structural_digest, structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.runtime.tensor import Tensor
from heddle.support.frozen import frozen

LARGE_BYTES = 1024
"""Larger constants are equal only if they are the same object: comparing all weights takes too long."""


def _is_large(value: Any) -> bool:
    return isinstance(value, Tensor) and value.size_bytes > LARGE_BYTES


@frozen(slots=False)
class EliminateCommonSubexpr(FunctionPass):
    """`call_only` leaves tuples and items of tuples alone."""

    call_only: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Eliminator(mod, self.call_only, known_functions(func)).run(func)


class _Eliminator(BindingRewriter):
    def __init__(self, mod: Any, call_only: bool, known: set[Var]) -> None:
        super().__init__(mod)
        self._known = known
        self._kinds = (Call,) if call_only else (Call, Tuple, TupleGetItem)
        self._seen: dict[bytes, Var] = {}

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """What a branch computes is not known after it."""
        before = dict(self._seen)
        result = super().rewrite_sequence(expr)
        self._seen = before
        return result

    def rewrite_block(self, block: BindingBlock) -> None:
        """The variables of a dataflow block are not known after it, but for its outputs."""
        super().rewrite_block(block)
        if block.is_dataflow:
            self._seen = {key: var for key, var in self._seen.items() if not var.is_dataflow}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        is_effect = is_impure_call(value, self.mod) or is_unknown_call(value, self._known)
        if not isinstance(value, self._kinds) or is_effect:
            return value
        key = structural_digest(value, by_identity=_is_large)
        found = self._seen.get(key)
        is_apart = found is not None and not structural_equal(found.ty, var.ty)  # on another device, say
        if found is None or is_apart:
            self._seen.setdefault(key, var)
            return value
        if found.is_dataflow and not var.is_dataflow:
            self._seen[key] = var
            return value
        self.renamed[var] = found
        return None
