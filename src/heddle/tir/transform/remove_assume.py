"""RemoveAssume: promises that earlier passes used go before code generation.

assume(n % 8 == 0); A[0] = 1.0        →        A[0] = 1.0
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import Call
from heddle.prim.ops import const
from heddle.tir.nodes import Evaluate, PrimFunc, SeqStmt, Stmt, seq
from heddle.tir.stmt_rewriter import StmtRewriter


class RemoveAssume(FunctionPass):
    """Drop `assume` statements."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Remover().visit(func.body))


class _Remover(StmtRewriter):
    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        dropped = isinstance(node.value, Call) and node.value.op.name == "tir.assume"
        return Evaluate(const(0)) if dropped else node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        made = [self.visit(stmt) for stmt in node.seq]
        return node if all(a is b for a, b in zip(made, node.seq, strict=True)) else seq(*made)
