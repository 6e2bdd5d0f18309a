"""Functions without reductions: one parallel pass over the result.

Blocks in between are inlined. Where every access is at the result's own index the loops fuse to one, which
the machine
code generator vectorises; otherwise the last loop stays, so that its accesses remain contiguous.
"""

from __future__ import annotations

from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, BufferStore, SBlock
from heddle.tir.schedule.rules.rule import (
    ScheduleRule,
    block_of,
    constant_product,
    inline_maps,
    is_spatial,
    loop_extents,
    parallelize,
    try_primitive,
)
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule


class Elementwise(ScheduleRule):
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        if not all(is_spatial(block_of(sch, handle)) for handle in sch.blocks()):
            return None
        sch = sch.copy()
        inline_maps(sch)
        for handle in sch.blocks():
            schedule_map(sch, handle)
        return sch


def schedule_map(sch: Schedule, handle: SBlockRV) -> None:
    """Schedule one spatial block that has loops of its own."""
    loops = sch.get_loops(handle)
    if not loops:
        return
    if len(loops) == 1 or is_flat(block_of(sch, handle)):
        fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        parallelize(sch, fused, 1)
        return
    if len(loops) > 2 and _is_one_vector(sch, loops[-1]):
        schedule_lanes(sch, loops)
        return
    outer, inner = loops[:-1], loops[-1]
    fused = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    parallelize(sch, fused, constant_product(loop_extents(sch, [inner])))


def _is_one_vector(sch: Schedule, loop: LoopRV) -> bool:
    return loop_extents(sch, [loop])[0] in (4, 8, 16, 32)


def schedule_lanes(sch: Schedule, loops: list[LoopRV]) -> None:
    """The last loop in lanes; the one before it stays, so that indices are not divided for every vector."""
    try_primitive(sch, lambda: sch.vectorize(loops[-1]))
    outer = sch.fuse(*loops[:-2]) if len(loops) > 3 else loops[0]
    parallelize(sch, outer, constant_product(loop_extents(sch, loops[-2:])))


def is_flat(block: SBlock) -> bool:
    """Whether all accesses are at the index of the store, in buffers of its shape."""
    stores = [node for node in walk(block.body) if isinstance(node, BufferStore)]
    if len(stores) != 1:
        return False
    store = stores[0]
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    return all(
        structural_equal(load.indices, store.indices)
        and structural_equal(load.buffer.shape, store.buffer.shape)
        for load in loads
        if load.buffer.shape
    )
