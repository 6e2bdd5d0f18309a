"""Staging a buffer through another: cache_read, cache_write, and the scope of a buffer."""

from __future__ import annotations

from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr, Range, Var, constant
from heddle.support.names import NameSupply
from heddle.tir.codes import T0408
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
    statements,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import (
    blocks_in,
    find_block,
    replace_stmt,
    scope_of,
    writes_buffer,
)
from heddle.tir.substitute import replace_buffers


def cache_write(func: PrimFunc, block_name: str, index: int, scope: str) -> tuple[PrimFunc, str]:
    """B[i] = f(i)   →   B_scope[i] = f(i);  B[i] = B_scope[i]

    The block writes the new buffer; later readers of B still read B. Gives the name of the copying block.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    if index >= len(block.writes):
        raise ScheduleError(T0408, f"block {block_name!r} has no write {index}", func, block)
    buffer = block.writes[index].buffer
    staged = _staging_buffer(buffer, scope)
    name = _fresh_block(func, f"{buffer.name}_{scope}")
    func = replace_stmt(func, block, replace_buffers(block, {buffer: staged}))
    copy = copy_nest(staged, buffer, name)
    return _insert(func, block_name, staged, copy, after=True), name


def cache_read(
    func: PrimFunc, block_name: str, index: int, scope: str, consumers: tuple[str, ...] = ()
) -> tuple[PrimFunc, str]:
    """B[i] = f(A[i])   →   A_scope[i] = A[i];  B[i] = f(A_scope[i])

    `consumers` limits which blocks read the copy (default: this block). Gives the name of the copying block.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    if index >= len(block.reads):
        raise ScheduleError(T0408, f"block {block_name!r} has no read {index}", func, block)
    buffer = block.reads[index].buffer
    staged = _staging_buffer(buffer, scope)
    name = _fresh_block(func, f"{buffer.name}_{scope}")
    for consumer in consumers or (block_name,):
        target: SBlock = find_block(func, consumer).stmt.block
        func = replace_stmt(func, target, _redirect_reads(target, buffer, staged))
    copy = copy_nest(buffer, staged, name)
    return _insert(func, block_name, staged, copy, after=False), name


def _staging_buffer(buffer: Buffer, scope: str) -> Buffer:
    return decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{scope}", scope=scope)


def _redirect_reads(block: SBlock, buffer: Buffer, staged: Buffer) -> SBlock:
    moved = replace_buffers(block, {buffer: staged})
    if not writes_buffer(block, buffer):
        return moved  # type: ignore[no-any-return]
    return replace(moved, writes=block.writes)  # type: ignore[no-any-return]


def _fresh_block(func: PrimFunc, hint: str) -> str:
    return NameSupply(realize.block.name_hint for realize in blocks_in(func.body)).fresh(hint)


def copy_nest(source: Buffer, target: Buffer, name: str) -> Stmt:
    """Loops that copy one whole buffer to another of the same shape."""
    loops = [Var(f"ax{k}", dim.dtype) for k, dim in enumerate(source.shape)]
    axes = tuple(
        IterVar(Range.from_min_extent(constant(0, dim.dtype), dim), Var(f"v{k}", dim.dtype))
        for k, dim in enumerate(source.shape)
    )
    index: tuple[PrimExpr, ...] = tuple(axis.var for axis in axes)
    point = tuple(Range.from_min_extent(i, constant(1, i.dtype)) for i in index)
    body = BufferStore(target, BufferLoad(source, index), index)
    block = SBlock(axes, (BufferRegion(source, point),), (BufferRegion(target, point),), name, body)
    stmt: Stmt = SBlockRealize(tuple(loops), constant(True), block)
    for var, dim in zip(reversed(loops), reversed(source.shape), strict=True):
        stmt = For(var, constant(0, dim.dtype), dim, ForKind.SERIAL, stmt)
    return stmt


def _insert(func: PrimFunc, block_name: str, staged: Buffer, copy: Stmt, after: bool) -> PrimFunc:
    """Add a statement beside the top-level statement that holds a block, and the buffer to the scope."""
    place = find_block(func, block_name)
    scope = scope_of(func, place)
    parts: list[Stmt] = []
    for stmt in statements(scope.body):
        holds = any(realize.block.name_hint == block_name for realize in blocks_in(stmt))
        if holds:
            parts.extend((stmt, copy) if after else (copy, stmt))
        else:
            parts.append(stmt)
    return replace_stmt(
        func, scope, replace(scope, body=seq(*parts), alloc_buffers=(*scope.alloc_buffers, staged))
    )


def set_scope(func: PrimFunc, block_name: str, index: int, scope: str) -> PrimFunc:
    """Move the buffer that a block writes to another storage scope."""
    block: SBlock = find_block(func, block_name).stmt.block
    if index >= len(block.writes) or block.writes[index].buffer in func.buffers:
        raise ScheduleError(T0408, f"block {block_name!r} writes no temporary buffer {index}", func, block)
    old = block.writes[index].buffer
    new = decl_buffer(old.shape, old.dtype, old.name, strides=old.strides, scope=scope)
    for realize in blocks_in(func.body):
        if old in realize.block.alloc_buffers:
            owner = realize.block
            kept = tuple(new if b is old else b for b in owner.alloc_buffers)
            return replace_stmt(func, owner, replace(replace_buffers(owner, {old: new}), alloc_buffers=kept))
    raise ScheduleError(T0408, f"buffer {old.name!r} is allocated by no block", func, block)
