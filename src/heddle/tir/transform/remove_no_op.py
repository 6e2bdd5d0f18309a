"""RemoveNoOp: statements without effect go.

    x = i * 2                      (x is not used)
    for j in 0 .. 4: evaluate(0)                         →      (nothing)
    A[i] = A[i]
    alloc T; decl U over T         (neither is used)

A load is no effect: what only reads is dropped.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import Call, PrimExpr, Var
from heddle.prim.ops import const
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    is_no_op,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter

_NOTHING = Evaluate(const(0), span=None)


class RemoveNoOp(FunctionPass):
    """Repeats until nothing goes any more."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        body = func.body
        while True:
            cleaned = _Remover(_uses(body)).visit(body)
            if cleaned is body:
                return func.with_body(body)
            body = cleaned


def _uses(stmt: Stmt) -> Counter[Any]:
    """How often each variable and pointer is named, definitions of binds and buffers not counted."""
    counts: Counter[Any] = Counter()
    buffers: Counter[Buffer] = Counter()
    node: Any
    for node in walk(stmt):
        kind = type(node)
        if kind is Var:
            counts[node] += 1
        elif kind is Buffer:
            buffers[node] += 1
        elif kind is Bind:
            counts[node.var] -= 1
        elif kind is AllocBuffer or kind is DeclBuffer:
            counts[node.buffer.data] -= 1
    for buffer, times in buffers.items():
        counts[buffer.data] += times
        for size in (*buffer.shape, *buffer.strides):
            counts.update(part for part in walk(size) if type(part) is Var)
    return counts


def has_effect(expr: PrimExpr) -> bool:
    """Whether evaluating an expression changes memory, or may fail on purpose."""
    return any(isinstance(node, Call) and node.op.record.effect == "writes" for node in walk(expr))


class _Remover(StmtRewriter):
    def __init__(self, uses: Counter[Any]) -> None:
        self._uses = uses

    def visit_Bind(self, node: Bind) -> Stmt:
        return node if self._uses[node.var] > 0 or has_effect(node.value) else _NOTHING

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        return node if self._uses[node.buffer.data] > 0 else _NOTHING

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        """A view that nothing uses goes with the memory that it would show."""
        return node if self._uses[node.buffer.data] > 0 else _NOTHING

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        return node if is_no_op(node) or has_effect(node.value) or node.value.dtype.is_handle else _NOTHING

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value = node.value
        if isinstance(value, BufferLoad) and value.buffer is node.buffer:
            if structural_equal(value.indices, node.indices) and value.predicate is node.predicate:
                return _NOTHING
        return node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        made = [self.visit(stmt) for stmt in node.seq]
        same = all(a is b and not is_no_op(a) for a, b in zip(made, node.seq, strict=True))
        return node if same else seq(*made)

    def visit_For(self, node: For) -> Stmt:
        made: For = self.default(node)
        return _NOTHING if is_no_op(made.body) else made

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        made: IfThenElse = self.default(node)
        other = None if made.else_case is None or is_no_op(made.else_case) else made.else_case
        if is_no_op(made.then_case) and other is None and not has_effect(made.condition):
            return _NOTHING
        return made if other is made.else_case else IfThenElse(made.condition, made.then_case, other)
