"""HoistIfThenElse: a condition that a loop does not change is decided before the loop.

    for i in 0 .. n:                       if m > 4:
        if m > 4:                              for i in 0 .. n:
            A[i] = 1.0             →               A[i] = 1.0
        else:                              else:
            A[i] = 2.0                         for i in 0 .. n:
                                                   A[i] = 2.0

Only where the branch is the whole body, and its condition reads no memory and cannot fail. Parallel loops
keep their branch inside: a loop more is a launch more.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import BufferLoad, For, ForKind, IfThenElse, PrimFunc
from heddle.tir.stmt_rewriter import StmtRewriter


class HoistIfThenElse(FunctionPass):
    """Inner loops first, so that a condition moves out as far as it can."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Hoister().visit(func.body))


def cannot_fail(expr: PrimExpr) -> bool:
    """Whether evaluating an expression early is safe: no loads, no calls with effects, no division by what
    may be 0.
    """
    for node in walk(expr):
        if isinstance(node, BufferLoad) or (isinstance(node, Call) and not node.op.record.is_pure):
            return False
        if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and not isinstance(node.b, IntImm):
            return False
    return True


class _Hoister(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        body = self.visit(node.body)
        if body is not node.body:
            node = replace(node, body=body)
        branch = node.body
        movable = node.kind not in (ForKind.THREAD_BINDING, ForKind.PARALLEL)
        if not movable or not isinstance(branch, IfThenElse):
            return node
        varies = any(part is node.loop_var for part in walk(branch.condition))
        if varies or not cannot_fail(branch.condition):
            return node
        then = replace(node, body=branch.then_case)
        if branch.else_case is None:
            return IfThenElse(branch.condition, then)
        return IfThenElse(
            branch.condition, then, with_fresh_definitions(replace(node, body=branch.else_case))
        )
