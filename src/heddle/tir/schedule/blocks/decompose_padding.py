"""Padding as two blocks: the constant everywhere, then the values where there are some."""

from __future__ import annotations

from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.prim.nodes import GE, GT, LE, LT, Call, FloatImm, IntImm, PrimExpr, Select, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import conjuncts, maximum, minimum, subtract
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.codes import T0417
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import BufferStore, For, IterType, PrimFunc, SBlock, SBlockRealize, Stmt, seq
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import (
    find_block,
    find_loop,
    fresh_block_name,
    reads_buffer,
    replace_stmt,
    sole_block,
)


def decompose_padding(func: PrimFunc, block_name: str, loop_var: Var) -> tuple[PrimFunc, str]:
    """for i in range(10): P[i] = A[i - 1] if 1 <= i and i < 9 else 0

        →   for i in range(10): P[i] = 0
            for i in range(8):  P[i + 1] = A[i]

    The constant goes before the loop, which must hold the block alone. Loops that run straight over an axis
    become as short as the condition on that axis says; other conditions guard the block. Gives the name of
    the block that stores the constant.
    """
    place = find_block(func, block_name)
    loop: For = find_loop(func, loop_var).stmt
    if loop not in place.loops():
        raise ScheduleError(
            T0417, f"loop {loop_var.name!r} is not around block {block_name!r}", func, place.stmt
        )
    loops, realize = sole_block(func, loop, T0417)
    condition, value, padding = _parts(func, realize.block)
    store = realize.block.body
    assert isinstance(store, BufferStore)
    name = fresh_block_name(func, f"{block_name}_pad_const")
    filled = with_access_regions(replace(realize.block, body=replace(store, value=padding), name_hint=name))
    fill = _rebuilt(loops, replace(realize, block=filled))
    inner = _within(loops, realize, conjuncts(condition), replace(store, value=value))
    return replace_stmt(func, loop, seq(with_fresh_definitions(fill), inner)), name


def _parts(func: PrimFunc, block: SBlock) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """The condition, the value where it holds, and the constant elsewhere."""
    spatial = all(axis.iter_type is IterType.DataPar for axis in block.iter_vars)
    store = block.body
    if isinstance(store, BufferStore) and block.init is None and spatial:
        value = store.value
        parts: tuple[Any, ...] = ()
        if isinstance(value, Select):
            parts = (value.condition, value.true_value, value.false_value)
        elif isinstance(value, Call) and value.op.name == "tir.if_then_else":
            parts = value.args
        reads_itself = any(reads_buffer(block, region.buffer) for region in block.writes)
        if parts and isinstance(parts[2], (IntImm, FloatImm)) and not reads_itself:
            return parts[0], parts[1], parts[2]
    raise ScheduleError(
        T0417,
        f"block {block.name_hint!r} does not store a value under a condition and a constant elsewhere",
        func,
        block,
    )


def _within(
    loops: list[For], realize: SBlockRealize, conditions: tuple[PrimExpr, ...], store: BufferStore
) -> Stmt:
    """The block where the conditions hold: shorter loops, and guards for the rest."""
    block = realize.block
    loop_of = {loop.loop_var: loop for loop in loops}
    values = dict(zip((axis.var for axis in block.iter_vars), realize.iter_values, strict=True))
    uses = [var for value in realize.iter_values for var in free_vars(value)]
    straight = {
        axis: value
        for axis, value in values.items()
        if isinstance(value, Var) and value in loop_of and uses.count(value) == 1
    }
    bounds: dict[Var, list[PrimExpr]] = {axis: [loop_of[var].min] for axis, var in straight.items()}
    ends: dict[Var, list[PrimExpr]] = {
        axis: [loop_of[var].min + loop_of[var].extent] for axis, var in straight.items()
    }
    guards: list[PrimExpr] = []
    for condition in conditions:
        found = _bound(condition)
        if found is None or found[0] not in straight or set(free_vars(found[1])) & set(values):
            guards.append(condition)
        else:
            (bounds if found[2] else ends)[found[0]].append(found[1])
    analyzer = Analyzer()
    changed: dict[Var, For] = {}
    shifts: dict[Var, PrimExpr] = {}
    for axis, var in straight.items():
        low, end = bounds[axis][0], ends[axis][0]
        for other in bounds[axis][1:]:
            low = maximum(low, other)
        for other in ends[axis][1:]:
            end = minimum(end, other)
        old = loop_of[var]
        low = analyzer.simplify(low)
        extent = analyzer.simplify(maximum(subtract(end, low), 0))
        fresh = Var(var.name, var.dtype)
        changed[var] = replace(old, loop_var=fresh, min=constant(0, var.dtype), extent=extent)
        shifts[var] = analyzer.simplify(low + fresh)
    outside = substitute(all_of(realize.predicate, *(substitute(g, values) for g in guards)), shifts)
    body = replace(realize.block, body=store)
    new_values = tuple(substitute(value, shifts) for value in realize.iter_values)
    made = SBlockRealize(new_values, analyzer.simplify(outside), with_access_regions(body), span=realize.span)
    nest = [changed.get(loop.loop_var, loop) for loop in loops]
    return _rebuilt(nest, made)


def _bound(condition: PrimExpr) -> tuple[Var, PrimExpr, bool] | None:
    """`axis >= low` as (axis, low, True), `axis < end` as (axis, end, False); None for other conditions."""
    if not isinstance(condition, (LT, LE, GT, GE)) or condition.a.dtype.is_float:
        return None
    a, b = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        a, b = b, a
    more, one = isinstance(condition, (LE, GE)), constant(1, a.dtype)
    for left, right, is_low in ((a, b, False), (b, a, True)):
        found = _offset(left)
        if found is None:
            continue
        axis, offset = found
        edge = right - offset
        if is_low:
            return axis, edge if more else edge + one, True
        return axis, edge + one if more else edge, False
    return None


def _offset(expr: PrimExpr) -> tuple[Var, PrimExpr] | None:
    """`axis + c` as (axis, c)."""
    names = free_vars(expr)
    if len(names) != 1 or expr.dtype != names[0].dtype:
        return None
    offset = Analyzer().simplify(expr - names[0])
    return None if free_vars(offset) else (names[0], offset)


def _rebuilt(loops: list[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body
