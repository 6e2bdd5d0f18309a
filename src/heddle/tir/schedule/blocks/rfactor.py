"""Splitting a reduction into partial results and their combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heddle.ir.node import children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, And, Call, Max, Min, Mul, Or, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import max_value, min_value
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.names import NameSupply
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in, child_stmts
from heddle.tir.codes import T0412
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.schedule.coverage import depends_on_loops
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, find_loop, replace_stmt, scope_of
from heddle.tir.substitute import StmtSubstituter, substitute_stmt


def rfactor(func: PrimFunc, loop_var: Var, factor_axis: int) -> tuple[PrimFunc, str]:
    """for i, k0, k1: C[i] += f(i, k0 * 4 + k1)

        →   for i, k0, k1: P[k0, i] += f(i, k0 * 4 + k1)
            for i, k0:     C[i] += P[k0, i]

    The loop must be one of a reduction, by an associative and commutative operation, that nothing else shares
    the loops with. Partial results begin with the operation's identity; what the block initialises with may
    be something else and is combined once, at the end. Floats are combined in another order. `factor_axis`
    is where the new dimension stands in the partial results. The block keeps its name; gives the name of the
    partial one.
    """
    loop: For = find_loop(func, loop_var).stmt
    realize = _only_block(func, loop)
    block = realize.block
    loops = find_block(func, block.name_hint).loops()
    store = _reduction_store(func, block)
    reducing = _reduction_loops(func, realize, loops)
    if loop_var not in reducing:
        raise ScheduleError(T0412, f"loop {loop_var.name!r} is no reduction loop", func, realize)
    if not _is_true(realize.predicate):
        raise ScheduleError(T0412, f"block {block.name_hint!r} runs under a condition", func, realize)
    _check_bounds(func, loop, loops)
    rank = len(store.indices)
    if not -rank - 1 <= factor_axis <= rank:
        raise ScheduleError(T0412, f"factor_axis {factor_axis} of a result of rank {rank}", func, block)
    position = factor_axis % (rank + 1)
    shape = (*store.buffer.shape[:position], loop.extent, *store.buffer.shape[position:])
    partial = decl_buffer(shape, store.buffer.dtype, f"{store.buffer.name}_rf")
    name = NameSupply(r.block.name_hint for r in blocks_in(func.body)).fresh(f"{block.name_hint}_rf")
    first = _partial_nest(realize, loops, reducing, loop, partial, position, name)
    second = _final_nest(realize, loops, reducing, loop, partial, position, store)
    func = replace_stmt(func, loops[0], seq(first, second))
    scope = scope_of(func, find_block(func, block.name_hint))
    return replace_stmt(func, scope, replace(scope, alloc_buffers=(*scope.alloc_buffers, partial))), name


def _check_bounds(func: PrimFunc, loop: For, loops: list[For]) -> None:
    """The partial results have a place for each iteration, and the nests are made with some loops only."""
    if not is_const_int(loop.min, 0):
        raise ScheduleError(T0412, f"loop {loop.loop_var.name!r} does not begin at 0", func, loop)
    for other in loops:
        if depends_on_loops(other, loops):
            name = other.loop_var.name
            raise ScheduleError(T0412, f"the bounds of loop {name!r} depend on other loops", func, other)


def _only_block(func: PrimFunc, loop: For) -> SBlockRealize:
    inside = blocks_in(loop)
    if len(inside) != 1:
        raise ScheduleError(T0412, f"{len(inside)} blocks lie in loop {loop.loop_var.name!r}", func, loop)
    loops = find_block(func, inside[0].block.name_hint).loops()
    for outer, inner in zip(loops, [*loops[1:], inside[0]], strict=True):
        if list(child_stmts(outer)) != [inner]:
            raise ScheduleError(T0412, "the reduction shares its loops", func, outer)
    return inside[0]


def _is_true(predicate: PrimExpr) -> bool:
    return is_const_int(predicate, 1)


_IDENTITIES: dict[type | str, Callable[[DataType], PrimExpr]] = {
    Add: lambda dtype: constant(0, dtype),
    Mul: lambda dtype: constant(1, dtype),
    Max: min_value,
    Min: max_value,
    And: lambda dtype: constant(True, dtype),
    Or: lambda dtype: constant(False, dtype),
    "tir.bitwise_and": lambda dtype: constant((1 << dtype.bits) - 1 if dtype.is_unsigned else -1, dtype),
    "tir.bitwise_or": lambda dtype: constant(0, dtype),
    "tir.bitwise_xor": lambda dtype: constant(0, dtype),
}
"""The combinations that are associative and commutative, and what changes nothing under each."""


def _combiner(value: PrimExpr) -> type | str:
    return value.op.name if isinstance(value, Call) else type(value)


def _operands(value: PrimExpr) -> tuple[Any, ...]:
    return tuple(value.args) if isinstance(value, Call) else tuple(children(value))


def _reduction_store(func: PrimFunc, block: SBlock) -> BufferStore:
    """The store `C[i] = C[i] op f` of a reduction with one result, where `op` is one of the table."""
    store, init = block.body, block.init
    name = block.name_hint
    plain = not block.match_buffers and not block.alloc_buffers
    if not (plain and isinstance(store, BufferStore) and isinstance(init, BufferStore)):
        raise ScheduleError(T0412, f"block {name!r} does not reduce to one result", func, block)
    if _combiner(store.value) not in _IDENTITIES:
        raise ScheduleError(
            T0412, f"block {name!r} combines by what is no associative and commutative operation", func, block
        )
    sides = _operands(store.value)
    own = [side for side in sides if _loads_result(side, store)]
    others = [node for side in sides if side not in own for node in walk(side)]
    again = [
        n for n in (*others, *walk(init.value)) if isinstance(n, BufferLoad) and n.buffer is store.buffer
    ]
    same = init.buffer is store.buffer and structural_equal(init.indices, store.indices)
    if len(own) != 1 or again or not same or store.predicate is not None or init.predicate is not None:
        raise ScheduleError(T0412, f"block {name!r} does not reduce to one result", func, block)
    return store


def _loads_result(expr: Any, store: BufferStore) -> bool:
    is_result = isinstance(expr, BufferLoad) and expr.buffer is store.buffer
    return is_result and structural_equal(expr.indices, store.indices)


def _reduction_loops(func: PrimFunc, realize: SBlockRealize, loops: list[For]) -> set[Var]:
    """The loops that only reduction axes use."""
    used: dict[IterType, set[Var]] = {}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        used.setdefault(axis.iter_type, set()).update(free_vars(value))
    reducing = used.get(IterType.CommReduce, set())
    shared = reducing & used.get(IterType.DataPar, set())
    if shared or set(used) - {IterType.CommReduce, IterType.DataPar}:
        raise ScheduleError(T0412, "a loop serves spatial and reduction axes", func, realize)
    return {loop.loop_var for loop in loops if loop.loop_var in reducing}


def _renamed(loops: list[For]) -> dict[Var, Var]:
    return {loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops}


def _wrap(loops: list[For], renamed: Mapping[Var, Var], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        extent = substitute(loop.extent, dict(renamed))
        body = For(renamed[loop.loop_var], loop.min, extent, ForKind.SERIAL, body)
    return body


def _spatial(realize: SBlockRealize) -> list[tuple[IterVar, PrimExpr]]:
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [(axis, value) for axis, value in pairs if axis.iter_type is IterType.DataPar]


def _with_factor(indices: tuple[PrimExpr, ...], position: int, factor: Var) -> tuple[PrimExpr, ...]:
    return (*indices[:position], factor, *indices[position:])


def _partial_nest(
    realize: SBlockRealize,
    loops: list[For],
    reducing: set[Var],
    factored: For,
    partial: Buffer,
    position: int,
    name: str,
) -> Stmt:
    """The reduction over all loops but one, which becomes an axis of the result."""
    block = realize.block
    renamed = _renamed(loops)
    axes: list[IterVar] = []
    values: list[PrimExpr] = []
    by_loop: dict[Var, PrimExpr] = {}
    for loop in loops:
        if loop.loop_var in reducing:
            own = Var(f"v{loop.loop_var.name}", loop.loop_var.dtype)
            kind = IterType.DataPar if loop is factored else IterType.CommReduce
            axes.append(IterVar(Range.from_min_extent(loop.min, loop.extent), own, kind))
            values.append(renamed[loop.loop_var])
            by_loop[loop.loop_var] = own
    mapping: dict[Var, PrimExpr] = {}
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type is IterType.DataPar:
            own = Var(axis.var.name, axis.var.dtype)
            axes.append(IterVar(axis.dom, own, axis.iter_type))
            values.append(substitute(value, dict(renamed)))
            mapping[axis.var] = own
        else:
            mapping[axis.var] = substitute(value, by_loop)
    store = block.body
    assert isinstance(store, BufferStore)
    indices = tuple(substitute(index, mapping) for index in store.indices)
    index = _with_factor(indices, position, by_loop[factored.loop_var])  # type: ignore[arg-type]
    redirect = _Redirect(store.buffer, partial, index)
    body = redirect.visit(substitute_stmt(store, mapping))
    init = BufferStore(partial, _IDENTITIES[_combiner(store.value)](partial.dtype), index)
    made = with_access_regions(SBlock(tuple(axes), (), (), name, body, init))
    return _wrap(loops, renamed, SBlockRealize(tuple(values), constant(True), made))


def _final_nest(
    realize: SBlockRealize,
    loops: list[For],
    reducing: set[Var],
    factored: For,
    partial: Buffer,
    position: int,
    store: BufferStore,
) -> Stmt:
    """The combination of partial results, in the block's own name."""
    block = realize.block
    kept = [loop for loop in loops if loop.loop_var not in reducing or loop is factored]
    renamed = {loop.loop_var: loop.loop_var for loop in kept}
    factor = Var(f"v{factored.loop_var.name}", factored.loop_var.dtype)
    domain = Range.from_min_extent(factored.min, factored.extent)
    pairs = _spatial(realize)
    axes = (*(axis for axis, _ in pairs), IterVar(domain, factor, IterType.CommReduce))
    values = (*(value for _, value in pairs), factored.loop_var)
    loaded = BufferLoad(partial, _with_factor(store.indices, position, factor))
    left, right = _operands(store.value)
    other = right if _loads_result(left, store) else left
    combined = _Swap(other, loaded).visit(store.value)
    body = replace(store, value=combined)
    made = with_access_regions(SBlock(axes, (), (), block.name_hint, body, block.init))
    return _wrap(kept, renamed, SBlockRealize(values, constant(True), made))


class _Redirect(StmtSubstituter):
    """Accesses to the result become accesses to one element of the partial results."""

    def __init__(self, old: Buffer, new: Buffer, index: tuple[PrimExpr, ...]) -> None:
        super().__init__({})
        self._old, self._new, self._index = old, new, index

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return (
            BufferLoad(self._new, self._index) if node.buffer is self._old else super().visit_BufferLoad(node)
        )

    def visit_BufferStore(self, node: BufferStore) -> Any:
        value = self.visit(node.value)
        if node.buffer is self._old:
            return BufferStore(self._new, value, self._index, span=node.span)
        return replace(node, value=value)


class _Swap(StmtSubstituter):
    """One expression for another."""

    def __init__(self, old: Any, new: Any) -> None:
        super().__init__({})
        self._old, self._new = old, new

    def visit(self, node: Any) -> Any:
        return self._new if node is self._old else super().visit(node)
