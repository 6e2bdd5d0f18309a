"""What a schedule rule is, and the facts about blocks that rules share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from heddle.ir.node import Node
from heddle.ir.visitor import walk
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import IntImm, PrimExpr, Var, constant
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.grain import GRAIN_ELEMENTS, grain_of
from heddle.tir.nodes import BufferLoad, BufferStore, IterType, PrimFunc, SBlock, Stmt
from heddle.tir.schedule.blocks.inline import compute_inline
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.rules.merged_axes import MergedAxes, with_merged_axes
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule

GRAIN_MULTIPLIES = 1 << 17
"""Multiply-adds that are worth a thread."""

MAX_COPIED = 128
"""Nodes that inlining one map may add to a function. More work than a pass of its own would be, and code that
doubles with every map of a chain."""
MAX_INDEX = 512
"""Nodes that it may add where one load reads the map: its index stands wherever the map needs an axis, twice
in `x[i // n, i % n]`, and doubles with every such map of a chain."""
NODES_OF_A_CHECK = 32
"""What a check of an index counts as: a branch, and a report, in each copy of the loop's body."""


class ScheduleRule(ABC):
    """Gives a schedule for functions of one kind, or None for any other."""

    wants_columns: ClassVar[bool] = False
    """Whether results of one column, along rows of free length, are to have loops of their own."""

    wants_rows: ClassVar[bool] = False
    """Whether results of one row are to have loops of their own, where the number of rows is free."""

    def gains_by_merging(self, sch: Schedule) -> bool:
        """Whether a function is to have one axis for those that lie side by side in all its buffers."""
        return False

    def over_other_axes(self, func: PrimFunc, target: Target) -> MergedAxes | None:
        """The function over axes that suit the rule better; None where its own do."""
        return with_merged_axes(func) if self.gains_by_merging(Schedule(func)) else None

    @abstractmethod
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        """A scheduled copy, or None where the rule does not apply."""


def is_reduction(block: SBlock) -> bool:
    """Whether a block sums up, or the like, along an axis."""
    return any(axis.iter_type is IterType.CommReduce for axis in block.iter_vars)


def is_spatial(block: SBlock) -> bool:
    """Whether every axis of a block is one of its result."""
    return all(axis.iter_type is IterType.DataPar for axis in block.iter_vars)


def extent_of(expr: PrimExpr) -> int | None:
    """A constant extent, or None."""
    return expr.value if isinstance(expr, IntImm) else None


def loop_extents(sch: Schedule, loops: Sequence[LoopRV]) -> list[int | None]:
    """How often each loop runs; None where that is not constant."""
    return [extent_of(sch.get(loop).extent) for loop in loops]


def inline_maps(sch: Schedule, keep: Sequence[str] = ()) -> None:
    """Inline every elementwise or injective block whose result only later blocks read.

    Consumers come before their producers, so that a value with several readers finds them in one block and is
    computed there once. A map that would still be copied to more than MAX_COPIED nodes, or an
    index to more than MAX_INDEX, keeps its loops.
    """
    for handle in reversed(sch.blocks()):
        block = sch.get(handle)
        assert isinstance(block, SBlock)
        if handle.name in keep or not is_spatial(block):
            continue
        if any(region.buffer in sch.func.buffers for region in block.writes):
            continue
        if not _copies_too_much(sch, handle):
            try_primitive(sch, lambda handle=handle: sch.compute_inline(handle))


def _copies_too_much(sch: Schedule, handle: SBlockRV) -> bool:
    """Whether inlining a block would add more nodes to the function than it may."""
    block = block_of(sch, handle)
    written = {region.buffer for region in block.writes}
    readers = [block_of(sch, reader).body for reader in sch.get_consumers(handle)]
    loads = [n for body in readers for n in walk(body) if isinstance(n, BufferLoad) and n.buffer in written]
    most = MAX_COPIED if len(loads) > 1 else MAX_INDEX
    if _num_copied(block.body, loads) <= most:
        return False
    try:
        inlined = compute_inline(sch.func, handle.name)
    except ScheduleError:
        return False
    return _num_nodes(inlined.body) - _num_nodes(sch.func.body) > most


def _num_copied(body: Stmt, loads: Sequence[BufferLoad]) -> int:
    """At most how many nodes there are where a map's body stands in the place of each load of it."""
    if not isinstance(body, BufferStore):
        return len(loads) * _num_nodes(body)
    uses: Counter[PrimExpr] = Counter(node for node in walk(body.value) if isinstance(node, Var))
    indices = (pair for load in loads for pair in zip(body.indices, load.indices, strict=True))
    own = len(loads) * _num_nodes(body)
    return own + sum(uses[axis] * _num_nodes(index) for axis, index in indices)


def _num_nodes(node: Node) -> int:
    return sum(NODES_OF_A_CHECK if is_index_check(each) else 1 for each in walk(node))


def try_primitive(sch: Schedule, action: object) -> bool:
    """Whether a primitive applied; a primitive that does not apply changes nothing."""
    try:
        action()  # type: ignore[operator]
    except ScheduleError:
        return False
    return True


def parallelize(sch: Schedule, loop: LoopRV, work: int | PrimExpr, least: int = GRAIN_ELEMENTS) -> None:
    """Run a loop on threads, at least so much work to each, where an iteration does `work`. A loop whose
    iterations depend on each other, as in functions written by hand, stays as it is."""
    if try_primitive(sch, lambda: sch.parallel(loop)):
        sch.annotate(loop, "grain", grain_of(work, least))


def domain_size(block: SBlock, variables: Sequence[object]) -> PrimExpr:
    """The product of the domains of some axes of a block."""
    total: PrimExpr = constant(1, "int64")
    for axis in block.iter_vars:
        if axis.var in variables:
            total = total * cast("int64", axis.dom.extent)
    return total


def iterations(sch: Schedule, loops: Sequence[LoopRV]) -> PrimExpr:
    """How often the innermost of nested loops runs, of sizes that may be free."""
    total: PrimExpr = constant(1, "int64")
    for loop in loops:
        total = total * cast("int64", sch.get(loop).extent)
    return total


def constant_product(extents: Sequence[int | None]) -> int | None:
    """The product of extents that are all constant, or None."""
    total = 1
    for extent in extents:
        if extent is None:
            return None
        total *= extent
    return total


def axes_in(exprs: Sequence[PrimExpr]) -> set[Var]:
    """The variables that expressions use."""
    return set(free_vars(*exprs))


def block_of(sch: Schedule, handle: SBlockRV) -> SBlock:
    """The block of a handle as it is now."""
    block = sch.get(handle)
    assert isinstance(block, SBlock)
    return block


def loops_of_axes(sch: Schedule, handle: SBlockRV) -> dict[Var, LoopRV]:
    """The innermost loop that each axis of a block depends on."""
    realize, found = sch.realization(handle), dict[Var, LoopRV]()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        for loop in sch.get_loops(handle):
            if loop.var in free_vars(value):
                found[axis.var] = loop
    return found


def vectorize_last(sch: Schedule, handle: SBlockRV, lanes: int) -> None:
    """Vectorise a block's innermost loop where its extent is a multiple of the lanes."""
    loops = sch.get_loops(handle)
    if not loops:
        return
    extent = loop_extents(sch, loops[-1:])[0]
    if extent is None or extent % lanes or lanes == 1:
        return
    vector = sch.split(loops[-1], [None, lanes])[1] if extent > lanes else loops[-1]
    try_primitive(sch, lambda: sch.vectorize(vector))


def local_result(sch: Schedule, handle: SBlockRV) -> SBlockRV:
    """Put a reduction's result into registers; gives the block that takes it out: the epilogue, or a copy."""
    consumers = sch.get_consumers(handle)
    if len(consumers) == 1:
        sch.set_scope(handle, 0, "local")
        return SBlockRV(consumers[0].name)
    copy = sch.cache_write(handle, 0, "local")
    return SBlockRV(copy.name)


def unrolled_vectors(sch: Schedule, handle: SBlockRV, below: LoopRV) -> None:
    """A block's loops inside `below`: the last in lanes, the others unrolled. A block that takes one element
    out of a vector has none."""
    loops = sch.get_loops(handle)
    inner = loops[[loop.var for loop in loops].index(below.var) + 1 :]
    for loop in inner[:-1]:
        sch.unroll(loop)
    for loop in inner[-1:]:
        sch.vectorize(loop)
