"""Matrix products and convolutions: a register tile of m × n accumulators, n in vector lanes.

The product's two operands are told apart by their indices: the weights W are contiguous in a spatial axis n
that the data X does not use; m is an axis of X that W does not use. The nest becomes

    parallel (outer axes, n tiles):
        pack W's tile where its edge is ragged, or where W is computed and many rows use it
        for m tiles:
            pack X's tile where its edge is ragged; as float32, where it is of 16-bit floats
            accumulators[m tile, n tile] = 0
            for k:  accumulators += X[m tile, k] ⊗ W[k, n tile]        (all in registers)
            epilogue on the tile

Ragged and symbolic m and n are padded by zeros in the packed tiles, so the inner loops have no conditions.
"""

from __future__ import annotations

from functools import partial

from heddle.prim.nodes import PrimExpr, Var, is_const_int
from heddle.prim.ops import cast, floordiv, floormod, maximum
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.grain import grain_of
from heddle.tir.nodes import IterType, SBlock
from heddle.tir.schedule.rules.deep_contraction import (
    block_depth,
    prefetch_stride,
    prefetch_weights,
    schedule_in_depth,
)
from heddle.tir.schedule.rules.edges import inline_unpad, read_in_place
from heddle.tir.schedule.rules.elementwise import schedule_map
from heddle.tir.schedule.rules.merged_rows import with_merged_rows
from heddle.tir.schedule.rules.one_row import has_one_row
from heddle.tir.schedule.rules.register_tile import Axes, Tile, choose_tile, classify, operands
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    constant_product,
    domain_size,
    extent_of,
    inline_maps,
    is_reduction,
    iterations,
    loop_extents,
    try_primitive,
    vectorize_last,
)
from heddle.tir.schedule.rules.straight_loops import runs_straight
from heddle.tir.schedule.rules.tile_contraction import TileBlock, choose_tile_block, schedule_in_tiles
from heddle.tir.schedule.rules.transpose import schedule_transposed
from heddle.tir.schedule.rules.widened_rows import gains_by_widening, widen_rows
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.tree import find_block
from heddle.tir.sizes import ROWS_LEFT


class Contraction(ScheduleRule):
    wants_columns = True
    wants_rows = True

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        reductions = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
        if len(reductions) != 1 or not is_contraction(block_of(sch, reductions[0])):
            return None
        handle = reductions[0]
        if not runs_straight(find_block(sch.func, handle.name)):
            return None
        axes = classify(block_of(sch, handle))
        if axes is None or _has_one_column(block_of(sch, handle), axes) or has_one_row(sch, handle, axes):
            return None
        merged = with_merged_rows(sch, handle, axes)
        if merged is not None:
            sch, axes = merged.schedule, classify(block_of(merged.schedule, handle))
            assert axes is not None
        tiles = choose_tile_block(block_of(sch, handle), axes, target)
        tile = choose_tile(block_of(sch, handle), axes, target) if tiles is None else tiles.tile
        if tile is None:
            return None
        data, weights = operands(block_of(sch, handle), axes)
        if data.buffer is weights.buffer and _edges(sch, handle, axes, tile):
            return None  # one buffer cannot be padded for both
        if not _lanes_last(block_of(sch, handle), axes.n) and not _has_own_axes(block_of(sch, handle)):
            return None
        sch = sch.copy()
        view = merged.view if merged is not None else None
        _schedule_producers(sch, handle, view, target)
        _schedule(sch, handle, axes, tile, tiles, view)
        return sch


def _has_one_column(block: SBlock, axes: Axes) -> bool:
    """Whether rows are multiplied by one column: then the steps of the sum go into lanes, by another rule."""
    if not any(axis.var is axes.n and extent_of(axis.dom.extent) == 1 for axis in block.iter_vars):
        return False
    data, _ = operands(block, axes)
    return len(axes.reduce) == 1 and data.indices[-1] is axes.reduce[0]


def _has_own_axes(block: SBlock) -> bool:
    """Whether each dimension of the result is an axis of the block: a copy of a tile has its loops then."""
    spatial = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
    stored = [part.min for part in block.writes[0].region]
    return len(stored) == len(spatial) and all(index in spatial for index in stored)


def _schedule(
    sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile, tiles: TileBlock | None, view: str | None
) -> None:
    """`view`: a block that only gives the data other indices."""
    count = _ragged_rows(sch, handle, axes, tile)
    widens = tiles is None and gains_by_widening(sch, handle, axes, tile)
    pads = pad_edges(sch, handle, axes, tile, keeps_rows=widens)
    if widens:
        pads |= widen_rows(sch, handle, axes, pads)
    if view is not None:
        sch.compute_inline(view)
    if tiles is None and "n" not in pads.values() and _gains_by_packing(sch, handle, axes, tile):
        pads[packed_copy(sch, handle, axes).name] = "n"
    consumer = _consumer(sch, handle)
    if tiles is not None:
        schedule_in_tiles(sch, handle, consumer, axes, tiles, pads)
        return
    depth = None if pads else block_depth(sch, handle, axes, tile)
    if depth is not None:
        schedule_in_depth(sch, handle, consumer, axes, tile, depth)
        return
    transposed = not _lanes_last(block_of(sch, handle), axes.n)
    if transposed:
        consumer_copy = sch.cache_write(handle, 0, "local")
    else:
        sch.set_scope(handle, 0, "local")
        consumer_copy = consumer
    loops = _tile_loops(sch, handle, axes, tile, count, shares_rows="n" not in pads.values())
    for name, axis in pads.items():
        sch.compute_at(name, loops.tile if axis == "m" else loops.parallel)
        vectorize_last(sch, SBlockRV(name), tile.lanes)
    if pads:  # small copies count as registers, which would unroll the whole sum
        sch.annotate(loops.reduce, "disable_unroll", True)
    if transposed:
        _lanes_to_end(sch, handle, axes)
        _lanes_to_end(sch, consumer_copy, axes)
        sch.reverse_compute_at(consumer_copy, loops.tile)
        sch.reverse_compute_at(consumer, loops.tile)
        _schedule_copy(sch, consumer_copy, axes, tile)
    else:
        sch.reverse_compute_at(consumer, loops.tile)
        vectorize_last(sch, consumer, tile.lanes)
    for loop in loops.unrolled:
        sch.unroll(loop)
    if loops.row is not None and count is not None:
        sch.annotate(loops.unrolled[0], ROWS_LEFT, count - loops.row * tile.rows)
    sch.vectorize(loops.lanes)
    if loops.pair is not None:
        sch.annotate(loops.pair, DOT_PRODUCT, True)
    sch.decompose_reduction(handle, loops.reduce)
    _prefetch_weights(sch, handle, axes, tile, loops)


def _schedule_producers(sch: Schedule, handle: SBlockRV, view: str | None, target: Target) -> None:
    """What makes the operands has loops of its own, before the product; other maps go into their readers."""
    producers = [producer.name for producer in sch.get_producers(handle)]
    inline_maps(sch, keep=producers)
    for name in producers:
        if name != view and not schedule_transposed(sch, SBlockRV(name), target):
            schedule_map(sch, SBlockRV(name))


def _ragged_rows(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> PrimExpr | None:
    """How many rows the data has, where tiles may not divide them."""
    for axis in block_of(sch, handle).iter_vars:
        if axis.var is axes.m:
            extent = extent_of(axis.dom.extent)
            return axis.dom.extent if extent is None or extent % tile.rows else None
    return None


def _prefetch_weights(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile, loops: _Loops) -> None:
    """While a panel of packed weights is used several times, fetch the next one. A panel that is read once is
    followed by the next without a pause: the processor foresees that, and asking costs more."""
    tiles = loops.row_tiles
    if tiles is None or is_const_int(tiles, 1):
        return
    if axes.packed != tile.columns or len(axes.reduce) != 1 or loops.batches:
        return
    stride = prefetch_stride(tiles, tile.columns * axes.depth)
    steps, has_rows = sch.get(loops.reduce).extent, loops.tile is loops.parallel

    def ahead(rows: PrimExpr, k: Var) -> PrimExpr:
        result: PrimExpr = steps * (tile.columns * axes.depth) + (rows * steps + k) * stride
        return result

    if has_rows:
        prefetch_weights(
            sch, handle, loops.reduce, lambda task, k: (task // tiles, ahead(floormod(task, tiles), k))
        )
    else:
        prefetch_weights(sch, handle, loops.reduce, lambda panel, rows, k: (panel, ahead(rows, k)))


def pad_edges(
    sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile, keeps_rows: bool = False
) -> dict[str, str]:
    """Pad ragged edges; gives the padding blocks and which edge each pads. `keeps_rows`: rows are copied in
    any case."""
    multiples = _edges(sch, handle, axes, tile)
    if not multiples:
        return {}
    names_before = {b.name for b in sch.blocks()}
    sch.pad_einsum(handle, multiples)
    made = [b for b in sch.blocks() if b.name not in names_before]
    after = {consumer.name for consumer in sch.get_consumers(handle)}
    result: dict[str, str] = {}
    for new in made:
        if new.name in after:
            inline_unpad(sch, new)
        else:
            result[new.name] = "n" if _pads_lanes(sch, new, handle, axes) else "m"
    rows = [name for name, axis in result.items() if axis == "m"]
    if keeps_rows:
        for name in rows:
            try_primitive(sch, partial(sch.clamp_padding, name))
        return result
    return {name: axis for name, axis in result.items() if name not in rows or not read_in_place(sch, name)}


def _edges(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> list[int]:
    """What each axis must become a multiple of, for tiles to divide it; nothing where they do."""
    multiples = []
    for axis in block_of(sch, handle).iter_vars:
        wanted = tile.rows if axis.var is axes.m else tile.columns if axis.var is axes.n else 1
        extent = extent_of(axis.dom.extent)
        multiples.append(1 if extent is not None and extent % wanted == 0 else wanted)
    return multiples if any(multiple > 1 for multiple in multiples) else []


PACKED_ROWS = 64
"""Rows for which a tile of weights is worth copying: the copy costs a fiftieth of their products."""


def _gains_by_packing(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> bool:
    """Whether weights that are computed have longer rows than a tile, so that each step of the sum would read
    another page and the same sets of the caches, and enough rows of data pay for a copy."""
    if axes.packed is not None or axes.m is None:
        return False
    block = block_of(sch, handle)
    data, weights = operands(block, axes)
    if data.buffer is weights.buffer:  # of which one copy would be made for both
        return False
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    rows, columns = extents[axes.m], extents[axes.n]
    return rows is not None and rows >= PACKED_ROWS and columns is not None and columns > tile.columns


def packed_copy(sch: Schedule, handle: SBlockRV, axes: Axes) -> SBlockRV:
    """A block that copies the weights, to be moved to where a tile of them is used."""
    block = block_of(sch, handle)
    _, weights = operands(block, axes)
    reads = [region.buffer for region in block.reads]
    made: SBlockRV = sch.cache_read(handle, reads.index(weights.buffer), "global")
    return made


def _pads_lanes(sch: Schedule, pad: SBlockRV, handle: SBlockRV, axes: Axes) -> bool:
    buffer = block_of(sch, pad).writes[0].buffer
    region = next(r for r in block_of(sch, handle).reads if r.buffer is buffer)
    return axes.n in free_vars(*(part.min for part in region.region))


def _consumer(sch: Schedule, handle: SBlockRV) -> SBlockRV:
    """The block that takes the result out of the accumulators: the epilogue, or a copy."""
    consumers = sch.get_consumers(handle)
    made: SBlockRV = consumers[0] if len(consumers) == 1 else sch.cache_write(handle, 0, "global")
    return made


def _lanes_last(block: SBlock, n: Var) -> bool:
    return block.writes[0].region[-1].min is n


def _lanes_to_end(sch: Schedule, handle: SBlockRV, axes: Axes) -> None:
    """Store the tile with the lane axis last."""
    block = block_of(sch, handle)
    position = _axis_position(sch, handle, axes)
    if position is None or position == len(block.writes[0].region) - 1:
        return
    sch.transform_layout(handle, 0, lambda *i: (*i[:position], *i[position + 1 :], i[position]))


def _axis_position(sch: Schedule, handle: SBlockRV, axes: Axes) -> int | None:
    """Which dimension of the block's result the lane axis indexes (for copies, by position)."""
    block = block_of(sch, handle)
    number = _dimension(sch, axes)
    own = block.iter_vars[number].var if number < len(block.iter_vars) else None
    region = block.writes[0].region
    return next((k for k, part in enumerate(region) if part.min is axes.n or part.min is own), None)


def _dimension(sch: Schedule, axes: Axes) -> int:
    for handle in sch.blocks():
        block = block_of(sch, handle)
        if is_reduction(block):
            names = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
            return names.index(axes.n)
    return -1


@frozen
class _Loops:
    parallel: LoopRV
    tile: LoopRV
    """The innermost loop around a tile: that over row tiles, or the parallel one."""
    row: PrimExpr | None
    """The number of a tile among those of a panel, of which there are `row_tiles`."""
    row_tiles: PrimExpr | None
    reduce: LoopRV
    unrolled: tuple[LoopRV, ...]
    lanes: LoopRV
    pair: LoopRV | None
    """The loop over steps of the reduction that lie side by side in the weights."""
    batches: bool
    """Whether outer axes lie inside the loop over column tiles."""


MANY_TASKS = 64
"""Panels of columns that are enough for the threads of a processor."""


def _tile_loops(
    sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile, count: PrimExpr | None, shares_rows: bool
) -> _Loops:
    """Split and order the loops: outer and n tiles (parallel), m tiles, k, the tile itself. Where panels may
    be fewer than threads, those share the tiles of a panel, if they may (`shares_rows`). `count`: how many
    rows are no padding, where that is not all."""
    loops = dict(
        zip((axis.var for axis in block_of(sch, handle).iter_vars), sch.get_loops(handle), strict=True)
    )
    n_tile, n_vector, lanes = sch.split(loops[axes.n], [None, tile.vectors, tile.lanes])
    m_tile: list[LoopRV] = []
    m_row: list[LoopRV] = []
    if axes.m is not None:
        first, second = sch.split(loops[axes.m], [None, tile.rows])
        m_tile, m_row = [first], [second]
    outer = [loops[var] for var in axes.outer]
    before, after = outer[:1] if len(outer) > 1 else outer, outer[1:] if len(outer) > 1 else []
    reduce, pair = [loops[var] for var in axes.reduce], list[LoopRV]()
    if axes.depth > 1:
        steps, inside = sch.split(reduce.pop(), [None, axes.depth])
        reduce, pair = [steps], [inside]
    sch.reorder(*before, n_tile, *after, *m_tile, *reduce, *m_row, n_vector, lanes, *pair)
    shared = [*before, n_tile, *after]
    counted = (axes.m, *axes.reduce) if count is None else axes.reduce
    work = domain_size(block_of(sch, handle), counted) * iterations(sch, [n_vector, lanes])
    if count is not None:
        work = work * cast("int64", count)
    row_tiles = sch.get(m_tile[0]).extent if m_tile else None
    panels = constant_product(loop_extents(sch, shared))
    if m_tile and shares_rows and not is_const_int(row_tiles, 1) and (panels or 0) < MANY_TASKS:
        shared += m_tile
        work = floordiv(work, maximum(row_tiles, 1))
    parallel = sch.fuse(*shared) if len(shared) > 1 else shared[0]
    sch.parallel(parallel)
    sch.annotate(parallel, "grain", grain_of(work, GRAIN_MULTIPLIES))
    if axes.packed is not None and (not m_tile or is_const_int(row_tiles, 1)):
        sch.annotate(parallel, "sweep", True)  # weights are read once, by the next step of a loop again
    row: PrimExpr | None = None
    if m_tile:
        row = floormod(parallel.var, row_tiles) if m_tile[0] in shared else m_tile[0].var
    innermost = m_tile[0] if m_tile and m_tile[0] not in shared else parallel
    tiled = (*m_row, n_vector), lanes, pair[0] if pair else None
    return _Loops(parallel, innermost, row, row_tiles, reduce[0], *tiled, bool(after))


def _schedule_copy(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> None:
    """Copy the accumulators to a tile in memory, vector by vector."""
    realize = sch.realization(handle)
    position = _dimension(sch, axes)
    lane_axis = realize.iter_values[position]
    loops = sch.get_loops(handle)
    lane_loops = [
        loop
        for loop in loops
        if loop.var in free_vars(lane_axis) and loop_extents(sch, [loop])[0] == tile.columns
    ]
    if not lane_loops:
        return
    lane_loop = lane_loops[-1]
    others = loops[[loop.var for loop in loops].index(lane_loop.var) + 1 :]
    if others:
        sch.reorder(*others, lane_loop)
    vector = sch.split(lane_loop, [None, tile.lanes])
    sch.unroll(vector[0])
    sch.vectorize(vector[1])
    for loop in others:
        sch.unroll(loop)
