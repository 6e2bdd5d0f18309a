"""HoistIndexChecks: indices that some loops of a nest do not change are checked once, before the nest.

    for i in 0 .. n (parallel):              if n > 0:
        for j in 0 .. k:                         for j in 0 .. k:
            A[i, j] = B[i, checked(I[j], m)]  →      require(I[j], m)
                                             for i in 0 .. n (parallel):
                                                 for j in 0 .. k:
                                                     A[i, j] = B[i, I[j] + m if I[j] < 0 else I[j]]

Only checks that every iteration makes move, and only where the function writes to nothing that the index is
read from. A nest that does not run checks nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import Node, children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.prim.checked_index import is_index_check, require_index
from heddle.prim.nodes import And, Call, Let, Or, PrimExpr, Select, Var, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import greater, select
from heddle.prim.substitute import free_vars
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import (
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter

_CASES = (Select, And, Or)


class HoistIndexChecks(FunctionPass):
    """Requires: no blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)
    requires: ClassVar[tuple[str, ...]] = ("no blocks",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        nodes = list(walk_distinct(func.body))
        if not any(map(is_index_check, nodes)):
            return func
        written = {node.buffer.data for node in nodes if isinstance(node, BufferStore)}
        return func.with_body(_Hoister(written).visit(func.body))


class _Hoister(StmtRewriter):
    def __init__(self, written: set[Var]) -> None:
        self._written = written

    def visit_For(self, node: For) -> Stmt:
        loops, store = [node], node.body
        while isinstance(store, For):
            loops.append(store)
            store = store.body
        if not isinstance(store, BufferStore):
            body = self.visit(node.body)
            return node if body is node.body else replace(node, body=body)
        exprs = (*store.indices, store.value)
        checks = [check for expr in exprs for check in _always(expr) if self._can_move(check)]
        moved = _outside(loops, checks)
        if not moved:
            return node
        made: Stmt = _Plain(moved).visit(store)
        for loop in reversed(loops):
            made = replace(loop, body=made)
        return seq(*(_checking(loops, check) for check in _distinct(moved)), made)

    def _can_move(self, check: Call) -> bool:
        """Whether nothing that the check reads changes while the function runs."""
        nodes = list(walk_distinct(check))
        reads = [node for node in nodes if isinstance(node, BufferLoad)]
        calls = [node for node in nodes if isinstance(node, Call) and node is not check]
        return (
            len(check.args) == 3
            and not any(node.buffer.data in self._written or node.predicate is not None for node in reads)
            and all(call.op.record.is_pure and not is_index_check(call) for call in calls)
        )


def _outside(loops: list[For], checks: list[Call]) -> list[Call]:
    """The checks that some loop does not change, and another does. None where one loop's turns depend on
    another's: before the nest it is not known which turn at all."""
    own, found = {loop.loop_var for loop in loops}, []
    if own & {var for loop in loops for var in free_vars(loop.min, loop.extent)}:
        return []
    for check in checks:
        used = [loop for loop in loops if loop.loop_var in free_vars(check)]
        if used and len(used) < len(loops):
            found.append(check)
    return found


def _always(expr: PrimExpr) -> list[Call]:
    """The checks in an expression that are made whenever it is evaluated."""
    found: list[Call] = []
    pending: list[Node] = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.op.name == "tir.if_then_else":
            pending.append(node.args[0])
        elif isinstance(node, _CASES):
            pending.append(node.condition if isinstance(node, Select) else node.a)
        elif isinstance(node, Let):
            pending.append(node.value)  # what the body checks may need the variable
        else:
            if is_index_check(node):
                found.append(node)
            pending += [child for child in children(node) if isinstance(child, PrimExpr)]
    return found


def _distinct(checks: list[Call]) -> list[Call]:
    found: list[Call] = []
    for check in checks:
        if not any(structural_equal(check, known) for known in found):
            found.append(check)
    return found


def _checking(loops: list[For], check: Call) -> Stmt:
    """The check in each iteration of the loops that change it, if the others turn at all."""
    free = free_vars(check)
    made: Stmt = Evaluate(require_index(check))
    idle = []
    for loop in reversed(loops):
        if loop.loop_var in free:
            made = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, made)
        else:
            idle.append(greater(loop.extent, constant(0, loop.extent.dtype)))
    condition = all_of(*idle) if idle else None
    made = with_fresh_definitions(made)
    return made if condition is None or is_const_int(condition, 1) else IfThenElse(condition, made)


class _Plain(Rewriter):
    """Positions whose indices were checked."""

    def __init__(self, checked: list[Call]) -> None:
        self._checked = checked

    def visit_Call(self, node: Call) -> Any:
        if not any(structural_equal(node, check) for check in self._checked if is_index_check(node)):
            return self.default(node)
        index, size = node.args[0], node.args[1]
        assert isinstance(index, PrimExpr) and isinstance(size, PrimExpr)
        return select(index < 0, index + size, index) if is_const_int(node.args[2], 1) else index
