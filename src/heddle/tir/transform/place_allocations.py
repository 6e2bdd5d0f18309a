"""PlaceAllocations: each temporary buffer is allocated in the innermost place that encloses all its uses.

alloc T (n, 16)                         for i in range(n):
for i in range(n):               →          alloc T (n, 16)
    T[i, :] = f(A[i, :])                    T[i, :] = f(A[i, :])
    C[i] = g(T[i, :])                       C[i] = g(T[i, :])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeGuard

from heddle.ir.node import children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import LT, Var, is_const_int
from heddle.prim.ops import conjuncts
from heddle.tir.analysis.own_writes import reads_own_writes, stays_apart
from heddle.tir.analysis.views import viewed_memory
from heddle.tir.nodes import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter


class PlaceAllocations(FunctionPass):
    """Requires: no blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)
    requires: ClassVar[tuple[str, ...]] = ("no blocks",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        body = _Placer(viewed_memory(func.body)).visit(func.body)
        return func if body is func.body else func.with_body(body)


class _Placer(StmtRewriter):
    """Moves allocations without annotations inwards from where they stand. One inside a loop is new in each
    iteration already: nothing has to be proved of that loop. What `viewed` names stays where it is."""

    def __init__(self, viewed: frozenset[Var]) -> None:
        self._viewed = viewed
        self._around: tuple[For, ...] = ()

    def visit_For(self, node: For) -> Stmt:
        around, self._around = self._around, (*self._around, node)
        body = self.visit(node.body)
        self._around = around
        return node if body is node.body else replace(node, body=body)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in node.seq]
        moved = [stmt for stmt in parts if self._may_move(stmt)]
        if not moved:
            same = all(a is b for a, b in zip(parts, node.seq, strict=True))
            return node if same else seq(*parts)
        body = seq(*(stmt for stmt in parts if stmt not in moved))
        users = _Users({alloc.buffer for alloc in moved})
        users.collect(body)
        for alloc in moved:
            body = _place(body, alloc, users, self._around)
        return body

    def _may_move(self, stmt: Stmt) -> TypeGuard[AllocBuffer]:
        is_plain = isinstance(stmt, AllocBuffer) and not stmt.annotations
        return is_plain and stmt.buffer.data not in self._viewed  # type: ignore[attr-defined]


class _Users:
    """Which statements use which of some buffers, in themselves or below."""

    def __init__(self, buffers: set[Buffer]) -> None:
        self._buffers = buffers
        self._used: dict[int, frozenset[Buffer]] = {}
        self._kept: list[Any] = []

    def collect(self, node: Any) -> frozenset[Buffer]:
        found = self._used.get(id(node))
        if found is not None:
            return found
        parts = [self.collect(child) for child in children(node)]
        own = {node.buffer} & self._buffers if isinstance(node, (BufferLoad, BufferStore)) else set()
        result = frozenset(own).union(*parts) if parts or own else frozenset()
        self._used[id(node)] = result
        self._kept.append(node)
        return result

    def uses(self, stmt: Stmt, buffer: Buffer) -> bool:
        return buffer in self.collect(stmt)


def _place(stmt: Stmt, alloc: AllocBuffer, users: _Users, around: tuple[For, ...]) -> Stmt:
    """The statement with the allocation in front of the innermost part that holds all uses. `around` are the
    loops outside."""
    path = _path(stmt, alloc.buffer, users)
    return _put(stmt, alloc, users, path[: _depth(path, alloc.buffer, users, around)])


def _path(stmt: Stmt, buffer: Buffer, users: _Users) -> list[For | IfThenElse]:
    """The loops and branches of which each holds all uses in its body, outermost first."""
    found: list[For | IfThenElse] = []
    while True:
        if isinstance(stmt, SeqStmt):
            using = [part for part in stmt.seq if users.uses(part, buffer)]
            if len(using) != 1:
                return found
            stmt = using[0]
        if isinstance(stmt, For):
            if (users.collect(stmt.min) | users.collect(stmt.extent)) & {buffer}:
                return found
            found.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse):
            branch = _only_branch(stmt, buffer, users)
            if branch is None or buffer in users.collect(stmt.condition):
                return found
            found.append(stmt)
            stmt = branch
        elif not isinstance(stmt, SeqStmt):
            return found


def _only_branch(stmt: IfThenElse, buffer: Buffer, users: _Users) -> Stmt | None:
    """The branch that uses a buffer, if the other does not."""
    cases = [case for case in (stmt.then_case, stmt.else_case) if case is not None]
    using = [case for case in cases if users.uses(case, buffer)]
    return using[0] if len(using) == 1 else None


def _depth(path: Sequence[For | IfThenElse], buffer: Buffer, users: _Users, around: tuple[For, ...]) -> int:
    """How many statements of a path the allocation enters.

    Where each iteration of a loop reads only what it wrote, so do those of the loops outside: the innermost
    such loop is looked for. What is in it may be entered where its iterations read nothing of one another.
    """
    loops = [stmt for stmt in path if isinstance(stmt, For)]

    def outside(loop: For) -> tuple[For, ...]:
        return (*around, *loops[: loops.index(loop)])

    depth = 0
    for position in reversed(range(len(path))):
        stmt = path[position]
        if isinstance(stmt, For) and not is_const_int(stmt.extent, 1):
            if not _carries(stmt.body, buffer, users) and reads_own_writes(stmt, buffer, outside(stmt)):
                depth = position + 1
                break
    while depth < len(path):
        stmt = path[depth]
        if isinstance(stmt, For) and not is_const_int(stmt.extent, 1):
            if _carries(stmt.body, buffer, users):
                break
            if stmt.kind is not ForKind.PARALLEL and not stays_apart(stmt, buffer, outside(stmt)):
                break
        depth += 1
    return depth


def _put(stmt: Stmt, alloc: AllocBuffer, users: _Users, path: Sequence[For | IfThenElse]) -> Stmt:
    """The statement with the allocation at the end of a path."""
    buffer = alloc.buffer
    if isinstance(stmt, SeqStmt):
        using = [k for k, part in enumerate(stmt.seq) if users.uses(part, buffer)]
        if not using:
            return stmt
        first = using[0]
        if path:
            return seq(*stmt.seq[:first], _put(stmt.seq[first], alloc, users, path), *stmt.seq[first + 1 :])
        return seq(*stmt.seq[:first], alloc, *stmt.seq[first:])
    if not path:
        return seq(alloc, stmt) if users.uses(stmt, buffer) else stmt
    if isinstance(stmt, For):
        return replace(stmt, body=_put(stmt.body, alloc, users, path[1:]))
    assert isinstance(stmt, IfThenElse)
    branch = _only_branch(stmt, buffer, users)
    assert branch is not None
    name = "then_case" if branch is stmt.then_case else "else_case"
    return replace(stmt, **{name: _put(branch, alloc, users, path[1:])})


def _carries(body: Stmt, buffer: Buffer, users: _Users) -> bool:
    """Whether an iteration seems to read what an earlier one wrote: the first statement that uses the buffer
    reads it, or writes it only under a condition. The quick part of the question."""
    first = _first_user(body, buffer, users)
    if first is None or isinstance(first, SeqStmt):
        return False
    if isinstance(first, IfThenElse):  # one with two branches counts as if it left elements out
        return not _keeps_inside(first, buffer, users) or _carries(first.then_case, buffer, users)
    if isinstance(first, For):
        return _carries(first.body, buffer, users)
    return (isinstance(first, BufferStore) and buffer in users.collect(first.value)) or not isinstance(
        first, BufferStore
    )


def _first_user(body: Stmt, buffer: Buffer, users: _Users) -> Stmt | None:
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    return next((part for part in parts if users.uses(part, buffer)), None)


def _keeps_inside(branch: IfThenElse, buffer: Buffer, users: _Users) -> bool:
    """Whether a condition only asks if a store's index lies inside the buffer: it leaves out no element."""
    store = _first_user(branch.then_case, buffer, users)
    if branch.else_case is not None or not isinstance(store, BufferStore) or store.buffer is not buffer:
        return False
    ends = list(zip(store.indices, buffer.shape, strict=True))
    return all(
        isinstance(part, LT) and any(structural_equal((part.a, part.b), end) for end in ends)
        for part in conjuncts(branch.condition)
    )
