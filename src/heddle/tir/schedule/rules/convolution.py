"""Convolutions of images: a register tile of pixels × output channels, channels in vector lanes.

Of an image (n, c / b, h, w, b), or a volume (n, c / b, d, h, w, b), the nest becomes

    parallel (n, tiles of output channels, rows; of a volume those of all its images):
        for tiles of the row's pixels:
            accumulators[pixels, vectors, lanes] = 0
            for blocks of input channels, taps of the kernel, channels of the block:
                accumulators += data[pixel] ⊗ weights[vectors, lanes]        (all in registers)
            epilogue on the tile

A tile of weights is contiguous in the order in which it is read. Pixels of a tile lie in one row, and tiles
divide it, so that the inner loops have no conditions; padding is copied around the image before.
"""

from __future__ import annotations

from math import prod

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import ceildiv, floordiv, floormod, minimum
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.grain import grain_of
from heddle.tir.nodes import Buffer, PrimFunc
from heddle.tir.schedule.channels import GROUPS, SUMMED_CHANNELS, group_end, group_start
from heddle.tir.schedule.rules.convolution_tile import (
    Convolution,
    ConvolutionTile,
    choose_tile,
    find_convolution,
    is_depthwise,
    row_length,
    tile_cost,
    weight_blocks,
)
from heddle.tir.schedule.rules.elementwise import schedule_map
from heddle.tir.schedule.rules.merged_axes import MergedAxes
from heddle.tir.schedule.rules.pixel_rows import with_rows_of
from heddle.tir.schedule.rules.ragged_tiles import Tiles, joined, ragged_tiles, tile_sizes
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    constant_product,
    domain_size,
    extent_of,
    inline_maps,
    iterations,
    local_result,
    loop_extents,
    unrolled_vectors,
)
from heddle.tir.schedule.rules.transpose import schedule_transposed, tile_side, transposed_axes
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.staging.prefetch import NEAR
from heddle.tir.transform.transpose_in_registers import TRANSPOSE

NO_UNROLL = "disable_unroll"
LINE_BYTES = 64
MAX_PIXELS = 512
"""More pixels than these hide the wait for a tile of weights."""
MIN_IMAGE_BYTES = 1 << 18
LARGE_IMAGE_CHANNELS, FEW_PANELS = 128, 4
"""Images of free sizes are taken for large where they have at most so many channels, as those near the inputs
of a network have. Fewer tiles of channels than that read an image again little."""
MAX_LINES = 16
"""The most cache lines that a block of input channels asks for."""


class ConvolutionRule(ScheduleRule):
    def over_other_axes(self, func: PrimFunc, target: Target) -> MergedAxes | None:
        """Single pixels are computed in rows of any length."""
        blocks = plain_nests(func) or []
        conv = find_convolution(blocks)
        length = None if conv is None else row_length(conv, blocks, target)
        return None if length is None else with_rows_of(func, length)

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        blocks = [block_of(sch, handle) for handle in sch.blocks()]
        conv = find_convolution(blocks)
        tile = None if conv is None else choose_tile(conv, blocks, target)
        if conv is None or tile is None:
            return None
        return _scheduled(sch.copy(), conv, tile, target)


def _scheduled(sch: Schedule, conv: Convolution, tile: ConvolutionTile, target: Target) -> Schedule:
    handle = SBlockRV(conv.block.name_hint)
    producers = [producer.name for producer in sch.get_producers(handle)]
    inline_maps(sch, keep=producers)
    _pack_now(sch, handle, conv, tile)
    for name in producers:
        if not schedule_transposed(sch, SBlockRV(name), target):
            schedule_map(sch, SBlockRV(name))
    row = conv.spatial[-1]
    if conv.extent(row) is not None:
        _schedule_rows(sch, conv, tile, target, None)
        return sch
    cost = tile_cost(conv, tile.vectors, target)
    parts, binds = ragged_tiles(conv.domain(row), tile_sizes(tile.pixels), cost)
    made = []
    for part in parts:
        version = sch.copy()
        rows = _schedule_rows(version, conv, ConvolutionTile(part.size, tile.vectors), target, part)
        made.append((version.func, rows.var))
    return Schedule(joined(made, binds))


def _schedule_rows(
    sch: Schedule, conv: Convolution, tile: ConvolutionTile, target: Target, part: Tiles | None
) -> LoopRV:
    """Rows of the result, tile by tile, all of them or a part; the loop that is given runs over rows."""
    handle = SBlockRV(conv.block.name_hint)
    consumer = local_result(sch, handle)
    loops = dict(zip((a.var for a in conv.block.iter_vars), sch.get_loops(handle), strict=True))
    n, c, *rows, w, lane = (loops[var] for var in conv.axes)
    row = conv.spatial[-1]
    c_tile, vector = sch.split(c, [None, tile.vectors])
    w_tile, pixel = _split_row(sch, w, tile.pixels, part)
    reduce = [loops[var] for var in _reading_order(conv)]
    beside: list[LoopRV] = []
    if conv.depth > 1:
        reduce[-1], pair = sch.split(reduce[-1], [None, conv.depth])
        sch.annotate(pair, DOT_PRODUCT, True)
        beside = [pair]
    is_by_rows = _is_by_rows(conv, tile, target)
    tasks = (n, *rows, c_tile) if is_by_rows else (n, c_tile, *rows)
    sch.reorder(*tasks, w_tile, *reduce, pixel, vector, lane, *beside)
    work = domain_size(conv.block, (row, *_reading_order(conv))) * iterations(sch, [vector, lane])
    parallel = sch.fuse(*tasks)
    sch.parallel(parallel)
    sch.annotate(parallel, "grain", grain_of(work, GRAIN_MULTIPLIES))
    sch.reverse_compute_at(consumer, w_tile)
    _schedule_result(sch, consumer, w_tile, target)
    sch.unroll(pixel)
    sch.unroll(vector)
    sch.vectorize(lane)
    for loop in reduce:
        sch.annotate(loop, NO_UNROLL, True)
    sch.decompose_reduction(handle, reduce[0])
    if GROUPS[0] in conv.block.annotations and tile.vectors == 1:
        _narrow(sch, handle, conv, reduce[0])
    elif SUMMED_CHANNELS in conv.block.annotations:
        _skip_filling(sch, conv, reduce)
    if not is_by_rows:
        _prefetch_weights(sch, handle, conv, tile)
    if part is None or part.is_first:  # the others end a row
        _prefetch_pixels(sch, handle, conv, tile, part)
    made: LoopRV = parallel
    return made


def _is_by_rows(conv: Convolution, tile: ConvolutionTile, target: Target) -> bool:
    """Whether a row of all channels comes before the next row, not a tile of channels of all rows before the
    next tile. What does not fit the second cache comes from farther away for each tile, or for each row;
    weights, which lie in the order in which they are read, take half of the time. Windows of one pixel read
    no row twice, and stay with their weights."""
    cache, panels = target.l2_cache_bytes * 3 // 4, (conv.extent(conv.c) or 1) // tile.vectors
    weights, shape = _bytes_of(conv.weights.buffer, 0), conv.data.buffer.shape
    taps = constant_product([conv.extent(var) for var in conv.reduce if var not in _channel_axes(conv)])
    if panels == 1 or weights is None or taps == 1 or conv.c in free_vars(*conv.data.indices):
        return False
    image = _bytes_of(conv.data.buffer, 1)
    if image is None:
        channels = constant_product([extent_of(shape[1]), extent_of(shape[-1])]) or 0
        return channels <= LARGE_IMAGE_CHANNELS and panels >= FEW_PANELS and weights <= cache // 2
    rows = constant_product([conv.extent(var) for var in conv.spatial[:-1]]) or 1
    return image > cache and (weights <= cache or weights * rows < 2 * image * panels)


def _channel_axes(conv: Convolution) -> tuple[Var, ...]:
    """The axes of sums over input channels."""
    indices = conv.data.indices
    return free_vars(indices[1], indices[-1])


def _bytes_of(buffer: Buffer, first: int) -> int | None:
    """The bytes of a buffer's dimensions from `first` on; None where one is free."""
    size = constant_product([extent_of(dim) for dim in buffer.shape[first:]])
    return None if size is None else size * buffer.dtype.itemsize


def _split_row(sch: Schedule, row: LoopRV, pixels: int, part: Tiles | None) -> list[LoopRV]:
    """Tiles of a row's pixels; the last one overlaps the one before where they do not divide it."""
    if part is not None:
        return list(sch.split_part(row, pixels, part.begin, part.count))
    (extent,) = loop_extents(sch, [row])
    if extent is None or extent % pixels == 0:
        return list(sch.split(row, [None, pixels]))
    return list(sch.split_overlapping(row, pixels))


def _schedule_result(sch: Schedule, consumer: SBlockRV, w_tile: LoopRV, target: Target) -> None:
    """The tile goes from registers to memory: along channels, or, where pixels lie side by side there,
    transposed."""
    inner = sch.get_loops(consumer)
    inner = inner[[loop.var for loop in inner].index(w_tile.var) + 1 :]
    pair = _transposed_loops(sch, consumer, inner)
    extents = loop_extents(sch, pair)
    if not pair or tile_side(target, *extents) != extents[0]:
        unrolled_vectors(sch, consumer, w_tile)
        return
    others = [loop for loop in inner if loop not in pair]
    sch.reorder(*others, *pair)
    for loop in others:
        sch.unroll(loop)
    sch.annotate(pair[0], TRANSPOSE, extents[0])


def _transposed_loops(sch: Schedule, handle: SBlockRV, loops: list[LoopRV]) -> list[LoopRV]:
    """The two loops along which a map reads and writes, if it does so along different ones."""
    block, values = block_of(sch, handle), sch.realization(handle).iter_values
    bound = {axis.var: value for axis, value in zip(block.iter_vars, values, strict=True)}
    axes = transposed_axes(block) or ()
    found = [loop for axis in axes for loop in loops if loop.var in free_vars(bound[axis])]
    return found if len(found) == 2 else []


def _skip_filling(sch: Schedule, conv: Convolution, reduce: list[LoopRV]) -> None:
    """Stop behind the last channel that is no filling: weights are zero from there."""
    order = _reading_order(conv)
    blocks, within = conv.data.indices[1], conv.data.indices[-1]
    if blocks not in order or within not in order:
        return
    outer, inner = (reduce[order.index(var)] for var in (blocks, within))  # type: ignore[arg-type]
    size = conv.extent(order[order.index(within)]) or 1  # type: ignore[arg-type]
    rest = int(conv.block.annotations[SUMMED_CHANNELS]) - outer.var * size
    sch.narrow(inner, ceildiv(rest, conv.depth))


def _narrow(sch: Schedule, handle: SBlockRV, conv: Convolution, channels: LoopRV) -> None:
    """Stop behind the last group that a vector meets: weights are zero from there."""
    groups = tuple(int(conv.block.annotations[name]) for name in GROUPS)
    position = [axis.var for axis in conv.block.iter_vars].index(conv.c)
    vector = sch.realization(handle).iter_values[position]
    sch.narrow(channels, group_end(groups, vector) - group_start(groups, vector))


def _prefetch_weights(sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile) -> None:
    """While a tile of weights is used for the pixels of an image, fetch the next one, some lines with every
    block of input channels.

    The first pixels would otherwise wait for memory, and all others leave it idle.
    """
    *above, width = (conv.extent(var) for var in conv.spatial)
    rows = constant_product(above)
    reads = block_of(sch, handle).reads
    ndim, innermost_tap = conv.packed_ndim + (conv.depth > 1), 2 + len(conv.spatial)
    found = [k for k, region in enumerate(reads) if len(region.region) == ndim]
    if len(found) != 1 or rows is None or width is None or rows * width > MAX_PIXELS:
        return
    packed = reads[found[0]].buffer
    panels, *tile_shape = (
        extent_of(dim) or 1 for k, dim in enumerate(packed.shape) if k in (0, *range(innermost_tap, ndim))
    )
    line_elements = LINE_BYTES // packed.dtype.itemsize
    num_lines = prod(tile_shape) // line_elements
    w_tiles = width // tile.pixels
    share = -(-num_lines // (rows * w_tiles))
    if share > MAX_LINES:
        return
    for k in range(share):

        def line(task: Var, w_tile: Var, *rest: Var, k: int = k) -> tuple[PrimExpr, ...]:
            number = (floormod(task, rows) * w_tiles + w_tile) * share + k
            at = minimum(number, num_lines - 1) * line_elements
            panel = floormod(floordiv(task, rows), panels) + 1
            return (panel, *rest, *[constant(0, at.dtype)] * (len(tile_shape) - 1), at)

        sch.prefetch(handle, found[0], sch.get_loops(handle)[innermost_tap], line)


def _prefetch_pixels(
    sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile, part: Tiles | None
) -> None:
    """Where pixels are read one by one, and the image may not fit the cache, fetch the next pixels of a
    block of channels while it is used: the next block lies too far away for the processor to guess it."""
    image = tuple(conv.domain(var) for var in conv.spatial)
    panels, ndim = (conv.extent(conv.c) or 1) // tile.vectors, len(image)
    data = conv.data.buffer
    found = [k for k, region in enumerate(block_of(sch, handle).reads) if region.buffer is data]
    is_pointwise = len(data.shape) == ndim + 3 and structural_equal(data.shape[2:-1], image)
    if not is_pointwise or len(found) != 1 or is_depthwise(conv) or len(_reading_order(conv)) != ndim + 2:
        return
    size = _bytes_of(data, 1)
    if size is not None and size < MIN_IMAGE_BYTES:
        return
    begin = 0 if part is None else part.begin

    def pixel(task: PrimExpr, w_tile: Var, *rest: Var) -> tuple[PrimExpr, ...]:
        row: list[PrimExpr] = []
        for size in reversed(image[:-1]):
            row.insert(0, floormod(task, size))
            task = floordiv(task, size)
        at = begin + (w_tile + 1) * tile.pixels + rest[-1] * conv.depth
        return (floordiv(task, panels), rest[0], *row, at, constant(0, at.dtype))

    sch.prefetch(handle, found[0], sch.get_loops(handle)[ndim + 3], pixel, NEAR)


def _pack_now(sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile) -> None:
    """Weights that no constant gives are packed when the function runs."""
    blocks = weight_blocks(conv, tile.vectors)
    if blocks is None:
        return
    position = [region.buffer for region in block_of(sch, handle).reads].index(conv.weights.buffer)
    copy = sch.cache_read(handle, position, "global")

    def packed(*index: PrimExpr) -> tuple[PrimExpr, ...]:
        outer, first = list(index), blocks[-1][0]
        for dim, size in blocks:
            outer[dim] = index[dim] // size
        others = [item for dim, item in enumerate(outer) if dim != first]
        return (outer[first], *others, *(index[dim] % size for dim, size in blocks))

    sch.transform_layout(copy, 0, packed)
    schedule_map(sch, copy)


def _reading_order(conv: Convolution) -> list[Var]:
    """The reduction axes in the order in which the weights lie."""
    found: dict[Var, None] = {}
    for index in conv.weights.indices:
        found.update({var: None for var in free_vars(index) if var in conv.reduce})
    found.update(dict.fromkeys(conv.reduce))
    return list(found)
