"""Moving a block under a loop of its consumer or producer, so that it computes only what that loop's
iteration needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heddle.ir.node import replace
from heddle.prim.nodes import Var, is_const_int
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.analysis.blocks import blocks_in, producers_and_consumers
from heddle.tir.codes import T0407
from heddle.tir.nodes import (
    Buffer,
    For,
    PrimFunc,
    SBlock,
    Stmt,
    seq,
)
from heddle.tir.schedule.blocks.guarded import check_guarded
from heddle.tir.schedule.blocks.indexing import axis_of, reading_axes, store_indices
from heddle.tir.schedule.blocks.moved import (
    Neighbour,
    first_out_of_order,
    holds_loop,
    is_conditional,
    loop_used_directly,
    loops_around,
    neighbours,
    touched_by,
    unsettled_loops,
)
from heddle.tir.schedule.blocks.moved_nest import nest_over
from heddle.tir.schedule.coverage import leaves_out
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.independence import may_meet
from heddle.tir.schedule.orders import changes_when_repeated, keeps_reduction_order
from heddle.tir.schedule.tree import (
    Place,
    analyzer_at,
    enter_loop,
    find_block,
    find_loop,
    reads_buffer,
    replace_stmt,
    root_block,
    scope_of,
    writes_buffer,
)


def compute_at(func: PrimFunc, block_name: str, loop_var: Var, preserve_unit_loops: bool = False) -> PrimFunc:
    """B[all] = f(A);  for i: C[i] = g(B[i..i+3])   →   for i: {B[i..i+3] = f(A); C[i] = g(B[i..i+3])}

    The block goes to the front of the loop's body and covers the region that blocks under the loop read. Its
    loops of one iteration go, unless they are to be preserved. It must be the only writer of one buffer, a
    temporary, and nothing may write what it reads between its old place and the new one.
    """
    place, loop = find_block(func, block_name), find_loop(func, loop_var).stmt
    block: SBlock = place.stmt.block
    _check_sole_writer(func, block)
    _check_can_be_repeated(func, block)
    _check_same_scope(func, block, loop)
    _check_may_leave(func, place, loop)
    _check_temporary(func, block)
    buffer = block.writes[0].buffer
    readers = [r for r in producers_and_consumers(scope_of(func, place)) if reads_buffer(r.block, buffer)]
    inside = set(map(id, blocks_in(loop.body)))
    outside = [r for r in readers if id(r) not in inside and r.block is not block]
    if outside or not readers:
        name = outside[0].block.name_hint if outside else "nothing"
        raise ScheduleError(T0407, f"{name} outside the loop reads {buffer.name!r}", func, block)
    others, around = neighbours(func, place), (*loops_around(find_loop(func, loop_var)), loop)
    _check_order(func, place, others, around, made=None)
    unsettled = unsettled_loops(place, others, around, is_result=False)
    func = replace_stmt(func, _nest_of(func, block_name), None)
    loop = find_loop(func, loop_var).stmt
    needed = _accessed(func, loop.body, buffer, writes=False)
    pattern = [axis_of(index, block) for index in store_indices(block, buffer)]
    nest = nest_over(func, loop_var, place, needed, pattern, preserve_unit_loops, unsettled)
    return replace_stmt(func, loop, replace(loop, body=seq(nest, loop.body)))


def reverse_compute_at(
    func: PrimFunc, block_name: str, loop_var: Var, preserve_unit_loops: bool = False
) -> PrimFunc:
    """for i: B[i] = f(A[i]);  C[all] = g(B)   →   for i: {B[i] = f(A[i]); C[i] = g(B[i])}

    The block goes to the end of the loop's body and covers the region that the loop's iteration writes. Its
    loops of one iteration go, unless they are to be preserved. What it reads must be made, for good, by the
    end of the iteration, and nothing may look at what it writes between its new place and the old one.
    """
    place, loop = find_block(func, block_name), find_loop(func, loop_var).stmt
    block: SBlock = place.stmt.block
    _check_sole_writer(func, block)
    _check_can_be_repeated(func, block)
    _check_same_scope(func, block, loop)
    _check_may_leave(func, place, loop)
    _check_runs_over_all(func, place)
    buffer = _produced_under(func, loop, block)
    others, around = neighbours(func, place), (*loops_around(find_loop(func, loop_var)), loop)
    _check_order(func, place, others, around, made=buffer)
    check_guarded(func, place, buffer)
    unsettled = unsettled_loops(place, others, around, is_result=True)
    func = replace_stmt(func, _nest_of(func, block_name), None)
    loop = find_loop(func, loop_var).stmt
    produced = _accessed(func, loop.body, buffer, writes=True)
    pattern = reading_axes(func, block, buffer)
    _check_reads_what_was_made(func, block, loop, buffer, produced, pattern)
    if buffer in func.buffers:  # of another one, what nobody made is not defined
        _check_none_is_left_out(func, block, loop, produced, pattern)
    nest = nest_over(func, loop_var, place, produced, pattern, preserve_unit_loops, unsettled)
    return replace_stmt(func, loop, replace(loop, body=seq(loop.body, nest)))


def _check_reads_what_was_made(
    func: PrimFunc, block: SBlock, loop: For, buffer: Buffer, produced: Box, pattern: list[Var | None]
) -> None:
    """Where an iteration makes a part of a dimension, the consumer's own axis must say which part it reads,
    the same in all its reads."""
    place = find_loop(func, loop.loop_var)
    varying = {outer.loop_var for outer in (*place.loops(), loop) if not is_const_int(outer.extent, 1)}
    for dim, (low, high) in enumerate(produced):
        axis, is_part = pattern[dim], varying & set(free_vars(low, high))
        if is_part and axis is None:
            raise ScheduleError(
                T0407,
                f"block {block.name_hint!r} reads parts of {buffer.name!r} that other iterations of loop "
                f"{loop.loop_var.name!r} make",
                func,
                block,
            )


def _check_none_is_left_out(
    func: PrimFunc, block: SBlock, loop: For, produced: Box, pattern: list[Var | None]
) -> None:
    """A consumer that goes over more than all iterations of the loops make would lose the rest."""
    place = find_loop(func, loop.loop_var)
    analyzer = analyzer_at(place)
    enter_loop(analyzer, loop)
    bound = analyzer.const_int_bound
    turns = math.prod(int(bound(outer.extent).max_value) for outer in (*place.loops(), loop))
    domains = {axis.var: axis.dom for axis in block.iter_vars}
    if any(bound(domain.extent).max_value <= 0 for domain in domains.values()):
        return
    for axis, (low, high) in zip(pattern, produced, strict=True):
        if axis is None:
            continue
        first, last = domains[axis].min, domains[axis].end - 1
        most = turns * int(bound(high - low + 1).max_value)
        if (
            bound(low).min_value > bound(first).max_value
            or bound(high).max_value < bound(last).min_value
            or most < bound(domains[axis].extent).min_value
        ):
            raise ScheduleError(
                T0407,
                f"block {block.name_hint!r} goes over more than what the loop makes, along {axis.name!r}",
                func,
                block,
            )


def _check_can_be_repeated(func: PrimFunc, block: SBlock) -> None:
    """Iterations under a loop overlap where regions do, so a block must compute the same once more."""
    if changes_when_repeated(_nest_of(func, block.name_hint)) is block:
        buffer = block.writes[0].buffer
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} reads {buffer.name!r}, which it writes: it stays where it is",
            func,
            block,
        )
    if not keeps_reduction_order(find_block(func, block.name_hint)):
        text = f"the reduction of block {block.name_hint!r} is not known to give the same in any order"
        raise ScheduleError(T0407, text, func, block)


def _check_sole_writer(func: PrimFunc, block: SBlock) -> None:
    """A block that is one of several which make a result has its share of iterations, and stays."""
    place = find_block(func, block.name_hint)
    around = {id(found) for found in place.ancestors}
    inner = {id(realize) for realize in blocks_in(block.body)}
    for realize in blocks_in(func.body):
        other = realize.block
        if other is block or id(realize) in around | inner:
            continue
        shared = [region.buffer for region in block.writes if writes_buffer(other, region.buffer)]
        if shared:
            raise ScheduleError(
                T0407,
                f"blocks {block.name_hint!r} and {other.name_hint!r} both write {shared[0].name!r}",
                func,
                block,
            )


def _check_same_scope(func: PrimFunc, block: SBlock, loop: For) -> None:
    here = scope_of(func, find_block(func, block.name_hint))
    there = scope_of(func, find_loop(func, loop.loop_var))
    if here is not there:
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} lies in block {here.name_hint!r}, loop {loop.loop_var.name!r} in "
            f"{there.name_hint!r}",
            func,
            block,
        )


def _check_order(
    func: PrimFunc, place: Place, others: Sequence[Neighbour], around: Sequence[For], made: Buffer | None
) -> None:
    """The block must come before and behind the others as it did. `around`: the loops that it will be in, the
    one that it moves under last. `made` is what a consumer goes over, None for a producer, which goes to the
    front of the loop."""
    block: SBlock = place.stmt.block
    inside = [k for k, other in enumerate(others) if holds_loop(other.loops, around[-1])]
    position = {id(other): k for k, other in enumerate(others)}

    def will_be_behind(other: Neighbour) -> bool:
        return position[id(other)] > inside[-1] if made else position[id(other)] >= inside[0]

    own = touched_by(place.stmt)

    def is_fit(other: Neighbour, buffer: Buffer) -> bool:
        if made is None:
            return buffer in own.writes and buffer not in other.touched.writes
        if buffer in own.writes or other.block is None or not writes_buffer(other.block, buffer):
            return False
        return buffer is made or _is_made_alike(func, place, around, other, (made, buffer))

    found = first_out_of_order(func, place, others, around, will_be_behind, is_fit)
    if found is not None:
        name, buffer = found
        raise ScheduleError(
            T0407,
            f"blocks {block.name_hint!r} and {name!r} would touch {buffer.name!r} in another order",
            func,
            block,
        )


def _check_may_leave(func: PrimFunc, place: Place, loop: For) -> None:
    """A block runs wherever its loops do, and says by its axes alone which iteration it is."""
    block: SBlock = place.stmt.block
    target = find_loop(func, loop.loop_var)
    if is_conditional(place, target):
        raise ScheduleError(T0407, f"block {block.name_hint!r} runs under a condition", func, block)
    var = loop_used_directly(place, (*loops_around(target), loop))
    if var is not None:
        raise ScheduleError(T0407, f"block {block.name_hint!r} uses loop {var.name!r} itself", func, block)


def _check_temporary(func: PrimFunc, block: SBlock) -> None:
    """Only what is needed is computed: of a result that would be too little."""
    written = {region.buffer for region in block.writes}
    if len(written) != 1:
        text = f"block {block.name_hint!r} writes {len(written)} buffers, expected one"
        raise ScheduleError(T0407, text, func, block)
    (buffer,) = written
    if any(buffer.data is result.data for result in func.buffers):
        text = f"block {block.name_hint!r} writes {buffer.name!r}, a parameter of the function"
        raise ScheduleError(T0407, text, func, block)


def _check_runs_over_all(func: PrimFunc, place: Place) -> None:
    """A block that stores a result at some points of its axes alone would store others, too."""
    block: SBlock = place.stmt.block
    results = {buffer.data for buffer in func.buffers}
    if not any(region.buffer.data in results for region in block.writes):
        return
    if leaves_out(func, place):
        text = f"block {block.name_hint!r} does not run over all of its axes"
        raise ScheduleError(T0407, text, func, block)


def _is_made_alike(
    func: PrimFunc, place: Place, around: Sequence[For], other: Neighbour, buffers: tuple[Buffer, Buffer]
) -> bool:
    """Whether an iteration of the last of the loops `around` has made, for good, what a consumer will read of
    the second of two buffers, going over what the iteration makes of the first."""
    block: SBlock = place.stmt.block
    loop, outside = around[-1], loops_around(place)
    shared = [each for each in around if holds_loop(other.loops, each)]
    entered = [each for each in shared if not holds_loop(outside, each)]
    if any(may_meet(func, each, buffers[1]) for each in entered):
        return False
    first = dict(zip(reading_axes(func, block, buffers[0]), _made(func, loop, buffers[0]), strict=True))
    analyzer = analyzer_at(find_loop(func, loop.loop_var))
    enter_loop(analyzer, loop)
    varying = {each.loop_var for each in shared}
    axes = reading_axes(func, block, buffers[1])
    for axis, (low, high) in zip(axes, _made(func, shared[-1], buffers[1]), strict=True):
        if not varying & set(free_vars(low, high)):
            continue
        if axis is None or axis not in first:
            return False
        begin, end = first[axis]
        if not (analyzer.can_prove(low <= begin) and analyzer.can_prove(end <= high)):
            return False
    return True


def _made(func: PrimFunc, loop: For, buffer: Buffer) -> Box:
    """What an iteration of a loop writes of a buffer."""
    return _accessed(func, loop.body, buffer, writes=True)


def _produced_under(func: PrimFunc, loop: For, block: SBlock) -> Buffer:
    inside = set(map(id, blocks_in(loop.body)))
    root = root_block(func)
    for region in block.reads:
        if any(writes_buffer(r.block, region.buffer) for r in blocks_in(loop.body)):
            writers = [r for r in blocks_in(func.body) if writes_buffer(r.block, region.buffer)]
            outside = [r for r in writers if id(r) not in inside and r.block is not root]
            around = set(map(id, find_loop(func, loop.loop_var).ancestors))
            late = [r for r in outside if id(r) not in around and r.block is not block]
            if late:
                name = late[0].block.name_hint
                raise ScheduleError(
                    T0407, f"{name!r} outside the loop writes {region.buffer.name!r}", func, block
                )
            return region.buffer
    raise ScheduleError(T0407, f"block {block.name_hint!r} reads nothing that the loop writes", func, loop)


def _nest_of(func: PrimFunc, block_name: str) -> Stmt:
    """The outermost loop that holds only this block, or its realization."""
    place = find_block(func, block_name)
    found: Stmt = place.stmt
    for ancestor in reversed(place.ancestors):
        if not isinstance(ancestor, For):
            break
        found = ancestor
    return found


def _accessed(func: PrimFunc, stmt: Stmt, buffer: Buffer, writes: bool) -> Box:
    """The box of a buffer that a statement reads or writes, in terms of variables from outside it."""
    collector = AccessRegions(buffer)
    collector.visit(stmt)
    box = (collector.writes if writes else collector.reads).get(buffer)
    if box is None:
        raise ScheduleError(T0407, f"what the loop accesses of {buffer.name!r} is not known", func, stmt)
    return box
