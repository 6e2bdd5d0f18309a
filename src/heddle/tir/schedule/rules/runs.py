"""Nested loops over one run of memory, which may be one loop."""

from __future__ import annotations

from collections.abc import Iterator

from heddle.ir.node import Node, children
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Var
from heddle.prim.substitute import free_vars
from heddle.tir.nodes import BufferLoad, BufferStore
from heddle.tir.schedule.rules.rule import block_of
from heddle.tir.schedule.schedule import LoopRV, SBlockRV, Schedule


def with_plain_runs_fused(sch: Schedule, handle: SBlockRV, loops: list[LoopRV]) -> list[LoopRV]:
    """`with_runs_fused`, where places matter for accesses alone: of one that is a value (a diagonal, a
    position) each element would divide."""
    body = block_of(sch, handle).body
    if not isinstance(body, BufferStore):
        return loops
    return with_runs_fused(sch, handle, loops, frozenset(_values_in(body.value)))


def with_runs_fused(
    sch: Schedule, handle: SBlockRV, loops: list[LoopRV], apart: frozenset[Var] = frozenset()
) -> list[LoopRV]:
    """Nested loops, as many of the last of them as lie in one run fused, but for those of axes in `apart`."""
    for first in range(len(loops) - 1):
        if _lie_in_one_run(sch, handle, loops[first:], apart):
            return [*loops[:first], sch.fuse(*loops[first:])]
    return loops


def _values_in(expr: Node) -> Iterator[Var]:
    """The variables that an expression uses other than in indices of loads."""
    if isinstance(expr, Var):
        yield expr
    elif not isinstance(expr, BufferLoad):
        for part in children(expr):
            yield from _values_in(part)


def _lie_in_one_run(sch: Schedule, handle: SBlockRV, loops: list[LoopRV], apart: frozenset[Var]) -> bool:
    """Whether loops run over the whole last dimensions, in their order, of all that depends on them."""
    block = block_of(sch, handle)
    values = sch.realization(handle).iter_values
    axes = {
        value: axis for axis, value in zip(block.iter_vars, values, strict=True) if isinstance(value, Var)
    }
    if not all(loop.var in axes for loop in loops):
        return False
    run = [axes[loop.var].var for loop in loops]
    if not apart.isdisjoint(run):
        return False
    uses = [var for value in values for var in free_vars(value)]
    if any(uses.count(loop.var) > 1 for loop in loops):
        return False
    extents = [sch.get(loop).extent for loop in loops]
    accesses = [n for n in walk(block.body) if isinstance(n, (BufferLoad, BufferStore))]
    for access in accesses:
        if set(run).isdisjoint(free_vars(*access.indices)):
            continue
        last = access.indices[-len(run) :]
        if len(last) < len(run) or any(a is not b for a, b in zip(last, run, strict=True)):
            return False
        if not structural_equal(access.buffer.shape[-len(run) :], tuple(extents)):
            return False
        if not set(run).isdisjoint(free_vars(*access.indices[: -len(run)])):
            return False
    return True
