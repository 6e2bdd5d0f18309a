"""Products over a long axis, in blocks of it, so that a panel of weights stays in the second-level cache.

    parallel (outer axes, n tiles):
        sums[m, n tile] = 0
        for blocks of k:
            for m tiles:
                accumulators = X[m tile, k block] ⊗ W[k block, n tile]      (all in registers)
                sums[m tile, n tile] += accumulators
        epilogue on sums[:, n tile]

While one block of the weights is used, the next is fetched from memory, a line with every step.
"""

from __future__ import annotations

from collections.abc import Callable

from heddle.prim.nodes import FloorMod, PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import ceildiv, floormod, maximum
from heddle.prim.substitute import free_vars
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.grain import grain_of
from heddle.tir.nodes import BufferRegion, IterType
from heddle.tir.schedule.rules.register_tile import Axes, Tile
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    block_of,
    domain_size,
    extent_of,
    iterations,
    loops_of_axes,
    vectorize_last,
)
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule

PANEL_BYTES = 256 << 10
"""A block of the weights' panel: a quarter of a usual second-level cache."""

SHORTEST = 256
"""Blocks of fewer steps pay too often for adding up."""


def block_depth(sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile) -> int | None:
    """How many steps of the reduction a block has, where blocks pay: the panel is packed, longer than
    PANEL_BYTES, used for several rows, and cut evenly."""
    block = block_of(sch, handle)
    lanes_last = block.writes[0].region[-1].min is axes.n
    if axes.m is None or axes.packed != tile.columns or len(axes.reduce) != 1 or not lanes_last:
        return None
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    if len(axes.outer) > 1 or 1 in (extents[var] for var in (axes.m, axes.n, *axes.outer)):
        return None  # a single row uses a panel once
    steps = extents[axes.reduce[0]]
    row_bytes = tile.columns * block.writes[0].buffer.dtype.itemsize
    longest: int = PANEL_BYTES * axes.depth // row_bytes  # what lies side by side fills one sum's bytes
    if steps is None or steps <= longest:
        return None
    depths = range(longest, SHORTEST - 1, -1)
    return next((d for d in depths if steps % d == 0 and d % axes.depth == 0), None)


def schedule_in_depth(
    sch: Schedule, handle: SBlockRV, consumer: SBlockRV, axes: Axes, tile: Tile, depth: int
) -> None:
    """Sum a long reduction in parts of `depth` terms and add the parts up in a fixed order."""
    outer_k, _ = sch.split(loops_of_axes(sch, handle)[axes.reduce[0]], [None, depth])
    partial = sch.rfactor(outer_k, 0)
    sch.set_scope(partial, 0, "local")
    panel, row_tiles, outer_k = _tile_sums(sch, handle, axes, tile, depth)
    sch.compute_at(partial, row_tiles)
    inner_k = _tile_partial(sch, partial, row_tiles, tile, axes.depth)
    sch.reverse_compute_at(consumer, panel)
    vectorize_last(sch, consumer, tile.lanes)
    sch.decompose_reduction(handle, outer_k)
    stride = prefetch_stride(sch.get(row_tiles).extent, tile.columns * axes.depth)

    def ahead(panel: Var, block: Var, rows: Var, k: Var) -> tuple[PrimExpr, PrimExpr]:
        step: PrimExpr = (rows * (depth // axes.depth) + k) * stride
        return panel, (block + 1) * (depth * tile.columns) + step

    prefetch_weights(sch, partial, inner_k, ahead)


def _tile_sums(
    sch: Schedule, handle: SBlockRV, axes: Axes, tile: Tile, depth: int
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Tile the block that adds up partial results of `depth` terms; gives its loops over panels, row tiles
    and k blocks."""
    assert axes.m is not None
    reduction = next(a.var for a in block_of(sch, handle).iter_vars if a.iter_type is IterType.CommReduce)
    loops = loops_of_axes(sch, handle)
    outer_k, outer = loops[reduction], [loops[var] for var in axes.outer]
    n_tile, n_vector, lanes = sch.split(loops[axes.n], [None, tile.vectors, tile.lanes])
    m_tile, m_row = sch.split(loops[axes.m], [None, tile.rows])
    sch.reorder(*outer, n_tile, outer_k, m_tile, m_row, n_vector, lanes)
    sums = domain_size(block_of(sch, handle), (axes.m, reduction)) * iterations(sch, [n_vector, lanes])
    panel = sch.fuse(*outer, n_tile) if outer else n_tile
    sch.parallel(panel)
    sch.annotate(panel, "grain", grain_of(sums * depth, GRAIN_MULTIPLIES))
    for loop in (m_row, n_vector):
        sch.unroll(loop)
    sch.vectorize(lanes)
    return panel, m_tile, outer_k


def _tile_partial(
    sch: Schedule, partial: SBlockRV, row_tiles: LoopRV, tile: Tile, side_by_side: int
) -> LoopRV:
    """Order the loops of the accumulators; gives the loop over the steps of a k block, of which each takes
    those that lie side by side in the weights."""
    realize = sch.realization(partial)
    loops = sch.get_loops(partial)
    own = loops[[loop.var for loop in loops].index(row_tiles.var) + 1 :]
    steps = [
        value
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type is IterType.CommReduce
    ]
    inner_k: LoopRV = next(loop for loop in own if loop.var in free_vars(*steps))
    *rows, columns = (loop for loop in own if loop.var is not inner_k.var)
    vector, lanes = sch.split(columns, [tile.vectors, tile.lanes])
    pair = list[LoopRV]()
    if side_by_side > 1:
        inner_k, inside = sch.split(inner_k, [None, side_by_side])
        pair = [inside]
        sch.annotate(inside, DOT_PRODUCT, True)
    sch.reorder(inner_k, *rows, vector, lanes, *pair)
    for loop in (*rows, vector):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.decompose_reduction(partial, inner_k)
    return inner_k


def prefetch_stride(count: PrimExpr, used: int) -> PrimExpr:
    """How many elements of the next panel each step asks for, so that all steps of its `count` row tiles ask
    for all of it; a step has `used` elements of its own."""
    result: PrimExpr = ceildiv(constant(used, count.dtype), maximum(count, 1))
    return result


def prefetch_weights(
    sch: Schedule, handle: SBlockRV, loop: LoopRV, ahead: Callable[..., tuple[PrimExpr, PrimExpr]]
) -> None:
    """Fetch weights from memory before they are used, a little with every step of `loop`.

    The first row tile would otherwise wait for memory and all others leave it idle. `ahead` gives, from the
    variables of the loops, the panel and how many elements after its start to ask for; after a panel comes
    the next.
    """
    reads = block_of(sch, handle).reads
    found = [k for k, region in enumerate(reads) if _is_packed(region)]
    if len(found) != 1:
        return
    count = reads[found[0]].buffer.shape[0]
    if is_const_int(count, 0):
        return
    dimensions = len(reads[found[0]].region)

    def line(*loops: Var) -> tuple[PrimExpr, ...]:
        panel, element = ahead(*loops)
        between = [constant(0, element.dtype)] * (dimensions - 2)
        return floormod(panel, count), *between, element

    sch.prefetch(handle, found[0], loop, line)


def _is_packed(region: BufferRegion) -> bool:
    """Whether an access is to a panel, a step and a column in it (and a step of those side by side)."""
    return len(region.region) in (3, 4) and isinstance(region.region[-1].min, FloorMod)
