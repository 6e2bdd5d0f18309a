"""Reductions beside the lanes (pooling and means of images in blocks of channels): vector by vector.

parallel (all but the last outer axis, and that too where a window is large):
    for the last outer axis:
        accumulator[lanes] = identity
        for the window:  accumulator = combine(accumulator, data[lanes])        (in a register)
        epilogue
"""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import Var
from heddle.prim.substitute import free_vars
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, BufferStore, IterType, SBlock
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    constant_product,
    extent_of,
    inline_maps,
    is_reduction,
    iterations,
    local_result,
    loop_extents,
    parallelize,
    try_primitive,
    unrolled_vectors,
)
from heddle.tir.schedule.schedule import SBlockRV, Schedule

LANES = (4, 8, 16, 32)
MAX_CONSUMERS = 1
MAX_WINDOW = 64
"""Sums of more elements are worth a task each: whole images, not windows that move over them."""


class Window(ScheduleRule):
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        reductions = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
        if len(reductions) != 1 or not _reduces_beside_lanes(block_of(sch, reductions[0])):
            return None
        sch = sch.copy()
        inline_maps(sch)
        handle = reductions[0]
        if sch.get_producers(handle) or len(sch.get_consumers(handle)) > MAX_CONSUMERS:
            return None
        return sch if _schedule(sch, handle) else None


def _reduces_beside_lanes(block: SBlock) -> bool:
    """Whether the result's last axis is a vector's worth, and that of all that is read."""
    store = block.body
    if not isinstance(store, BufferStore) or len(store.indices) < 3:
        return False
    lane = store.indices[-1]
    extents = {axis.var: extent_of(axis.dom.extent) for axis in block.iter_vars}
    if not isinstance(lane, Var) or extents.get(lane) not in LANES:
        return False
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad) and node.indices]
    others = [index for load in loads for index in load.indices[:-1]]
    return all(load.indices[-1] is lane for load in loads) and lane not in free_vars(*others)


def _schedule(sch: Schedule, handle: SBlockRV) -> bool:
    """Whether it could be done: what follows may read channels in blocks of another size."""
    block = block_of(sch, handle)
    consumer = local_result(sch, handle)
    loops = dict(zip((axis.var for axis in block.iter_vars), sch.get_loops(handle), strict=True))
    assert isinstance(block.body, BufferStore)
    lane = loops.pop(block.body.indices[-1])  # type: ignore[call-overload]
    reduce = [loops[a.var] for a in block.iter_vars if a.iter_type is IterType.CommReduce]
    outer = [loops[a.var] for a in block.iter_vars if a.iter_type is IterType.DataPar and a.var in loops]
    sch.reorder(*outer, *reduce, lane)
    window = constant_product(loop_extents(sch, reduce))
    inner = outer[-1:] if len(outer) > 1 and window is not None and window <= MAX_WINDOW else []
    work = iterations(sch, [*inner, *reduce, lane])
    tasks = outer[: len(outer) - len(inner)]
    shared = sch.fuse(*tasks) if len(tasks) > 1 else tasks[0]
    parallelize(sch, shared, work)
    place = inner[0] if inner else shared
    if not try_primitive(sch, lambda: sch.reverse_compute_at(consumer, place)):
        return False
    unrolled_vectors(sch, consumer, place)
    sch.vectorize(lane)
    sch.decompose_reduction(handle, reduce[0])
    return True
