"""Whether a block that runs elsewhere comes before and behind the others as it did.

    for o in range(4):                        `B` may leave the loop: what later iterations write of `T` is
        for j in range(3): T[o, j] = ...      nothing that it reads. With `T[j]` it may not.
        for j in range(3): B[o, j] = T[o, j]

    for j in range(4): B[j] = A[j]            `B` may not move into the loop: `X` of earlier iterations
    for i in range(4):                        would write what it reads.
        C[i] = B[i]
        X: A[i + 1] = 0

What a block touches is what its statements, predicate and axes' values do, and what it declares. Statements
outside of blocks, conditions and bounds of loops count too; buffers of one pointer are one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from heddle.ir.node import Node, children
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import Call, Select, Var
from heddle.support.frozen import frozen
from heddle.tir.analysis.blocks import blocks_in, child_stmts
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
)
from heddle.tir.schedule.independence import is_unit, may_meet
from heddle.tir.schedule.tree import Place


@frozen
class Touched:
    """The buffers that something reads and those that it writes. `variables` are those that it names, where
    anybody asks for them."""

    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    variables: frozenset[Var] = frozenset()


@frozen
class Neighbour:
    """Another block without blocks in it, or a statement outside of such blocks; the loops around it, and
    whether it is behind the block that moves. `block` is None for a statement."""

    name: str
    block: SBlock | None
    loops: tuple[For, ...]
    is_behind: bool
    touched: Touched
    in_body: Touched
    """Of a block, without its predicate and the values of its axes."""


def loops_around(place: Place) -> tuple[For, ...]:
    """All loops around a place, those outside of blocks too, outermost first."""
    return tuple(stmt for stmt in place.ancestors if isinstance(stmt, For))


@lru_cache(maxsize=1024)
def touched_by(node: Node) -> Touched:
    """What a node touches, with all that is in it."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    variables: set[Var] = set()
    seen: set[int] = set()
    left: list[Node] = [node]
    if isinstance(node, SBlockRealize):  # the block is asked for too
        inside = touched_by(node.block)
        reads, writes, variables = set(inside.reads), set(inside.writes), set(inside.variables)
        left = [node.predicate, *node.iter_values]
    while left:
        part = left.pop()
        if part.is_leaf or id(part) in seen:
            if isinstance(part, Var):
                variables.add(part)
            continue
        seen.add(id(part))
        if isinstance(part, BufferLoad):
            reads.add(part.buffer)
        elif isinstance(part, BufferStore):
            writes.add(part.buffer)
        elif isinstance(part, SBlock):
            reads |= {region.buffer for region in part.reads}
            writes |= {region.buffer for region in part.writes}
            sources = {match.source.buffer for match in part.match_buffers}
            reads, writes = reads | sources, writes | sources
        elif isinstance(part, Evaluate) and not is_prefetch(part.value):
            writes |= {each.buffer for each in walk_distinct(part.value) if isinstance(each, BufferLoad)}
        left += children(part)
    return Touched(frozenset(reads), frozenset(writes), frozenset(variables))


def _touched_itself(stmt: Stmt) -> Touched:
    """What a statement touches, without the statements in it."""
    below = [child for child in children(stmt) if not (child.is_leaf or isinstance(child, (Stmt, Buffer)))]
    reads = frozenset[Buffer]().union(*(touched_by(child).reads for child in below))
    if isinstance(stmt, SBlock):
        sources = frozenset(match.source.buffer for match in stmt.match_buffers)
        return Touched(sources, sources)
    if isinstance(stmt, BufferStore):
        return Touched(reads, frozenset((stmt.buffer,)))
    if isinstance(stmt, Evaluate):
        return Touched(frozenset(), frozenset()) if is_prefetch(stmt.value) else Touched(reads, reads)
    return Touched(reads, frozenset())


def neighbours(func: PrimFunc, own: Place) -> list[Neighbour]:
    """The other blocks of a function, and the statements outside of them, in order of the text."""
    found: list[Neighbour] = []
    is_behind = False
    around = set(map(id, own.ancestors))
    loops: list[For] = []
    left: list[Stmt | None] = [func.body]
    while left:
        stmt = left.pop()
        if stmt is None:  # the end of what is inside the last one of `loops`
            loops.pop()
        elif stmt is own.stmt:
            is_behind = True
        elif isinstance(stmt, SBlockRealize) and not blocks_in(stmt.block.body):
            block, touched = stmt.block, touched_by(stmt)
            found.append(
                Neighbour(block.name_hint, block, tuple(loops), is_behind, touched, touched_by(block))
            )
        else:
            if id(stmt) not in around and not isinstance(stmt, SeqStmt):
                touched = _touched_itself(stmt)
                if touched.reads or touched.writes:
                    name = type(stmt).__name__
                    found.append(Neighbour(name, None, tuple(loops), is_behind, touched, touched))
            if isinstance(stmt, For):
                loops.append(stmt)
                left.append(None)
            left.extend(reversed(child_stmts(stmt)))
    return found


def first_out_of_order(
    func: PrimFunc,
    own: Place,
    others: Sequence[Neighbour],
    target: Sequence[For],
    will_be_behind: Callable[[Neighbour], bool],
    is_fit: Callable[[Neighbour, Buffer], bool],
) -> tuple[str, Buffer] | None:
    """The name of what has its order with a block that moves changed, and a buffer by which that shows; None
    where there is none. `target`: the loops around the block's new place. `will_be_behind`: whether another
    one is behind that place. `is_fit`: whether it may run in the same new loops, for all that a buffer tells.
    """
    around = loops_around(own)
    for other in others:
        for buffer, is_one in _conflicts(touched_by(own.stmt), other.touched):
            shared = _both(around, other.loops)
            left = [loop for loop in shared if not holds_loop(target, loop)]
            entered = [loop for loop in _both(target, other.loops) if not holds_loop(around, loop)]
            if (
                will_be_behind(other) is not other.is_behind
                or any(not is_one or may_meet(func, loop, buffer) for loop in left)
                or (
                    any(not is_unit(loop.extent) for loop in entered)
                    and not (is_one and is_fit(other, buffer))
                )
            ):
                return other.name, buffer
    return None


def _conflicts(own: Touched, other: Touched) -> Iterator[tuple[Buffer, bool]]:
    """The buffers through which the order of two counts, and whether both touch that buffer, not another one
    of its memory."""
    for ours, theirs in ((own.reads, other.writes), (own.writes, other.writes | other.reads)):
        for buffer in sorted(ours, key=lambda each: each.name):
            for met in theirs:
                if met is buffer or met.data is buffer.data:
                    yield buffer, met is buffer


def unsettled_loops(
    own: Place, others: Sequence[Neighbour], target: Sequence[For], is_result: bool
) -> set[Var]:
    """The variables of loops that a block stays in and in which others change what it reads, or look at what
    it writes if that is a result: it may compute its own share of an iteration alone."""
    touched = touched_by(own.stmt)
    sources = {buffer.data for buffer in touched.reads}
    results = {buffer.data for buffer in touched.writes} if is_result else set()
    kept = [loop for loop in _both(loops_around(own), target) if not is_unit(loop.extent)]
    changing = [
        other
        for other in others
        if {buffer.data for buffer in other.touched.writes} & sources
        or {buffer.data for buffer in other.touched.reads} & results
    ]
    return {loop.loop_var for loop in kept if any(holds_loop(other.loops, loop) for other in changing)}


def is_conditional(own: Place, target: Place) -> bool:
    """Whether something other than loops and blocks decides whether a block runs, and not whether its new
    place is reached."""
    known = (For, SBlock, SBlockRealize, SeqStmt)
    return any(
        not isinstance(stmt, known) and not any(stmt is outer for outer in target.ancestors)
        for stmt in own.ancestors
    )


def loop_used_directly(own: Place, target: Sequence[For]) -> Var | None:
    """The variable of a loop that a block leaves and names otherwise than through its axes."""
    named = touched_by(own.stmt.block).variables
    kept = {loop.loop_var for loop in target}
    around = (loop.loop_var for loop in loops_around(own))
    return next((var for var in around if var in named and var not in kept), None)


def is_guarded(block: SBlock, buffer: Buffer) -> bool:
    """Whether elements of a buffer are looked at under a condition alone."""
    loads: dict[bool, list[BufferLoad]] = {False: [], True: []}
    seen: set[tuple[int, bool]] = set()

    def visit(node: Any, is_inside: bool) -> None:
        if (id(node), is_inside) in seen:
            return
        seen.add((id(node), is_inside))
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            loads[is_inside].append(node)
        below = list(children(node))
        is_call = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.if_then_else"
        if is_call or isinstance(node, (Select, IfThenElse)):
            condition = node.args[0] if is_call else node.condition
            visit(condition, is_inside)
            for child in below:
                if child is not condition:
                    visit(child, True)
            return
        for child in below:
            visit(child, is_inside)

    visit(block.body, False)
    return any(
        not any(structural_equal(load.indices, other.indices) for other in loads[False])
        for load in loads[True]
    )


def _both(loops: Sequence[For], others: Sequence[For]) -> list[For]:
    return [loop for loop in loops if holds_loop(others, loop)]


def holds_loop(loops: Sequence[For], loop: For) -> bool:
    """Whether a loop is one of these."""
    return any(each is loop for each in loops)
