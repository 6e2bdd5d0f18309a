"""Attention: products with keys, a pass over their rows (softmax), and products with values.

    parallel (outer axes, groups of row tiles):
        for tiles of keys:
            pack the keys' tile
            for row tiles:
                accumulators = Q[row tile] ⊗ K[tile of keys]             (all in registers)
                scores[row tile, tile of keys] = maps of the accumulators
        for rows: the pass over scores[row, :], in place
        for tiles of value columns, row tiles:
            accumulators = scores[row tile] ⊗ V[:, columns]
            epilogue on the tile

Scores exist for one group of rows at a time, in a buffer that stays in the second-level cache and grows with
the number of keys, not with its square. The last row is computed again where rows do not fill a tile. One
row, as a decoder has that makes a token at a time, has loops of its own where the number of rows is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

from heddle.prim.nodes import Var
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.nodes import BufferStore, IterType, PrimFunc, SBlock
from heddle.tir.schedule.rules.contraction import packed_copy, pad_edges
from heddle.tir.schedule.rules.register_tile import Axes, Tile, choose_tile, classify, operands
from heddle.tir.schedule.rules.row_pass import pass_over_row, reread
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    inline_maps,
    is_reduction,
    local_result,
    loops_of_axes,
    try_primitive,
    vectorize_last,
)
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule

T = TypeVar("T")

GROUP_ROWS = 48
"""Rows that use a packed tile of keys: packing then costs a fiftieth of the products."""


@frozen
class RowProduct:
    """A product for each batch: which parameters of its function are the data and the weights, and whether
    every batch has data of its own, whose last dimension is the sum's, its rows the one before."""

    data: int
    weights: int
    takes_rows: bool


def row_product(func: PrimFunc) -> RowProduct | None:
    """How a function multiplies, if it is one product for each batch."""
    blocks = plain_nests(func)
    if blocks is None or len(blocks) != 1:
        return None
    block = blocks[0]
    axes = _batched(block)
    if axes is None:
        return None
    data, weights = operands(block, axes)
    buffers = func.buffers
    if data.buffer not in buffers or weights.buffer not in buffers:
        return None
    takes_rows = tuple(data.indices) == (*axes.outer, axes.m, axes.reduce[0])
    return RowProduct(buffers.index(data.buffer), buffers.index(weights.buffer), takes_rows)


def _batched(block: SBlock) -> Axes | None:
    """The axes of a product with rows and columns, in this order after all others, whose weights differ
    between outer axes."""
    if not is_reduction(block) or not is_contraction(block) or not isinstance(block.body, BufferStore):
        return None
    axes = classify(block)
    if axes is None or axes.m is None or axes.packed is not None or len(axes.reduce) != 1:
        return None
    _, weights = operands(block, axes)
    spatial = tuple(axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar)
    in_order = spatial == (*axes.outer, axes.m, axes.n) == tuple(block.body.indices)
    used = free_vars(*weights.indices)
    return axes if in_order and any(outer in used for outer in axes.outer) else None


def size_of_one_query(func: PrimFunc) -> Var | None:
    """The free size that alone says how many rows attention has; None where a function is something else, or
    where keys or values have this size, too."""
    sch = Schedule(func)
    blocks = [block_of(sch, handle) for handle in sch.blocks()]
    products = [(block, axes) for block in blocks if (axes := _batched(block)) is not None]
    if len(products) != 2:
        return None
    sizes = {axis.dom.extent for block, axes in products for axis in block.iter_vars if axis.var is axes.m}
    used = {var for pair in products for var in free_vars(*operands(*pair)[1].buffer.shape)}
    size = sizes.pop()
    return size if isinstance(size, Var) and not sizes and size not in used else None


class Attention(ScheduleRule):
    wants_rows = True

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        if plain_nests(sch.func) is None:
            return None
        reductions = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
        if len(reductions) < 3:
            return None
        keys, *passes, values = reductions
        products = [_batched(block_of(sch, handle)) for handle in (keys, values)]
        if None in products or any(is_contraction(block_of(sch, handle)) for handle in passes):
            return None
        assert products[1] is not None
        tile = choose_tile(block_of(sch, values), products[1], target)
        if tile is None:
            return None
        sch = sch.copy()
        try:
            _Attention(sch, target, keys, values, tile).schedule()
        except _OtherForm:  # products and passes, but not of one another's rows
            return None
        return sch


class _OtherForm(Exception):
    """A function's blocks do not hang together as the rule expects."""


def _the(found: Iterable[T]) -> T:
    """The only one."""
    items = list(found)
    if len(items) != 1:
        raise _OtherForm
    return items[0]


class _Attention:
    """One function's schedule, step by step."""

    def __init__(self, sch: Schedule, target: Target, keys: SBlockRV, values: SBlockRV, tile: Tile) -> None:
        self.sch, self.target = sch, target
        self.keys, self.values, self.tile = keys, values, tile

    def schedule(self) -> None:
        sch, keys, values = self.sch, self.keys, self.values
        weights = _the(sch.get_producers(values))
        if any(region.buffer in sch.func.buffers for region in block_of(sch, weights).writes):
            raise _OtherForm  # all of them are a result, too
        inline_maps(sch, keep=[*reread(sch), weights.name])
        scores, result = self._scores(), local_result(sch, values)
        self._tile_rows(result)
        key_tile = choose_tile(block_of(sch, keys), self._axes(keys), self.target, self.tile.rows)
        if key_tile is None:
            raise _OtherForm
        packed = self._packed_keys(key_tile)
        padded = pad_edges(sch, values, self._axes(values), self.tile)
        group = self._tile_values(result)
        for name in padded:
            sch.compute_at(name, group)
            vectorize_last(sch, SBlockRV(name), self.tile.lanes)
        self._pass_over_rows(weights, scores, group)
        for handle in (scores, keys):
            sch.compute_at(handle, group, preserve_unit_loops=True)
        self._tile_keys(key_tile, packed, scores)

    def _scores(self) -> SBlockRV:
        """The map that takes products out of registers: the only one that reads them, or a copy."""
        consumers = self.sch.get_consumers(self.keys)
        if len(consumers) == 1 and not is_reduction(block_of(self.sch, consumers[0])):
            return local_result(self.sch, self.keys)
        made: SBlockRV = self.sch.cache_write(self.keys, 0, "local")
        return made

    def _axes(self, handle: SBlockRV) -> Axes:
        axes = classify(block_of(self.sch, handle))
        if axes is None or axes.m is None:
            raise _OtherForm
        return axes

    def _tile_rows(self, result: SBlockRV) -> None:
        axes, made = self._axes(self.values), block_of(self.sch, self.values).writes[0]
        dim = _the(k for k, part in enumerate(made.region) if part.min is axes.m)
        block = block_of(self.sch, result)
        read = _the(region for region in block.reads if region.buffer is made.buffer)
        rows = _the(k for k, axis in enumerate(block.iter_vars) if axis.var is read.region[dim].min)
        if not try_primitive(self.sch, lambda: self.sch.tile_rows(result, rows, self.tile.rows)):
            raise _OtherForm  # a row needs others

    def _packed_keys(self, tile: Tile) -> SBlockRV:
        """The block that lays a tile of keys side by side, and fills up the last one."""
        sch, axes = self.sch, self._axes(self.keys)
        padded = list(pad_edges(sch, self.keys, axes, tile))
        if padded:
            return SBlockRV(padded[0])
        return packed_copy(sch, self.keys, axes)

    def _tile_values(self, result: SBlockRV) -> LoopRV:
        """The products with values; gives the loop over groups of row tiles."""
        sch, axes = self.sch, self._axes(self.values)
        loops = loops_of_axes(sch, self.values)
        *outer, tiles = axes.outer
        group, row_tiles = sch.split_ragged(loops[tiles], max(1, GROUP_ROWS // self.tile.rows))
        columns, vectors, lanes = sch.split(loops[axes.n], [None, self.tile.vectors, self.tile.lanes])
        around = [loops[var] for var in outer]
        steps, rows = loops[axes.reduce[0]], loops[axes.m]  # type: ignore[index]
        sch.reorder(*around, group, columns, row_tiles, steps, rows, vectors, lanes)
        made: LoopRV = sch.fuse(*around, group)
        sch.parallel(made)
        sch.reverse_compute_at(result, row_tiles)
        vectorize_last(sch, result, self.tile.lanes)
        for handle in self._readers(result):
            if not try_primitive(sch, partial(sch.reverse_compute_at, handle, row_tiles)):
                raise _OtherForm  # it reads other tiles
            vectorize_last(sch, handle, self.tile.lanes)
        self._in_registers(self.values, steps, (rows, vectors), lanes)
        return made

    def _readers(self, result: SBlockRV) -> list[SBlockRV]:
        """The maps of a result that several read, which take it from the nearest cache."""
        names = [handle.name for handle in self.sch.blocks()]
        return [SBlockRV(name) for name in names[names.index(result.name) + 1 :]]

    def _in_registers(
        self, handle: SBlockRV, steps: LoopRV, unrolled: tuple[LoopRV, ...], lanes: LoopRV
    ) -> None:
        for loop in unrolled:
            self.sch.unroll(loop)
        self.sch.vectorize(lanes)
        self.sch.decompose_reduction(handle, steps)

    def _pass_over_rows(self, last: SBlockRV, scores: SBlockRV, group: LoopRV) -> None:
        """All that lies between the scores and `last`, row by row."""
        sch = self.sch
        sch.compute_at(last, group, preserve_unit_loops=True)
        row = loops_of_axes(sch, last)[self._row_of(last)]
        names = [handle.name for handle in sch.blocks()]
        if names.index(last.name) < names.index(scores.name):
            raise _OtherForm
        between = names[names.index(scores.name) + 1 : names.index(last.name)]
        pass_over_row(sch, [*map(SBlockRV, between), last], row)

    def _row_of(self, handle: SBlockRV) -> Var:
        """The axis over the rows of a tile, of the block that makes the factors of the values."""
        axes = self._axes(self.values)
        data, _ = operands(block_of(self.sch, self.values), axes)
        dim = _the(k for k, index in enumerate(data.indices) if index is axes.m)
        index = block_of(self.sch, handle).writes[0].region[dim].min
        if not isinstance(index, Var):
            raise _OtherForm
        return index

    def _tile_keys(self, tile: Tile, packed: SBlockRV, scores: SBlockRV) -> None:
        sch, axes = self.sch, self._axes(self.keys)
        loops = loops_of_axes(sch, self.keys)
        columns, vectors, lanes = sch.split(
            loops[axes.n], [None, tile.vectors, tile.lanes], disable_predication=True
        )  # the packed tile is filled up
        row_tiles, rows, steps = loops[axes.outer[-1]], loops[axes.m], loops[axes.reduce[0]]  # type: ignore[index]
        sch.reorder(columns, row_tiles, steps, rows, vectors, lanes)
        sch.reverse_compute_at(scores, row_tiles)
        vectorize_last(sch, scores, tile.lanes)
        sch.compute_at(packed, columns)
        vectorize_last(sch, packed, tile.lanes)
        self._in_registers(self.keys, steps, (rows, vectors), lanes)
