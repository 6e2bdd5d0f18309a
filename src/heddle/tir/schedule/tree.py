"""Finding and replacing statements in a loop function.

Loops are named by their variable, blocks by their name; both are unique in a function. Every edit gives a
new function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var
from heddle.prim.ops import conjuncts
from heddle.support.diagnostics import Code
from heddle.support.frozen import frozen
from heddle.support.names import NameSupply
from heddle.tir.analysis.blocks import blocks_below, blocks_in, child_stmts
from heddle.tir.codes import T0401, T0402
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import (
    AttrStmt,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.stmt_rewriter import StmtRewriter


@frozen
class Place:
    """A statement and the statements around it, the function's body first."""

    stmt: Any
    ancestors: tuple[Stmt, ...]

    def loops(self) -> list[For]:
        """The loops around the statement inside its nearest enclosing block, outermost first."""
        found: list[For] = []
        for ancestor in reversed(self.ancestors):
            if isinstance(ancestor, SBlock):
                break
            if isinstance(ancestor, For):
                found.append(ancestor)
        return found[::-1]

    def scope_block(self) -> SBlock | None:
        """The nearest enclosing block."""
        return next((a for a in reversed(self.ancestors) if isinstance(a, SBlock)), None)


def places(func: PrimFunc) -> Iterator[Place]:
    """The places of all statements, outer ones first, in order of the text."""
    stack: list[Stmt | None] = [func.body]
    above: list[Stmt] = []
    while stack:
        top = stack.pop()
        if top is None:  # the end of what is inside the last one of `above`
            above.pop()
            continue
        yield Place(top, tuple(above))
        inside = child_stmts(top)
        if inside:
            above.append(top)
            stack.append(None)
            stack.extend(reversed(inside))


def find(func: PrimFunc, test: Callable[[Stmt], bool]) -> Place | None:
    """The first statement that passes a test, outer ones first."""
    return next((place for place in places(func) if test(place.stmt)), None)


@lru_cache(maxsize=16)
def _named_places(func: PrimFunc) -> dict[str | Var, Place]:
    """The first place of each block by its name, and of each loop by its variable: schedule rules ask for
    the same ones many times."""
    found: dict[str | Var, Place] = {}
    for place in places(func):
        if isinstance(place.stmt, SBlockRealize):
            found.setdefault(place.stmt.block.name_hint, place)
        elif isinstance(place.stmt, For):
            found.setdefault(place.stmt.loop_var, place)
    return found


def find_loop(func: PrimFunc, var: Var) -> Place:
    """The place of the loop with this variable. Raises: ScheduleError T0401."""
    place = _named_places(func).get(var)
    if place is None:
        raise ScheduleError(T0401, f"loop {var.name!r} is not in the function any more", func)
    return place


def find_block(func: PrimFunc, name: str) -> Place:
    """The realization of a block."""
    place = _named_places(func).get(name)
    if place is None:
        known = [realize.block.name_hint for realize in blocks_in(func.body)]
        raise ScheduleError(T0402, f"no block is called {name!r}; there are {', '.join(known)}", func)
    return place


def replace_stmt(func: PrimFunc, old: Stmt, new: Stmt | None) -> PrimFunc:
    """The function with one statement replaced; None removes it (and loops left empty by that)."""
    return func.with_body(_replace(func.body, old, new) or seq())


def _replace(stmt: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    if stmt is old:
        return new
    if isinstance(stmt, SeqStmt):
        parts = [_replace(part, old, new) for part in stmt.seq]
        if all(a is b for a, b in zip(parts, stmt.seq, strict=True)):
            return stmt
        kept = [part for part in parts if part is not None]
        return seq(*kept) if kept else None
    if isinstance(stmt, SBlockRealize):
        block = _replace_in_block(stmt.block, old, new)
        return stmt if block is stmt.block else replace(stmt, block=block)
    if isinstance(stmt, SBlock):
        return _replace_in_block(stmt, old, new)
    if isinstance(stmt, (For, While, AttrStmt)):
        body = _replace(stmt.body, old, new)
        if body is stmt.body:
            return stmt
        return None if body is None else replace(stmt, body=body)
    if isinstance(stmt, IfThenElse):
        then_case = _replace(stmt.then_case, old, new) or seq()
        else_case = None if stmt.else_case is None else _replace(stmt.else_case, old, new)
        same = then_case is stmt.then_case and else_case is stmt.else_case
        return stmt if same else replace(stmt, then_case=then_case, else_case=else_case)
    return stmt


def _replace_in_block(block: SBlock, old: Stmt, new: Stmt | None) -> SBlock:
    if block is old and isinstance(new, SBlock):
        return new
    body = _replace(block.body, old, new)
    init = None if block.init is None else _replace(block.init, old, new)
    if body is block.body and init is block.init:
        return block
    return replace(block, body=body or seq(), init=init)


def statement_before(func: PrimFunc, block_name: str) -> Stmt:
    """The statement of the enclosing block's sequence that holds a block: where to put what runs before."""
    place = find_block(func, block_name)
    held = (*place.ancestors, place.stmt)
    depth = max((k for k, stmt in enumerate(place.ancestors) if isinstance(stmt, SBlock)), default=-1)
    top = held[depth + 1]
    found: Stmt = held[depth + 2] if isinstance(top, SeqStmt) else top
    return found


def root_block(func: PrimFunc) -> SBlock:
    """The outermost block, which holds the function's buffers."""
    if not isinstance(func.body, SBlockRealize):
        raise ScheduleError(T0402, "the function has no root block", func)
    return func.body.block


def scope_of(func: PrimFunc, place: Place) -> SBlock:
    """The innermost block around a place."""
    return place.scope_block() or root_block(func)


def fresh_block_name(func: PrimFunc, hint: str) -> str:
    """A name that no block of the function has."""
    return NameSupply(realize.block.name_hint for realize in blocks_in(func.body)).fresh(hint)


def fresh_copy(func: PrimFunc, stmt: Stmt) -> Stmt:
    """A copy of a statement to stand beside it: all that it defines is new, its blocks have other names."""
    names = NameSupply(realize.block.name_hint for realize in blocks_in(func.body))
    made: Stmt = _BlocksNamed(names).visit(with_fresh_definitions(stmt))
    return made


class _BlocksNamed(StmtRewriter):
    """Gives each block another name, which may be an old one of another block in the same statement."""

    def __init__(self, names: NameSupply) -> None:
        self._names = names

    def visit_SBlock(self, node: SBlock) -> Any:
        name = self._names.fresh(node.name_hint)
        return replace(self.default(node), name_hint=name)


def add_buffers(func: PrimFunc, scope: SBlock, *buffers: Buffer) -> PrimFunc:
    """The function with more buffers allocated by a block."""
    return replace_stmt(func, scope, replace(scope, alloc_buffers=(*scope.alloc_buffers, *buffers)))


def sole_block(func: PrimFunc, loop: For, code: Code) -> tuple[list[For], SBlockRealize]:
    """The loops from `loop` down to the one block in them, without other statements between.

    Raises: ScheduleError of the given code where the block is not alone.
    """
    loops = [loop]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    realize = loops[-1].body
    if not isinstance(realize, SBlockRealize):
        count = len(blocks_below(loop))
        raise ScheduleError(
            code, f"loop {loop.loop_var.name!r} holds {count} blocks, expected one block alone", func, loop
        )
    return loops, realize


def reads_buffer(block: SBlock, buffer: Buffer) -> bool:
    """Whether a block says that it reads a buffer."""
    return any(region.buffer is buffer for region in block.reads)


def writes_buffer(block: SBlock, buffer: Buffer) -> bool:
    """Whether a block says that it writes a buffer."""
    return any(region.buffer is buffer for region in block.writes)


HOLDS = "holds"
"""The annotation of a loop: a condition that holds wherever the loop has an iteration."""


def analyzer_at(place: Place) -> Analyzer:
    """An analyzer that knows the ranges of the loops and block axes around a place, and what holds in the
    loops."""
    analyzer = Analyzer()
    for ancestor in place.ancestors:
        if isinstance(ancestor, For):
            enter_loop(analyzer, ancestor)
        elif isinstance(ancestor, SBlock):
            for axis in ancestor.iter_vars:
                analyzer.bind(axis.var, axis.dom)
    return analyzer


def enter_loop(analyzer: Analyzer, loop: For) -> None:
    """Tell an analyzer what is known in each iteration of a loop."""
    analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), allow_override=True)
    if HOLDS in loop.annotations:
        analyzer.assume(loop.annotations[HOLDS])


def conditions_on_axes(realize: SBlockRealize) -> list[PrimExpr]:
    """What a block runs under besides the ends of its axes, in terms of its axes where they stand for what
    the loops say."""
    block = realize.block
    ends = [axis.var < axis.dom.end for axis in block.iter_vars]
    in_axes = _Replaced(realize.iter_values, tuple(axis.var for axis in block.iter_vars))
    found: list[PrimExpr] = [in_axes.visit(condition) for condition in conjuncts(realize.predicate)]
    return [condition for condition in found if not any(structural_equal(condition, end) for end in ends)]


class _Replaced(Rewriter):
    """Expressions in the place of others."""

    def __init__(self, old: tuple[PrimExpr, ...], new: tuple[PrimExpr, ...]) -> None:
        super().__init__()
        self._pairs = [pair for pair in zip(old, new, strict=True) if not isinstance(pair[0], IntImm)]

    def visit(self, node: Any) -> Any:
        for old, new in self._pairs:
            if structural_equal(node, old):
                return new
        return super().visit(node)
