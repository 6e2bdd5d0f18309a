"""Products by instructions of tiles: a block of accumulators in tile registers.

    parallel (outer axes, column blocks):
        for row blocks of 2 tiles:
            sums[2 × 16 rows, 2 × 16 columns] = 0
            for steps of 16 pairs:                                       (a product of tiles)
                for 2 × 2 tiles:
                    for 16 pairs, 16 rows, 16 lanes, 2 factors:
                        sums += X ⊗ W
            epilogue on sums

A tile of data has as many pairs of steps as divide the whole sum, so that no step is ragged: all tiles of a
kernel have the sides that they are configured with. Rows beyond the end are left out.
"""

from __future__ import annotations

from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.dot_product import DOT_PRODUCT, TILE_PRODUCT, tile_product_of
from heddle.tir.grain import grain_of
from heddle.tir.nodes import SBlock
from heddle.tir.schedule.rules.register_tile import Axes, Tile, is_plain
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    block_of,
    domain_size,
    extent_of,
    iterations,
    vectorize_last,
)
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule

FEWEST_ROWS = 8
"""Of fewer rows, weights are read from memory as fast by rows of dot products, which need no tile of sums."""
FEWEST_PAIRS = 8
"""Tiles of fewer pairs leave the instruction mostly idle."""


@frozen
class TileBlock:
    """Tiles of accumulators that one loop over the sum fills: `rows` × `columns` of them, of `side` rows and
    `lanes`, with `pairs` pairs of steps at a time."""

    rows: int
    columns: int
    side: int
    lanes: int
    pairs: int

    @property
    def tile(self) -> Tile:
        """The block as a register tile: what ragged edges are padded to."""
        return Tile(self.rows * self.side, self.columns, self.lanes)


def choose_tile_block(block: SBlock, axes: Axes, target: Target) -> TileBlock | None:
    """The block of tiles for a product, where the target has an instruction for tiles and it pays."""
    row = tile_product_of(target.feature_set)
    result = block.writes[0]
    if row is None or axes.depth != 2 or axes.m is None or axes.packed is None or len(axes.reduce) != 1:
        return None
    if str(result.buffer.dtype) != row.accumulator or result.region[-1].min is not axes.n:
        return None
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    rows, steps = extents[axes.m], extents[axes.reduce[0]]
    pairs = None if steps is None else pairs_of_a_tile(steps, row.depth // 2)
    if pairs is None or axes.packed % row.lanes or (rows is not None and rows < FEWEST_ROWS):
        return None
    made = TileBlock(
        1 if rows is not None and rows <= row.rows else 2,
        2 if axes.packed % (2 * row.lanes) == 0 else 1,
        row.rows,
        row.lanes,
        pairs,
    )
    return made if is_plain(block, axes.m) or (rows is not None and rows % made.tile.rows == 0) else None


def pairs_of_a_tile(steps: int, most: int) -> int | None:
    """The largest number of pairs, at most `most`, that cuts a sum evenly into several parts; None where that
    is none or too few."""
    if steps % 2:
        return None
    return next(
        (
            count
            for count in range(most, FEWEST_PAIRS - 1, -1)
            if steps // 2 % count == 0 and steps > 2 * count
        ),
        None,
    )


def schedule_in_tiles(
    sch: Schedule,
    handle: SBlockRV,
    consumer: SBlockRV,
    axes: Axes,
    tiles: TileBlock,
    pads: dict[str, str],
) -> None:
    """`pads` are blocks that pad an edge, "m" or "n"."""
    parallel, row_blocks, steps = _tile_loops(sch, handle, axes, tiles)
    for name, axis in pads.items():
        sch.compute_at(name, row_blocks if axis == "m" else parallel)
        vectorize_last(sch, SBlockRV(name), tiles.lanes)
    sch.reverse_compute_at(consumer, row_blocks)
    vectorize_last(sch, consumer, tiles.lanes)
    sch.annotate(steps, TILE_PRODUCT, True)
    sch.decompose_reduction(handle, steps)


def _tile_loops(
    sch: Schedule, handle: SBlockRV, axes: Axes, tiles: TileBlock
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Split and order the loops; gives those over column blocks (parallel), row blocks and steps."""
    assert axes.m is not None
    loops = dict(
        zip((axis.var for axis in block_of(sch, handle).iter_vars), sch.get_loops(handle), strict=True)
    )
    column_blocks, columns, lanes = sch.split(loops[axes.n], [None, tiles.columns, tiles.lanes])
    row_blocks, rows, row = sch.split(loops[axes.m], [None, tiles.rows, tiles.side])
    steps, pairs, factor = sch.split(loops[axes.reduce[0]], [None, tiles.pairs, 2])
    outer = [loops[var] for var in axes.outer]
    shared = [*outer[:1], column_blocks, *outer[1:]]
    inner = [row_blocks, steps, rows, columns, pairs, row, lanes, factor]
    sch.reorder(*shared, *inner)
    work = domain_size(block_of(sch, handle), (axes.m, *axes.reduce)) * iterations(sch, [columns, lanes])
    parallel = sch.fuse(*shared) if len(shared) > 1 else shared[0]
    sch.parallel(parallel)
    sch.annotate(parallel, "grain", grain_of(work, GRAIN_MULTIPLIES))
    for loop in (rows, columns):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.annotate(factor, DOT_PRODUCT, True)
    return parallel, row_blocks, steps
