"""What the iterations of a block reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heddle.arith import Analyzer, IntervalSet
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.arith.iters.iter_nodes import IterSumExpr
from heddle.ir.visitor import walk
from heddle.prim.nodes import (
    Add,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    constant,
    is_const_int,
)
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.nodes import Buffer, BufferLoad, For, SBlock, SBlockRealize
from heddle.tir.schedule.tree import Place, analyzer_at, conditions_on_axes


def depends_on_loops(loop: For, loops: Sequence[For]) -> bool:
    """Whether the bounds of a loop change with others."""
    return bool({other.loop_var for other in loops} & set(free_vars(loop.min, loop.extent)))


def reaches_once(place: Place, values: Sequence[PrimExpr]) -> bool:
    """Whether expressions on a block's axes differ in any two iterations of the loops around the block. False
    where that is not known."""
    loops, analyzer = place.loops(), analyzer_at(place)
    if any(is_const_int(loop.extent, 0) for loop in loops):
        return True
    ranges: dict[Var, Range] = {}
    for loop in loops:
        extent = _longest(loop, loops, analyzer)
        if extent is None:
            return False
        ranges[loop.loop_var] = Range.from_min_extent(loop.min, extent)
    return _digits(place, values, ranges, True) is not None


def reaches_all(place: Place, values: Sequence[PrimExpr], sizes: Sequence[PrimExpr]) -> bool:
    """Whether expressions on a block's axes together take all values from 0 to below their sizes, each once.
    False where that is not known."""
    if any(is_const_int(size, 0) for size in sizes):
        return True
    realize: SBlockRealize = place.stmt
    loops = place.loops()
    has_loads = any(isinstance(node, BufferLoad) for node in walk(realize.predicate))
    if has_loads or any(depends_on_loops(loop, loops) for loop in loops):
        return False
    ranges = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    found = _digits(place, values, ranges, realize.predicate)
    analyzer = analyzer_at(place)
    return found is not None and all(
        _is_all_below(digit, size, analyzer) for digit, size in zip(found, sizes, strict=True)
    )


def leaves_out(place: Place) -> bool:
    """Whether a block is known to run at some points of its axes alone, those left aside where its conditions
    do not hold: axes that go on by more than one, end early or go together. A tile that overlaps the one
    before counts as a step to where that ends."""
    realize: SBlockRealize = place.stmt
    loops, analyzer = place.loops(), analyzer_at(place)
    longest = {loop.loop_var: _longest(loop, loops, analyzer) for loop in loops}
    extents = {loop.loop_var: loop.extent for loop in loops} | {
        var: extent for var, extent in longest.items() if extent is not None
    }
    seen: set[Var] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        names = {var for var in free_vars(value) if var in extents and not is_const_int(extents[var], 1)}
        if names & seen:
            values = [each.var - each.dom.min for each in realize.block.iter_vars]
            return not reaches_all(place, values, [each.dom.extent for each in realize.block.iter_vars])
        seen |= names
        step = _step(value, extents, analyzer)
        ranges = {
            loop.loop_var: IntervalSet(loop.min, loop.min + extents[loop.loop_var] - 1) for loop in loops
        }
        reached = analyzer.int_set(value, ranges)
        ends = reached.min_value, reached.max_value
        if not all(isinstance(end, PrimExpr) for end in ends):
            return True
        begins_late = analyzer.can_prove(ends[0] > axis.dom.min)
        if begins_late or analyzer.can_prove(ends[1] < axis.dom.end - 1) or (step is not None and step > 1):
            return True
    return False


def _step(value: PrimExpr, extents: Mapping[Var, PrimExpr], analyzer: Analyzer) -> int | None:
    """By how much an expression goes on at most, from one value that it takes to the next; None where that is
    not known."""
    if not {var for var in free_vars(value) if var in extents}:
        return 1
    if isinstance(value, Var):
        return 1
    if isinstance(value, Mul) and isinstance(value.b, IntImm):
        step = _step(value.a, extents, analyzer)
        return None if step is None else step * abs(value.b.value)
    if isinstance(value, (Min, Max)):
        steps = [_step(each, extents, analyzer) for each in (value.a, value.b)]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None
    if isinstance(value, (Add, Sub)):
        a, b = _step(value.a, extents, analyzer), _step(value.b, extents, analyzer)
        if a is None or b is None:
            return None
        for coarse, fine, part in ((a, b, value.b), (b, a, value.a)):
            if fine == 1 and _is_as_wide(part, coarse, extents, analyzer):
                return 1
        return max(a, b)
    return None


def _is_as_wide(value: PrimExpr, width: int, extents: Mapping[Var, PrimExpr], analyzer: Analyzer) -> bool:
    """Whether an expression takes values over at least such a width."""
    ranges = {var: IntervalSet(constant(0, var.dtype), size - 1) for var, size in extents.items()}
    span = analyzer.int_set(value, ranges)
    low, high = span.min_value, span.max_value
    is_bounded = isinstance(low, PrimExpr) and isinstance(high, PrimExpr)
    return is_bounded and analyzer.can_prove(high - low + 1 >= width)


def stores_all(realize: SBlockRealize, buffer: Buffer) -> bool:
    """Whether a block stores every element of a buffer, each once at the points of its axes. False where that
    is not known."""
    block = realize.block
    region = next(found.region for found in block.writes if found.buffer is buffer)
    if any(is_const_int(dim, 0) for dim in buffer.shape):
        return True
    if conditions_on_axes(realize):
        return False
    analyzer = Analyzer()
    ranges: dict[Var, Range] = {}
    indices: list[PrimExpr] = []
    sizes: list[PrimExpr] = []
    for part, size in zip(region, buffer.shape, strict=True):
        if is_const_int(part.min, 0) and analyzer.can_prove_equal(part.extent, size):
            continue
        whole = _axis_alone(block, part, region)
        if whole is not None and is_const_int(whole.min, 0) and analyzer.can_prove_equal(whole.extent, size):
            continue  # below, its extent may take a form that only holds where no axis is empty
        inside = Var("inside", part.min.dtype)
        ranges[inside] = Range.from_min_extent(constant(0, inside.dtype), part.extent)
        ranges |= {axis.var: axis.dom for axis in block.iter_vars if axis.var in free_vars(part.min)}
        indices.append(part.min if is_const_int(part.extent, 1) else part.min + inside)
        sizes.append(size)
    used = set(free_vars(*indices))
    ranges = {var: span for var, span in ranges.items() if var in used}
    found = detect_iter_map(indices, ranges, True, "bijective", analyzer=analyzer)
    return not found.errors and all(
        _is_all_below(digit, size, analyzer) for digit, size in zip(found.indices, sizes, strict=True)
    )


def _axis_alone(block: SBlock, part: Range, region: Sequence[Range]) -> Range | None:
    """The domain of the axis that a part of a region is a point of, if no other part depends on it."""
    others = [each for other in region if other is not part for each in (other.min, other.extent)]
    if not is_const_int(part.extent, 1) or part.min in free_vars(*others):
        return None
    return next((axis.dom for axis in block.iter_vars if axis.var is part.min), None)


def _longest(loop: For, loops: Sequence[For], analyzer: Analyzer) -> PrimExpr | None:
    """The extent of a loop; of a ragged one that of its longest run, None where it is not known."""
    others = {other.loop_var for other in loops}
    if others & set(free_vars(loop.min)):
        return None
    bounds = (loop.extent.a, loop.extent.b) if isinstance(loop.extent, Min) else (loop.extent,)
    known = [bound for bound in bounds if not others & set(free_vars(bound))]
    most = analyzer.const_int_bound(loop.extent)
    if not known and most.max_value < most.POS_INF:
        known = [constant(most.max_value, loop.extent.dtype)]
    return known[0] if known else None


def _digits(
    place: Place, values: Sequence[PrimExpr], ranges: Mapping[Var, Range], predicate: PrimExpr | bool
) -> tuple[IterSumExpr, ...] | None:
    realize: SBlockRealize = place.stmt
    bound: dict[Var, PrimExpr] = {
        axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    analyzer = analyzer_at(place)
    indices = [analyzer.simplify(substitute(value, bound)) for value in values]
    found = detect_iter_map(indices, ranges, predicate, "bijective", analyzer=analyzer)
    return None if found.errors else found.indices


def _is_all_below(digit: IterSumExpr, size: PrimExpr, analyzer: Analyzer) -> bool:
    if not is_const_int(digit.base, 0) or len(digit.args) > 1:
        return False
    if not digit.args:
        return analyzer.can_prove_equal(size, 1)
    [part] = digit.args
    return is_const_int(part.scale, 1) and analyzer.can_prove_equal(part.extent, size)
