"""Keeping a temporary in the memory of the result that is computed from it."""

from __future__ import annotations

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.blocks import blocks_in, child_stmts
from heddle.tir.codes import T0425
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, For, PrimFunc, SBlock, SBlockRealize
from heddle.tir.schedule.coverage import reaches_all, reaches_once
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.staging.access import Redirect
from heddle.tir.schedule.staging.cache import touches
from heddle.tir.schedule.tree import (
    Place,
    analyzer_at,
    find_block,
    reads_buffer,
    replace_stmt,
    writes_buffer,
)


def share_output(func: PrimFunc, block_name: str, temporary: Buffer) -> PrimFunc:
    """B[i] = f(i);  C[i] = g(B[i])   →   C[i] = f(i);  C[i] = g(C[i])

    The block reads the temporary buffer where it stores its own result, after everything else that touches
    it; both have one shape and type. It stores each element of the result once, and nothing reads the result
    before.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    blocks = [realize.block for realize in blocks_in(func.body)]
    owner = next((other for other in blocks if temporary in other.alloc_buffers), None)
    is_matched = any(match.source.buffer is temporary for other in blocks for match in other.match_buffers)
    if owner is None or is_matched:
        why = "a region of it is matched" if is_matched else "no block allocates it"
        raise ScheduleError(T0425, f"buffer {temporary.name!r} cannot move: {why}", func, block)
    result = _result_beside(func, block, temporary)
    _check_stores_once(func, place, result)
    users = [
        find_block(func, realize.block.name_hint)
        for realize in blocks_in(func.body)
        if not blocks_in(realize.block.body) and touches(realize.block, temporary)
    ]
    own = next(user for user in users if user.stmt.block is block)
    shared = _loops_of_all(users)
    _check_order(func, own, users, result)
    _check_places(func, own, users, temporary, shared)
    func = func.with_body(Redirect(temporary, result).visit(func.body))
    owner = next(r.block for r in blocks_in(func.body) if temporary in r.block.alloc_buffers)
    kept = tuple(buffer for buffer in owner.alloc_buffers if buffer is not temporary)
    return replace_stmt(func, owner, replace(owner, alloc_buffers=kept))


def _result_beside(func: PrimFunc, block: SBlock, temporary: Buffer) -> Buffer:
    """The buffer that the block stores to, if it reads the temporary only there."""
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None:
        raise ScheduleError(T0425, f"block {block.name_hint!r} is no plain map", func, block)
    loads = [n for n in walk(store) if isinstance(n, BufferLoad) and n.buffer is temporary]
    if not loads or not all(structural_equal(tuple(n.indices), tuple(store.indices)) for n in loads):
        raise ScheduleError(
            T0425,
            f"block {block.name_hint!r} reads {temporary.name!r} elsewhere than where it stores",
            func,
            block,
        )
    result = store.buffer
    same = result.dtype == temporary.dtype and structural_equal(tuple(result.shape), tuple(temporary.shape))
    others = [r.block for r in blocks_in(func.body) if not blocks_in(r.block.body) and r.block is not block]
    if not same or result is temporary or any(writes_buffer(other, result) for other in others):
        raise ScheduleError(
            T0425,
            f"{result.name!r} cannot hold {temporary.name!r}: both must have one shape and type, and only "
            f"block {block.name_hint!r} may write the result",
            func,
            block,
        )
    return result


def _check_stores_once(func: PrimFunc, place: Place, result: Buffer) -> None:
    """Storing again would compute from what was stored; what is not stored would keep what the temporary
    held, which only the caller would see."""
    block: SBlock = place.stmt.block
    store = block.body
    assert isinstance(store, BufferStore)
    is_once = store.predicate is None and reaches_once(place, store.indices)
    if not is_once or (result in func.buffers and not reaches_all(place, store.indices, result.shape)):
        raise ScheduleError(
            T0425,
            f"block {block.name_hint!r} is not known to store each element of {result.name!r} once",
            func,
            block,
        )


def _loops_of_all(users: list[Place]) -> list[For]:
    """The loops that stand around all the blocks."""
    first, *rest = (user.loops() for user in users)
    return [loop for loop in first if all(any(loop is other for other in loops) for loops in rest)]


def _check_order(func: PrimFunc, own: Place, users: list[Place], result: Buffer) -> None:
    """Where the ways to the blocks part, all others come first; what reads the result comes later still."""
    block: SBlock = own.stmt.block
    around = [s for s in own.ancestors if all(any(s is other for other in u.ancestors) for u in users)]
    part = (*own.ancestors, own.stmt)[len(around)]
    parts = child_stmts(around[-1])
    earlier = parts[: next(k for k, other in enumerate(parts) if other is part)]
    before = {id(realize) for other in earlier for realize in blocks_in(other)}
    if not all(id(user.stmt) in before for user in users if user is not own):
        raise ScheduleError(T0425, f"block {block.name_hint!r} is not the last one in its loops", func, block)
    order = blocks_in(func.body)
    begun = [*order[: next(k for k, realize in enumerate(order) if realize is own.stmt)], *blocks_in(part)]
    for realize in begun:
        if not blocks_in(realize.block.body) and reads_buffer(realize.block, result):
            raise ScheduleError(
                T0425,
                f"block {realize.block.name_hint!r} reads {result.name!r} before all of it is there",
                func,
                block,
            )


def _accesses(place: Place, buffer: Buffer) -> list[tuple[PrimExpr, ...]]:
    """The elements of the buffer that a block touches, in terms of the loops around it."""
    realize: SBlockRealize = place.stmt
    bound = {
        axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    parts = [part for part in (realize.block.body, realize.block.init) if part is not None]
    simplify = analyzer_at(place).simplify
    return [
        tuple(simplify(substitute(index, bound)) for index in node.indices)
        for part in parts
        for node in walk(part)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer
    ]


def _check_places(func: PrimFunc, own: Place, users: list[Place], buffer: Buffer, shared: list[For]) -> None:
    """An iteration of the shared loops touches its own elements only."""
    outer = {loop.loop_var for loop in shared if not is_const_int(loop.extent, 1)}
    mine = _accesses(own, buffer)[0]
    moving = [k for k, index in enumerate(mine) if outer & set(free_vars(index))]
    inner = {loop.loop_var for loop in own.loops()} - outer
    used = {var for k in moving for var in free_vars(mine[k])}
    fits = (
        outer <= used
        and not inner & used
        and all(
            all(
                structural_equal(index, mine[k]) if k in moving else not outer & set(free_vars(index))
                for k, index in enumerate(access)
            )
            for user in users
            for access in _accesses(user, buffer)
        )
    )
    if not fits:
        raise ScheduleError(
            T0425,
            f"iterations of the loops around block {own.stmt.block.name_hint!r} share elements of "
            f"{buffer.name!r}",
            func,
            own.stmt.block,
        )
