"""Windows that slide over plain images (pooling where no channels lie innermost, convolutions of each channel
by itself): tiles of rows, staged.

    parallel (images, channels, blocks of rows):
        for tiles of the row:
            staged[rows, columns] = what the windows read, padding included           (a few kilobytes)
            for rows of the block, vectors of the tile:
                accumulator[lanes] = identity
                for the window:  accumulator = combine(accumulator, staged[lanes])    (in a register)
                epilogue, in the lanes that lie in the row

A large window is one long chain of sums, each of which waits for the last. There the loop over the window
runs outside several rows and all vectors of a tile, whose accumulators are in registers together.

Conditions of the padding are asked once for an element that is staged, not for each window that reads it. The
last tile computes lanes beyond the row, which are not stored. Each element is combined in the order of its
window, so that results are those of the plain loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from heddle.arith import detect_linear_equation
from heddle.prim.nodes import Add, Cast, IntImm, Max, Min, Mul, PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import ceildiv
from heddle.prim.substitute import free_vars, substitute
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, BufferStore, IterType, SBlock
from heddle.tir.schedule.rules.convolution import NO_UNROLL
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    extent_of,
    inline_maps,
    is_reduction,
    is_spatial,
    iterations,
    local_result,
    parallelize,
    unrolled_vectors,
)
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule

MAX_TAPS = 1024
"""Larger windows are sums of their own."""
MAX_UNROLLED = 32
"""Taps of a window that is written out."""
MAX_STRIDE = 8
"""Lanes farther apart than that have little in common with their neighbours."""
LEAST_COLUMNS = 4
ROWS, VECTORS = 8, 2
"""Rows and vectors of a tile: the more, the fewer elements are staged twice, and the more rows and columns
beyond the end of small images."""
CHAINS, CHAIN_VECTORS = 8, 4
"""Accumulators of a large window that are worth having together, and how many of them lie in one row."""
MAX_STAGED = 1 << 13
"""Elements that are staged together: the nearest cache keeps them."""

_POWERS = (32, 16, 8, 4, 2, 1)


@frozen
class _Dimension:
    """A dimension of what windows read: index = axis * stride + the window's axes; `span` elements from the
    first to the last that one window reads."""

    axis: Var | None
    stride: int
    span: int

    def extent(self, outputs: int) -> int:
        """The elements that neighbouring windows read."""
        return (outputs - 1) * self.stride + self.span


@frozen
class _Windows:
    """A reduction over windows of `operand`. `x` runs along the lanes, `y` over the rows of a tile."""

    operand: BufferLoad
    dimensions: tuple[_Dimension, ...]
    taps: int
    x: Var
    y: Var | None


@frozen
class _Tile:
    """`height` rows, and all vectors if that is not None, have their accumulators together."""

    rows: int
    vectors: int
    lanes: int
    height: int | None = None

    @property
    def row_factors(self) -> tuple[int, ...]:
        """What rows are split into: the tile's, or groups of those whose accumulators are together."""
        return (self.rows,) if self.height is None else (self.rows // self.height, self.height)


class SlidingWindow(ScheduleRule):
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        reductions = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
        windows = _windows(block_of(sch, reductions[0])) if len(reductions) == 1 else None
        if windows is None:
            return None
        handle = reductions[0]
        tile = _choose_tile(block_of(sch, handle), windows, target)
        if tile is None:
            return None
        sch = sch.copy()
        inline_maps(sch, keep=[producer.name for producer in sch.get_producers(handle)])
        if not _is_fed_by_a_map(sch, handle, windows) or not _has_plain_epilogue(sch, handle):
            return None
        staged = _staging_block(sch, handle, windows, tile)
        _schedule(sch, handle, staged, windows, tile)
        return sch


# ---- which reductions


def _windows(block: SBlock) -> _Windows | None:
    """The windows that a reduction runs over, if all it does is to combine their elements."""
    store, operand = block.body, _combined(block)
    if operand is None or not isinstance(store, BufferStore):
        return None
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    outer = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
    reduce = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.CommReduce]
    sizes = [extents[var] for var in reduce]
    taps = prod(size or MAX_TAPS + 1 for size in sizes)
    if taps > MAX_TAPS or len(outer) < 2 or len(store.indices) != len(outer):
        return None
    found = [_dimension(index, outer, dict(zip(reduce, sizes, strict=True))) for index in operand.indices]
    dimensions = [dimension for dimension in found if dimension is not None]
    axes = [dimension.axis for dimension in dimensions if dimension.axis is not None]
    x = store.indices[-1]
    if set(store.indices) != set(outer) or len(dimensions) < len(found) or len(set(axes)) < len(axes):
        return None
    if dimensions[-1].axis is not x or not isinstance(x, Var) or not _is_worth_lanes(extents[x]):
        return None
    if _is_weighted(block) and not all(
        sizes[k] == 1 or _moves(operand, var, outer) for k, var in enumerate(reduce)
    ):
        return None  # a sum over channels
    sliding = [var for var in axes if _slides(operand, var, reduce)]
    moved = [dimension for dimension in dimensions if dimension.axis in sliding]
    if not sliding or any(dimension.stride > dimension.span for dimension in moved):
        return None
    rows = [index for index in store.indices if index in sliding and index is not x]
    y = rows[-1] if rows else None
    return _Windows(operand, tuple(dimensions), taps, x, y)  # type: ignore[arg-type]


def _is_worth_lanes(columns: int | None) -> bool:
    return columns is None or columns >= LEAST_COLUMNS


def _combined(block: SBlock) -> BufferLoad | None:
    """The load of R[i] = combine(R[i], load), whose value may be cast, or of R[i] + load * weight."""
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, (Add, Max, Min, Mul)):
        return None
    own, term = store.value.a, store.value.b
    while isinstance(term, Cast):
        term = term.value
    if isinstance(store.value, Add) and isinstance(term, Mul) and store.indices:
        term = _weighted(term, store.indices)
    if not isinstance(own, BufferLoad) or not isinstance(term, BufferLoad) or not term.indices:
        return None
    return term if own.buffer is store.buffer and term.buffer is not store.buffer else None


def _weighted(product: Mul, axes: tuple[PrimExpr, ...]) -> PrimExpr:
    """The factor that moves along the last axis of the result, if the other one, a weight, does not; else the
    product."""
    factors: list[PrimExpr] = []
    for factor in (product.a, product.b):
        while isinstance(factor, Cast):
            factor = factor.value
        factors.append(factor)
    moved = [factor for factor in factors if axes[-1] in free_vars(factor)]
    is_plain = all(isinstance(factor, BufferLoad) for factor in factors)
    return moved[0] if is_plain and len(moved) == 1 else product


def _dimension(index: PrimExpr, outer: list[Var], sizes: dict[Var, int | None]) -> _Dimension | None:
    """A dimension whose index is a sum of at most one axis of the result and axes of the window, each times a
    number; None for others."""
    used = free_vars(index)
    axes = [var for var in used if var in outer]
    if len(axes) > 1 or any(var not in sizes for var in used if var not in axes):
        return None
    coefficients = detect_linear_equation(index, used)
    numbers = [part.value for part in coefficients if isinstance(part, IntImm)]
    if len(numbers) != len(used) + 1 or any(number < 0 for number in numbers):
        return None
    of = dict(zip(used, numbers, strict=False))
    span = 1 + sum(of[var] * ((sizes[var] or 1) - 1) for var in used if var in sizes)
    stride = of[axes[0]] if axes else 1
    return _Dimension(axes[0] if axes else None, stride, span) if 0 < stride <= MAX_STRIDE else None


def _is_weighted(block: SBlock) -> bool:
    """Whether elements are multiplied before they are added."""
    value = block.body.value if isinstance(block.body, BufferStore) else None
    term = value.b if isinstance(value, Add) else None
    while isinstance(term, Cast):
        term = term.value
    return isinstance(term, Mul)


def _moves(operand: BufferLoad, var: Var, outer: list[Var]) -> bool:
    """Whether an axis of the window moves along one of the result."""
    used = [set(free_vars(index)) for index in operand.indices]
    return any(var in names and not names.isdisjoint(outer) for names in used)


def _slides(operand: BufferLoad, var: Var, reduce: list[Var]) -> bool:
    return any(var in free_vars(index) and set(free_vars(index)) & set(reduce) for index in operand.indices)


def _has_plain_epilogue(sch: Schedule, handle: SBlockRV) -> bool:
    """Whether at most one map reads the result, each element at its own place."""
    consumers = sch.get_consumers(handle)
    if not consumers:
        return True
    block, result = block_of(sch, consumers[0]), block_of(sch, handle).writes[0].buffer
    store = block.body
    if len(consumers) > 1 or not is_spatial(block) or not isinstance(store, BufferStore):
        return False
    if sch.get_consumers(consumers[0]):
        return False
    reads = [region.region for region in block.reads if region.buffer is result]
    ones = {axis.var for axis in block.iter_vars if extent_of(axis.dom.extent) == 1}
    places = [_without_ones([part.min for part in region], ones) for region in reads]
    made = _without_ones(store.indices, ones)
    return all(len(at) == len(made) and all(map(_same, at, made)) for at in places)


def _without_ones(indices: Sequence[PrimExpr], ones: set[Var]) -> list[PrimExpr]:
    """Indices but for those of axes of one element."""
    return [index for index in indices if index not in ones and not is_const_int(index, 0)]


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b


def _is_fed_by_a_map(sch: Schedule, handle: SBlockRV, windows: _Windows) -> bool:
    """Whether windows read an argument, or what one map makes for them alone."""
    producers = sch.get_producers(handle)
    if not producers:
        return windows.operand.buffer in sch.func.buffers
    block = block_of(sch, producers[0])
    readers = sch.get_consumers(producers[0])
    if len(producers) > 1 or len(readers) > 1 or windows.operand.buffer in sch.func.buffers:
        return False
    store, axes = block.body, tuple(axis.var for axis in block.iter_vars)
    return is_spatial(block) and isinstance(store, BufferStore) and store.indices == axes


# ---- the tile


def _choose_tile(block: SBlock, windows: _Windows, target: Target) -> _Tile | None:
    """Rows and vectors that are staged together, None where those of one window are too many."""
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    bits = max(32, block.writes[0].buffer.dtype.bits, windows.operand.buffer.dtype.bits)
    columns = extents[windows.x]
    lanes = target.vector_width_bits // bits
    if columns is not None:
        lanes = min(lanes, 1 << (columns - 1).bit_length())
    is_large = windows.taps > MAX_UNROLLED
    most = CHAIN_VECTORS if is_large else VECTORS
    vectors = most if columns is None else min(most, -(-columns // lanes))
    image = None if windows.y is None else extents[windows.y]
    rows = 1 if windows.y is None else _balanced(image, 2 * ROWS if is_large else ROWS)
    while _staged(windows, rows, vectors * lanes) > MAX_STAGED:
        if rows == vectors == 1:
            return None
        rows, vectors = (-(-rows // 2), vectors) if rows > 1 else (rows, 1)
    if lanes <= 1:
        return None
    if not is_large:
        return _Tile(rows, vectors, lanes)
    height = _height(image, rows, CHAINS // vectors)
    return _Tile(-(-rows // height) * height, vectors, lanes, height)


def _height(image: int | None, rows: int, most: int) -> int:
    """How many of a tile's rows have accumulators together: many, and few beyond the end of an image."""

    def worth(height: int) -> float:
        tile = -(-rows // height) * height
        return height * (1.0 if image is None else image / (-(-image // tile) * tile))

    return max(range(1, min(most, rows) + 1), key=worth)


def _balanced(extent: int | None, most: int) -> int:
    """Parts of at most so many, as equal as can be."""
    return most if not extent else -(-extent // -(-extent // most))


def _staged(windows: _Windows, rows: int, columns: int) -> int:
    outputs = {windows.y: rows, windows.x: columns}
    return prod(part.extent(outputs.get(part.axis, 1)) for part in windows.dimensions)


# ---- the schedule


def _staging_block(sch: Schedule, handle: SBlockRV, windows: _Windows, tile: _Tile) -> SBlockRV:
    """The map that makes what the windows read, for whole tiles: beyond the image's end lie zeros, and what
    is computed there is cut off."""
    block = block_of(sch, handle)
    made, consumers = sch.get_producers(handle), sch.get_consumers(handle)
    multiples = {windows.y: tile.rows, windows.x: tile.vectors * tile.lanes}
    added = sch.pad_einsum(handle, [multiples.get(axis.var, 1) for axis in block.iter_vars])
    if added:
        for producer in made:
            sch.compute_inline(producer)
        if consumers:
            sch.compute_inline(added[1])
        return SBlockRV(added[0].name)
    if made:
        return SBlockRV(made[0].name)
    buffers = [region.buffer for region in block.reads]
    return SBlockRV(sch.cache_read(handle, buffers.index(windows.operand.buffer), "global").name)


def _schedule(sch: Schedule, handle: SBlockRV, staged: SBlockRV, windows: _Windows, tile: _Tile) -> None:
    block = block_of(sch, handle)
    consumer = local_result(sch, handle)
    loops = dict(zip((axis.var for axis in block.iter_vars), sch.get_loops(handle), strict=True))
    reduce = [loops[axis.var] for axis in block.iter_vars if axis.iter_type is IterType.CommReduce]
    x, y = loops.pop(windows.x), None if windows.y is None else loops.pop(windows.y)
    outer = [loops[axis.var] for axis in block.iter_vars if axis.var in loops]
    outer = [loop for loop in outer if loop not in reduce]
    columns, vector, lane = sch.split(x, [None, tile.vectors, tile.lanes])
    blocks, rows, together = [], [], []
    if y is not None:
        block_loop, *split = sch.split(y, [None, *tile.row_factors])
        blocks, rows, together = [block_loop], split[:1], split[1:]
    chains = [*together, vector] if tile.height else []
    inner = [*reduce, *chains] if tile.height else [vector, *reduce]
    sch.reorder(*outer, *blocks, columns, *rows, *inner, lane)
    work = tile.rows * tile.vectors * tile.lanes * windows.taps
    if y is None:
        shared = columns = sch.fuse(*outer, columns)
        parallelize(sch, shared, work)
    else:
        shared = sch.fuse(*outer, *blocks)
        parallelize(sch, shared, iterations(sch, [columns]) * work)
    sch.compute_at(staged, columns)
    _stage(sch, staged, tile.lanes)
    below = (rows or [columns])[-1] if tile.height else vector
    sch.reverse_compute_at(consumer, below)
    for row in rows:
        _skip_rows(sch, consumer, row, tile.height or 1)
        sch.annotate(row, NO_UNROLL, True)
    if tile.height and tile.vectors > 1:
        sch.split(sch.get_loops(consumer)[-1], [None, tile.lanes])
    unrolled_vectors(sch, consumer, below)
    for loop in chains:
        sch.unroll(loop)
    sch.vectorize(lane)
    for loop in reduce if tile.height is None else ():
        sch.unroll(loop)
    for loop in reduce[:-1] if tile.height else ():
        sch.annotate(loop, NO_UNROLL, True)  # the last one is written out, of all weights would be copied
    sch.decompose_reduction(handle, reduce[0])


def _skip_rows(sch: Schedule, consumer: SBlockRV, row: LoopRV, height: int) -> None:
    """End the loop over a tile's rows, `height` at a time, with the image: what comes behind is not
    stored."""
    realize = sch.realization(consumer)
    loops = [sch.get(loop).loop_var for loop in sch.get_loops(consumer)]
    inner = loops[loops.index(row.var) :]
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if row.var in free_vars(value):
            first = substitute(value, {var: constant(0, var.dtype) for var in inner})
            left = axis.dom.extent - first
            sch.narrow(row, left if height == 1 else ceildiv(left, height))


def _stage(sch: Schedule, staged: SBlockRV, lanes: int) -> None:
    """Stage a row in vectors: whole ones, and for what is left over shorter ones."""
    *around, last = sch.get_loops(staged)
    for loop in around:
        sch.annotate(loop, NO_UNROLL, True)  # conditions of a column are asked once, and stay in registers
    extent = extent_of(sch.get(last).extent)
    assert extent is not None
    sizes = [extent // lanes * lanes, *(size for size in _POWERS if extent % lanes & size)]
    sizes = [size for size in sizes if size]
    whole, *others = sch.loop_partition(last, sizes) if len(sizes) > 1 else [last]
    if sizes[0] > lanes:
        vector, whole = sch.split(whole, [None, lanes])
        sch.unroll(vector)
    for loop, size in zip((whole, *others), sizes, strict=True):
        if size > 1:
            sch.vectorize(loop)
