"""The register tile of a contraction: what each axis is for, and how many accumulators fit.

The product's two operands are told apart by their indices: the weights are contiguous in a spatial axis n
that the data does not use, which goes into vector lanes; m is an axis of the data that the weights do not
use.
"""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var, is_const_int
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.dot_product import packed_depth
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, IterType, SBlock
from heddle.tir.schedule.rules.rule import extent_of


@frozen
class Axes:
    """What each axis of a contraction is for. `packed` is the weights' block size where they are packed,
    else None; `depth` steps of the reduction lie side by side in weights that are packed for dot products."""

    m: Var | None
    n: Var
    outer: tuple[Var, ...]
    reduce: tuple[Var, ...]
    packed: int | None
    depth: int = 1


@frozen
class Tile:
    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """How many columns a tile has: its vectors times their lanes."""
        return self.vectors * self.lanes


def factors(block: SBlock) -> tuple[BufferLoad, BufferLoad] | None:
    """The two loads that are multiplied."""
    written = {region.buffer for region in block.writes}
    for node in walk(block.body):
        if isinstance(node, Mul):
            sides = [[n for n in walk(side) if isinstance(n, BufferLoad)] for side in (node.a, node.b)]
            if all(len(loads) == 1 and loads[0].buffer not in written for loads in sides):
                return sides[0][0], sides[1][0]
    return None


def classify(block: SBlock) -> Axes | None:
    """Which axes of a contraction are rows, columns and batches, by which operand uses them; None for other
    blocks.
    """
    loads = factors(block)
    if loads is None or not isinstance(block.body, BufferStore):
        return None
    spatial = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
    reduce = tuple(axis.var for axis in block.iter_vars if axis.iter_type is IterType.CommReduce)
    for weights, data in (loads, loads[::-1]):
        if not weights.indices:
            continue
        depth = steps_side_by_side(data, weights, block.writes[0].buffer, reduce)
        found = _lane_axis(weights.indices[-1 if depth == 1 else -2], spatial)
        if found is None or found[0] in free_vars(*data.indices):
            continue
        n, packed = found
        in_weights = set(free_vars(*weights.indices))
        rows = [v for v in spatial if v in free_vars(*data.indices) and v not in in_weights]
        m = rows[-1] if rows else None
        outer = tuple(v for v in spatial if v not in (m, n))
        return Axes(m, n, outer, reduce, packed, depth)
    return None


def operands(block: SBlock, axes: Axes) -> tuple[BufferLoad, BufferLoad]:
    """The loads of a contraction's data and of its weights."""
    loads = factors(block)
    assert loads is not None
    return loads[::-1] if axes.n in free_vars(*loads[0].indices) else loads


def steps_side_by_side(data: BufferLoad, weights: BufferLoad, sums: Buffer, reduce: tuple[Var, ...]) -> int:
    """How many steps of a reduction the last dimension of weights holds, if they are packed for dot products;
    else 1."""
    depth, last = packed_depth(data.dtype, weights.dtype, sums.dtype), weights.indices[-1]
    if depth is None or len(weights.indices) < 2 or not isinstance(last, FloorMod):
        return 1
    return depth if last.a in reduce and is_const_int(last.b, depth) else 1


def _lane_axis(index: PrimExpr, spatial: list[Var]) -> tuple[Var, int | None] | None:
    """The axis along which an index is contiguous: `n`, or `n % block` of packed weights."""
    if isinstance(index, Var) and index in spatial:
        return index, None
    if (
        isinstance(index, FloorMod)
        and isinstance(index.a, Var)
        and index.a in spatial
        and isinstance(index.b, IntImm)
    ):
        return index.a, index.b.value
    return None


MOST_VECTORS = 4
"""The most vectors that a tile is wide."""


def lanes_of(dtype: DataType, target: Target) -> int:
    """How many elements a vector of the target has."""
    return max(1, target.vector_width_bits // dtype.bits)


def choose_tile(block: SBlock, axes: Axes, target: Target, height: int | None = None) -> Tile | None:
    """The register tile: as many accumulators as registers allow, with little padding. `height`: its rows."""
    dtype = block.writes[0].buffer.dtype
    if dtype.bits < 8 or not (dtype.is_float or dtype.is_int):
        return None
    lanes = lanes_of(dtype, target)
    registers = 32 if target.vector_width_bits >= 512 else 16
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    columns = extents[axes.n] if axes.packed is None else axes.packed
    if columns is not None and columns < lanes:
        lanes = max(4, 1 << (columns - 1).bit_length()) if axes.packed is None else columns
    rows = 1 if axes.m is None else extents[axes.m]
    plain_rows = axes.m is None or is_plain(block, axes.m)
    fits = [h for h in range(1, 15) if rows is None or h <= rows]
    if height is not None:
        fits = [height]
    elif not plain_rows:
        fits = [h for h in fits if rows is not None and rows % h == 0]
    held = extents[axes.n] if axes.packed is None else _columns_held(block, axes) or extents[axes.n]
    best: tuple[float, Tile] | None = None
    for vectors in range(1, MOST_VECTORS + 1):
        if axes.packed is not None and not _fits_panels(vectors * lanes, axes.packed, held):
            continue
        for tall in (h for h in fits if h * vectors + vectors + 2 <= registers):
            score = _score(tall, vectors, lanes, rows, vectors * lanes if axes.packed else columns)
            if best is None or score > best[0]:
                best = score, Tile(tall, vectors, lanes)
    return best[1] if best is not None else None


def _columns_held(block: SBlock, axes: Axes) -> int | None:
    """How many columns packed weights hold: those of whole panels, the last of which may be filled up."""
    _, weights = operands(block, axes)
    for index, size in zip(weights.indices, weights.buffer.shape, strict=True):
        if isinstance(index, FloorDiv) and index.a is axes.n and isinstance(size, IntImm):
            return size.value * (axes.packed or 1)
    return None


def _fits_panels(columns: int, packed: int, size: int | None) -> bool:
    """Whether so many columns cut panels of packed weights evenly, or are several panels that cut all
    evenly."""
    return packed % columns == 0 or (columns % packed == 0 and size is not None and size % columns == 0)


ENOUGH = 3.0
"""Multiply-adds per load from which on loads hide behind them, and only padding counts."""


def _score(height: int, vectors: int, lanes: int, rows: int | None, columns: int | None) -> float:
    """Multiply-adds per load, discounted by padding; unknown sizes count as middling ones."""
    intensity = min(height * vectors / (height * 0.5 + vectors + 1.0), ENOUGH)
    known_rows, known_columns = rows or 40, columns or 40 * lanes
    width = vectors * lanes
    used = (known_rows / (-(-known_rows // height) * height)) * (
        known_columns / (-(-known_columns // width) * width)
    )
    if rows is None:
        used *= 1.0 if height <= 8 else 0.9
    return intensity * used


def is_plain(block: SBlock, axis: Var) -> bool:
    """Whether an axis is used only as an index by itself, so that it can be padded."""
    for region in block.reads:
        for part in region.region:
            if part.min is not axis and axis in free_vars(part.min):
                return False
    return True
