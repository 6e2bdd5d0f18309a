"""The loops that a block gets where it moves under another loop."""

from __future__ import annotations

from collections.abc import Mapping

from heddle.arith import Analyzer
from heddle.arith.int_set import IntervalSet
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import FloorDiv, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import greater_equal, logical_and, multiply
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import Box
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.codes import T0407
from heddle.tir.nodes import For, ForKind, IterType, IterVar, PrimFunc, SBlock, SBlockRealize, Stmt
from heddle.tir.schedule.blocks.moved import loops_around
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import Place, analyzer_at, conditions_on_axes, enter_loop, find_loop


def nest_over(
    func: PrimFunc,
    loop_var: Var,
    old: Place,
    box: Box,
    pattern: list[Var | None],
    preserve_unit_loops: bool,
    unsettled: set[Var],
) -> Stmt:
    """Loops over the box around the block from `old`; axes that no dimension determines run over their whole
    domain. In `unsettled` loops around both places others change what the block reads or look at what it
    writes."""
    realize: SBlockRealize = old.stmt
    block = realize.block
    place = find_loop(func, loop_var)
    analyzer = analyzer_at(place)
    enter_loop(analyzer, place.stmt)
    bounds = {axis: (low, high) for axis, (low, high) in zip(pattern, box, strict=True) if axis is not None}
    loops: list[tuple[Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    guards: list[PrimExpr] = []
    around = {
        outer.loop_var: outer.extent for outer in (*place.loops(), place.stmt) if is_const_int(outer.min, 0)
    }
    inside = [stmt for stmt in walk_stmts(place.stmt.body) if isinstance(stmt, For)]
    stays = {loop.loop_var for loop in loops_around(old)} & {
        loop.loop_var for loop in (*loops_around(place), place.stmt)
    }
    for axis, known in zip(block.iter_vars, realize.iter_values, strict=True):
        if axis.var not in bounds and stays & set(free_vars(known)):
            values.append(_value_that_stays(func, axis, known, old, stays))
            continue
        if axis.var in bounds and axis.iter_type is IterType.DataPar:
            low, high = bounds[axis.var]
            _check_share(func, axis, known, old, (low, high), unsettled, analyzer)
            extent = analyzer.simplify(high - low + 1)
            if not any(structural_equal(extent, inner.extent) for inner in inside):
                extent = _constant_extent(extent, analyzer)
        else:
            low, extent = axis.dom.min, axis.dom.extent
        is_unit = is_const_int(extent, 1)
        first: PrimExpr = analyzer.simplify(low)
        value = first
        if preserve_unit_loops or not is_unit:
            value = first + _new_loop(axis.var.name, extent, loops, analyzer)
        values.append(analyzer.simplify(value))
        guards.extend(_guards(first if is_unit else value, axis.dom, analyzer, around))
    left = {loop.loop_var for loop in old.loops()} - {loop.loop_var for loop in (*place.loops(), place.stmt)}
    guards.extend(_own_conditions(func, realize, values, left))
    predicate: PrimExpr = constant(True)
    for guard in guards:
        predicate = logical_and(predicate, guard)
    stmt: Stmt = SBlockRealize(tuple(values), analyzer.simplify(predicate), block, span=realize.span)
    for var, extent in reversed(loops):
        stmt = For(var, constant(0, var.dtype), extent, ForKind.SERIAL, stmt, span=realize.span)
    return stmt


def _check_share(
    func: PrimFunc,
    axis: IterVar,
    value: PrimExpr,
    old: Place,
    new: tuple[PrimExpr, PrimExpr],
    unsettled: set[Var],
    analyzer: Analyzer,
) -> None:
    """In an unsettled loop a block computes, of each axis, no more than what it did in that iteration."""
    if not unsettled & set(free_vars(value, *new)):
        return
    left = [loop for loop in loops_around(old) if loop.loop_var not in unsettled]
    ranges = {loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1) for loop in left}
    share = analyzer.int_set(value, ranges)
    names = unsettled & set(free_vars(value)) == unsettled & set(free_vars(*new))
    inside = names and all(
        isinstance(end, PrimExpr) and analyzer.can_prove(end <= ours if is_low else ours <= end)
        for end, ours, is_low in ((share.min_value, new[0], True), (share.max_value, new[1], False))
    )
    if not inside:
        block: SBlock = old.stmt.block
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} would run over more of axis {axis.var.name!r} than what an iteration "
            "of the loops around has, and what it reads changes in them",
            func,
            block,
        )


def _value_that_stays(
    func: PrimFunc, axis: IterVar, value: PrimExpr, old: Place, stays: set[Var]
) -> PrimExpr:
    """The value of an axis that says in which iteration of loops around both places the block runs."""
    if {loop.loop_var for loop in loops_around(old)} & set(free_vars(value)) - stays:
        block: SBlock = old.stmt.block
        raise ScheduleError(
            T0407,
            f"axis {axis.var.name!r} of block {block.name_hint!r} goes over loops that it stays in and loops "
            "that it leaves",
            func,
            block,
        )
    return value


def _own_conditions(
    func: PrimFunc, realize: SBlockRealize, values: list[PrimExpr], left: set[Var]
) -> list[PrimExpr]:
    """What the block was run under already, in terms of what its axes are bound to now; `left` are the loops
    that are not around it any more."""
    block = realize.block
    moved = {axis.var: value for axis, value in zip(block.iter_vars, values, strict=True)}
    own = left | set(free_vars(*realize.iter_values))
    conditions = conditions_on_axes(realize)
    if any(own & set(free_vars(condition)) for condition in conditions):
        raise ScheduleError(
            T0407, f"block {block.name_hint!r} runs under a condition on its own loops", func, block
        )
    return [substitute(condition, moved) for condition in conditions]


def _constant_extent(extent: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """An extent as a constant where it has a constant upper bound; iterations beyond it are guarded."""
    bound = analyzer.const_int_bound(extent)
    small = 0 < bound.max_value <= 4096
    return constant(bound.max_value, extent.dtype) if small and not is_const_int(extent) else extent


def _new_loop(name: str, extent: PrimExpr, loops: list[tuple[Var, PrimExpr]], analyzer: Analyzer) -> Var:
    var = Var(f"ax_{name.removeprefix('v_')}", extent.dtype)
    loops.append((var, extent))
    if not is_const_int(extent, 1):  # else it would vanish from the values
        analyzer.bind(var, Range.from_min_extent(constant(0, extent.dtype), extent))
    return var


def _guards(
    value: PrimExpr, domain: Range, analyzer: Analyzer, around: Mapping[Var, PrimExpr]
) -> list[PrimExpr]:
    """Conditions for a value to lie in a domain, without those that surely hold. `around` are the extents of
    the loops outside."""
    conditions = [] if analyzer.can_prove(value >= domain.min) else [value >= domain.min]
    if not analyzer.can_prove(value < domain.end) and not _is_below(value, domain.end, analyzer, around):
        conditions.append(value < domain.end)
    return conditions


def _is_below(value: PrimExpr, end: PrimExpr, analyzer: Analyzer, around: Mapping[Var, PrimExpr]) -> bool:
    """Whether a fused loop's variable, divided by what was fused with it, stays below a symbolic end.

    Divisors are extents, which are not negative: where one is zero the loop has no iteration.
    """
    while isinstance(value, FloorDiv):
        divisor: PrimExpr = value.b
        if not analyzer.can_prove(greater_equal(divisor, 0)):
            return False
        value, end = value.a, multiply(end, divisor)
    return isinstance(value, Var) and value in around and analyzer.can_prove_equal(around[value], end)
