"""Binding loops to the threads of an accelerator."""

from __future__ import annotations

import re

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import Var
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.codes import T0413
from heddle.tir.nodes import For, ForKind, PrimFunc
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.nests.loops import check_independent, check_spatial, reduces
from heddle.tir.schedule.tree import find_loop, replace_stmt

_AXIS = re.compile(r"(blockIdx|threadIdx|vthread)\.[xyz]|vthread|clusterCtaIdx\.[xyz]")


def bind(func: PrimFunc, loop_var: Var, thread: str) -> PrimFunc:
    """for i in range(n): C[i] = f(i)   →   for i in thread_binding(n, "threadIdx.x"): C[i] = f(i)

    The iterations run on the threads of the axis; on one thread after the other they compute the same. A
    reduction axis may be bound to threadIdx only: its threads can combine their parts.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    if not _AXIS.fullmatch(thread):
        raise ScheduleError(
            T0413, f"no thread axis is called {thread!r}", func, loop, help="as in blockIdx.x or threadIdx.y"
        )
    around = [outer for outer in place.ancestors if isinstance(outer, For)]
    inside = [inner for inner in walk_stmts(loop.body) if isinstance(inner, For)]
    taken = [other for other in (*around, *inside) if other.thread_binding == thread]
    if taken and not thread.startswith("vthread"):
        name = taken[0].loop_var.name
        raise ScheduleError(
            T0413, f"loop {name!r}, around or inside {loop_var.name!r}, has {thread} already", func, loop
        )
    for other in (found for found in walk_stmts(func.body) if isinstance(found, For)):
        if other.thread_binding == thread and not structural_equal(other.extent, loop.extent):
            raise ScheduleError(
                T0413,
                f"{thread} has {other.extent} threads in loop {other.loop_var.name!r}, expected as many "
                f"as loop {loop_var.name!r} has iterations, got {loop.extent}",
                func,
                loop,
            )
    if not thread.startswith("threadIdx"):
        check_spatial(func, loop)
    if not reduces(loop):
        check_independent(func, loop)
    return replace_stmt(func, loop, replace(loop, kind=ForKind.THREAD_BINDING, thread_binding=thread))
