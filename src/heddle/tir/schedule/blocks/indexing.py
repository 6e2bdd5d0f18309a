"""How a block indexes its buffers."""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, PrimExpr, Var
from heddle.tir.codes import T0407
from heddle.tir.nodes import Buffer, BufferLoad, PrimFunc, SBlock
from heddle.tir.schedule.error import ScheduleError


def reading_axes(func: PrimFunc, block: SBlock, buffer: Buffer) -> list[Var | None]:
    """For each dimension of a buffer the consumer's axis that goes over it, in all its reads and no farther;
    None where there is no such axis: an axis of a join, which goes on to other parts, must run over all of
    them."""
    pattern = [axis_of(index, block) for index in _load_indices(func, block, buffer)]
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer is buffer]
    extents = {axis.var: axis.dom.extent for axis in block.iter_vars}
    for dim, axis in enumerate(pattern):
        if axis is None:
            continue
        extent, size = extents[axis], buffer.shape[dim]
        goes_on = isinstance(extent, IntImm) and isinstance(size, IntImm) and extent.value > size.value
        if goes_on or any(load.indices[dim] is not axis for load in loads):
            pattern[dim] = None
    return pattern


def store_indices(block: SBlock, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Where a block writes a buffer, by its region."""
    return tuple(r.min for region in block.writes if region.buffer is buffer for r in region.region)


def _load_indices(func: PrimFunc, block: SBlock, buffer: Buffer) -> tuple[PrimExpr, ...]:
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer is buffer]
    if not loads:
        raise ScheduleError(T0407, f"block {block.name_hint!r} does not read {buffer.name!r}", func, block)
    return loads[0].indices


def axis_of(index: PrimExpr, block: SBlock) -> Var | None:
    """The index, if it is an axis of a block."""
    return index if isinstance(index, Var) and any(axis.var is index for axis in block.iter_vars) else None
