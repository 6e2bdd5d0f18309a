"""Products of two matrices that are both read along the sum's axis: q·kᵀ, and weights of (columns, steps).

    parallel (batches, tiles of columns):
        for tiles of rows:
            sums[row, column, lane] = 0                                       (all in registers)
            for k in steps of a vector:  sums[row, column, :] += X[row, k:] * W[column, k:]
            accumulators[row, column] = sums[row, column, :] added up, once
            epilogue on the tile

Each of the weights is read once for a few rows, along memory, and nothing is copied. With many rows a copy
of the weights that lies the other way round costs little, and a tile of it needs no adding up: where a
transposition in the same function would give that copy, this form is for FEW_ROWS rows. Their number may be
free (`default_schedule`): then there are both. Sums are in lanes, as sums along other rows are.
"""

from __future__ import annotations

from math import prod

from heddle.prim.nodes import IntImm, PrimExpr, Var, is_const_int
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.grain import grain_of
from heddle.tir.nodes import BufferLoad, BufferStore, IterType, PrimFunc, SBlock
from heddle.tir.schedule.rules.edges import inline_unpad, read_in_place
from heddle.tir.schedule.rules.register_tile import factors
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    extent_of,
    inline_maps,
    is_reduction,
    is_spatial,
    iterations,
    local_result,
    vectorize_last,
)
from heddle.tir.schedule.rules.straight_loops import runs_straight
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.schedule.tree import find_block
from heddle.tir.sizes import ROWS_LEFT
from heddle.tir.transform.run_in_lanes import REDUCTION

FEW_ROWS = 16
"""Rows that are not worth a transposed copy of the weights."""
_COLUMNS_OF_A_ROW = 8
_ROWS, _COLUMNS = 4, 4
"""A tile of several rows, with 32 registers; with 16 it has half the rows."""


@frozen
class Product:
    """The axes of a product along rows: those of the result that only the data has, the only one that only
    the weights have, those that both have, and the sum's."""

    rows: tuple[Var, ...]
    n: Var
    batch: tuple[Var, ...]
    k: Var
    data: BufferLoad
    weights: BufferLoad


@frozen(slots=False)
class AlongRows(ScheduleRule):
    """`has_few_rows`: whoever calls the function sees to it that there are FEW_ROWS at most."""

    has_few_rows: bool = False

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        handle = _contraction(sch)
        if handle is None or not _may_be_along_rows(sch, handle):
            return None
        copies = any(_transposes(block_of(sch, made)) for made in sch.get_producers(handle))
        sch = sch.copy()
        inline_maps(sch)
        product = product_along_rows(block_of(sch, handle))
        if product is None or sch.get_producers(handle) or not _fills_lanes(sch, handle, product, target):
            return None
        if copies and not self.has_few_rows and not _has_few_rows(block_of(sch, handle), product):
            return None
        return sch if _schedule(sch, handle, product, target) else None


def size_of_few_rows(func: PrimFunc) -> Var | None:
    """The free size that alone says how many rows a product has whose weights are transposed by the function;
    None where a function is something else, or where the weights have this size, too."""
    sch = Schedule(func)
    handle = _contraction(sch)
    if handle is None or not _may_be_along_rows(sch, handle):
        return None
    if not any(_transposes(block_of(sch, made)) for made in sch.get_producers(handle)):
        return None
    sch = sch.copy()
    inline_maps(sch)
    product = product_along_rows(block_of(sch, handle))
    return None if product is None else free_rows(block_of(sch, handle), product)


def free_rows(block: SBlock, product: Product) -> Var | None:
    """The free size that alone says how many rows a product has; None where the weights have it, too."""
    others = [extent for extent in _rows(block, product) if not is_const_int(extent, 1)]
    size = others[0] if len(others) == 1 else None
    return size if isinstance(size, Var) and size not in free_vars(*product.weights.buffer.shape) else None


def reads_along_rows(func: PrimFunc, operand: int, transposition: PrimFunc) -> bool:
    """Whether a product of few rows, or of a free number of them, is better off without the transposition of
    one of its operands: it then reads both along its sum."""
    nests, moves = plain_nests(func), plain_nests(transposition)
    if nests is None or moves is None or len(moves) != 1 or not _transposes(moves[0]):
        return False
    found = [block for block in nests if is_reduction(block)]
    if len(found) != 1 or not is_contraction(found[0]) or len(func.buffers) <= operand:
        return False
    loads, buffer = factors(found[0]), func.buffers[operand]
    if loads is None or sum(load.buffer is buffer for load in loads) != 1:
        return False
    data, weights = loads if loads[1].buffer is buffer else loads[::-1]
    made = _through(weights, moves[0])
    product = None if made is None else _product(found[0], data, made)
    if product is None or product.weights is not made:
        return False
    return _has_few_rows(found[0], product) or free_rows(found[0], product) is not None


def product_along_rows(block: SBlock) -> Product | None:
    """What a block is, if it is a product that reads both operands along the sum's axis."""
    loads = factors(block)
    return None if loads is None else _product(block, *loads)


def _product(block: SBlock, first: BufferLoad, second: BufferLoad) -> Product | None:
    reduce = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.CommReduce]
    spatial = [axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
    store = block.body
    if len(reduce) != 1 or not isinstance(store, BufferStore) or store.value.dtype.bits < 16:
        return None
    if not all(_is_along(load, reduce[0]) for load in (first, second)):
        return None
    n = store.indices[-1] if store.indices else None
    weights, data = (second, first) if n in second.indices else (first, second)
    if not isinstance(n, Var) or n not in weights.indices or n in data.indices:
        return None
    rows = tuple(var for var in spatial if var in data.indices and var not in weights.indices)
    batch = tuple(var for var in spatial if var not in rows and var is not n)
    if any(var not in data.indices or var not in weights.indices for var in batch):
        return None  # other axes that only the weights have
    return Product(rows, n, batch, reduce[0], data, weights)


def _is_along(load: BufferLoad, k: Var) -> bool:
    """Whether an operand's neighbours in memory are steps of the sum, and its indices are plain."""
    *others, last = load.indices or (None,)
    return last is k and all(isinstance(i, (Var, IntImm)) and i is not k for i in others)


def _through(load: BufferLoad, move: SBlock) -> BufferLoad | None:
    """What is read where a transposed tensor is."""
    store = move.body
    assert isinstance(store, BufferStore) and isinstance(store.value, BufferLoad)
    if len(load.indices) != len(store.indices):
        return None
    places = dict(zip(store.indices, load.indices, strict=True))
    return BufferLoad(store.value.buffer, tuple(places[index] for index in store.value.indices))


def _transposes(block: SBlock) -> bool:
    """Whether a block only gives the dimensions of a tensor another order, with another one at the end."""
    store = block.body
    if not is_spatial(block) or not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return False
    written, read, axes = store.indices, store.value.indices, [axis.var for axis in block.iter_vars]
    is_order = len(written) == len(read) == len(axes) and set(written) == set(read) == set(axes)
    return is_order and written[-1] is not read[-1]


def _contraction(sch: Schedule) -> SBlockRV | None:
    """The only reduction of a function, if it is a product."""
    found = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
    is_product = len(found) == 1 and is_contraction(block_of(sch, found[0]))
    return found[0] if is_product and runs_straight(find_block(sch.func, found[0].name)) else None


def _may_be_along_rows(sch: Schedule, handle: SBlockRV) -> bool:
    """Whether it is worth looking what a product reads, once maps are inlined."""
    block = block_of(sch, handle)
    return bool(sch.get_producers(handle)) or product_along_rows(block) is not None


def _rows(block: SBlock, product: Product) -> list[PrimExpr]:
    return [axis.dom.extent for axis in block.iter_vars if axis.var in product.rows]


def _has_few_rows(block: SBlock, product: Product) -> bool:
    extents = [extent_of(extent) for extent in _rows(block, product)]
    known = [extent for extent in extents if extent is not None]
    return len(known) == len(extents) and prod(known) <= FEW_ROWS


def _fills_lanes(sch: Schedule, handle: SBlockRV, product: Product, target: Target) -> bool:
    """Whether there are steps for a vector, and more than one column: one is for another rule."""
    block = block_of(sch, handle)
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    steps, lanes = extents[product.k], target.vector_width_bits // block.writes[0].buffer.dtype.bits
    return lanes > 1 and (steps is None or steps >= lanes) and extents[product.n] != 1


def _schedule(sch: Schedule, handle: SBlockRV, product: Product, target: Target) -> bool:
    block = block_of(sch, handle)
    domains = {axis.var: axis.dom.extent for axis in block.iter_vars}
    m = next((var for var in reversed(product.rows) if not is_const_int(domains[var], 1)), None)
    height, width = _tile(None if m is None else domains[m], domains[product.n], target)
    wanted = {m: height, product.n: width}
    multiples = {var: _multiple(domains[var], wanted.get(var, 1)) for var in domains}
    if any(multiple > 1 for multiple in multiples.values()):
        if product.data.buffer is product.weights.buffer:
            return False  # one buffer cannot be padded for both
        if not _read_beyond(sch, handle, list(multiples.values())):
            return False
    consumer = local_result(sch, handle)
    loops = dict(zip(domains, sch.get_loops(handle), strict=True))
    outer = [loop for var, loop in loops.items() if var not in (m, product.n, product.k)]
    n_tile, column = sch.split(loops[product.n], [None, width])
    m_tile, row = list[LoopRV](), list[LoopRV]()
    if m is not None:
        first, second = sch.split(loops[m], [None, height])
        m_tile, row = [first], [second]
    steps = loops[product.k]
    sch.reorder(*outer, n_tile, *m_tile, steps, *row, column)
    work = iterations(sch, [*m_tile, steps, *row, column])
    parallel = sch.fuse(*outer, n_tile) if outer else n_tile
    sch.parallel(parallel)
    sch.annotate(parallel, "grain", grain_of(work, GRAIN_MULTIPLIES))
    sch.reverse_compute_at(consumer, m_tile[0] if m_tile else parallel)
    vectorize_last(sch, consumer, width)
    for loop in (*row, column):
        sch.unroll(loop)
    if m is not None and multiples[m] > 1:
        sch.annotate(row[0], ROWS_LEFT, domains[m] - m_tile[0].var * height)
    sch.annotate(steps, REDUCTION, True)
    sch.decompose_reduction(handle, steps)
    return True


def _multiple(extent: PrimExpr, wanted: int) -> int:
    known = extent_of(extent)
    return 1 if known is not None and known % wanted == 0 else wanted


def _tile(rows: PrimExpr | None, columns: PrimExpr, target: Target) -> tuple[int, int]:
    """Rows, where there are several, and columns of a tile, whose sums are vectors in registers."""
    most = _ROWS if target.vector_width_bits >= 512 else _ROWS // 2
    height = 1 if rows is None else min(extent_of(rows) or most, most)
    width = _COLUMNS_OF_A_ROW if height == 1 else _COLUMNS
    return height, min(extent_of(columns) or width, width)


def _read_beyond(sch: Schedule, handle: SBlockRV, multiples: list[int]) -> bool:
    """Round axes up: beyond the end the last row or column is read again. Whether that worked."""
    names_before = {b.name for b in sch.blocks()}
    sch.pad_einsum(handle, multiples)
    made = [b for b in sch.blocks() if b.name not in names_before]
    after = {consumer.name for consumer in sch.get_consumers(handle)}
    for new in made:
        if new.name in after:
            inline_unpad(sch, new)
    return all(read_in_place(sch, new.name) for new in made if new.name not in after)
