"""Functions with reductions over rows (sum, softmax, layer norm): one parallel pass, row by row.

The loops of the last block that index the reductions' results are the rows. Everything before is computed
inside the row loop, so that a row stays in the cache through all passes over it. Sums along a row are taken
in several lanes; their order depends on the vector width only, not on the number of threads.
"""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.nodes import Buffer, BufferLoad, BufferRegion, IterType, SBlock
from heddle.tir.schedule.rules.cuts import cut_loop
from heddle.tir.schedule.rules.elementwise import schedule_map, weight_of
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    extent_of,
    inline_maps,
    is_reduction,
    is_spatial,
    iterations,
    parallelize,
    try_primitive,
)
from heddle.tir.schedule.rules.runs import with_runs_fused
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.transform.run_in_lanes import MAP, REDUCTION

_LEAST_COLUMNS, _LEAST_LANES = 16, 4
"""Columns that are worth a strip of their own, and lanes that are worth a vector."""
_STRIPS = (256, 128, 64)
"""Columns that a thread reduces together. The last is what is under way at once."""
_WIDE_STRIPS, _FEWEST_WIDE = (1024, 512), 4
"""The longer a strip, the fewer pages a row of it touches, if that leaves some for every thread."""
_PRODUCT_STRIP = 1024
"""Columns of a strip of a product with many of them, or any number."""
_STRIP_OF_FREE = 32
"""Rows side by side in lanes, where nobody knows how many there are: few, for images of a few pixels."""
_ROWS = 8
"""Rows that are added to the same sums before the next columns."""


class RowPass(ScheduleRule):
    wants_columns = True

    def gains_by_merging(self, sch: Schedule) -> bool:
        """Sums across memory have more columns then."""
        blocks = [block_of(sch, handle) for handle in sch.blocks()]
        reductions = [block for block in blocks if is_reduction(block)]
        return bool(reductions) and not any(reduces_last(block) for block in reductions)

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        blocks = [block_of(sch, handle) for handle in sch.blocks()]
        if not any(is_reduction(block) for block in blocks):
            return None
        sch = sch.copy()
        inline_maps(sch, keep=reread(sch))
        handles = sch.blocks()
        last = handles[-1]
        ends_alone = all(sch.get_consumers(handle) for handle in handles[:-1])
        if is_spatial(block_of(sch, last)) and len(handles) > 1 and ends_alone:
            rows = _row_loops(sch, last)
            if not rows or _ends_in_columns(sch, handles, rows):
                return _separately(sch)
            if _runs_across_memory(sch, handles, rows):
                _strip_pass(sch, handles, rows)
            else:
                _one_pass(sch, handles, rows)
            return sch
        return _separately(sch)


def reread(sch: Schedule) -> list[str]:
    """Maps whose result a reduction and something else read: worth computing once (the exponentials of a
    softmax)."""
    kept = []
    for handle in sch.blocks():
        block = block_of(sch, handle)
        if is_spatial(block):
            readers = [block_of(sch, reader) for reader in sch.get_consumers(handle)]
            if len(readers) > 1 and any(is_reduction(reader) for reader in readers):
                kept.append(handle.name)
    return kept


def _row_loops(sch: Schedule, last: SBlockRV) -> list[LoopRV]:
    """The loops of the last block whose axes index every reduction's result: loops over groups where an axis
    indexes it in groups, as channels do."""
    block = block_of(sch, last)
    produced = {
        region.buffer
        for handle in sch.blocks()
        if is_reduction(block_of(sch, handle))
        for region in block_of(sch, handle).writes
    }
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer in produced]
    used = [set(free_vars(*load.indices)) for load in loads]
    common: set[Var] = set.intersection(*used) if used else set()
    rows = []
    for loop, axis in zip(sch.get_loops(last), block.iter_vars, strict=False):
        if axis.var in common:
            size = _group_size(sch, loop, axis.var, loads)
            rows.append(loop if size is None else sch.split(loop, [None, size])[0])
    return rows


def _group_size(sch: Schedule, loop: LoopRV, axis: Var, loads: list[BufferLoad]) -> int | None:
    """The number of neighbours along an axis that share what all loads read, if groups are whole."""
    extent, sizes = extent_of(sch.get(loop).extent), set[int]()
    for index in (index for load in loads for index in load.indices if axis in free_vars(index)):
        sizes.add((extent_of(index.b) or 1) if isinstance(index, FloorDiv) and index.a is axis else 1)
    size = sizes.pop() if len(sizes) == 1 else 1
    return size if size > 1 and extent is not None and extent % size == 0 else None


def _one_pass(sch: Schedule, handles: list[SBlockRV], rows: list[LoopRV]) -> None:
    last = handles[-1]
    others = [loop for loop in sch.get_loops(last) if loop.var not in {row.var for row in rows}]
    sch.reorder(*rows, *others)
    work = iterations(sch, others) * len(handles)
    for handle in handles:
        reduction = [loop for loop in sch.get_loops(handle) if runs_over_reduction(sch, handle, loop)]
        if reduction:
            work = work + iterations(sch, reduction)
    row = sch.fuse(*rows) if len(rows) > 1 else rows[0]
    parallelize(sch, row, work)
    pass_over_row(sch, handles, row)


def pass_over_row(sch: Schedule, handles: list[SBlockRV], row: LoopRV) -> None:
    """All blocks in the row loop of the last one, which keeps what it can in its result."""
    last = handles[-1]
    for handle in reversed(handles[:-1]):
        sch.compute_at(handle, row)
    for handle in handles[:-1]:
        if is_reduction(block_of(sch, handle)):
            schedule_reduction_loops(sch, handle, row)
    for handle in handles:
        _run_map_in_lanes(sch, handle, row)
    for region in block_of(sch, last).reads:
        if region.buffer not in sch.func.buffers:
            _keep_in_result(sch, last, region.buffer)


def _keep_in_result(sch: Schedule, last: SBlockRV, temporary: Buffer) -> None:
    """A row of its own would be fetched and written besides the result's, which waits for memory later."""
    try_primitive(sch, lambda: sch.share_output(last, temporary))


def _run_map_in_lanes(sch: Schedule, handle: SBlockRV, row: LoopRV) -> None:
    """Mark the innermost loop of a map along a row for vector lanes, where it writes memory in order. A row
    of several dimensions is one run of elements where memory holds it so."""
    block, loops = block_of(sch, handle), sch.get_loops(handle)
    inner = loops[[loop.var for loop in loops].index(row.var) + 1 :]
    if not is_spatial(block) or not inner:
        return
    inner = with_runs_fused(sch, handle, inner)
    loop, index = inner[-1], block.writes[0].region[-1].min
    if any(
        axis.var is index and loop.var in free_vars(value)
        for axis, value in zip(block.iter_vars, sch.realization(handle).iter_values, strict=True)
    ):
        sch.annotate(loop, MAP, True)


def schedule_reduction_loops(sch: Schedule, handle: SBlockRV, below: LoopRV | None) -> None:
    """Initialise before the reduction loops; let the innermost of them be summed in lanes, or, where a
    spatial loop is contiguous in the result, put that innermost."""
    block = block_of(sch, handle)
    loops = sch.get_loops(handle)
    if below is not None:
        position = [loop.var for loop in loops].index(below.var)
        loops = loops[position + 1 :]
    reduce_loops = [loop for loop in loops if runs_over_reduction(sch, handle, loop)]
    spatial = [loop for loop in loops if loop.var not in {r.var for r in reduce_loops}]
    if not reduce_loops:
        return
    if spatial and not reduces_last(block):
        sch.reorder(*spatial[:-1], *reduce_loops, spatial[-1])
    else:
        sch.reorder(*spatial, *reduce_loops)
        reduce_loops = with_runs_fused(sch, handle, reduce_loops)
        sch.annotate(reduce_loops[-1], REDUCTION, True)
    first = next(loop for loop in sch.get_loops(handle) if loop.var in {r.var for r in reduce_loops})
    sch.decompose_reduction(handle, first)
    if len(block.writes) > 1:  # no sum in lanes, whose masks cost little
        _cut_reduction(sch, handle, reduce_loops[-1])


def _cut_reduction(sch: Schedule, handle: SBlockRV, loop: LoopRV) -> None:
    """Cut the loop over a reduced axis wherever conditions on this axis change."""
    block = block_of(sch, handle)
    for axis, value in zip(block.iter_vars, sch.realization(handle).iter_values, strict=True):
        if value is loop.var:
            cut_loop(sch, loop, block, axis.var, is_scalar=True)


def runs_over_reduction(sch: Schedule, handle: SBlockRV, loop: LoopRV) -> bool:
    """Whether an axis that a block sums along depends on a loop."""
    from_block = _bindings(sch, handle)
    return any(loop.var in free_vars(value) for kind, value in from_block if kind is IterType.CommReduce)


def _bindings(sch: Schedule, handle: SBlockRV) -> list[tuple[IterType, PrimExpr]]:
    realize = sch.realization(handle)
    return [
        (axis.iter_type, value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    ]


def reduces_last(block: SBlock) -> bool:
    """Whether some operand is contiguous along a reduction axis, of those that differ between neighbours of
    the result, if any do: a row that all columns are multiplied by is none. Axes of one element count for
    nothing."""
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.CommReduce}
    regions = [part for region in block.reads if (part := last_place(block, region)) is not None]
    own = last_place(block, block.writes[0])
    if isinstance(own, Var):
        moved = [
            place
            for region in block.reads
            if (place := last_place(block, region)) is not None
            and own in free_vars(*(part.min for part in region.region))
        ]
        regions = moved or regions
    return any(place in reduced for place in regions)


def last_place(block: SBlock, region: BufferRegion) -> PrimExpr | None:
    """The index of the last dimension in which a region's neighbours lie, beyond axes of one element."""
    ones = {axis.var for axis in block.iter_vars if extent_of(axis.dom.extent) == 1}
    places = [part.min for part in region.region if part.min not in ones]
    return places[-1] if places else None


def _separately(sch: Schedule) -> Schedule:
    """Each block by itself: parallel over its spatial loops."""
    for handle in sch.blocks():
        block = block_of(sch, handle)
        if is_spatial(block):
            schedule_map(sch, handle)
            continue
        loops = sch.get_loops(handle)
        spatial = [loop for loop in loops if not runs_over_reduction(sch, handle, loop)]
        if spatial and _is_columns(sch, handle, spatial[-1]):
            _in_columns(sch, handle, spatial)
            continue
        keep_inner = 1 if len(spatial) > 1 and not reduces_last(block) else 0
        outer = spatial[: len(spatial) - keep_inner]
        if outer:
            rest = [loop for loop in loops if loop.var not in {o.var for o in outer}]
            sch.reorder(*outer, *rest)
            row = sch.fuse(*outer) if len(outer) > 1 else outer[0]
            parallelize(sch, row, iterations(sch, rest) * weight_of(block))
            try_primitive(sch, lambda handle=handle, row=row: schedule_reduction_loops(sch, handle, row))
        else:
            schedule_reduction_loops(sch, handle, None)
    return sch


def _ends_in_columns(sch: Schedule, handles: list[SBlockRV], rows: list[LoopRV]) -> bool:
    """Whether reductions run across memory and the last block maps their results only (a mean of columns)."""
    if len(rows) != len(sch.get_loops(handles[-1])):
        return False
    for handle in handles:
        if is_reduction(block_of(sch, handle)):
            loops = sch.get_loops(handle)
            spatial = [loop for loop in loops if not runs_over_reduction(sch, handle, loop)]
            if not spatial or not _is_columns(sch, handle, spatial[-1]):
                return False
    return True


def _runs_across_memory(sch: Schedule, handles: list[SBlockRV], rows: list[LoopRV]) -> bool:
    """Whether reductions run across memory, and all that is mapped lies along the last row loop (a softmax
    over channels): many rows then go side by side in lanes."""
    lane = sch.get_loops(handles[-1])[-1]
    if rows[-1].var is not lane.var or len(rows) == len(sch.get_loops(handles[-1])):
        return False
    for handle in handles:
        block, loops = block_of(sch, handle), sch.get_loops(handle)
        spatial = [loop for loop in loops if not runs_over_reduction(sch, handle, loop)]
        if is_reduction(block):
            if (
                len(block.writes) > 1
                or not spatial
                or not _is_columns(sch, handle, spatial[-1], _LEAST_LANES)
            ):
                return False
        elif [axis.var for axis in block.iter_vars if axis.var is block.writes[0].region[-1].min] != [
            block.iter_vars[-1].var
        ]:
            return False
    return True


def _strip_pass(sch: Schedule, handles: list[SBlockRV], rows: list[LoopRV]) -> None:
    """All blocks in the loop over strips of the last block's rows, of which a vector holds several."""
    last = handles[-1]
    others = [loop for loop in sch.get_loops(last) if loop.var not in {row.var for row in rows}]
    width = _strip_width(extent_of(sch.get(rows[-1]).extent))
    strip, lanes = sch.split(rows[-1], [None, width])
    outer = [*rows[:-1], strip]
    sch.reorder(*outer, *others, lanes)
    work = iterations(sch, others) * (len(handles) * width)
    shared = sch.fuse(*outer) if len(outer) > 1 else strip
    parallelize(sch, shared, work)
    sch.vectorize(lanes)
    for handle in reversed(handles[:-1]):
        sch.compute_at(handle, shared)
    for handle in handles[:-1]:
        inner = sch.get_loops(handle)[1:]
        reduce = [loop for loop in inner if runs_over_reduction(sch, handle, loop)]
        spatial = [loop for loop in inner if loop.var not in {loop.var for loop in reduce}]
        sch.reorder(*spatial[:-1], *reduce, spatial[-1])
        sch.vectorize(spatial[-1])
        if reduce:
            sch.decompose_reduction(handle, reduce[0])
    for region in block_of(sch, last).reads:
        if region.buffer not in sch.func.buffers:
            _keep_in_result(sch, last, region.buffer)


def _strip_width(columns: int | None) -> int:
    """The columns of a strip that leave the fewest lanes idle, the most of them where equal."""
    if columns is None:
        return _STRIP_OF_FREE
    return min((64, 32, 16), key=lambda width: -(-columns // width) * width)


def _is_columns(sch: Schedule, handle: SBlockRV, loop: LoopRV, least: int = _LEAST_COLUMNS) -> bool:
    """Whether a reduction runs across memory while its result is contiguous along `loop`."""
    block = block_of(sch, handle)
    long, _ = _reduction_loops(sch, handle)
    if reduces_last(block) or not long or not block.reads:
        return False
    extent = extent_of(sch.get(loop).extent)
    if extent is not None and extent < least:
        return False
    place, *others = [region.region[-1].min for region in (*block.writes, *block.reads) if region.region]
    bound = [
        axis.var
        for axis, value in zip(block.iter_vars, sch.realization(handle).iter_values, strict=True)
        if value is loop.var
    ]
    return place in bound and place in others


def _in_columns(sch: Schedule, handle: SBlockRV, spatial: list[LoopRV]) -> None:
    """Threads take strips of columns; within one, a few rows at a time are added to some vectors of sums."""
    long, single = _reduction_loops(sch, handle)
    extent = extent_of(sch.get(spatial[-1]).extent)
    is_long = extent is None or extent > _STRIPS[0]
    if is_long and not single and is_contraction(block_of(sch, handle)):
        _product_in_columns(sch, handle, spatial, long)
        return
    wide = [w for w in _WIDE_STRIPS if extent is not None and extent >= w * _FEWEST_WIDE]
    fits = (w for w in (*wide, *_STRIPS) if extent is not None and extent % w == 0)
    width = next(fits, _STRIPS[-1])
    is_ragged = extent is None or extent % width != 0
    copies = _local_results(sch, handle) if is_ragged else []
    strip, column, lanes = sch.split(spatial[-1], [None, width // _STRIPS[-1], _STRIPS[-1]])
    outer = [*spatial[:-1], strip]
    work = iterations(sch, long) * width
    *around, rows = long
    blocks, row = sch.split_ragged(rows, _ROWS)
    sch.reorder(*outer, *around, blocks, *single, column, row, lanes)
    if extent_of(sch.get(row).extent) is not None:
        sch.unroll(row)
    shared = sch.fuse(*outer) if len(outer) > 1 else strip
    parallelize(sch, shared, work)
    sch.vectorize(lanes)
    for copy in copies:
        sch.reverse_compute_at(copy, shared)
        sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction(handle, [*around, blocks][0])


def _local_results(sch: Schedule, handle: SBlockRV) -> list[SBlockRV]:
    """Let a block write to local memory, which has no mask: sums under one would go to memory and back at
    every row. Gives the copies of what is read elsewhere."""
    read = {region.buffer for reader in sch.get_consumers(handle) for region in block_of(sch, reader).reads}
    copies = []
    for index, region in enumerate(block_of(sch, handle).writes):
        if region.buffer in read or region.buffer in sch.func.buffers:
            copies.append(SBlockRV(sch.cache_write(handle, index, "local").name))
        else:
            sch.set_scope(handle, index, "local")
    return copies


def _product_in_columns(sch: Schedule, handle: SBlockRV, spatial: list[LoopRV], steps: list[LoopRV]) -> None:
    """A row times weights of many columns, or any number: threads take long strips, which end with the row.
    The sums of a strip stay in the nearest cache, and only its last vector asks where the row ends."""
    strip, lanes = sch.split_ragged(spatial[-1], _PRODUCT_STRIP)
    outer = [*spatial[:-1], strip]
    sch.reorder(*outer, *steps, lanes)
    work = iterations(sch, steps) * _PRODUCT_STRIP
    shared = sch.fuse(*outer) if len(outer) > 1 else strip
    parallelize(sch, shared, work, GRAIN_MULTIPLIES)
    sch.annotate(lanes, MAP, True)
    sch.decompose_reduction(handle, steps[0])


def _reduction_loops(sch: Schedule, handle: SBlockRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops over reduced axes: those that may run more than once, and the others."""
    loops = [loop for loop in sch.get_loops(handle) if runs_over_reduction(sch, handle, loop)]
    single = [loop for loop in loops if extent_of(sch.get(loop).extent) == 1]
    return [loop for loop in loops if loop not in single], single
