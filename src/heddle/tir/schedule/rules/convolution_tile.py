"""Blocks that are convolutions, and the register tile for each: pixels × vectors of output channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import gcd

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, FloatImm, FloorDiv, IntImm, Mul, PrimExpr, Var, is_const_int
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, IterType, SBlock
from heddle.tir.schedule.rules.ragged_tiles import first_size, tile_sizes, tiles_of
from heddle.tir.schedule.rules.register_tile import steps_side_by_side
from heddle.tir.schedule.rules.rule import constant_product, extent_of, is_reduction
from heddle.tir.schedule.rules.transpose import transposed_axes

SPATIAL_NDIMS = (2, 3)
"""Images and volumes."""
OVERLAP_COST, FEW_TILES = 0.03, 4
"""What tiles that overlap have to gain, as a share of the peak, over those that do not, where a row has a few
of them; less where it has more."""
TURNED_COST = 0.5
"""What is lost, over its pixels, where a tile goes to memory along pixels: for each channel it fills a part
of a cache's line, of which the next tile needs the rest."""
FREE_WIDTH = 14
"""The most pixels of a tile where a row may have any number: more would leave more over."""
FREE_WIDTHS = (*range(5, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112)
"""Widths of rows for which a tile is chosen that has to do for all."""
L2_BYTES_PER_CYCLE, L3_BYTES_PER_CYCLE = 64, 16
"""What the second and the third cache give a core with vectors of 64 bytes."""
LOADS_PER_CYCLE = 2.0
NARROW_L2_BYTES_PER_CYCLE, NARROW_LOADS_PER_CYCLE = 16, 1.5
"""The same of cores with narrower vectors while they multiply, measured on Zen 3: less than it can do at
best."""
SHORTEST_ROW, LONGEST_ROW = 24, 512
"""Where rows may have any length. Each costs something, and threads share them."""
THREADS = 8
"""Which rows and tiles of channels shall keep busy."""
ROW_GAIN = 0.01
"""What longer rows have to gain, as a share of the peak."""


@frozen
class Convolution:
    """A block that correlates images or volumes. Its result has the axes `n`, `c`, `spatial` (the last of
    them runs along a row) and, where channels are blocked, `lane`: the channel within its block."""

    block: SBlock
    result: Buffer
    data: BufferLoad
    weights: BufferLoad
    n: Var
    c: Var
    spatial: tuple[Var, ...]
    lane: Var | None

    @property
    def axes(self) -> tuple[Var, ...]:
        """The variables of the result's axes: batch, channel, positions, and the lane where channels lie in
        blocks.
        """
        return (self.n, self.c, *self.spatial, *([] if self.lane is None else [self.lane]))

    @property
    def packed_ndim(self) -> int:
        """Dimensions of weights whose input and output channels are both blocked; one more where input
        channels lie side by side for dot products."""
        return len(self.spatial) + 4

    @property
    def depth(self) -> int:
        """How many input channels lie side by side in weights that are packed for dot products."""
        return steps_side_by_side(self.data, self.weights, self.result, self.reduce)

    @property
    def reduce(self) -> tuple[Var, ...]:
        """The variables of the axes that are summed over."""
        return tuple(axis.var for axis in self.block.iter_vars if axis.iter_type is IterType.CommReduce)

    def domain(self, var: Var) -> PrimExpr:
        """How many values an axis has, as an expression."""
        return next(axis.dom.extent for axis in self.block.iter_vars if axis.var is var)

    def extent(self, var: Var) -> int | None:
        """How many values an axis has; None where that is free."""
        return extent_of(self.domain(var))

    @property
    def sums_products(self) -> bool:
        """Whether the block adds products of data and weights, and nothing else, to zero. Loops that only
        look like a convolution may add anything. A product may also be one of numbers of other types."""
        store, init = self.block.body, self.block.init
        if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
            return False
        ty = store.value.dtype
        data, weights = (load if load.dtype == ty else cast(ty, load) for load in (self.data, self.weights))
        sums = BufferLoad(store.buffer, store.indices)
        forms = [a + b for p in (data * weights, weights * data) for a, b in ((sums, p), (p, sums))]
        first = init.value
        begins_at_zero = (
            isinstance(first, (IntImm, FloatImm)) and first.value == 0 and init.indices == store.indices
        )
        return begins_at_zero and any(structural_equal(store.value, form) for form in forms)


def find_convolution(blocks: Sequence[SBlock]) -> Convolution | None:
    """The only reduction among blocks, if it is a convolution over two or three spatial
    axes."""
    reductions = [block for block in blocks if is_reduction(block)]
    return _convolution(reductions[0]) if len(reductions) == 1 else None


def _convolution(block: SBlock) -> Convolution | None:
    store = block.body
    if not isinstance(store, BufferStore):
        return None
    parallel = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar}
    axes = tuple(index for index in store.indices if isinstance(index, Var) and index in parallel)
    if len(axes) != len(store.indices) or len(axes) != len(parallel) or len(axes) < 2 + min(SPATIAL_NDIMS):
        return None
    for data, weights in _factors(store):
        own = set(free_vars(*weights.indices))
        lane = axes[-1] if axes[-1] in own else None  # pixels have all weights in common
        n, c, *spatial = axes if lane is None else axes[:-1]
        if c in own and own.isdisjoint({n, *spatial}) and _is_image(data, n, spatial):
            return Convolution(block, store.buffer, data, weights, n, c, tuple(spatial), lane)
    return None


def _is_image(data: BufferLoad, n: Var, spatial: Sequence[Var]) -> bool:
    """Whether data (n, c, spatial...), perhaps with a channel within its block, move with the result."""
    ndim = 2 + len(spatial)
    if len(spatial) not in SPATIAL_NDIMS or len(data.indices) not in (ndim, ndim + 1):
        return False
    return all(
        var in free_vars(index)
        for var, index in zip((n, *spatial), (data.indices[0], *data.indices[2:]), strict=False)
    )


def _factors(store: BufferStore) -> list[tuple[BufferLoad, BufferLoad]]:
    """The two loads that are multiplied, in both orders."""
    for node in walk(store.value):
        if isinstance(node, Mul):
            sides = [[n for n in walk(side) if isinstance(n, BufferLoad)] for side in (node.a, node.b)]
            if all(len(loads) == 1 and loads[0].buffer is not store.buffer for loads in sides):
                a, b = sides[0][0], sides[1][0]
                return [(a, b), (b, a)]
    return []


# ---- the tile


@frozen
class ConvolutionTile:
    """`pixels` of a row times `vectors` of output channels."""

    pixels: int
    vectors: int


def choose_tile(conv: Convolution, blocks: Sequence[SBlock], target: Target) -> ConvolutionTile | None:
    """The register tile that keeps the multipliers busiest, of the rows that there are and, where weights are
    packed, of the vectors of a panel; None for what this rule does not take. `blocks` are those of the whole
    function."""
    vectors, width = _most_vectors(conv), conv.extent(conv.spatial[-1])
    if vectors is None or width == 0:
        return None
    if width is None:
        tiles = _tiles(FREE_WIDTH, vectors, target)
        has_one_row = all(conv.extent(var) == 1 for var in conv.spatial[:-1])
        # Of one row, threads share tiles of channels alone: there shall be many. Pixels that are turned lie
        # side by side in memory: a tile shall have many.
        if has_one_row or _is_turned(conv, blocks):
            return max(tiles, key=lambda tile: _score(tile, plain_cost(tile.vectors, target)))
        return min(tiles, key=lambda tile: _free_cost(tile.pixels, tile_cost(conv, tile.vectors, target)))
    return _tiles_by_length(conv, blocks, target, [width], is_packed=True)[width][1]


def choose_panel(conv: Convolution, blocks: Sequence[SBlock], target: Target) -> int | None:
    """How many vectors of output channels a panel of packed weights has: those of the tile for the rows that
    are best. `blocks` as in `choose_tile`."""
    found = _best_rows(conv, blocks, target)
    tile = choose_tile(conv, blocks, target) if found is None else found[1]
    return None if tile is None else tile.vectors


def row_length(conv: Convolution, blocks: Sequence[SBlock], target: Target) -> int | None:
    """How many pixels a row shall have, where that may be chosen, and is to be another number than now.
    `blocks` as in `choose_tile`."""
    found = _best_rows(conv, blocks, target)
    return None if found is None or found[0] == conv.extent(conv.spatial[-1]) else found[0]


def _best_rows(
    conv: Convolution, blocks: Sequence[SBlock], target: Target
) -> tuple[int, ConvolutionTile] | None:
    """The length of rows that is best, and the tile for it; None where their length is free."""
    width = conv.extent(conv.spatial[-1])
    if not width or _most_vectors(conv) is None:
        return None
    found = _tiles_by_length(conv, blocks, target, _lengths(conv, blocks))
    best = _best_length(found, width)
    return best, found[best][1]


def _most_vectors(conv: Convolution) -> int | None:
    """The blocks of output channels that a tile has at most, and a multiple of those that it may have; None
    for what this rule does not take."""
    channel_blocks = conv.extent(conv.c)
    if conv.lane is None or channel_blocks is None:
        return None
    if is_depthwise(conv):
        return 1
    return None if conv.lane in free_vars(*conv.data.indices) else gcd(channel_blocks, *_group_sizes(conv))


def _tiles_by_length(
    conv: Convolution,
    blocks: Sequence[SBlock],
    target: Target,
    lengths: Sequence[int],
    *,
    is_packed: bool = False,
) -> dict[int, tuple[float, ConvolutionTile]]:
    """For each length that rows may have, from the shortest on, how good it is, and the best tile.
    `is_packed`: weights that are packed have the panels that they shall have."""
    turned_cost = TURNED_COST if _is_turned(conv, blocks) else 0
    tiles = _tiles(max(lengths), _most_vectors(conv) or 1, target)
    tiles = _of_a_panel(conv, tiles) if is_packed else tiles
    costs = {tile.vectors: tile_cost(conv, tile.vectors, target) for tile in tiles}
    pixels = constant_product([conv.extent(var) for var in conv.spatial])
    found: dict[int, tuple[float, ConvolutionTile]] = {}
    for length in lengths:
        scored = (
            (_row_score(tile, length, costs[tile.vectors]) - turned_cost / tile.pixels, tile)
            for tile in tiles
            if tile.pixels <= length
        )
        score, tile = max(scored, key=lambda pair: pair[0])
        num_tasks = (pixels or length) // length * (conv.extent(conv.c) or 1) // tile.vectors
        found[length] = (score * _busy_share(num_tasks), tile)
    return found


def _of_a_panel(conv: Convolution, tiles: list[ConvolutionTile]) -> list[ConvolutionTile]:
    """Where weights are packed, the tiles of the vectors of a panel; else all."""
    columns = extent_of(conv.weights.buffer.shape[-1 if conv.depth == 1 else -2])
    if len(conv.weights.indices) != conv.packed_ndim + (conv.depth > 1) or columns is None:
        return tiles
    lanes = 1 if conv.lane is None else conv.extent(conv.lane) or 1
    return [tile for tile in tiles if tile.vectors * lanes == columns] or tiles


def _lengths(conv: Convolution, blocks: Sequence[SBlock]) -> list[int]:
    """The lengths that rows may have, in order."""
    height, width = (conv.extent(var) for var in conv.spatial[-2:])
    assert width is not None
    is_made_here = any(region.buffer is conv.data.buffer for block in blocks for region in block.writes)
    if not height or is_made_here or conv.block.annotations or not reads_single_pixels(conv):
        return [width]
    some = range(SHORTEST_ROW, min(height * width, LONGEST_ROW) + 1)
    return sorted({width, *(length for length in some if height * width % length == 0)})


def _busy_share(num_tasks: int) -> float:
    """The share of the time in which threads have something to do."""
    return num_tasks / (-(-num_tasks // THREADS) * THREADS) if num_tasks else 1.0


def _best_length(found: dict[int, tuple[float, ConvolutionTile]], width: int) -> int:
    """The rows that there are, or others that gain enough: threads share rows, so the shortest of them."""
    enough = max(score for score, _ in found.values()) - ROW_GAIN
    if found[width][0] >= enough:
        return width
    return next(length for length, (score, _) in found.items() if score >= enough)


def reads_single_pixels(conv: Convolution) -> bool:
    """Whether each pixel of the result is made of the pixel in its place."""
    image, indices = tuple(conv.domain(var) for var in conv.spatial), conv.data.indices[2:]
    taps = {axis.var for axis in conv.block.iter_vars if is_const_int(axis.dom.extent, 1)}
    return structural_equal(conv.data.buffer.shape[2 : 2 + len(image)], image) and all(
        index is var or (isinstance(index, Add) and index.a is var and index.b in taps)
        for index, var in zip(indices, conv.spatial, strict=False)
    )


def _is_turned(conv: Convolution, blocks: Sequence[SBlock]) -> bool:
    """Whether the result goes to memory along pixels, not along channels."""
    after = {conv.result}
    for block in blocks:
        if block is not conv.block and any(region.buffer in after for region in block.reads):
            if transposed_axes(block) is not None:
                return True
            after |= {region.buffer for region in block.writes}
    return False


def best_tile(pixels: int, vectors: int, target: Target) -> ConvolutionTile:
    """The best tile whose sides divide the given numbers."""
    tiles = [tile for tile in _tiles(pixels, vectors, target) if pixels % tile.pixels == 0]
    return max(tiles, key=lambda tile: _score(tile, TileCost(tile.vectors)))


def _tiles(pixels: int, vectors: int, target: Target) -> list[ConvolutionTile]:
    """The tiles that fit the registers, with no more pixels than there are and vectors that divide those."""
    registers = 32 if target.vector_width_bits >= 512 else 16
    return [
        ConvolutionTile(height, width)
        for width in (1, 2, 3, 4)
        for height in range(1, min(pixels, (registers - width - 1) // width) + 1)
        if vectors % width == 0
    ]


def _row_score(tile: ConvolutionTile, width: int, cost: TileCost) -> float:
    """Of tiles that overlap, what they compute twice is lost."""
    count = -(-width // tile.pixels)
    computed = count * tile.pixels
    overlap_cost = OVERLAP_COST * min(1, FEW_TILES / count) if computed > width else 0
    return _score(tile, cost) * width / computed - overlap_cost


@frozen
class TileCost:
    """Cycles of a tile with so many `vectors`, by its pixels, for one input channel at one tap: two
    multiply-adds a cycle, and `loads`; the sums of a tile must outnumber the multiplications under way. The
    weights of a step take `weight_cycles` to come, however few pixels they are for."""

    vectors: int
    weight_cycles: float = 0.0
    loads: float = LOADS_PER_CYCLE

    def __call__(self, pixels: int) -> float:
        loads = (pixels + self.vectors + 1) / self.loads
        return max(pixels * self.vectors / 2, loads, 4.0, self.weight_cycles) + 0.25


def plain_cost(vectors: int, target: Target) -> TileCost:
    """The cost of tiles whose weights are near."""
    is_wide = target.vector_width_bits >= 512
    return TileCost(vectors, loads=LOADS_PER_CYCLE if is_wide else NARROW_LOADS_PER_CYCLE)


def tile_cost(conv: Convolution, vectors: int, target: Target) -> TileCost:
    """The cost of tiles of a convolution. All tiles of a row read the same weights, which come from the
    first cache that half of, or from the second that three quarters of hold them."""
    lanes = 1 if conv.lane is None else conv.extent(conv.lane) or 1
    step_bytes = vectors * lanes * conv.weights.dtype.itemsize
    size = step_bytes * (constant_product([conv.extent(var) for var in conv.reduce]) or 1)
    plain = plain_cost(vectors, target)
    if size <= target.l1_cache_bytes // 2:
        return plain
    second = L2_BYTES_PER_CYCLE if target.vector_width_bits >= 512 else NARROW_L2_BYTES_PER_CYCLE
    is_near = size <= target.l2_cache_bytes * 3 // 4
    return replace(plain, weight_cycles=step_bytes / (second if is_near else L3_BYTES_PER_CYCLE))


@cache
def _free_cost(pixels: int, cost: TileCost) -> float:
    """Cycles for a pixel and a vector of channels, on average over usual widths of rows."""
    sizes, total = tile_sizes(pixels), 0.0
    for width in FREE_WIDTHS:
        first = first_size(width, sizes, cost)
        total += sum(map(cost, tiles_of(width, sizes[first:]))) / width
    return total / cost.vectors


def is_depthwise(conv: Convolution) -> bool:
    """Whether every output channel reads the input channel of its own number."""
    indices = conv.data.indices
    return len(indices) == len(conv.axes) and indices[1] is conv.c and indices[-1] is conv.lane


def _group_sizes(conv: Convolution) -> list[int]:
    """Blocks of output channels that read the same input channels."""
    divisions = [node for index in conv.data.indices for node in walk(index) if isinstance(node, FloorDiv)]
    sizes = [node.b.value for node in divisions if node.a is conv.c and isinstance(node.b, IntImm)]
    return sizes or ([1] if conv.c in free_vars(*conv.data.indices) else [])


def _score(tile: ConvolutionTile, cost: TileCost) -> float:
    """Multiply-adds per cycle, relative to the peak."""
    per_cycle = tile.pixels * tile.vectors / 2 / cost(tile.pixels)
    return per_cycle - 0.2 / tile.pixels - 0.02 / tile.vectors


def weight_blocks(conv: Convolution, vectors: int) -> tuple[tuple[int, int], ...] | None:
    """How weights are to lie, with so many vectors in a panel: (dimension, block size) with the insides of
    blocks last, that of the lanes at the end. None where the weights are indexed in some other way already.
    """
    c, lane = conv.c, conv.lane
    if lane is None or len(conv.weights.indices) != 2 + len(conv.spatial):
        return None
    found: list[tuple[int, int]] = []
    for dim, index in enumerate(conv.weights.indices):
        used = set(free_vars(index))
        if {c, lane} <= used:
            found.append((dim, vectors * (conv.extent(lane) or 1)))
        elif len(used) == 2 and used <= set(conv.reduce):
            inner = [var for var in conv.reduce if var in used][-1]
            found.insert(0, (dim, conv.extent(inner) or 1))
    is_plain = bool(found) and c in free_vars(conv.weights.indices[found[-1][0]])
    return tuple(found) if is_plain else None
