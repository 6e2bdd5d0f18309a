"""UnrollLoop: loops of kind UNROLLED, and short ones that would keep a local buffer out of registers →
copies.

    for i in 0 .. 2 (unrolled):              acc[0] = 0.0
        acc[i] = 0.0                 →       acc[1] = 0.0

A loop whose extent is not constant stays, as a serial loop, and so does one that would take the copies of its
function beyond `MAX_COPIES`: one word of a text would decide how long it is compiled. Serial loops are
unrolled too where
- their variable indexes a local allocation (only constant indices let LLVM keep it in registers), or
- the option `tir.UnrollLoop.auto_max_step`, or the pragma annotation `pragma_auto_unroll_max_step`, allows
  the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext, declare_config
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, Var
from heddle.prim.ops import const
from heddle.support.frozen import frozen
from heddle.tir.allocation import MAX_STACK_BYTES, is_on_stack, size_bytes
from heddle.tir.analysis.blocks import child_stmts, walk_stmts
from heddle.tir.fresh_definitions import definitions, with_fresh_definitions
from heddle.tir.nodes import AllocBuffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Stmt, seq
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.substitute import substitute_stmt

AUTO_MAX_STEP = declare_config(
    "tir.UnrollLoop.auto_max_step", "unroll serial loops of at most this many steps", int, 0
)
PRAGMA = "pragma_auto_unroll_max_step"
MAX_REGISTER_BUFFER_BYTES = 512
"""Buffers up to this size are meant for registers, unless they are said to lie in the workspace. It is what
16 vector registers of 32 bytes hold. A larger buffer is meant for registers if its scope is "local", which
schedules give to accumulators. A packed copy of an operand has another scope: its size does not decide
whether the sum over it is unrolled."""
MAX_COPIES = 2048
"""Statements that the unrolled loops of a function become, all together. Schedules ask for some hundreds."""
MAX_STEPS = 1024
"""Loops are unrolled for registers' sake only up to this many statements."""


@frozen(slots=False)
class UnrollLoop(FunctionPass):
    """`auto_max_step` of 0 leaves serial loops alone unless a local buffer asks for it."""

    auto_max_step: int = option(0, at_least=0)
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        limit = ctx.config.get(AUTO_MAX_STEP, self.auto_max_step)
        local = {
            node.buffer.data
            for node in walk_stmts(func.body)
            if isinstance(node, AllocBuffer) and _is_register_buffer(node)
        }
        return func.with_body(_Unroller(limit, local).visit(func.body))


def _is_register_buffer(alloc: AllocBuffer) -> bool:
    size = size_bytes(alloc.buffer)
    if size is None or not is_on_stack(alloc):
        return False
    return size <= (MAX_STACK_BYTES if alloc.buffer.scope == "local" else MAX_REGISTER_BUFFER_BYTES)


@dataclass
class _Unroller(StmtRewriter):
    limit: int
    local: set[Var]
    _pragma: list[int] = field(default_factory=list)
    _left: int = MAX_COPIES

    def visit_For(self, node: For) -> Any:
        pragma = node.annotations.get(PRAGMA)
        if pragma is not None:
            self._pragma.append(int(pragma))
        body = self.visit(node.body)
        if pragma is not None:
            self._pragma.pop()
        if body is not node.body:
            node = replace(node, body=body)
        steps = num_steps(node)
        if isinstance(node.extent, IntImm) and steps <= self._left and self._wants(node, steps):
            self._left -= steps
            return unrolled(node)
        return replace(node, kind=ForKind.SERIAL) if node.kind is ForKind.UNROLLED else node

    def _wants(self, node: For, steps: int) -> bool:
        if node.kind is ForKind.UNROLLED:
            return True
        if node.kind is not ForKind.SERIAL or node.annotations.get("disable_unroll"):
            return False
        limit = self._pragma[-1] if self._pragma else self.limit
        return steps <= limit or (steps <= MAX_STEPS and self._indexes_local(node))

    def _indexes_local(self, node: For) -> bool:
        for access in walk(node.body):
            if isinstance(access, (BufferLoad, BufferStore)) and access.buffer.data in self.local:
                if any(part is node.loop_var for index in access.indices for part in walk(index)):
                    return True
        return False


def num_steps(stmt: Stmt) -> int:
    """Statements that run without control flow, loops of constant extent multiplied."""
    below = sum(map(num_steps, child_stmts(stmt)))
    if isinstance(stmt, For):
        return below * (stmt.extent.value if isinstance(stmt.extent, IntImm) else 1)
    return max(below, 1)


def unrolled(node: For) -> Stmt:
    """The iterations of a loop of constant extent, one after the other."""
    assert isinstance(node.extent, IntImm)
    defined, copies = definitions(node.body), []
    for step in range(node.extent.value):
        value = node.min + const(step, node.loop_var.dtype)
        body = with_fresh_definitions(node.body, defined) if step else node.body
        copies.append(substitute_stmt(body, {node.loop_var: value}))
    return seq(*copies)
