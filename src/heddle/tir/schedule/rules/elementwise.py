"""Functions without reductions: one parallel pass over the result.

Blocks in between are inlined. Where every access is at the result's own index the loops fuse to one, which
the machine code generator vectorises; otherwise the last loop stays, so that its accesses remain contiguous.
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk, walk_distinct
from heddle.prim.intrinsics import intrinsic_of
from heddle.prim.nodes import (
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Var,
    constant,
    is_const_int,
)
from heddle.prim.ops import floordiv, floormod
from heddle.prim.substitute import free_vars, substitute
from heddle.target import Target
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, SBlock
from heddle.tir.schedule.rules.cuts import cut_loop
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    extent_of,
    inline_maps,
    is_spatial,
    iterations,
    loop_extents,
    loops_of_axes,
    parallelize,
    try_primitive,
)
from heddle.tir.schedule.rules.runs import with_plain_runs_fused
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule
from heddle.tir.transform.run_in_lanes import MAP
from heddle.tir.vector_math import RARELY_IN_C
from heddle.tir.vector_math.division import FLOAT_DIVISIONS

COSTLY_ELEMENTS = 4
"""What an intrinsic of tens of instructions counts for, in vectors."""
MAX_PERIOD = 8
"""Of elements that alternate between more places, each place is met too seldom."""
MAX_APART = 4
"""Elements farther apart share no vectors."""
MAX_REPEATED = 16
"""Nodes of a map that are rather computed again than read."""
WALKS = 8
"""So many walks from place to place go on side by side, one element each: vectors would wait for all lanes of
a read, and take each apart."""
SLOW_NODES = 12
"""What a division or an intrinsic of tens of instructions counts for among them."""


class Elementwise(ScheduleRule):
    wants_columns = True

    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        if not all(is_spatial(block_of(sch, handle)) for handle in sch.blocks()):
            return None
        sch = sch.copy()
        inline_maps(sch, keep=repeated_maps(sch))
        for handle in sch.blocks():
            schedule_map(sch, handle)
        return sch


def repeated_maps(sch: Schedule) -> list[str]:
    """Maps that are better computed once: their readers would do the work again along an axis that is not
    among their own, as the channels of an image do with positions that all of them share."""
    made = []
    for handle in sch.blocks():
        block = block_of(sch, handle)
        if sum(SLOW_NODES if _is_slow(node) else 1 for node in walk(block.body)) <= MAX_REPEATED:
            continue
        written = {region.buffer for region in block.writes}
        readers = [block_of(sch, reader) for reader in sch.get_consumers(handle)]
        if any(_repeats(reader, load) for reader in readers for load in loads_of(reader, written)):
            made.append(handle.name)
    return made


def _is_slow(node: object) -> bool:
    if isinstance(node, Call):
        return intrinsic_of(node).is_costly
    return isinstance(node, Div) and node.dtype.is_float


def loads_of(block: SBlock, buffers: set[Buffer]) -> list[BufferLoad]:
    """What a block reads of some buffers."""
    return [node for node in walk(block.body) if isinstance(node, BufferLoad) and node.buffer in buffers]


def _repeats(reader: SBlock, load: BufferLoad) -> bool:
    """Whether a reader asks for the same elements again before it is at its last axes: what is the same along
    these is computed once anyway."""
    used = free_vars(*load.indices)
    axes = [axis.var for axis in reader.iter_vars if extent_of(axis.dom.extent) != 1]
    while axes and axes[-1] not in used:
        axes.pop()
    return any(axis not in used for axis in axes)


def schedule_map(sch: Schedule, handle: SBlockRV) -> None:
    """Schedule one spatial block that has loops of its own."""
    loops = _without_ones(sch, sch.get_loops(handle))
    if not loops:
        return
    weight = weight_of(block_of(sch, handle))
    if _follows_places(block_of(sch, handle), axis_of(sch, handle, loops[-1])):
        _walk_side_by_side(sch, loops, weight)
        return
    if len(loops) == 1 or is_flat(block_of(sch, handle)):
        fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        parallelize(sch, fused, weight)
        if _has_rare_calls(block_of(sch, handle)):
            sch.annotate(fused, MAP, True)
        return
    if extent_of(sch.get(loops[-1]).extent) is None:  # it may be short
        loops = with_plain_runs_fused(sch, handle, loops)
    if len(loops) > 2 and _is_one_vector(sch, loops[-1]):
        schedule_lanes(sch, loops, weight)
        return
    if len(loops) > 2 and _is_short(sch, loops[-1]) and not _is_short(sch, loops[-2]):
        _schedule_pairs(sch, loops, weight)
        return
    outer, inner = loops[:-1], loops[-1]
    if not outer:
        parallelize(sch, inner, weight)
        return
    fused = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    parallelize(sch, fused, iterations(sch, [inner]) * weight)
    axis = axis_of(sch, handle, inner)
    period = _period(block_of(sch, handle), axis)
    repeated = None if period is not None else _repeated(block_of(sch, handle), axis)
    if period is not None:
        _alternate(sch, inner, period)
    elif repeated is not None:
        sch.split(inner, [Analyzer().simplify(floordiv(sch.get(inner).extent, repeated)), repeated])
    else:
        if _has_rare_calls(block_of(sch, handle)) or _reads_apart(block_of(sch, handle), axis):
            sch.annotate(inner, MAP, True)
        cut_loop(sch, inner, block_of(sch, handle), axis)


def axis_of(sch: Schedule, handle: SBlockRV, loop: LoopRV) -> Var:
    """The axis that a loop runs over; the last one, where the loop has several."""
    axes = [axis for axis, other in loops_of_axes(sch, handle).items() if other.var is loop.var]
    found: Var = axes[-1] if axes else block_of(sch, handle).iter_vars[-1].var
    return found


def _walk_side_by_side(sch: Schedule, loops: list[LoopRV], weight: int) -> None:
    """A few elements of the last loop at once, none of them in a vector."""
    outer, inner = loops[:-1], loops[-1]
    each = iterations(sch, [inner]) * weight
    parts = _alternate(sch, inner, WALKS)
    if outer:
        parallelize(sch, sch.fuse(*outer) if len(outer) > 1 else outer[0], each)
    else:
        parallelize(sch, parts[0], WALKS * weight)
    for loop in parts:
        sch.annotate(loop, "disable_vectorize", True)


def _follows_places(block: SBlock, axis: Var) -> bool:
    """Whether an element is read where one says that was itself read where a third one says, as a walk
    from node to node of a tree does."""
    placed = [
        node
        for node in walk_distinct(block.body)
        if isinstance(node, BufferLoad)
        and axis in free_vars(*node.indices)
        and any(isinstance(part, BufferLoad) for part in walk_distinct(*node.indices))
    ]
    known = set(map(id, placed))
    return any(id(part) in known for load in placed for part in walk_distinct(*load.indices))


def weight_of(block: SBlock) -> int:
    """How many elements one element counts for: those that it reads by an index that was read, and some
    for each intrinsic that takes long."""
    nodes = list(walk(block.body))
    reads = sum(
        any(isinstance(part, BufferLoad) for index in node.indices for part in walk(index))
        for node in nodes
        if isinstance(node, BufferLoad)
    )
    calls = sum(isinstance(node, Call) and intrinsic_of(node).is_costly for node in nodes)
    return max(1, reads + COSTLY_ELEMENTS * calls)


def _has_rare_calls(block: SBlock) -> bool:
    """Whether C's functions serve some elements, which LLVM's vectoriser stops at: vectors of ours ask once
    for all of their lanes."""
    return any(
        isinstance(node, tuple(FLOAT_DIVISIONS))
        or (isinstance(node, Call) and node.op.name.removeprefix("tir.") in RARELY_IN_C)
        for node in walk(block.body)
        if isinstance(node, PrimExpr) and node.dtype.is_float and node.dtype.bits <= 32
    )


def _reads_apart(block: SBlock, axis: Var) -> bool:
    """Whether elements next to each other are made of such that lie a few places apart, or where a tensor
    says: rows of any length are then vectors of ours, since LLVM's begin with long rows only."""
    ones = {iter_var.var for iter_var in block.iter_vars if is_const_int(iter_var.dom.extent, 1)}
    written = [part.min for part in block.writes[0].region if part.min not in ones]
    if not written or written[-1] is not axis:
        return False
    for load in (node for node in walk(block.body) if isinstance(node, BufferLoad) and node.indices):
        if load.dtype.bits >= 32 and any(
            axis in free_vars(part)
            for index in load.indices
            for part in walk(index)
            if isinstance(part, BufferLoad)
        ):
            return True
        *others, last = load.indices
        if axis in free_vars(last) and axis not in free_vars(*others):
            step = Analyzer().simplify(substitute(last, {axis: axis + 1}) - last)
            if isinstance(step, IntImm) and 2 <= step.value <= MAX_APART:
                return True
    return False


def _is_one_vector(sch: Schedule, loop: LoopRV) -> bool:
    return loop_extents(sch, [loop])[0] in (4, 8, 16, 32)


def schedule_lanes(sch: Schedule, loops: list[LoopRV], weight: int = 1) -> None:
    """The last loop in lanes; the one before it stays, so that indices are not divided for every vector."""
    try_primitive(sch, lambda: sch.vectorize(loops[-1]))
    outer = sch.fuse(*loops[:-2]) if len(loops) > 3 else loops[0]
    parallelize(sch, outer, iterations(sch, loops[-2:]) * weight)


def _without_ones(sch: Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """The loops; those that run once are part of the loop before them."""
    made: list[LoopRV] = []
    for loop in loops:
        if made and loop_extents(sch, [loop])[0] == 1:
            made[-1] = sch.fuse(made[-1], loop)
        else:
            made.append(loop)
    return made


def _is_short(sch: Schedule, loop: LoopRV) -> bool:
    """Whether a loop is known to run a few times only."""
    extent = loop_extents(sch, [loop])[0]
    return extent is not None and extent <= MAX_PERIOD


def _schedule_pairs(sch: Schedule, loops: list[LoopRV], weight: int) -> None:
    """The few elements of the last axis (coordinates, parts of complex numbers) one by one, in vectors along
    the axis before it: neither is an index divided for each of them, nor are their vectors so short."""
    outer = sch.fuse(*loops[:-2]) if len(loops) > 3 else loops[0]
    parallelize(sch, outer, iterations(sch, loops[-2:]) * weight)
    sch.unroll(loops[-1])


def _period(block: SBlock, axis: Var) -> int | None:
    """The number of places that elements along an axis come from in turn, if all loads agree: what is read of
    place `axis % period` at `axis // period`."""
    if block.writes[0].region[-1].min is not axis:
        return None
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad)]
    divisions = [node for load in loads for index in load.indices for node in walk(index)]
    along = [n for n in divisions if isinstance(n, (FloorDiv, FloorMod)) and axis in free_vars(n.a)]
    found = {node.b.value if isinstance(node.b, IntImm) else 0 for node in along}
    period = found.pop() if len(found) == 1 else 0
    is_plain = 2 <= period <= MAX_PERIOD and all(_steps(node.a, axis) for node in along)
    return period if is_plain else None


def _repeated(block: SBlock, axis: Var) -> PrimExpr | None:
    """The size, free or not, by which all indices divide an axis that is a whole multiple of it, as those of
    columns that are repeated do. With a loop for each factor no element's index is divided."""
    extent = block.iter_vars[-1].dom.extent
    if block.writes[0].region[-1].min is not axis:
        return None
    indices = [index for node in walk(block.body) if isinstance(node, BufferLoad) for index in node.indices]
    divisions = [node for index in indices for node in walk(index) if isinstance(node, (FloorDiv, FloorMod))]
    along = [node for node in divisions if axis in free_vars(node)]
    if not along or any(node.a is not axis for node in along) or extent_of(extent) == 0:
        return None
    size, bound = along[0].b, {iter_var.var for iter_var in block.iter_vars}
    known = extent_of(size)
    is_short = known is not None and known <= MAX_PERIOD
    if is_short or not bound.isdisjoint(free_vars(size)):
        return None
    if not all(structural_equal(node.b, size) for node in along):
        return None
    return size if is_const_int(Analyzer().simplify(floormod(extent, size)), 0) else None


def _steps(expr: PrimExpr, axis: Var) -> bool:
    """Whether an expression grows by one with the axis."""
    return is_const_int(Analyzer().simplify(substitute(expr, {axis: axis + 1}) - expr), 1)


def _alternate(sch: Schedule, loop: LoopRV, period: int) -> list[LoopRV]:
    """Whole periods in one loop, whose statements read memory in order; what is left over in another. Gives
    both."""
    extent = sch.get(loop).extent
    whole = floordiv(extent, period) * period
    if isinstance(extent, IntImm):
        if extent.value < 2 * period:
            return [loop]
        whole = constant(extent.value // period * period, extent.dtype)
    is_whole = isinstance(extent, IntImm) and extent.value % period == 0
    main, *rest = [loop] if is_whole else sch.loop_partition(loop, [whole, None])
    main, parts = sch.split(main, [None, period])
    sch.unroll(parts)
    return [main, *rest]


def is_flat(block: SBlock) -> bool:
    """Whether all accesses are at the index of the store, in buffers of its shape, and nothing else asks for
    the index."""
    stores = [node for node in walk_stmts(block.body) if isinstance(node, BufferStore)]
    if len(stores) != 1:
        return False
    store = stores[0]
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    if not all(
        structural_equal(load.indices, store.indices)
        and structural_equal(load.buffer.shape, store.buffer.shape)
        for load in loads
        if load.buffer.shape
    ):
        return False
    axes = {iter_var.var for iter_var in block.iter_vars}
    uses = sum(node in axes for node in walk(store.value) if isinstance(node, Var))
    return uses == sum(node in axes for load in loads for node in walk(load) if isinstance(node, Var))
