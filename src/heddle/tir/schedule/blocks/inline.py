"""Inlining a block into its consumers, or into its producer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import PrimExpr, Var, is_const_int
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in, producers_and_consumers, walk_stmts
from heddle.tir.codes import T0406
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    IterType,
    PrimFunc,
    SBlock,
    SBlockRealize,
)
from heddle.tir.schedule.blocks.moved import first_out_of_order, loops_around, neighbours
from heddle.tir.schedule.blocks.shared_value import LoadReplacer
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
    that a consumer needs more than once is bound by `Let`.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    store = _single_store(func, place)
    axes = [axis.var for axis in block.iter_vars]
    if any(axis.iter_type is not IterType.DataPar for axis in block.iter_vars):
        raise ScheduleError(T0406, f"block {block_name!r} has a reduction axis", func, block)
    _check_temporary(func, store.buffer, block)
    pattern = _index_pattern(func, block, store, axes)
    _check_sources_stay(func, place, store.buffer)

    def value_at(indices: tuple[PrimExpr, ...]) -> PrimExpr:
        named = zip(pattern, indices, strict=True)
        return substitute(store.value, {axis: index for axis, index in named if axis is not None})  # type: ignore[no-any-return]

    func = replace_stmt(func, place.stmt, None)
    for realize in blocks_in(func.body):
        _check_not_matched(func, realize.block, store.buffer)
        if reads_buffer(realize.block, store.buffer) and not blocks_in(realize.block.body):
            inlined = LoadReplacer(store.buffer, value_at).visit(realize.block)
            func = replace_stmt(func, realize.block, with_access_regions(inlined))
    return drop_buffer(func, store.buffer)


def _check_sources_stay(func: PrimFunc, place: Place, buffer: Buffer) -> None:
    """What the block reads must be the same where its value is needed: nothing may write it in between, nor
    in later iterations of a loop that the readers are not in."""
    block: SBlock = place.stmt.block
    sources = {region.buffer for region in block.reads}
    leaves = [realize for realize in blocks_in(func.body) if not blocks_in(realize.block.body)]
    own = next(k for k, realize in enumerate(leaves) if realize is place.stmt)
    readers = [k for k, realize in enumerate(leaves) if reads_buffer(realize.block, buffer) and k != own]
    for k, realize in enumerate(leaves):
        if k == own or not any(writes_buffer(realize.block, source) for source in sources):
            continue
        is_between = own < k <= max(readers, default=own)
        if is_between or _runs_again(func, place, realize, [leaves[reader] for reader in readers]):
            raise ScheduleError(
                T0406,
                f"block {realize.block.name_hint!r} may change what block {block.name_hint!r} reads before "
                "its value is needed",
                func,
                block,
            )


def _runs_again(
    func: PrimFunc, place: Place, writer: SBlockRealize, readers: Sequence[SBlockRealize]
) -> bool:
    """Whether a writer may change what a block read in an iteration before, where that is still needed, or in
    an iteration of a reader's loop before."""
    own, loops = loops_around(place), loops_around(find_block(func, writer.block.name_hint))
    around = [loops_around(find_block(func, reader.block.name_hint)) for reader in readers]
    sources = [
        region.buffer for region in writer.block.writes if reads_buffer(place.stmt.block, region.buffer)
    ]
    for loop in loops:
        is_left = any(loop is each for each in own) and not all(
            any(loop is x for x in each) for each in around
        )
        if is_left and any(may_meet(func, loop, source) for source in sources):
            return True
        is_entered = not any(loop is each for each in own) and any(loop is x for each in around for x in each)
        if is_entered and not is_unit(loop.extent):
            return True
    return False


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
    """For every dimension of the buffer, the axis that indexes it; None for a constant index into a
    dimension of 1."""
    pattern: list[Var | None] = []
    for index, dim in zip(store.indices, store.buffer.shape, strict=True):
        if isinstance(index, Var) and index in axes and index not in pattern:
            pattern.append(index)
        elif is_const_int(index, 0) and is_const_int(dim, 1):
            pattern.append(None)
        else:
            raise ScheduleError(
                T0406, f"block {block.name_hint!r} does not index its buffer by its axes", func, block
            )
    missing = [axis for axis in free_vars(store.value) if axis in axes and axis not in pattern]
    if missing:
        raise ScheduleError(
            T0406, f"axis {missing[0].name!r} is not determined by the buffer's index", func, block
        )
    return pattern


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
    _check_stores_stay(func, place, find_block(func, producer.block.name_hint))
    mapping = _solve_axes(func, block, buffer, target)
    new_store = LoadReplacer(buffer, lambda _: target.value, mapping).visit(store)
    _check_same_domain(func, block, producer.block, mapping)
    merged = with_access_regions(replace(producer.block, body=new_store))
    func = replace_stmt(func, place.stmt, None)
    return drop_buffer(replace_stmt(func, producer.block, merged), buffer)


def _check_stores_stay(func: PrimFunc, place: Place, producer: Place) -> None:
    """What the block stores is stored where its producer runs: others must not touch it in between."""
    others = neighbours(func, place)
    own = next(k for k, other in enumerate(others) if other.block is producer.stmt.block)
    position = {id(other.block): k for k, other in enumerate(others)}
    found = first_out_of_order(
        func,
        place,
        others,
        loops_around(producer),
        lambda other: position[id(other.block)] > own,
        lambda other, buffer: other.block is producer.stmt.block and reads_buffer(place.stmt.block, buffer),
    )
    if found is not None:
        block, buffer = found
        raise ScheduleError(
            T0406,
            f"blocks {place.stmt.block.name_hint!r} and {block.name_hint!r} would touch {buffer.name!r} in "
            "another order",
            func,
            place.stmt.block,
        )


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
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer is buffer]
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
    return any(isinstance(node, BufferLoad) and node.buffer is buffer for node in walk(stmt.value))
