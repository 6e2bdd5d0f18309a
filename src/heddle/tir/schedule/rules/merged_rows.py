"""Rows of several axes as one: a product whose weights are the same for all of them.

    for b, i, n, k in grid(batch, length, 768, 768):
        C[b, i, n] += X[b, i, k] * W[k, n]
    →
    for r, n, k in grid(batch * length, 768, 768):
        C[r, n] += X[r // length, r % length, k] * W[k, n]

A tile then takes rows of several sequences. Without that, sequences of one row (a step of a decoder, data
that lies time first) would fill a sixth of each tile, and read the weights once for each sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.tir.nodes import SBlock
from heddle.tir.schedule.rules.register_tile import Axes, operands
from heddle.tir.schedule.rules.rule import block_of, extent_of, inline_maps, try_primitive
from heddle.tir.schedule.schedule import SBlockRV, Schedule

ENOUGH_ROWS = 64
"""Rows of the innermost axis that fill tiles by themselves."""


@frozen
class MergedRows:
    """A schedule with one axis of rows, and the name of the block that reads the data by it, to be inlined
    once rows are padded."""

    schedule: Schedule
    view: str


def with_merged_rows(sch: Schedule, handle: SBlockRV, axes: Axes) -> MergedRows | None:
    """One axis for the axes of rows; None where they stay apart."""
    block = block_of(sch, handle)
    rows = _rows(block, axes)
    if len(rows) < 2 or not _gains(block, rows):
        return None
    made, views = sch.copy(), list[str]()
    done = try_primitive(made, lambda: views.append(_merge(made, handle, axes, rows)))
    return MergedRows(made, views[0]) if done else None


def _rows(block: SBlock, axes: Axes) -> list[Var]:
    """The axes of the data that the weights lack, outermost first, if they lie side by side in both the data
    and the result, which they cover."""
    data, weights = operands(block, axes)
    used = free_vars(*weights.indices)
    own = [axis.var for axis in block.iter_vars if axis.var in (*axes.outer, axes.m)]
    rows = [var for var in own if var not in used]
    stored = [part.min for part in block.writes[0].region]
    extents = {axis.var: axis.dom.extent for axis in block.iter_vars}
    for buffer, indices in ((data.buffer, list(data.indices)), (block.writes[0].buffer, stored)):
        place = _place(indices, rows)
        if place is None or buffer.strides:
            return []
        sizes = buffer.shape[place : place + len(rows)]
        if not all(structural_equal(size, extents[row]) for size, row in zip(sizes, rows, strict=True)):
            return []
    return rows


def _place(indices: Sequence[PrimExpr], rows: Sequence[Var]) -> int | None:
    """From which index on the rows stand one by one; None where they do not, or one stands elsewhere too."""
    for place in range(len(indices) - len(rows) + 1):
        part = indices[place : place + len(rows)]
        if all(index is row for index, row in zip(part, rows, strict=True)):
            others = free_vars(*indices[:place], *indices[place + len(rows) :])
            return None if any(row in others for row in rows) else place
    return None


def _gains(block: SBlock, rows: Sequence[Var]) -> bool:
    """Whether the innermost rows may be too few to fill tiles, and there may be others."""
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    inner = extents[rows[-1]]
    outer = [extents[row] for row in rows[:-1]]
    return (inner is None or inner < ENOUGH_ROWS) and any(extent != 1 for extent in outer)


def _merge(sch: Schedule, handle: SBlockRV, axes: Axes, rows: Sequence[Var]) -> str:
    inline_maps(sch, keep=[producer.name for producer in sch.get_producers(handle)])
    consumer = _consumer_by_rows(sch, handle, rows) or sch.cache_write(handle, 0, "global")
    block = block_of(sch, handle)
    data = operands(block, axes)[0]
    which = [region.buffer for region in block.reads].index(data.buffer)
    start = _place(list(data.indices), rows)
    view: SBlockRV = sch.cache_read(handle, which, "global")
    block = block_of(sch, handle)
    place = _place([part.min for part in block.writes[0].region], rows)
    assert place is not None and start is not None
    count = len(rows)
    buffer = block.writes[0].buffer
    read = next(region for region in block_of(sch, consumer).reads if region.buffer is buffer)
    taken = [part.min for part in read.region[place : place + count]]
    sizes = buffer.shape[place : place + count]
    own = [axis.var for axis in block.iter_vars]
    sch.transform_block_layout(handle, _merged(own.index(rows[0]), sizes))
    others = [axis.var for axis in block_of(sch, consumer).iter_vars]
    first = next(k for k, var in enumerate(others) if var is taken[0])
    assert all(var is index for var, index in zip(others[first : first + count], taken, strict=True))
    sch.transform_block_layout(consumer, _merged(first, sizes))
    sch.transform_block_layout(view, _merged(start, sizes))
    sch.transform_layout(handle, ("write", 0), _merged(place, sizes))
    sch.transform_layout(handle, ("read", which), _merged(start, sizes))
    return view.name


def _consumer_by_rows(sch: Schedule, handle: SBlockRV, rows: Sequence[Var]) -> SBlockRV | None:
    """The one block that reads the result, if its axes of rows are axes of its own side by side: one that
    drops an axis of a single row, for example, has none for it."""
    consumers = sch.get_consumers(handle)
    if len(consumers) != 1:
        return None
    (write,), consumer = block_of(sch, handle).writes, block_of(sch, consumers[0])
    place = _place([part.min for part in write.region], rows)
    read = next(region for region in consumer.reads if region.buffer is write.buffer)
    if place is None:
        return None
    own = [axis.var for axis in consumer.iter_vars]
    taken = [part.min for part in read.region[place : place + len(rows)]]
    return consumers[0] if _place(own, taken) is not None else None  # type: ignore[arg-type]


def _merged(place: int, sizes: Sequence[PrimExpr]) -> Callable[..., tuple[PrimExpr, ...]]:
    """The map that makes one index of those from `place` on."""

    def merged(*indices: PrimExpr) -> tuple[PrimExpr, ...]:
        one = indices[place]
        for index, size in zip(indices[place + 1 : place + len(sizes)], sizes[1:], strict=True):
            one = one * size + index
        return (*indices[:place], one, *indices[place + len(sizes) :])

    return merged
