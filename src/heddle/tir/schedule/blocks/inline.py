"""Inlining a block into its consumers, or into its producer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import less_equal
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in, producers_and_consumers, walk_stmts
from heddle.tir.codes import T0406
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IterType,
    PrimFunc,
    SBlock,
    SBlockRealize,
)
from heddle.tir.schedule.blocks.moved import (
    Neighbour,
    first_out_of_order,
    holds_loop,
    is_conditional,
    loop_used_directly,
    loops_around,
    neighbours,
    touched_by,
)
from heddle.tir.schedule.blocks.shared_value import LoadReplacer
from heddle.tir.schedule.coverage import leaves_out
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.independence import is_unit, may_meet
from heddle.tir.schedule.tree import (
    Place,
    conditions_on_axes,
    find_block,
    reads_buffer,
    replace_stmt,
    root_block,
    scope_of,
    writes_buffer,
)


@lru_cache(maxsize=64)  # schedule rules try the same ones in turn
def compute_inline(func: PrimFunc, block_name: str) -> PrimFunc:
    """B[i] = f(A[i]);  C[i] = g(B[i])   →   C[i] = g(f(A[i]))

    The block must store one element at its own axes and hold no reduction; its buffer disappears. A value
    that a consumer needs more than once is bound by `Let`. What it reads must stay the same until its value
    is needed.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    store = _single_store(func, place)
    axes = [axis.var for axis in block.iter_vars]
    if any(axis.iter_type is not IterType.DataPar for axis in block.iter_vars):
        raise ScheduleError(T0406, f"block {block_name!r} has a reduction axis", func, block)
    _check_temporary(func, store.buffer, block)
    pattern = _index_pattern(func, block, store, axes)
    _check_may_leave(func, place, find_block(func, root_block(func).name_hint))
    _check_sources_stay(func, place, store.buffer)

    of_one_point = {axis: constant(0, axis.dtype) for axis in axes if axis not in pattern}

    def value_at(indices: tuple[PrimExpr, ...]) -> PrimExpr:
        named = {axis: index for axis, index in zip(pattern, indices, strict=True) if axis is not None}
        return substitute(store.value, {**of_one_point, **named})  # type: ignore[no-any-return]

    func = replace_stmt(func, place.stmt, None)
    for realize in blocks_in(func.body):
        _check_not_matched(func, realize.block, store.buffer)
        if reads_buffer(realize.block, store.buffer) and not blocks_in(realize.block.body):
            inlined = LoadReplacer(store.buffer, value_at).visit(realize.block)
            func = replace_stmt(func, realize.block, with_access_regions(inlined))
    return drop_buffer(func, store.buffer)


def _check_sources_stay(func: PrimFunc, place: Place, buffer: Buffer) -> None:
    """What the block reads must be the same where its value is needed: nothing may write it in between, nor
    in later iterations of a loop that the readers are not in. Its value is needed in blocks alone."""
    block: SBlock = place.stmt.block
    others = neighbours(func, place)
    for other in others:
        uses = other.touched.reads | other.touched.writes
        if any(met.data is buffer.data and (met is not buffer or other.block is None) for met in uses) or (
            buffer in other.touched.reads and buffer not in other.in_body.reads
        ):
            text = f"{other.name!r} uses buffer {buffer.name!r} otherwise than in a block's body"
            raise ScheduleError(T0406, text, func, block)
    sources = {source.data for source in touched_by(place.stmt).reads}
    readers = [other for other in others if buffer in other.in_body.reads]
    last = max((others.index(reader) for reader in readers), default=-1)
    for k, other in enumerate(others):
        written = [source for source in other.touched.writes if source.data in sources]
        if not written:
            continue
        is_between = other.is_behind and k <= last
        if is_between or _runs_again(func, place, other, written, readers):
            raise ScheduleError(
                T0406,
                f"block {other.name!r} may change what block {block.name_hint!r} reads before its value is "
                "needed",
                func,
                block,
            )


def _runs_again(
    func: PrimFunc,
    place: Place,
    writer: Neighbour,
    written: Sequence[Buffer],
    readers: Sequence[Neighbour],
) -> bool:
    """Whether a writer may change what a block read in an iteration before, where that is still needed: in a
    loop that a reader is not in, in one that the block is not in, or in one that all are in, and the value is
    needed in another iteration than where it was computed."""
    own = loops_around(place)
    for loop in writer.loops:
        if is_unit(loop.extent):
            continue
        is_own, around = holds_loop(own, loop), [holds_loop(reader.loops, loop) for reader in readers]
        if is_own and not all(around) and any(may_meet(func, loop, source) for source in written):
            return True
        if not is_own and any(around):
            return True
        if is_own and any(around) and not all(_at_its_share(func, place, loop, each) for each in readers):
            return True
    return False


def _at_its_share(func: PrimFunc, place: Place, loop: For, reader: Neighbour) -> bool:
    """Whether a reader needs, in an iteration of a loop around both, only what a block computes in it."""
    store = place.stmt.block.body
    assert isinstance(store, BufferStore) and reader.block is not None
    other = find_block(func, reader.block.name_hint).stmt
    own = _bound_axes(place.stmt)
    theirs = _bound_axes(other)
    loads = [node for node in walk_distinct(reader.block) if isinstance(node, BufferLoad)]
    return all(
        any(
            isinstance(index, Var)
            and own.get(index) is loop.loop_var
            and isinstance(at, Var)
            and theirs.get(at) is loop.loop_var
            for index, at in zip(store.indices, load.indices, strict=True)
        )
        for load in loads
        if load.buffer is store.buffer
    )


def _bound_axes(realize: SBlockRealize) -> dict[Var, PrimExpr]:
    """The values of a block's axes."""
    return dict(zip((axis.var for axis in realize.block.iter_vars), realize.iter_values, strict=True))


def _check_may_leave(func: PrimFunc, place: Place, target: Place) -> None:
    """A block runs wherever its loops do, and says by its axes alone which iteration it is."""
    block: SBlock = place.stmt.block
    if is_conditional(place, target):
        raise ScheduleError(T0406, f"block {block.name_hint!r} runs under a condition", func, block)
    var = loop_used_directly(place, ())
    if var is not None:
        raise ScheduleError(T0406, f"block {block.name_hint!r} uses loop {var.name!r} itself", func, block)


def _check_not_matched(func: PrimFunc, block: SBlock, buffer: Buffer) -> None:
    if any(match.source.buffer is buffer for match in block.match_buffers):
        raise ScheduleError(
            T0406, f"block {block.name_hint!r} matches a region of {buffer.name!r}", func, block
        )


def _single_store(func: PrimFunc, place: Place) -> BufferStore:
    block: SBlock = place.stmt.block
    plain = block.init is None and not block.match_buffers and not block.alloc_buffers
    if not plain or not isinstance(block.body, BufferStore) or block.body.predicate is not None:
        raise ScheduleError(T0406, f"block {block.name_hint!r} is more than one store", func, block)
    return block.body


def _check_temporary(func: PrimFunc, buffer: Buffer, block: SBlock) -> None:
    if buffer in func.buffers:
        raise ScheduleError(T0406, f"buffer {buffer.name!r} is a result of the function", func, block)
    writers = [
        r for r in blocks_in(func.body) if r.block is not root_block(func) and writes_buffer(r.block, buffer)
    ]
    if len(writers) != 1:
        raise ScheduleError(T0406, f"buffer {buffer.name!r} is written by several blocks", func, block)


def _index_pattern(func: PrimFunc, block: SBlock, store: BufferStore, axes: list[Var]) -> list[Var | None]:
    """For every dimension of the buffer, the axis that indexes it; None for index 0 into a dimension of at
    most 1."""
    pattern: list[Var | None] = []
    for index, dim in zip(store.indices, store.buffer.shape, strict=True):
        if isinstance(index, Var) and index in axes and index not in pattern:
            pattern.append(index)
        elif is_const_int(index, 0) and _is_one_at_most(dim):
            pattern.append(None)
        else:
            raise ScheduleError(
                T0406, f"block {block.name_hint!r} does not index its buffer by its axes", func, block
            )
    used = free_vars(store.value)
    missing = [
        axis.var
        for axis in block.iter_vars
        if axis.var in used and axis.var not in pattern and not _is_one_at_most(axis.dom.extent)
    ]
    if missing:
        raise ScheduleError(
            T0406, f"axis {missing[0].name!r} is not determined by the buffer's index", func, block
        )
    return pattern


def _is_one_at_most(size: PrimExpr) -> bool:
    """Whether a size that may be known only when the function runs is 0 or 1."""
    return is_unit(size) or Analyzer().can_prove(less_equal(size, constant(1, size.dtype)))


def drop_buffer(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    """The function without an allocation that nothing uses any more, and without what asks for its lines."""
    func = _without_prefetches(func, buffer)
    for realize in blocks_in(func.body):
        if buffer in realize.block.alloc_buffers:
            kept = tuple(b for b in realize.block.alloc_buffers if b is not buffer)
            return replace_stmt(func, realize.block, replace(realize.block, alloc_buffers=kept))
    return func


def reverse_compute_inline(func: PrimFunc, block_name: str) -> PrimFunc:
    """B[i] = f(A[i]);  C[g(i)] = h(B[i])   →   C[g(i)] = h(f(A[i]))   in the place of the first block

    The block must read its producer's buffer at one point per iteration, and the axes must be determined by
    it. The producer must be no reduction (use reverse_compute_at for those).
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    store = _single_store(func, place)
    scope = scope_of(func, place)
    buffer, producer = _only_producer(func, scope, block)
    target = _single_store(func, find_block(func, producer.block.name_hint))
    if any(axis.iter_type is not IterType.DataPar for axis in producer.block.iter_vars):
        raise ScheduleError(
            T0406, f"producer {producer.block.name_hint!r} is a reduction", func, producer.block
        )
    if conditions_on_axes(place.stmt):
        raise ScheduleError(T0406, f"block {block_name!r} runs under a condition", func, block)
    _check_temporary(func, buffer, block)
    producer_place = find_block(func, producer.block.name_hint)
    _check_may_leave(func, place, producer_place)
    _check_stores_stay(func, place, producer_place)
    mapping = _solve_axes(func, block, buffer, target)
    _check_runs_alike(func, place, producer_place, mapping)
    new_store = LoadReplacer(buffer, lambda _: target.value, mapping).visit(store)
    _check_same_domain(func, block, producer.block, mapping)
    merged = with_access_regions(replace(producer.block, body=new_store))
    func = replace_stmt(func, place.stmt, None)
    return drop_buffer(replace_stmt(func, producer.block, merged), buffer)


def _check_stores_stay(func: PrimFunc, place: Place, producer: Place) -> None:
    """What the block stores is stored where its producer runs: others must not touch it in between. In loops
    around both, both are at the same point."""
    others = neighbours(func, place)
    own = next(k for k, other in enumerate(others) if other.block is producer.stmt.block)
    position = {id(other): k for k, other in enumerate(others)}
    found = first_out_of_order(
        func,
        place,
        others,
        loops_around(producer),
        lambda other: position[id(other)] > own,
        lambda other, buffer: other.block is producer.stmt.block and reads_buffer(place.stmt.block, buffer),
    )
    if found is not None:
        name, buffer = found
        raise ScheduleError(
            T0406,
            f"blocks {place.stmt.block.name_hint!r} and {name!r} would touch {buffer.name!r} in another "
            "order",
            func,
            place.stmt.block,
        )


def _check_runs_alike(func: PrimFunc, place: Place, producer: Place, mapping: dict[Var, PrimExpr]) -> None:
    """The consumer runs over all of its axes, and in a loop around both at the producer's point of it."""
    block: SBlock = place.stmt.block
    if leaves_out(func, place):
        text = f"block {block.name_hint!r} does not run over all of its axes"
        raise ScheduleError(T0406, text, func, block)
    shared = {
        loop.loop_var
        for loop in loops_around(place)
        if holds_loop(loops_around(producer), loop) and not is_unit(loop.extent)
    }
    made = _bound_axes(producer.stmt)
    for axis, value in _bound_axes(place.stmt).items():
        at = substitute(mapping[axis], made)
        if shared & set(free_vars(value, at)) and value is not at:
            text = f"axis {axis.name!r} is at another point of the loops around than the producer"
            raise ScheduleError(T0406, text, func, block)


def _only_producer(func: PrimFunc, scope: SBlock, block: SBlock) -> tuple[Buffer, SBlockRealize]:
    """The one block in the scope that writes something the block reads."""
    found: list[tuple[Buffer, SBlockRealize]] = []
    for region in block.reads:
        for realize in producers_and_consumers(scope):
            if realize.block is not block and writes_buffer(realize.block, region.buffer):
                found.append((region.buffer, realize))
    if len(found) != 1:
        raise ScheduleError(
            T0406, f"block {block.name_hint!r} reads the results of {len(found)} blocks", func, block
        )
    buffer, _ = found[0]
    readers = [r for r in producers_and_consumers(scope) if reads_buffer(r.block, buffer)]
    if len(readers) != 1:
        raise ScheduleError(T0406, f"buffer {buffer.name!r} is read by other blocks too", func, block)
    return found[0]


def _solve_axes(func: PrimFunc, block: SBlock, buffer: Buffer, target: BufferStore) -> dict[Var, PrimExpr]:
    """The consumer's axes in terms of the producer's, from the index at which the consumer reads."""
    nodes = walk_distinct(block.body)
    loads = [node for node in nodes if isinstance(node, BufferLoad) and node.buffer is buffer]
    if not loads or not all(structural_equal(load.indices, loads[0].indices) for load in loads):
        raise ScheduleError(
            T0406, f"block {block.name_hint!r} reads {buffer.name!r} at several points", func, block
        )
    axes = {axis.var: axis for axis in block.iter_vars}
    mapping: dict[Var, PrimExpr] = {}
    for index, position in zip(loads[0].indices, target.indices, strict=True):
        if isinstance(index, Var) and index in axes and index not in mapping:
            mapping[index] = position
        elif not (is_const_int(index, 0) and is_const_int(position, 0)):
            raise ScheduleError(
                T0406, f"block {block.name_hint!r} does not read at its own axes", func, block
            )
    for var, axis in axes.items():
        if var not in mapping and is_const_int(axis.dom.extent, 1):
            mapping[var] = axis.dom.min
        elif var not in mapping:
            raise ScheduleError(T0406, f"axis {var.name!r} is not determined by the read", func, block)
    return mapping


def _check_same_domain(func: PrimFunc, block: SBlock, producer: SBlock, mapping: dict[Var, PrimExpr]) -> None:
    """Each axis of the consumer must run over the whole domain of the producer's axis that it is mapped
    to."""
    domains = {axis.var: axis.dom for axis in producer.iter_vars}
    for axis in block.iter_vars:
        position = mapping[axis.var]
        if isinstance(position, Var) and not structural_equal(domains[position], axis.dom):
            raise ScheduleError(
                T0406, f"axis {axis.var.name!r} covers only part of the producer's domain", func, block
            )


def _without_prefetches(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    asking = [
        node
        for node in walk_stmts(func.body)
        if isinstance(node, Evaluate) and is_prefetch(node.value) and _names(node, buffer)
    ]
    for stmt in asking:
        func = replace_stmt(func, stmt, None)
    return func


def _names(stmt: Evaluate, buffer: Buffer) -> bool:
    return any(isinstance(node, BufferLoad) and node.buffer is buffer for node in walk_distinct(stmt.value))
