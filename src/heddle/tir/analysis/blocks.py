"""Find statements, blocks and loop nests inside a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import is_const_int
from heddle.tir.nodes import (
    AttrStmt,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
    statements,
)

_CHILD_STMTS: dict[type[Stmt], Callable[[Any], tuple[Stmt, ...]]] = {
    SeqStmt: lambda stmt: stmt.seq,
    For: lambda stmt: (stmt.body,),
    While: lambda stmt: (stmt.body,),
    AttrStmt: lambda stmt: (stmt.body,),
    SBlockRealize: lambda stmt: (stmt.block,),
    SBlock: lambda stmt: (stmt.body,) if stmt.init is None else (stmt.init, stmt.body),
    IfThenElse: lambda stmt: (
        (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
    ),
}
"""The statements directly inside one of each kind; the others have none."""


def child_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside."""
    inside = _CHILD_STMTS.get(type(stmt))
    return () if inside is None else inside(stmt)


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """All statements at or below, outer ones first, in order of the text."""
    stack = [stmt]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(child_stmts(top)))


def blocks_in(stmt: Stmt) -> list[SBlockRealize]:
    """All blocks of a statement, outer ones first."""
    return [found for found in walk_stmts(stmt) if isinstance(found, SBlockRealize)]


def producers_and_consumers(scope: SBlock) -> list[SBlockRealize]:
    """The blocks directly in a scope, in order of the text."""
    return blocks_below(scope.body)


def blocks_below(stmt: Stmt) -> list[SBlockRealize]:
    """The outermost blocks at or below a statement, in order of the text."""
    found: list[SBlockRealize] = []
    stack: list[Stmt] = [stmt]
    while stack:
        top = stack.pop()
        if isinstance(top, SBlockRealize):
            found.append(top)
        else:
            stack.extend(reversed(child_stmts(top)))
    return found


def plain_nests(func: PrimFunc) -> list[SBlock] | None:
    """Return the blocks of a function whose root contains only perfect nests of one block each. Each block
    runs once for every value of its axes, without conditions. None for any other function."""
    if not isinstance(func.body, SBlockRealize):
        return None
    found: list[SBlock] = []
    for stmt in statements(func.body.block.body):
        loops: list[For] = []
        while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL and not stmt.annotations:
            loops.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, SBlockRealize) or not is_const_int(stmt.predicate, 1):
            return None
        if tuple(loop.loop_var for loop in loops) != stmt.iter_values:
            return None
        if not all(map(_runs_over, loops, stmt.block.iter_vars)):
            return None
        if any(isinstance(node, SBlockRealize) for node in walk_stmts(stmt.block.body)):
            return None
        found.append(stmt.block)
    return found


def _runs_over(loop: For, axis: IterVar) -> bool:
    """Whether a loop takes an axis through its whole domain."""
    return structural_equal((loop.min, loop.extent), (axis.dom.min, axis.dom.extent))
