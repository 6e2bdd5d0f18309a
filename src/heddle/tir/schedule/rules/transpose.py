"""Maps that read along another axis than they write: tiles that are transposed in registers.

The nest is (other axes on threads) × i × j, where the result is contiguous along j and what is read is
contiguous along i; `TransposeInRegisters` makes tiles of the two inner loops. Without other axes i runs on
threads; where they are few, or of free size, pieces of i do, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from heddle.arith import Analyzer
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, IntImm, PrimExpr, Var, constant, is_const_int
from heddle.prim.substitute import free_vars, substitute
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, BufferStore, SBlock
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    constant_product,
    extent_of,
    inline_maps,
    is_spatial,
    iterations,
    loop_extents,
    parallelize,
)
from heddle.tir.schedule.schedule import SBlockRV, Schedule
from heddle.tir.transform.transpose_in_registers import BLOCK_BITS, TRANSPOSE

_LEAST_SIDE = 4
_MANY = 1024
_TASKS = 32
"""With fewer of the other axes, i is cut for threads, too."""
_TILES_OF_A_TASK = 4


class Transpose(ScheduleRule):
    wants_columns = True

    def gains_by_merging(self, sch: Schedule) -> bool:
        """Tiles then have whole runs of memory on both sides."""
        return all(is_spatial(block_of(sch, handle)) for handle in sch.blocks())

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        blocks = [block_of(sch, handle) for handle in sch.blocks()]
        if not all(map(is_spatial, blocks)) or all(map(_reads_as_it_writes, blocks)):
            return None
        sch = sch.copy()
        inline_maps(sch)
        if len(sch.blocks()) != 1:
            return None
        (handle,) = sch.blocks()
        return sch if schedule_transposed(sch, handle, target) else None


def schedule_transposed(sch: Schedule, handle: SBlockRV, target: Target) -> bool:
    """Schedule a map with loops of its own that reads along another axis than it writes; False, and nothing
    is done, for any other."""
    block, loops = block_of(sch, handle), sch.get_loops(handle)
    axes = transposed_axes(block)
    if axes is None or [loop.var for loop in loops] != list(_loop_variables(sch, handle)):
        return False
    by_axis = dict(zip((axis.var for axis in block.iter_vars), loops, strict=True))
    i, j = (by_axis[axis] for axis in axes)
    assert isinstance(block.body, BufferStore)
    side = tile_side(target, *loop_extents(sch, [i, j]), bits=block.body.value.dtype.bits)
    if side is None:
        return False
    others = [loop for loop in loops if loop.var not in (i.var, j.var)]
    sch.reorder(*others, i, j)
    size = constant_product(loop_extents(sch, others))
    if size is not None and size <= 1:
        parallelize(sch, i, iterations(sch, [j]))
    else:
        work = iterations(sch, [i, j])
        if size is None or size < _TASKS:  # a batch of one image would be one task
            piece, i = sch.split_ragged(i, _TILES_OF_A_TASK * side)
            others.append(piece)
            work = iterations(sch, [j]) * (_TILES_OF_A_TASK * side)
        outer = sch.fuse(*others) if len(others) > 1 else others[0]
        parallelize(sch, outer, work)
    sch.annotate(i, TRANSPOSE, side)
    return True


def _reads_as_it_writes(block: SBlock) -> bool:
    """Whether every read moves along its last axis where the write does so along its own, or not at all: maps
    of such maps, which inlining makes, do the same."""
    store = block.body
    if not isinstance(store, BufferStore) or not store.indices:
        return False
    *_, j = store.indices
    if not any(axis.var is j and extent_of(axis.dom.extent) != 1 for axis in block.iter_vars):
        return False
    loads = (node for node in walk(store.value) if isinstance(node, BufferLoad))
    return all(j not in free_vars(*_apart_from_steps(load, j)) for load in loads)


def _apart_from_steps(load: BufferLoad, j: PrimExpr) -> Sequence[PrimExpr]:
    """The indices without a `j` that is added to the last of them; later dimensions of one element do not
    count. There one step of j is one element."""
    sizes = (extent_of(size) for size in load.buffer.shape)
    kept = [index for index, size in zip(load.indices, sizes, strict=True) if size != 1]
    last = kept.pop() if kept else None
    if isinstance(last, Add) and last.b is j:
        kept.append(last.a)
    elif last is not None and last is not j:
        kept.append(last)
    return kept


def _loop_variables(sch: Schedule, handle: object) -> list[PrimExpr]:
    return list(sch.realization(handle).iter_values)  # type: ignore[arg-type]


def tile_side(target: Target, *extents: int | None, bits: int = 32) -> int | None:
    """The side of the tiles that take the least work, at most a vector wide; None where all are too wide.
    Elements of 8 and 16 bits fill 128 bits, within which machines interleave them."""
    width = target.vector_width_bits
    lanes = min(width, BLOCK_BITS) // max(bits, 8) if bits < 32 else width // bits
    sides = [side for side in (lanes, lanes // 2, lanes // 4, lanes // 8) if side >= _LEAST_SIDE]
    fitting = [s for s in sides if all(extent is None or 2 * extent >= s for extent in extents)]
    return min(fitting, key=lambda side: _work(side, extents), default=None)


def _work(side: int, extents: tuple[int | None, ...]) -> int:
    """Shuffles, loads and stores of all tiles; of unknown extents for a large square."""
    tiles = prod(-(-(_MANY if extent is None else extent) // side) for extent in extents)
    return tiles * side * (side.bit_length() + 1)


def transposed_axes(block: SBlock) -> tuple[Var, Var] | None:
    """The axes (i, j) along which what is read and what is written is contiguous, if they differ and every
    read that runs along both is contiguous along i. What runs along j alone is one value for a vector."""
    store = block.body
    if not isinstance(store, BufferStore) or not store.indices:
        return None
    axes = {axis.var for axis in block.iter_vars if extent_of(axis.dom.extent) != 1}
    places = [index for index in store.indices if not isinstance(index, Var) or index in axes]
    j = places[-1] if places else None
    if not isinstance(j, Var) or j not in axes or _reads_as_it_writes(block) or not _fills_tiles(store):
        return None
    found: set[Var] = set()
    others: set[Var] = set()
    for load in (node for node in walk(store.value) if isinstance(node, BufferLoad)):
        used = set(free_vars(*load.indices))
        along = _contiguous_axis(block, load) if j in used else None
        if along is not None and along is not j:
            found.add(along)
        elif j in used:
            others |= used
    if len(found) != 1 or not found.isdisjoint(others):
        return None
    return found.pop(), j


def _fills_tiles(store: BufferStore) -> bool:
    """Whether elements have 32 bits, are integers of 8 and 16 that come from such, or only move: a tile that
    is computed in wider ones and then narrowed does not stay in registers."""
    if isinstance(store.value, BufferLoad):
        return store.value.dtype.bits in (1, 8, 16, 32, 64) and store.value.dtype.lanes == 1
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    dtypes = [store.value.dtype, *(load.dtype for load in loads)]
    return dtypes[0].bits == 32 or all(dtype.is_int and dtype.bits in (8, 16) for dtype in dtypes)


def _contiguous_axis(block: SBlock, load: BufferLoad) -> Var | None:
    """The axis whose next value is the next element."""
    *before, last = load.indices
    axes = [axis.var for axis in block.iter_vars if extent_of(axis.dom.extent) != 1]
    if isinstance(last, Var) and last in axes and last not in free_vars(*before):
        return last
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    flat: PrimExpr = constant(0, "int64")
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        flat = flat * size.astype("int64") + index.astype("int64")
    flat = analyzer.simplify(flat)
    for var in axes:
        following = substitute(flat, {var: var + IntImm(var.dtype, 1)})
        if is_const_int(analyzer.simplify(following - flat), 1):
            return var
    return None
