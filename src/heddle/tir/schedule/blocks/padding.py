"""Padding that nobody reads: rows beyond the end may hold anything, so they repeat the last row."""

from __future__ import annotations

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.ops import minimum
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0411
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, IterType, PrimFunc, SBlock
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, reads_buffer, replace_stmt


def clamp_padding(func: PrimFunc, block_name: str) -> PrimFunc:
    """P[i, k] = A[i, k] if i < m else 0   →   P[i, k] = A[min(i, m - 1), k]

    For a padding block of `pad_einsum` whose padded dimensions are spatial axes of the contraction: what the
    contraction computes there is cut off by its readers, so any value does, and one that needs no condition
    can be read in place.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    store, source, sizes = _padding(func, block)
    for reader in _readers(func, store.buffer):
        _check_cut_off(func, reader, store.buffer, sizes)
    axes = [axis.var for axis in block.iter_vars]
    index = [
        axis if size is None else minimum(axis, size - 1) for axis, size in zip(axes, sizes, strict=True)
    ]
    changed = replace(block, body=replace(store, value=BufferLoad(source, tuple(index))))
    return replace_stmt(func, block, with_access_regions(changed))


def _padding(func: PrimFunc, block: SBlock) -> tuple[BufferStore, Buffer, list[PrimExpr | None]]:
    """The store of a padding block, its source, and the unpadded size of each dimension that grows."""
    store, axes = block.body, tuple(axis.var for axis in block.iter_vars)
    if isinstance(store, BufferStore) and store.indices == axes and len(block.reads) == 1:
        source = block.reads[0].buffer
        if len(source.shape) == len(axes):
            pairs = zip(source.shape, store.buffer.shape, strict=True)
            return store, source, [None if structural_equal(old, new) else old for old, new in pairs]
    raise ScheduleError(T0411, f"block {block.name_hint!r} does not pad a buffer", func, block)


def _readers(func: PrimFunc, buffer: Buffer) -> list[SBlock]:
    blocks = [realize.block for realize in blocks_in(func.body)]
    return [block for block in blocks if not block.alloc_buffers and reads_buffer(block, buffer)]


def _check_cut_off(func: PrimFunc, reader: SBlock, padded: Buffer, sizes: list[PrimExpr | None]) -> None:
    """Whether everything that `reader` computes from padding is dropped by those who read its result."""
    spatial = {axis.var for axis in reader.iter_vars if axis.iter_type is IterType.DataPar}
    read = next(region for region in reader.reads if region.buffer is padded)
    written = reader.writes[0]
    for part, size in zip(read.region, sizes, strict=True):
        if size is None:
            continue
        axis = part.min
        places = [k for k, out in enumerate(written.region) if out.min is axis]
        users = _readers(func, written.buffer)
        others = [user for user in users if user is not reader]
        if axis not in spatial or not places or written.buffer in func.buffers or not others:
            raise ScheduleError(T0411, f"padding of {padded.name!r} may be read", func, reader)
        if not all(_reads_below(user, written.buffer, places[0], size) for user in others):
            raise ScheduleError(T0411, f"padding of {padded.name!r} is read", func, reader)


def _reads_below(user: SBlock, buffer: Buffer, dim: int, size: PrimExpr) -> bool:
    index = next(region for region in user.reads if region.buffer is buffer).region[dim].min
    domain = next((axis.dom for axis in user.iter_vars if axis.var is index), None)
    return isinstance(index, Var) and domain is not None and structural_equal(domain.extent, size)
