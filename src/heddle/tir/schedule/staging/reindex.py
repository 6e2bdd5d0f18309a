"""Staging a buffer by the axes of the block that uses it."""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import if_then_else, logical_and
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.codes import T0416, T0424
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    Stmt,
    decl_buffer,
)
from heddle.tir.schedule.blocks.nest import loop_nest
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.staging.access import AccessRewriter, single_index
from heddle.tir.schedule.staging.cache import (
    check_alone,
    check_only_writer,
    check_reads_nothing,
    insert_beside,
    touches,
)
from heddle.tir.schedule.tree import (
    Place,
    conditions_on_axes,
    find_block,
    fresh_block_name,
    replace_stmt,
    writes_buffer,
)


def reindex(func: PrimFunc, block_name: str, buffer: Buffer) -> tuple[PrimFunc, str]:
    """for n, h, w, c: B[n, h, w, c] = f(A[n, h // 2, c])   →   A_reindex[n, h, c] = A[n, h // 2, c]
                                                                B[n, h, w, c] = f(A_reindex[n, h, c])

    The copy is indexed by those axes of the block that the buffer's index depends on. Gives the name of the
    copying block.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    used = free_vars(*single_index(func, block, buffer))
    axes = tuple(axis.var for axis in block.iter_vars)
    index_map = IndexMap(axes, tuple(var for var in axes if var in used))
    return reindex_cache(func, block_name, buffer, "global", index_map, "reindex")


def reindex_cache(
    func: PrimFunc, block_name: str, buffer: Buffer, scope: str, index_map: IndexMap, suffix: str
) -> tuple[PrimFunc, str]:
    """B[i, j] = f(A[g(i, j)])   →   A_scope[map(i, j)] = A[g(i, j)];  B[i, j] = f(A_scope[map(i, j)])

    A buffer that the block reads is copied before the block; a buffer that it writes is copied after the
    block. The block must touch the buffer at one index. `index_map` goes from the block's axes to the copy's
    index. If the block writes under a condition, the copy is made under the same condition. Gives the name of
    the copying block.
    """
    here = find_block(func, block_name)
    block: SBlock = here.stmt.block
    indices = single_index(func, block, buffer)
    if len(index_map.initial_indices) != len(block.iter_vars):
        raise ScheduleError(
            T0416,
            f"block {block_name!r} has {len(block.iter_vars)} axes, the map takes "
            f"{len(index_map.initial_indices)}",
            func,
            block,
        )
    axes = {axis.var: axis for axis in block.iter_vars}
    place = index_map.map_indices(list(axes))
    is_write = writes_buffer(block, buffer)
    if is_write:
        check_only_writer(func, block, buffer)
        check_reads_nothing(func, block, buffer)
        check_alone(func, block_name, buffer, lambda other: touches(other, buffer), "uses")
    else:
        check_alone(func, block_name, buffer, lambda other: writes_buffer(other, buffer), "writes")
    _check_map(func, block, buffer, indices, place, is_write)
    used = [axes[var] for var in axes if var in set(free_vars(*indices, *place))]
    conditions = _conditions(func, here, {axis.var for axis in used}) if is_write else []
    shape = index_map.map_shape([axis.dom.extent for axis in block.iter_vars])
    staged = decl_buffer(shape, buffer.dtype, f"{buffer.name}_{suffix}", scope=scope)
    name = fresh_block_name(func, staged.name)
    func = replace_stmt(func, block, _Redirect(buffer, staged, tuple(place)).visit(block))
    fresh = {axis.var: Var(f"v{k}", axis.var.dtype) for k, axis in enumerate(used)}
    copied = [IterVar(axis.dom, fresh[axis.var]) for axis in used]
    there = tuple(substitute(index, fresh) for index in indices)
    at = tuple(substitute(index, fresh) for index in place)
    if is_write:
        store = BufferStore(buffer, BufferLoad(staged, at), there)
    else:
        store = BufferStore(staged, _guarded(buffer, there, copied), at)
    asked = [substitute(condition, fresh) for condition in conditions]
    copy = loop_nest(copied, store, name, all_of(*asked))
    return insert_beside(func, block_name, staged, copy, after=is_write), name


def _conditions(func: PrimFunc, place: Place, copied: set[Var]) -> list[PrimExpr]:
    """What the copying block has to ask too, in terms of the axes that it has."""
    conditions = conditions_on_axes(place.stmt)
    block: SBlock = place.stmt.block
    other = {loop.loop_var for loop in place.loops()} | {axis.var for axis in block.iter_vars} - copied
    has_loads = any(isinstance(node, BufferLoad) for condition in conditions for node in walk(condition))
    if has_loads or other & set(free_vars(*conditions)):
        raise ScheduleError(
            T0424, f"block {block.name_hint!r} writes under a condition on more than its indices", func, block
        )
    return conditions


def _reads(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(node, BufferLoad) and node.buffer is buffer for node in walk(stmt))


def _check_map(
    func: PrimFunc,
    block: SBlock,
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    place: list[PrimExpr],
    is_write: bool,
) -> None:
    """Different elements must have different places; a written element must have one place only."""
    by_axis = {axis.var: Range.from_min_extent(axis.dom.min, axis.dom.extent) for axis in block.iter_vars}
    name = block.name_hint
    used = set(free_vars(*indices))
    if not all(is_const_int(axis.dom.min, 0) for axis in block.iter_vars if axis.var in free_vars(*place)):
        raise ScheduleError(T0416, f"the axes of block {name!r} do not all begin at 0", func, block)
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type is not IterType.DataPar}
    iters = {var: dom for var, dom in by_axis.items() if var in set(free_vars(*place))}
    if not used <= set(iters) or not detect_iter_map(place, iters, check_level="bijective").indices:
        raise ScheduleError(
            T0416, f"the map may put two elements that block {name!r} uses in one place", func, block
        )
    if not is_write:
        if set(iters) & reduced and block.init is not None and _reads(block.init, buffer):
            raise ScheduleError(
                T0416, f"the map uses axes that the beginning of reduction {name!r} lacks", func, block
            )
        return
    written = {var: dom for var, dom in by_axis.items() if var in used}
    if set(iters) & reduced or set(iters) != used:
        raise ScheduleError(T0416, f"the map uses axes that the result of block {name!r} lacks", func, block)
    if not detect_iter_map(indices, written, check_level="bijective").indices:
        raise ScheduleError(T0424, f"block {name!r} may write an element twice", func, block)


def _guarded(buffer: Buffer, indices: tuple[PrimExpr, ...], axes: list[IterVar]) -> PrimExpr:
    """A load that gives 0 outside the buffer: conditions that the block reads under are not known here. The
    elements that an index names, as in A[I[i]], are asked for only inside of their buffers."""
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, axis.dom)
    whole = BufferLoad(buffer, indices)
    value: PrimExpr = whole
    zero = constant(0, buffer.dtype)
    loads = [node for index in indices for node in walk(index) if isinstance(node, BufferLoad)]
    for load in (whole, *loads):  # what an element's index names is asked before the element
        conditions = []
        for index, dim in zip(load.indices, load.buffer.shape, strict=True):
            inside = logical_and(index >= 0, index < dim)
            if not analyzer.can_prove(inside):
                conditions.append(inside)
        value = if_then_else(all_of(*conditions), value, zero) if conditions else value
    return value


class _Redirect(AccessRewriter):
    """Accesses of a buffer become accesses of its copy at one index."""

    def __init__(self, old: Buffer, new: Buffer, index: tuple[PrimExpr, ...]) -> None:
        super().__init__()
        self._old, self._new, self._index = old, new, index

    def load(self, node: BufferLoad) -> PrimExpr:
        return BufferLoad(self._new, self._index, span=node.span) if node.buffer is self._old else node

    def store(self, node: BufferStore) -> Stmt:
        if node.buffer is not self._old:
            return node
        return BufferStore(self._new, node.value, self._index, span=node.span)
