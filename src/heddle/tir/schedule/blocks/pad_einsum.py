"""Rounding the axes of a contraction up to multiples of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.arith.analyzer import Analyzer
from heddle.arith.linear_solve import detect_linear_equation
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, Cast, IntImm, Mul, PrimExpr, Range, Sub, Var, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import ceildiv, conjuncts, if_then_else
from heddle.prim.substitute import free_vars, substitute
from heddle.support.names import NameSupply
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in, child_stmts
from heddle.tir.codes import T0410
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    While,
    decl_buffer,
    seq,
)
from heddle.tir.schedule.blocks.nest import loop_nest, whole_axes
from heddle.tir.schedule.coverage import stores_all
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.orders import reduction_variables
from heddle.tir.schedule.staging.access import single_index
from heddle.tir.schedule.tree import (
    Place,
    find_block,
    replace_stmt,
    scope_of,
    sole_block,
    writes_buffer,
)
from heddle.tir.substitute import StmtSubstituter


def _check_places(func: PrimFunc, block: SBlock, padding: Sequence[int]) -> None:
    """More iterations of a spatial axis that is no index of the result would add to the same places."""
    written = set(free_vars(*(part.min for region in block.writes for part in region.region)))
    for axis, multiple in zip(block.iter_vars, padding, strict=True):
        grows = not is_const_int(axis.dom.extent % multiple, 0)
        if grows and axis.iter_type is IterType.DataPar and axis.var not in written:
            raise ScheduleError(
                T0410,
                f"block {block.name_hint!r}: axis {axis.var.name!r} is no index of the result and cannot be "
                "padded",
                func,
                block,
            )


def pad_einsum(
    func: PrimFunc, block_name: str, padding: Sequence[int]
) -> tuple[PrimFunc, list[str], list[str]]:
    """C[i, j] += A[i, k] * B[k, j]   →   A_pad[i, k] = A[i, k] if i < m else 0;  ...
                                       C_pad[i, j] += A_pad[i, k] * B_pad[k, j]
                                       C[i, j] = C_pad[i, j]

    The axes of a contraction, or of another reduction, are rounded up to multiples, so that tiles divide
    them. Gives the names of the padding blocks and of the copying-out block. Buffers that need no padding are
    used directly. No buffer may be read at several indices. Where an axis is a term of an index, as in
    A[i * 2 + k], what is read grows by what that term does.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    if len(padding) != len(block.iter_vars) or any(multiple < 1 for multiple in padding):
        text = f"padding {list(padding)}: expected a positive number for each of {len(block.iter_vars)} axes"
        raise ScheduleError(T0410, f"block {block_name!r}: {text}", func, block)
    if len(block.writes) != 1:
        raise ScheduleError(T0410, f"block {block_name!r} stores {len(block.writes)} results", func, block)
    _check_whole_loops(func, place)
    _check_places(func, block, padding)
    for region in block.reads:
        single_index(func, block, region.buffer)
    extents = {axis.var: axis.dom.extent for axis in block.iter_vars}
    padded = {
        axis.var: _round_up(axis.dom.extent, multiple)
        for axis, multiple in zip(block.iter_vars, padding, strict=True)
    }
    changed = {var for var in padded if padded[var] is not extents[var]}
    names = NameSupply(r.block.name_hint for r in blocks_in(func.body))
    before: list[Stmt] = []
    mapping: dict[Buffer, Buffer] = {}
    pad_names: list[str] = []
    for region in block.reads:
        used = changed & set(free_vars(*(part.min for part in region.region)))
        if used and (writes_buffer(block, region.buffer) or not _covers(block, region, used, padded)):
            axes = _padded_axes(func, block, region, changed)
            new = _padded_buffer(region.buffer, axes, padded, extents)
            name = names.fresh(new.name)
            mapping[region.buffer] = new
            before.append(_pad_nest(region.buffer, new, name))
            pad_names.append(name)
    _check_zeros(func, block, changed, mapping)
    after, out_names = _copy_out(func, place.stmt, (padded, extents), changed, mapping, names)
    scope = scope_of(func, place)
    new_block = _with_domains(block, padded, mapping)
    nest = _top_statement(scope, block_name)
    new_nest = _PaddedLoops(extents, padded, place.stmt, new_block).visit(nest)
    func = replace_stmt(func, nest, seq(*before, new_nest, *after))
    scope = scope_of(func, find_block(func, block_name))
    buffers = (*scope.alloc_buffers, *mapping.values())
    return replace_stmt(func, scope, replace(scope, alloc_buffers=buffers)), pad_names, out_names


def _check_whole_loops(func: PrimFunc, place: Place) -> None:
    """The loops, which are to grow, must hold the block alone and run straight over all of its axes."""
    realize: SBlockRealize = place.stmt
    name, loops = realize.block.name_hint, place.loops()
    if loops:
        sole_block(func, loops[0], T0410)
    extents = {loop.loop_var: loop.extent for loop in loops}
    analyzer = Analyzer()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        extent = extents.pop(value, None) if isinstance(value, Var) else None
        unit = is_const_int(axis.dom.extent, 1) and is_const_int(value, 0)
        if not unit and (extent is None or not analyzer.can_prove_equal(extent, axis.dom.extent)):
            raise ScheduleError(
                T0410,
                f"the loops do not run straight over axis {axis.var.name!r} of block {name!r}",
                func,
                realize,
            )
    for other in blocks_in(func.body):
        writes = [w.buffer for w in realize.block.writes if writes_buffer(other.block, w.buffer)]
        if writes and other is not realize and other not in place.ancestors:
            raise ScheduleError(
                T0410,
                f"blocks {name!r} and {other.block.name_hint!r} both write {writes[0].name!r}",
                func,
                realize,
            )


def _check_zeros(func: PrimFunc, block: SBlock, changed: set[Var], mapping: dict[Buffer, Buffer]) -> None:
    """Iterations that padding adds to a reduction must meet zeros, and zeros must add nothing."""
    padded = [r for r in block.reads if r.buffer in mapping]
    reducing = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.CommReduce} & changed
    for var in reducing:
        zeros = {r.buffer for r in padded if any(part.min is var for part in r.region)}
        if not _adds_nothing(block.body, zeros):
            text = f"block {block.name_hint!r}: zeros along reduction axis {var.name!r} change the result"
            raise ScheduleError(T0410, text, func, block)


def _adds_nothing(stmt: Stmt, zeros: set[Buffer]) -> bool:
    """Whether a store `C[i] = C[i] + f` or `C[i] - f` keeps what is there, where some buffers hold zeros."""
    if not isinstance(stmt, BufferStore) or not isinstance(stmt.value, (Add, Sub)):
        return False
    own = BufferLoad(stmt.buffer, stmt.indices)
    a, b = stmt.value.a, stmt.value.b
    if isinstance(stmt.value, Add) and structural_equal(b, own):
        a, b = b, a
    return structural_equal(a, own) and _is_zero(b, zeros)


def _is_zero(expr: PrimExpr, zeros: set[Buffer]) -> bool:
    """Whether an expression is zero where some buffers hold zeros."""
    if isinstance(expr, BufferLoad):
        return expr.buffer in zeros
    if isinstance(expr, Mul):
        return _is_zero(expr.a, zeros) or _is_zero(expr.b, zeros)
    if isinstance(expr, (Add, Sub)):
        return _is_zero(expr.a, zeros) and _is_zero(expr.b, zeros)
    if isinstance(expr, Cast):
        return _is_zero(expr.value, zeros)
    return is_const_int(expr, 0)


def _round_up(extent: PrimExpr, multiple: int) -> PrimExpr:
    if multiple == 1 or (isinstance(extent, IntImm) and extent.value % multiple == 0):
        return extent
    result: PrimExpr = ceildiv(extent, multiple) * multiple
    return result


def _covers(block: SBlock, region: BufferRegion, used: set[Var], padded: dict[Var, PrimExpr]) -> bool:
    """Whether a buffer is large enough for the padded axes as it is, as packed weights are, in the dimensions
    that they index. Along reduction axes it would have to hold zeros, which is not known."""
    spatial = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar}
    if not used <= spatial or all(isinstance(part.min, Var) for part in region.region):
        return False
    analyzer = Analyzer()
    for var, extent in padded.items():
        analyzer.bind(var, Range(extent))
    pairs = zip(region.region, region.buffer.shape, strict=True)
    return all(
        analyzer.can_prove(part.min >= 0) and analyzer.can_prove(part.min < size)
        for part, size in pairs
        if used & set(free_vars(part.min))
    )


_Growth = tuple[Var, int] | None
"""The axis that grows and indexes a dimension, and by how much the index grows with it."""


def _padded_axes(func: PrimFunc, block: SBlock, region: BufferRegion, changed: set[Var]) -> list[_Growth]:
    """What makes each dimension of an access grow, or None where it stays."""
    found: list[_Growth] = []
    for index in (part.min for part in region.region):
        growing = [var for var in free_vars(index) if var in changed]
        step = _step(index, growing[0]) if len(growing) == 1 else 0
        if growing and step < 1:
            raise ScheduleError(
                T0410,
                f"block {block.name_hint!r} indexes {region.buffer.name!r} by more than axes",
                func,
                block,
            )
        found.append((growing[0], step) if growing else None)
    return found


def _step(index: PrimExpr, var: Var) -> int:
    """By how much an index grows with a variable; 0 where that is no number."""
    if index is var:
        return 1
    slope = detect_linear_equation(index, [var])
    return slope[0].value if slope and isinstance(slope[0], IntImm) else 0


def _padded_buffer(
    buffer: Buffer,
    axes: list[_Growth],
    padded: dict[Var, PrimExpr],
    extents: dict[Var, PrimExpr],
) -> Buffer:
    shape = list(buffer.shape)
    for dim, growth in enumerate(axes):
        if growth is None:
            continue
        axis, step = growth
        if step == 1 and structural_equal(shape[dim], extents[axis]):
            shape[dim] = padded[axis]
            continue
        more = padded[axis] - extents[axis]
        shape[dim] = Analyzer().simplify(shape[dim] + more * constant(step, more.dtype))
    return decl_buffer(tuple(shape), buffer.dtype, f"{buffer.name}_pad", scope=buffer.scope)


def _pad_nest(source: Buffer, target: Buffer, name: str) -> Stmt:
    """target[i] = source[i] inside the source, else 0."""
    axes = whole_axes(target)
    index = tuple(axis.var for axis in axes)
    inside = all_of(
        *(i < dim for i, dim, big in zip(index, source.shape, target.shape, strict=True) if dim is not big)
    )
    value = if_then_else(inside, BufferLoad(source, index), constant(0, source.dtype))
    return loop_nest(axes, BufferStore(target, value, index), name)


def _copy_out(
    func: PrimFunc,
    realize: SBlockRealize,
    sizes: tuple[dict[Var, PrimExpr], dict[Var, PrimExpr]],
    changed: set[Var],
    mapping: dict[Buffer, Buffer],
    names: NameSupply,
) -> tuple[list[Stmt], list[str]]:
    block = realize.block
    region = block.writes[0]
    axes = _padded_axes(func, block, region, changed)
    if not any(axes):
        return [], []
    name = names.fresh(f"{region.buffer.name}_unpad")
    out_axes = whole_axes(region.buffer)
    index: tuple[PrimExpr, ...] = tuple(axis.var for axis in out_axes)
    new = mapping.get(region.buffer)  # what the block changes was copied in already
    if new is None:
        _check_stores(func, realize)
        new = mapping[region.buffer] = _padded_buffer(region.buffer, axes, *sizes)
        if not stores_all(realize, region.buffer):
            out_axes, index = _stored(block, region)
    return [loop_nest(out_axes, BufferStore(region.buffer, BufferLoad(new, index), index), name)], [name]


def _stored(block: SBlock, region: BufferRegion) -> tuple[list[IterVar], tuple[PrimExpr, ...]]:
    """Axes over what a block stores, and its indices there; it leaves other elements as they are."""
    used = set(free_vars(*(part.min for part in region.region)))
    fresh = {axis: Var(axis.var.name, axis.var.dtype) for axis in block.iter_vars if axis.var in used}
    mapping = {axis.var: var for axis, var in fresh.items()}
    index = tuple(substitute(part.min, mapping) for part in region.region)
    return [IterVar(axis.dom, var) for axis, var in fresh.items()], index


def _check_stores(func: PrimFunc, realize: SBlockRealize) -> None:
    """A block whose result is copied out from a buffer that holds nothing else must store all of it."""
    block, reducing = realize.block, reduction_variables(realize)
    has_condition = not all(
        set(free_vars(each)) & reducing or is_const_int(each, 1) for each in conjuncts(realize.predicate)
    )
    chooses = block.init is None and any(isinstance(node, (IfThenElse, While)) for node in walk(block.body))
    if has_condition or chooses:
        text = f"block {block.name_hint!r} stores under a condition, and its result cannot be padded"
        raise ScheduleError(T0410, text, func, block)


def _with_domains(block: SBlock, padded: dict[Var, PrimExpr], mapping: dict[Buffer, Buffer]) -> SBlock:
    axes = tuple(
        IterVar(Range.from_min_extent(axis.dom.min, padded[axis.var]), axis.var, axis.iter_type)
        for axis in block.iter_vars
    )
    moved = StmtSubstituter({}, mapping).visit(replace(block, iter_vars=axes))
    return with_access_regions(moved)


def _top_statement(scope: SBlock, block_name: str) -> Stmt:
    stack = (
        list(child_stmts(scope.body)) if not isinstance(scope.body, (For, SBlockRealize)) else [scope.body]
    )
    return next(s for s in stack if any(r.block.name_hint == block_name for r in blocks_in(s)))


class _PaddedLoops(StmtSubstituter):
    """Gives the loops that run directly over a padded axis its new extent."""

    def __init__(
        self, extents: dict[Var, PrimExpr], padded: dict[Var, PrimExpr], realize: SBlockRealize, block: SBlock
    ) -> None:
        super().__init__({})
        self._realize, self._block = realize, block
        self._loops = {
            value: padded[axis.var]
            for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
            if isinstance(value, Var)
        }

    def visit_For(self, node: For) -> Stmt:
        return replace(node, extent=self._loops.get(node.loop_var, node.extent), body=self.visit(node.body))

    def visit_SBlockRealize(self, node: SBlockRealize) -> Stmt:
        if node is not self._realize:
            return node
        return SBlockRealize(node.iter_values, node.predicate, self._block, span=node.span)
