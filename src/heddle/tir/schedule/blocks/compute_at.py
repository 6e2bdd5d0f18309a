"""Moving a block under a loop of its consumer or producer, so that it computes only what that loop's
iteration needs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import greater_equal, logical_and, multiply
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.analysis.blocks import blocks_in, producers_and_consumers, walk_stmts
from heddle.tir.codes import T0407
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    For,
    ForKind,
    IterType,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    seq,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.orders import changes_when_repeated, keeps_reduction_order
from heddle.tir.schedule.tree import (
    Place,
    analyzer_at,
    conditions_on_axes,
    enter_loop,
    find_block,
    find_loop,
    reads_buffer,
    replace_stmt,
    root_block,
    scope_of,
    writes_buffer,
)


def compute_at(func: PrimFunc, block_name: str, loop_var: Var, preserve_unit_loops: bool = False) -> PrimFunc:
    """B[all] = f(A);  for i: C[i] = g(B[i..i+3])   →   for i: {B[i..i+3] = f(A); C[i] = g(B[i..i+3])}

    The block goes to the front of the loop's body and covers the region that blocks under the loop read. Its
    loops of one iteration go, unless they are to be preserved.
    """
    place, loop = find_block(func, block_name), find_loop(func, loop_var).stmt
    block: SBlock = place.stmt.block
    _check_sole_writer(func, block)
    _check_can_be_repeated(func, block)
    _check_same_scope(func, block, loop)
    buffer = block.writes[0].buffer
    readers = [r for r in producers_and_consumers(scope_of(func, place)) if reads_buffer(r.block, buffer)]
    inside = set(map(id, blocks_in(loop.body)))
    outside = [r for r in readers if id(r) not in inside and r.block is not block]
    if outside or not readers:
        name = outside[0].block.name_hint if outside else "nothing"
        raise ScheduleError(T0407, f"{name} outside the loop reads {buffer.name!r}", func, block)
    _check_made_before(func, block, loop)
    func = replace_stmt(func, _nest_of(func, block_name), None)
    loop = find_loop(func, loop_var).stmt
    needed = _accessed(func, loop.body, buffer, writes=False)
    pattern = [_axis_of(index, block) for index in _store_indices(block, buffer)]
    nest = _new_nest(func, loop_var, place, needed, pattern, preserve_unit_loops)
    return replace_stmt(func, loop, replace(loop, body=seq(nest, loop.body)))


def reverse_compute_at(
    func: PrimFunc, block_name: str, loop_var: Var, preserve_unit_loops: bool = False
) -> PrimFunc:
    """for i: B[i] = f(A[i]);  C[all] = g(B)   →   for i: {B[i] = f(A[i]); C[i] = g(B[i])}

    The block goes to the end of the loop's body and covers the region that the loop's iteration writes. Its
    loops of one iteration go, unless they are to be preserved.
    """
    place, loop = find_block(func, block_name), find_loop(func, loop_var).stmt
    block: SBlock = place.stmt.block
    _check_sole_writer(func, block)
    _check_can_be_repeated(func, block)
    _check_same_scope(func, block, loop)
    _check_producers_before(func, block, loop)
    buffer = _produced_under(func, loop, block)
    func = replace_stmt(func, _nest_of(func, block_name), None)
    loop = find_loop(func, loop_var).stmt
    produced = _accessed(func, loop.body, buffer, writes=True)
    pattern = _reading_axes(func, block, buffer)
    _check_reads_what_was_made(func, block, loop, buffer, produced, pattern)
    if buffer in func.buffers:  # of another one, what nobody made is not defined
        _check_none_is_left_out(func, block, loop, produced, pattern)
    nest = _new_nest(func, loop_var, place, produced, pattern, preserve_unit_loops)
    return replace_stmt(func, loop, replace(loop, body=seq(loop.body, nest)))


def _reading_axes(func: PrimFunc, block: SBlock, buffer: Buffer) -> list[Var | None]:
    """For each dimension of a buffer the consumer's axis that goes over it, in all its reads and no farther;
    None where there is no such axis: an axis of a join, which goes on to other parts, must run over all of
    them."""
    pattern = [_axis_of(index, block) for index in _load_indices(func, block, buffer)]
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer is buffer]
    extents = {axis.var: axis.dom.extent for axis in block.iter_vars}
    for dim, axis in enumerate(pattern):
        if axis is None:
            continue
        extent, size = extents[axis], buffer.shape[dim]
        goes_on = isinstance(extent, IntImm) and isinstance(size, IntImm) and extent.value > size.value
        if goes_on or any(load.indices[dim] is not axis for load in loads):
            pattern[dim] = None
    return pattern


def _check_reads_what_was_made(
    func: PrimFunc, block: SBlock, loop: For, buffer: Buffer, produced: Box, pattern: list[Var | None]
) -> None:
    """Where an iteration makes a part of a dimension, the consumer's own axis must say which part it reads,
    the same in all its reads."""
    place = find_loop(func, loop.loop_var)
    varying = {outer.loop_var for outer in (*place.loops(), loop) if not is_const_int(outer.extent, 1)}
    for dim, (low, high) in enumerate(produced):
        axis, is_part = pattern[dim], varying & set(free_vars(low, high))
        if is_part and axis is None:
            raise ScheduleError(
                T0407,
                f"block {block.name_hint!r} reads parts of {buffer.name!r} that other iterations of loop "
                f"{loop.loop_var.name!r} make",
                func,
                block,
            )


def _check_none_is_left_out(
    func: PrimFunc, block: SBlock, loop: For, produced: Box, pattern: list[Var | None]
) -> None:
    """A consumer that goes over more than all iterations of the loops make would lose the rest."""
    place = find_loop(func, loop.loop_var)
    analyzer = analyzer_at(place)
    enter_loop(analyzer, loop)
    bound = analyzer.const_int_bound
    turns = math.prod(int(bound(outer.extent).max_value) for outer in (*place.loops(), loop))
    domains = {axis.var: axis.dom for axis in block.iter_vars}
    if any(bound(domain.extent).max_value <= 0 for domain in domains.values()):
        return
    for axis, (low, high) in zip(pattern, produced, strict=True):
        if axis is None:
            continue
        first, last = domains[axis].min, domains[axis].end - 1
        most = turns * int(bound(high - low + 1).max_value)
        if (
            bound(low).min_value > bound(first).max_value
            or bound(high).max_value < bound(last).min_value
            or most < bound(domains[axis].extent).min_value
        ):
            raise ScheduleError(
                T0407,
                f"block {block.name_hint!r} goes over more than what the loop makes, along {axis.name!r}",
                func,
                block,
            )


def _check_can_be_repeated(func: PrimFunc, block: SBlock) -> None:
    """Iterations under a loop overlap where regions do, so a block must compute the same once more."""
    if changes_when_repeated(_nest_of(func, block.name_hint)) is block:
        buffer = block.writes[0].buffer
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} reads {buffer.name!r}, which it writes: it stays where it is",
            func,
            block,
        )
    if not keeps_reduction_order(find_block(func, block.name_hint)):
        text = f"the reduction of block {block.name_hint!r} is not known to give the same in any order"
        raise ScheduleError(T0407, text, func, block)


def _check_sole_writer(func: PrimFunc, block: SBlock) -> None:
    """A block that is one of several which make a result has its share of iterations, and stays."""
    place = find_block(func, block.name_hint)
    around = {id(found) for found in place.ancestors}
    inner = {id(realize) for realize in blocks_in(block.body)}
    for realize in blocks_in(func.body):
        other = realize.block
        if other is block or id(realize) in around | inner:
            continue
        shared = [region.buffer for region in block.writes if writes_buffer(other, region.buffer)]
        if shared:
            raise ScheduleError(
                T0407,
                f"blocks {block.name_hint!r} and {other.name_hint!r} both write {shared[0].name!r}",
                func,
                block,
            )


def _check_same_scope(func: PrimFunc, block: SBlock, loop: For) -> None:
    here = scope_of(func, find_block(func, block.name_hint))
    there = scope_of(func, find_loop(func, loop.loop_var))
    if here is not there:
        raise ScheduleError(
            T0407,
            f"block {block.name_hint!r} lies in block {here.name_hint!r}, loop {loop.loop_var.name!r} in "
            f"{there.name_hint!r}",
            func,
            block,
        )


def _check_made_before(func: PrimFunc, block: SBlock, loop: For) -> None:
    """No block that a producer passes on its way to the front of the loop may write what it reads."""
    order = blocks_in(func.body)
    own = next(k for k, realize in enumerate(order) if realize.block is block)
    inside = [k for k, realize in enumerate(order) if any(realize is other for other in blocks_in(loop))]
    around = {id(found) for found in find_block(func, block.name_hint).ancestors}
    first = inside[0] if inside else own
    passed = order[own + 1 : first] if own < first else order[first:own]
    for realize in passed:
        late = [r.buffer for r in block.reads if writes_buffer(realize.block, r.buffer)]
        if late and id(realize) not in around:
            raise ScheduleError(
                T0407,
                f"block {block.name_hint!r} would pass block {realize.block.name_hint!r}, which writes "
                f"{late[0].name!r}",
                func,
                block,
            )


def _check_producers_before(func: PrimFunc, block: SBlock, loop: For) -> None:
    """What a consumer reads must be made by the end of the loop's iteration."""
    order = blocks_in(func.body)
    inside = {id(realize) for realize in blocks_in(loop)}
    ends = [k for k, realize in enumerate(order) if id(realize) in inside]
    for realize in order[ends[-1] + 1 :] if ends else order:
        late = [r.buffer for r in block.reads if writes_buffer(realize.block, r.buffer)]
        if late and realize.block is not block:
            raise ScheduleError(
                T0407,
                f"block {realize.block.name_hint!r} after loop {loop.loop_var.name!r} writes "
                f"{late[0].name!r}",
                func,
                block,
            )


def _produced_under(func: PrimFunc, loop: For, block: SBlock) -> Buffer:
    inside = set(map(id, blocks_in(loop.body)))
    root = root_block(func)
    for region in block.reads:
        if any(writes_buffer(r.block, region.buffer) for r in blocks_in(loop.body)):
            writers = [r for r in blocks_in(func.body) if writes_buffer(r.block, region.buffer)]
            outside = [r for r in writers if id(r) not in inside and r.block is not root]
            around = set(map(id, find_loop(func, loop.loop_var).ancestors))
            late = [r for r in outside if id(r) not in around and r.block is not block]
            if late:
                name = late[0].block.name_hint
                raise ScheduleError(
                    T0407, f"{name!r} outside the loop writes {region.buffer.name!r}", func, block
                )
            return region.buffer
    raise ScheduleError(T0407, f"block {block.name_hint!r} reads nothing that the loop writes", func, loop)


def _nest_of(func: PrimFunc, block_name: str) -> Stmt:
    """The outermost loop that holds only this block, or its realization."""
    place = find_block(func, block_name)
    found: Stmt = place.stmt
    for ancestor in reversed(place.ancestors):
        if not isinstance(ancestor, For):
            break
        found = ancestor
    return found


def _accessed(func: PrimFunc, stmt: Stmt, buffer: Buffer, writes: bool) -> Box:
    """The box of a buffer that a statement reads or writes, in terms of variables from outside it."""
    collector = AccessRegions(buffer)
    collector.visit(stmt)
    box = (collector.writes if writes else collector.reads).get(buffer)
    if box is None:
        raise ScheduleError(T0407, f"what the loop accesses of {buffer.name!r} is not known", func, stmt)
    return box


def _store_indices(block: SBlock, buffer: Buffer) -> tuple[PrimExpr, ...]:
    return tuple(r.min for region in block.writes if region.buffer is buffer for r in region.region)


def _load_indices(func: PrimFunc, block: SBlock, buffer: Buffer) -> tuple[PrimExpr, ...]:
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer is buffer]
    if not loads:
        raise ScheduleError(T0407, f"block {block.name_hint!r} does not read {buffer.name!r}", func, block)
    return loads[0].indices


def _axis_of(index: PrimExpr, block: SBlock) -> Var | None:
    return index if isinstance(index, Var) and any(axis.var is index for axis in block.iter_vars) else None


def _new_nest(
    func: PrimFunc,
    loop_var: Var,
    old: Place,
    box: Box,
    pattern: list[Var | None],
    preserve_unit_loops: bool,
) -> Stmt:
    """Loops over the box around the block from `old`; axes that no dimension determines run over their whole
    domain."""
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
    for axis in block.iter_vars:
        if axis.var in bounds and axis.iter_type is IterType.DataPar:
            low, high = bounds[axis.var]
            extent = analyzer.simplify(high - low + 1)
            if not any(structural_equal(extent, inner.extent) for inner in inside):
                extent = constant_extent(extent, analyzer)
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


def constant_extent(extent: PrimExpr, analyzer: Analyzer) -> PrimExpr:
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
