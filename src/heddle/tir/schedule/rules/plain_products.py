"""Products and convolutions without tiles: for programs that shall start soon, not run fast.

    for all other axes of the result, on threads:
        for what is summed:
            for the last axis {lanes}:  result[...] = result[...] + a[...] * b[...]

No loop is unrolled, so that there is little code. What comes before and after has loops of its own.
"""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import Mul
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, SBlock
from heddle.tir.schedule.rules.elementwise import schedule_map
from heddle.tir.schedule.rules.row_pass import reduces_last, runs_over_reduction, schedule_reduction_loops
from heddle.tir.schedule.rules.rule import (
    GRAIN_MULTIPLIES,
    ScheduleRule,
    block_of,
    inline_maps,
    is_reduction,
    is_spatial,
    iterations,
    parallelize,
)
from heddle.tir.schedule.schedule import SBlockRV, Schedule
from heddle.tir.transform.run_in_lanes import MAP


class PlainProducts(ScheduleRule):
    def apply(self, sch: Schedule, target: Target) -> Schedule | None:
        blocks = [block_of(sch, handle) for handle in sch.blocks()]
        sums = [block for block in blocks if is_reduction(block)]
        if not sums or not all(map(_is_product, sums)):
            return None
        sch = sch.copy()
        factors = [
            producer.name
            for block in sums
            for producer in sch.get_producers(SBlockRV(block.name_hint))
            if is_spatial(block_of(sch, SBlockRV(producer.name)))
        ]
        inline_maps(sch, keep=factors)
        for handle in sch.blocks():
            if is_spatial(block_of(sch, handle)):
                schedule_map(sch, handle)
            else:
                _schedule_product(sch, handle)
        return sch


def _is_product(block: SBlock) -> bool:
    """Whether a block sums up products of elements of two tensors."""
    return len(block.writes) == 1 and any(
        isinstance(node, Mul)
        and all(any(isinstance(part, BufferLoad) for part in walk(side)) for side in (node.a, node.b))
        for node in walk(block.body)
    )


def _schedule_product(sch: Schedule, handle: SBlockRV) -> None:
    loops = sch.get_loops(handle)
    spatial = [loop for loop in loops if not runs_over_reduction(sch, handle, loop)]
    in_lanes = len(spatial) > 1 and not reduces_last(block_of(sch, handle))
    outer = spatial[:-1] if in_lanes else spatial
    if not outer:
        schedule_reduction_loops(sch, handle, None)
        return
    rest = [loop for loop in loops if loop.var not in {each.var for each in outer}]
    sch.reorder(*outer, *rest)
    rows = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    parallelize(sch, rows, iterations(sch, rest), GRAIN_MULTIPLIES)
    schedule_reduction_loops(sch, handle, rows)
    if in_lanes:
        sch.annotate(spatial[-1], MAP, True)
