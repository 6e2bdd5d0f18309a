"""What the iterations of a block reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heddle.arith import Analyzer, IntervalSet
from heddle.arith.int_set import to_interval
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.arith.iters.iter_nodes import IterSumExpr
from heddle.ir.visitor import walk, walk_distinct
from heddle.prim.nodes import (
    Add,
    FloorDiv,
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
from heddle.prim.ops import logical_and
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.nodes import Buffer, BufferLoad, For, PrimFunc, SBlock, SBlockRealize
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
    return _digits(place, values, ranges, True, analyzer) is not None


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
    return _take_all(place, values, sizes, ranges, realize.predicate, analyzer_at(place))


def _take_all(
    place: Place,
    values: Sequence[PrimExpr],
    sizes: Sequence[PrimExpr],
    ranges: Mapping[Var, Range],
    predicate: PrimExpr | bool,
    analyzer: Analyzer,
) -> bool:
    """As `reaches_all`, for loops over ranges where a predicate holds."""
    found = _digits(place, values, ranges, predicate, analyzer)
    return found is not None and all(
        _is_all_below(digit, size, analyzer) for digit, size in zip(found, sizes, strict=True)
    )


def leaves_out(func: PrimFunc, place: Place) -> bool:
    """Whether a block may run at some points of its axes alone, those left aside where its conditions do not
    hold: axes that go on by more than one, begin late or end early, and axes that share loops and do not take
    all points together. True where that is not known."""
    realize: SBlockRealize = place.stmt
    loops, analyzer = place.loops(), analyzer_at(place)
    longest = {loop.loop_var: _longest(loop, loops, analyzer) for loop in loops}
    extents = {loop.loop_var: loop.extent for loop in loops} | {
        var: extent for var, extent in longest.items() if extent is not None
    }
    ranges = {loop.loop_var: IntervalSet(loop.min, loop.min + extents[loop.loop_var] - 1) for loop in loops}
    seen: set[Var] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        names = {var for var in free_vars(value) if var in extents and not is_const_int(extents[var], 1)}
        reached = to_interval(analyzer.int_set(value, ranges))
        runs_through = (
            not names & seen
            and _step(value, extents, analyzer) == 1
            and reached.low is not None
            and reached.high is not None
            and analyzer.can_prove(reached.low <= axis.dom.min)
            and analyzer.can_prove(reached.high >= axis.dom.end - 1)
        )
        if not runs_through:
            return not _reach_all_together(func, place)
        seen |= names
    return False


def _reach_all_together(func: PrimFunc, place: Place) -> bool:
    """Whether axes that share loops take all points of their domains. A loop that ends early is as long as
    its longest run, under a condition. A buffer's size is taken for positive if there is no point to leave
    out where it is zero."""
    realize: SBlockRealize = place.stmt
    loops, axes, analyzer = place.loops(), realize.block.iter_vars, Analyzer()
    if any(isinstance(node, BufferLoad) for node in walk_distinct(realize.predicate)):
        return False
    sizes = {dim for buffer in func.buffers for dim in buffer.shape if isinstance(dim, Var)}
    if any(is_const_int(axis.dom.extent, 0) for axis in axes):
        return True
    for size in sizes & set(free_vars(*(loop.extent for loop in loops))):
        nothing = {size: constant(0, size.dtype)}
        if any(analyzer.can_prove_equal(substitute(axis.dom.extent, nothing), 0) for axis in axes):
            analyzer.assume(size >= 1)
    ranges: dict[Var, Range] = {}
    predicate = realize.predicate
    for loop in loops:
        longest = _longest(loop, loops, analyzer)
        if longest is None:
            return False
        ranges[loop.loop_var] = Range.from_min_extent(loop.min, longest)
        ends = (loop.extent.a, loop.extent.b) if isinstance(loop.extent, Min) else (loop.extent,)
        for end in ends:
            if end is not longest:
                predicate = logical_and(predicate, loop.loop_var - loop.min < end)
    values = [axis.var - axis.dom.min for axis in axes]
    return _take_all(place, values, [axis.dom.extent for axis in axes], ranges, predicate, analyzer)


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
    if isinstance(value, FloorDiv) and isinstance(value.b, IntImm) and value.b.value > 0:
        step = _step(value.a, extents, analyzer)
        return None if step is None else -(-step // value.b.value)
    if isinstance(value, (Min, Max)):
        steps = [_step(each, extents, analyzer) for each in (value.a, value.b)]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None
    if isinstance(value, (Add, Sub)):
        return _step_of_sum(_summands(value, extents), extents, analyzer)
    return None


def _summands(value: PrimExpr, extents: Mapping[Var, PrimExpr]) -> list[PrimExpr]:
    """What a sum or difference adds up, constants left out."""
    if isinstance(value, (Add, Sub)):
        return [*_summands(value.a, extents), *_summands(value.b, extents)]
    return [value] if any(var in extents for var in free_vars(value)) else []


def _step_of_sum(
    summands: Sequence[PrimExpr], extents: Mapping[Var, PrimExpr], analyzer: Analyzer
) -> int | None:
    """As `_step`: summands of larger steps do not show where those of smaller steps fill the gap."""
    steps = [(_step(each, extents, analyzer), each) for each in summands]
    known = sorted(((step, each) for step, each in steps if step is not None), key=lambda found: found[0])
    if len(known) < len(steps):
        return None
    variables = [var for _, each in known for var in free_vars(each) if var in extents]
    if len(set(variables)) < len(variables):
        return sum(step for step, _ in known)
    (total, filled), *others = known
    for step, each in others:
        if not _is_as_wide(filled, step - total + 1, extents, analyzer):
            total = step
        filled = filled + each
    return total


def _is_as_wide(value: PrimExpr, width: int, extents: Mapping[Var, PrimExpr], analyzer: Analyzer) -> bool:
    """Whether an expression takes values over at least such a width."""
    ranges = {var: IntervalSet(constant(0, var.dtype), size - 1) for var, size in extents.items()}
    span = to_interval(analyzer.int_set(value, ranges))
    if span.low is None or span.high is None:
        return False
    return analyzer.can_prove(span.high - span.low + 1 >= width)


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
    place: Place,
    values: Sequence[PrimExpr],
    ranges: Mapping[Var, Range],
    predicate: PrimExpr | bool,
    analyzer: Analyzer,
) -> tuple[IterSumExpr, ...] | None:
    realize: SBlockRealize = place.stmt
    bound: dict[Var, PrimExpr] = {
        axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
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
