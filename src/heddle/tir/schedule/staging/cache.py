"""Staging a buffer through another: cache_read, cache_write, and the scope of a buffer."""

from __future__ import annotations

from collections.abc import Callable

from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0407, T0408
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, Stmt, decl_buffer, seq
from heddle.tir.schedule.blocks.nest import loop_nest, whole_axes
from heddle.tir.schedule.coverage import stores_all
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import (
    add_buffers,
    find_block,
    fresh_block_name,
    reads_buffer,
    replace_stmt,
    root_block,
    scope_of,
    statement_before,
    writes_buffer,
)
from heddle.tir.substitute import replace_buffers


def cache_write(
    func: PrimFunc, block_name: str, buffer: Buffer, scope: str, consumers: tuple[str, ...] = ()
) -> tuple[PrimFunc, str]:
    """B[i] = f(i)   →   B_scope[i] = f(i);  B[i] = B_scope[i]

    The block writes the new buffer, which is copied out whole: of a result of the function it must store
    every element. The given consumers read the new buffer, other readers of B still read B. Gives the name of
    the copying block.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    if not writes_buffer(block, buffer):
        raise ScheduleError(T0408, f"block {block_name!r} does not write {buffer.name!r}", func, block)
    check_alone(func, block_name, buffer, lambda other: touches(other, buffer), "uses")
    check_only_writer(func, block, buffer)
    check_reads_nothing(func, block, buffer)
    if buffer in func.buffers and not stores_all(find_block(func, block_name).stmt, buffer):
        raise ScheduleError(
            T0407,
            f"block {block_name!r} may leave elements of {buffer.name!r} as the caller gave them",
            func,
            block,
        )
    staged = _staging_buffer(buffer, scope)
    name = fresh_block_name(func, f"{buffer.name}_{scope}")
    func = replace_stmt(func, block, replace_buffers(block, {buffer: staged}))
    for consumer in consumers:
        target: SBlock = find_block(func, consumer).stmt.block
        func = replace_stmt(func, target, _redirect_reads(target, buffer, staged))
    copy = copy_nest(staged, buffer, name)
    return insert_beside(func, block_name, staged, copy, after=True), name


def cache_read(
    func: PrimFunc, block_name: str, buffer: Buffer, scope: str, consumers: tuple[str, ...] = ()
) -> tuple[PrimFunc, str]:
    """B[i] = f(A[i])   →   A_scope[i] = A[i];  B[i] = f(A_scope[i])

    Only the given consumers read the copy (default: this block). Gives the name of the copying block.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    if not reads_buffer(block, buffer):
        raise ScheduleError(T0408, f"block {block_name!r} does not read {buffer.name!r}", func, block)
    for consumer in consumers or (block_name,):
        if writes_buffer(find_block(func, consumer).stmt.block, buffer):
            raise ScheduleError(
                T0408,
                f"block {consumer!r} writes {buffer.name!r} too",
                func,
                block,
                help="cache_inplace stages a buffer that is read and written",
            )
    for consumer in dict.fromkeys((block_name, *consumers)):
        check_alone(func, consumer, buffer, lambda other: writes_buffer(other, buffer), "writes")
    staged = _staging_buffer(buffer, scope)
    name = fresh_block_name(func, f"{buffer.name}_{scope}")
    for consumer in consumers or (block_name,):
        target: SBlock = find_block(func, consumer).stmt.block
        func = replace_stmt(func, target, _redirect_reads(target, buffer, staged))
    first = _first_of(func, (block_name, *consumers))
    copy = copy_nest(buffer, staged, name)
    return insert_beside(func, first, staged, copy, after=False), name


def cache_inplace(func: PrimFunc, block_name: str, buffer: Buffer, scope: str) -> tuple[PrimFunc, list[str]]:
    """A[i] = A[i] + 1   →   A_scope[i] = A[i];  A_scope[i] = A_scope[i] + 1;  A[i] = A_scope[i]

    For a block that reads and writes one buffer. Gives the names of the two copying blocks.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    if not (reads_buffer(block, buffer) and writes_buffer(block, buffer)):
        raise ScheduleError(
            T0408, f"block {block_name!r} does not both read and write {buffer.name!r}", func, block
        )
    check_alone(func, block_name, buffer, lambda other: touches(other, buffer), "uses")
    check_only_writer(func, block, buffer)
    staged = _staging_buffer(buffer, scope)
    before = fresh_block_name(func, f"{buffer.name}_{scope}")
    func = replace_stmt(func, block, replace_buffers(block, {buffer: staged}))
    func = insert_beside(func, block_name, staged, copy_nest(buffer, staged, before), after=False)
    after = fresh_block_name(func, f"{buffer.name}_{scope}")
    return insert_beside(func, block_name, None, copy_nest(staged, buffer, after), after=True), [
        before,
        after,
    ]


def check_reads_nothing(func: PrimFunc, block: SBlock, buffer: Buffer) -> None:
    """What a block stores into a new buffer may not begin from what the old one holds. A reduction reads what
    it stored itself."""
    if reads_buffer(block, buffer):
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} reads what {buffer.name!r} holds before",
            func,
            block,
            help="cache_inplace stages a buffer that is read and written",
        )


def touches(block: SBlock, buffer: Buffer) -> bool:
    """Whether a block reads or writes a buffer."""
    return reads_buffer(block, buffer) or writes_buffer(block, buffer)


def check_only_writer(func: PrimFunc, block: SBlock, buffer: Buffer) -> None:
    """What is copied out whole must be written by one block, and those inside it, alone."""
    scope = scope_of(func, find_block(func, block.name_hint))
    if scope is not root_block(func):
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} lies in block {scope.name_hint!r} and writes part of {buffer.name!r}",
            func,
            block,
        )
    own = {id(realize.block) for realize in blocks_in(block)} | {id(block)}
    around = {id(found) for found in find_block(func, block.name_hint).ancestors}
    for realize in blocks_in(func.body):
        other = realize.block
        if id(other) not in own | around and writes_buffer(other, buffer):
            raise ScheduleError(
                T0407,
                f"blocks {block.name_hint!r} and {other.name_hint!r} both write {buffer.name!r}",
                func,
                block,
            )


def check_alone(
    func: PrimFunc, block_name: str, buffer: Buffer, test: Callable[[SBlock], bool], verb: str
) -> None:
    """Copies go before or after the whole loops around a block: no other block in those may interfere."""
    beside = statement_before(func, block_name)
    block: SBlock = find_block(func, block_name).stmt.block
    inner = {id(realize.block) for realize in blocks_in(block.body)}
    for realize in blocks_in(beside):
        other = realize.block
        if other is not block and id(other) not in inner and test(other):
            raise ScheduleError(
                T0407,
                f"block {other.name_hint!r} in the loops of block {block_name!r} {verb} {buffer.name!r}",
                func,
                block,
            )


def _first_of(func: PrimFunc, names: tuple[str, ...]) -> str:
    """Which of some blocks comes first in the text."""
    order = [realize.block.name_hint for realize in blocks_in(func.body)]
    return min(names, key=order.index)


def _staging_buffer(buffer: Buffer, scope: str) -> Buffer:
    return decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{scope}", scope=scope)


def _redirect_reads(block: SBlock, buffer: Buffer, staged: Buffer) -> SBlock:
    return replace_buffers(block, {buffer: staged})  # type: ignore[no-any-return]


def copy_nest(source: Buffer, target: Buffer, name: str) -> Stmt:
    """Loops that copy one whole buffer to another of the same shape."""
    axes = whole_axes(source)
    index: tuple[PrimExpr, ...] = tuple(axis.var for axis in axes)
    return loop_nest(axes, BufferStore(target, BufferLoad(source, index), index), name)


def insert_beside(
    func: PrimFunc, block_name: str, staged: Buffer | None, copy: Stmt, after: bool
) -> PrimFunc:
    """Add a statement beside the top-level statement that holds a block, and the buffer to the scope."""
    beside = statement_before(func, block_name)
    func = replace_stmt(func, beside, seq(beside, copy) if after else seq(copy, beside))
    return func if staged is None else add_buffers(func, scope_of(func, find_block(func, block_name)), staged)


def set_scope(func: PrimFunc, old: Buffer, scope: str) -> PrimFunc:
    """alloc B (global)   →   alloc B (local)      and all accesses with it; the buffer is a temporary one"""
    new = decl_buffer(old.shape, old.dtype, old.name, strides=old.strides, scope=scope)
    for realize in blocks_in(func.body):
        if old in realize.block.alloc_buffers:
            owner = realize.block
            kept = tuple(new if b is old else b for b in owner.alloc_buffers)
            return replace_stmt(func, owner, replace(replace_buffers(owner, {old: new}), alloc_buffers=kept))
    raise ScheduleError(T0408, f"buffer {old.name!r} is allocated by no block", func)
