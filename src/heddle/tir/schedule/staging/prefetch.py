"""Asking for cache lines before they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.node import replace
from heddle.prim.nodes import Var
from heddle.prim.ops import call_intrin
from heddle.prim.substitute import substitute
from heddle.tir.codes import T0408, T0416
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import BufferLoad, Evaluate, PrimFunc, SBlock, seq
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, find_loop, replace_stmt

NEAR, FAR = 3, 2
"""Localities: into the first cache, into the second."""


def loops_down_to(func: PrimFunc, loop_var: Var) -> list[Var]:
    """The variables of the loops around a loop, and its own at the end."""
    place = find_loop(func, loop_var)
    return [loop.loop_var for loop in (*place.loops(), place.stmt)]


def map_of_loops(
    func: PrimFunc, loop_var: Var, index_map: IndexMap | Callable[..., Sequence[Any]]
) -> IndexMap:
    """The map that a function of the variables of loops is. It has variables of its own for them."""
    if isinstance(index_map, IndexMap):
        return index_map
    own = tuple(Var(var.name, var.dtype) for var in dict.fromkeys(loops_down_to(func, loop_var)))
    return IndexMap(own, tuple(index_map(*own)))


def prefetch(
    func: PrimFunc,
    block_name: str,
    read_index: int,
    loop_var: Var,
    index_map: IndexMap | Callable[..., Sequence[Any]],
    locality: int = FAR,
) -> PrimFunc:
    """for i: C[i] = f(B[i])   →   for i: prefetch(&B[g(i)]);  C[i] = f(B[i])

    `index_map` gives the element whose cache line is asked for, from the variables of the loops down to
    the given one. It may lie outside the buffer: nothing is read.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    if not 0 <= read_index < len(block.reads):
        raise ScheduleError(
            T0408, f"block {block_name!r} has {len(block.reads)} reads, no {read_index}", func, block
        )
    buffer = block.reads[read_index].buffer
    place = find_loop(func, loop_var)
    made, given = map_of_loops(func, loop_var, index_map), dict.fromkeys(loops_down_to(func, loop_var))
    if len(made.initial_indices) != len(given):
        raise ScheduleError(
            T0416,
            f"the map takes {len(made.initial_indices)} indices, there are {len(given)} loops",
            func,
            block,
        )
    known = dict(zip(made.initial_indices, given, strict=True))
    indices = tuple(substitute(index, known) for index in made.final_indices)
    if len(indices) != buffer.ndim:
        raise ScheduleError(
            T0416,
            f"the map gives {len(indices)} indices, buffer {buffer.name!r} has {buffer.ndim} dimensions",
            func,
            block,
        )
    address = call_intrin("handle", "address_of", BufferLoad(buffer, indices))
    asked = Evaluate(call_intrin("int32", "prefetch", address, 0, locality, 1))
    return replace_stmt(func, place.stmt, replace(place.stmt, body=seq(asked, place.stmt.body)))
