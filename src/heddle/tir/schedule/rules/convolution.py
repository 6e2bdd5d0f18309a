"""Convolutions of images: a register tile of pixels × output channels, channels in vector lanes.

Of an image (n, c / b, h, w, b) the nest becomes

    parallel (n, tiles of output channels, rows):
        for tiles of the row's pixels:
            accumulators[pixels, vectors, lanes] = 0
            for blocks of input channels, kernel rows, kernel columns, channels of the block:
                accumulators += data[pixel] ⊗ weights[vectors, lanes]        (all in registers)
            epilogue on the tile

A tile of weights is contiguous in the order in which it is read. Pixels of a tile lie in one row, and tiles
divide it, so that the inner loops have no conditions; padding is copied around the image before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, IntImm, Mul, PrimExpr, Var, constant
from heddle.prim.ops import ceildiv, floordiv, floormod, minimum
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, IterType, SBlock
from heddle.tir.schedule.channels import GROUPS, SUMMED_CHANNELS, group_end, group_start
from heddle.tir.schedule.rules.elementwise import schedule_map
from heddle.tir.schedule.rules.ragged_tiles import Tiles, joined, ragged_tiles, tile_sizes
from heddle.tir.schedule.rules.register_tile import steps_side_by_side
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    constant_product,
    extent_of,
    inline_maps,
    is_reduction,
    local_result,
    loop_extents,
    unrolled_vectors,
)
from heddle.tir.schedule.rules.transpose import schedule_transposed, tile_side, transposed_axes
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.staging.prefetch import NEAR
from heddle.tir.transform.transpose_in_registers import TRANSPOSE

NO_UNROLL = "disable_unroll"
PACKED_NDIM = 6
"""Dimensions of weights whose input and output channels are both blocked; one more where input channels lie
side by side for dot products."""
LINE_BYTES = 64
MAX_PIXELS = 512
"""More pixels than these hide the wait for a tile of weights."""
MIN_IMAGE_BYTES = 1 << 18
OVERLAP_COST = 0.03
"""What tiles that overlap have to gain, as a share of the peak, over those that do not."""
FREE_WIDTH = 14
"""The most pixels of a tile where a row may have any number: more would leave more over."""
MAX_LINES = 16
"""The most cache lines that a block of input channels asks for."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A block that correlates images: `axes` are those of its result (n, c, h, w, and the channel within its
    block where channels are blocked)."""

    block: SBlock
    result: Buffer
    data: BufferLoad
    weights: BufferLoad
    axes: tuple[Var, ...]

    @property
    def depth(self) -> int:
        """How many input channels lie side by side in weights that are packed for dot products."""
        return steps_side_by_side(self.data, self.weights, self.result, self.reduce)

    @property
    def reduce(self) -> tuple[Var, ...]:
        return tuple(axis.var for axis in self.block.iter_vars if axis.iter_type is IterType.CommReduce)

    def extent(self, var: Var) -> int | None:
        return next(extent_of(axis.dom.extent) for axis in self.block.iter_vars if axis.var is var)


def find_convolution(blocks: Sequence[SBlock]) -> Convolution | None:
    """The only reduction among blocks, if it is a convolution over two spatial axes."""
    reductions = [block for block in blocks if is_reduction(block)]
    return _convolution(reductions[0]) if len(reductions) == 1 else None


def _convolution(block: SBlock) -> Convolution | None:
    store = block.body
    if not isinstance(store, BufferStore) or len(store.indices) not in (4, 5):
        return None
    spatial = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar}
    axes = tuple(index for index in store.indices if isinstance(index, Var) and index in spatial)
    if len(axes) != len(store.indices) or len(axes) != len(spatial):
        return None
    n, c, h, w = axes[:4]
    for data, weights in _factors(store):
        position, own = [set(free_vars(index)) for index in data.indices], set(free_vars(*weights.indices))
        is_image = len(data.indices) in (4, 5) and h in position[2] and w in position[3] and n in position[0]
        if is_image and not own & {n, h, w} and c in own:
            return Convolution(block, store.buffer, data, weights, axes)
    return None


def _factors(store: BufferStore) -> list[tuple[BufferLoad, BufferLoad]]:
    """The two loads that are multiplied, in both orders."""
    for node in walk(store.value):
        if isinstance(node, Mul):
            sides = [[n for n in walk(side) if isinstance(n, BufferLoad)] for side in (node.a, node.b)]
            if all(len(loads) == 1 and loads[0].buffer is not store.buffer for loads in sides):
                a, b = sides[0][0], sides[1][0]
                return [(a, b), (b, a)]
    return []


MOST_FILL = 1 / 3
"""The share of an image's channels that may be filling for the sake of whole vectors."""


def channel_block(channels: int, lanes: int) -> int | None:
    """How many channels of an image lie side by side: the lanes of a vector, or half of them; None where
    neither divides them or could be filled up. Fewer vectors are better than less filling."""
    sizes = [size for size in (lanes, lanes // 2) if size > 1 and channels > 1]
    fits = [size for size in sizes if -channels % size <= channels * MOST_FILL]
    return fits[0] if fits else None


# ---- the tile


@dataclass(frozen=True, slots=True)
class ConvolutionTile:
    """`pixels` of a row times `vectors` of output channels."""

    pixels: int
    vectors: int


def choose_tile(conv: Convolution, target: Target) -> ConvolutionTile | None:
    """The register tile that keeps the multipliers busiest; None for what this rule does not take."""
    if len(conv.axes) != 5:
        return None
    _, c, _, w, lane = conv.axes
    width, blocks = conv.extent(w), conv.extent(c)
    if blocks is None or (lane in free_vars(*conv.data.indices) and not is_depthwise(conv)):
        return None
    vectors = 1 if is_depthwise(conv) else gcd(blocks, *_group_sizes(conv))
    if width is None:
        return max(_tiles(FREE_WIDTH, vectors, target), key=lambda tile: _score(tile.pixels, tile.vectors))
    return max(_tiles(width, vectors, target), key=lambda tile: _row_score(tile, width))


def best_tile(pixels: int, vectors: int, target: Target) -> ConvolutionTile:
    """The best tile whose sides divide the given numbers."""
    tiles = [tile for tile in _tiles(pixels, vectors, target) if pixels % tile.pixels == 0]
    return max(tiles, key=lambda tile: _score(tile.pixels, tile.vectors))


def _tiles(pixels: int, vectors: int, target: Target) -> list[ConvolutionTile]:
    """The tiles that fit the registers, with no more pixels than there are and vectors that divide those."""
    registers = 32 if target.vector_width_bits >= 512 else 16
    return [
        ConvolutionTile(height, width)
        for width in (1, 2, 3, 4)
        for height in range(1, min(pixels, (registers - width - 1) // width) + 1)
        if vectors % width == 0
    ]


def _row_score(tile: ConvolutionTile, width: int) -> float:
    """Of tiles that overlap, what they compute twice is lost."""
    computed = -(-width // tile.pixels) * tile.pixels
    return _score(tile.pixels, tile.vectors) * width / computed - (OVERLAP_COST if computed > width else 0)


def is_depthwise(conv: Convolution) -> bool:
    """Whether every output channel reads the input channel of its own number."""
    _, c, _, _, lane = conv.axes
    indices = conv.data.indices
    return len(indices) == 5 and indices[1] is c and indices[4] is lane


def _group_sizes(conv: Convolution) -> list[int]:
    """Blocks of output channels that read the same input channels."""
    c = conv.axes[1]
    divisions = [node for index in conv.data.indices for node in walk(index) if isinstance(node, FloorDiv)]
    sizes = [node.b.value for node in divisions if node.a is c and isinstance(node.b, IntImm)]
    return sizes or ([1] if c in free_vars(*conv.data.indices) else [])


def _score(pixels: int, vectors: int) -> float:
    """Multiply-adds per cycle, relative to the peak: two a cycle, as are loads; the sums of a tile must
    outnumber the multiplications under way."""
    sums = pixels * vectors
    cycles = max(sums / 2, (pixels + vectors + 1) / 2, 4.0) + 0.25
    return sums / 2 / cycles - 0.2 / pixels - 0.02 / vectors


def weight_blocks(conv: Convolution, tile: ConvolutionTile) -> tuple[tuple[int, int], ...] | None:
    """How weights are to lie: (dimension, block size) with the insides of blocks last, that of the lanes at
    the end. None where the weights are indexed in some other way already."""
    _, c, _, _, lane = conv.axes
    found: list[tuple[int, int]] = []
    for dim, index in enumerate(conv.weights.indices):
        used = set(free_vars(index))
        if {c, lane} <= used:
            found.append((dim, tile.vectors * (conv.extent(lane) or 1)))
        elif len(used) == 2 and used <= set(conv.reduce):
            inner = [var for var in conv.reduce if var in used][-1]
            found.insert(0, (dim, conv.extent(inner) or 1))
    is_plain = (
        len(conv.weights.indices) == 4 and bool(found) and c in free_vars(conv.weights.indices[found[-1][0]])
    )
    return tuple(found) if is_plain else None


# ---- the schedule


class ConvolutionRule(ScheduleRule):
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        conv = find_convolution([block_of(sch, handle) for handle in sch.blocks()])
        tile = None if conv is None else choose_tile(conv, target)
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
    if conv.extent(conv.axes[3]) is not None:
        _schedule_rows(sch, conv, tile, target, None)
        return sch
    width = next(axis.dom.extent for axis in conv.block.iter_vars if axis.var is conv.axes[3])
    parts, binds = ragged_tiles(width, tile_sizes(tile.pixels))
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
    n, c, h, w, lane = (loops[var] for var in conv.axes)
    c_tile, vector = sch.split(c, [None, tile.vectors])
    w_tile, pixel = _split_row(sch, w, tile.pixels, part)
    reduce = [loops[var] for var in _reading_order(conv)]
    beside: list[LoopRV] = []
    if conv.depth > 1:
        reduce[-1], pair = sch.split(reduce[-1], [None, conv.depth])
        sch.annotate(pair, DOT_PRODUCT, True)
        beside = [pair]
    sch.reorder(n, c_tile, h, w_tile, *reduce, pixel, vector, lane, *beside)
    inside = [] if part is not None else [w_tile]  # of a row of any length one tile counts
    work = constant_product(loop_extents(sch, [*inside, *reduce, pixel, vector, lane, *beside]))
    parallel = sch.fuse(n, c_tile, h)
    sch.parallel(parallel)
    sch.annotate(parallel, "grain", max(1, GRAIN_MULTIPLIES // (work or GRAIN_MULTIPLIES)))
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
    _prefetch_weights(sch, handle, conv, tile)
    if part is None or part.is_first:  # the others end a row
        _prefetch_pixels(sch, handle, conv, tile, part)
    rows: LoopRV = parallel
    return rows


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
    position = [axis.var for axis in conv.block.iter_vars].index(conv.axes[1])
    vector = sch.realization(handle).iter_values[position]
    sch.narrow(channels, group_end(groups, vector) - group_start(groups, vector))


def _prefetch_weights(sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile) -> None:
    """While a tile of weights is used for the pixels of an image, fetch the next one, some lines with every
    block of input channels.

    The first pixels would otherwise wait for memory, and all others leave it idle.
    """
    rows, width = conv.extent(conv.axes[2]), conv.extent(conv.axes[3])
    reads = block_of(sch, handle).reads
    ndim = PACKED_NDIM + (conv.depth > 1)
    found = [k for k, region in enumerate(reads) if len(region.region) == ndim]
    if len(found) != 1 or rows is None or width is None or rows * width > MAX_PIXELS:
        return
    packed = reads[found[0]].buffer
    panels, *tile_shape = (
        extent_of(dim) or 1 for k, dim in enumerate(packed.shape) if k in (0, *range(4, ndim))
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

        sch.prefetch(handle, found[0], sch.get_loops(handle)[4], line)


def _prefetch_pixels(
    sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile, part: Tiles | None
) -> None:
    """Where pixels are read one by one, and the image may not fit the cache, fetch the next pixels of a
    block of channels while it is used: the next block lies too far away for the processor to guess it."""
    domain = {axis.var: axis.dom.extent for axis in conv.block.iter_vars}
    rows, panels = domain[conv.axes[2]], (conv.extent(conv.axes[1]) or 1) // tile.vectors
    reads = block_of(sch, handle).reads
    data = conv.data.buffer
    found = [k for k, region in enumerate(reads) if region.buffer is data]
    image = (rows, domain[conv.axes[3]])
    is_pointwise = len(data.shape) == 5 and structural_equal(data.shape[2:4], image)
    if not is_pointwise or len(found) != 1 or is_depthwise(conv) or len(_reading_order(conv)) != 4:
        return
    size = constant_product([extent_of(dim) for dim in data.shape[1:]])
    if size is not None and size * data.dtype.itemsize < MIN_IMAGE_BYTES:
        return
    begin = 0 if part is None else part.begin

    def pixel(task: Var, w_tile: Var, *rest: Var) -> tuple[PrimExpr, ...]:
        number, row = floordiv(task, rows * panels), floormod(task, rows)
        at = begin + (w_tile + 1) * tile.pixels + rest[-1] * conv.depth
        return (number, rest[0], row, at, constant(0, at.dtype))

    sch.prefetch(handle, found[0], sch.get_loops(handle)[5], pixel, NEAR)


def _pack_now(sch: Schedule, handle: SBlockRV, conv: Convolution, tile: ConvolutionTile) -> None:
    """Weights that no constant gives are packed when the function runs."""
    blocks = weight_blocks(conv, tile)
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
