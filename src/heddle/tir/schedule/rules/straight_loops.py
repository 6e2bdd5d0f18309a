"""Loops that somebody split or reordered by hand, straightened, so that rules can do better.

    for i0, j, k0, i1, k1 in grid(16, 64, 4, 4, 4):        for i, j, k in grid(64, 64, 16):
        vi, vj, vk = i0 * 4 + i1, j, k0 * 4 + k1      →        vi, vj, vk = i, j, k

Nests stay as they are where loops have kinds or hints, or where one block is not all that they hold, or where
they do not take the block once to each point of its axes.
"""

from __future__ import annotations

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.nodes import For, ForKind, IterType, PrimFunc, SBlockRealize
from heddle.tir.schedule.blocks.nest import nest
from heddle.tir.schedule.coverage import reaches_all
from heddle.tir.schedule.independence import keeps_contract
from heddle.tir.schedule.tree import Place, find_block, replace_stmt


def with_straight_loops(func: PrimFunc) -> PrimFunc:
    """The function with a loop for each axis, wherever that is the same."""
    for realize in blocks_in(func.body):
        place = find_block(func, realize.block.name_hint)
        loops = place.loops()
        if loops and not runs_straight(place) and _may_be_straight(place):
            func = replace_stmt(func, loops[0], nest(place.stmt.block))
    return func


def runs_straight(place: Place) -> bool:
    """Whether the loops around a block run over its axes, one over each, in their order."""
    realize: SBlockRealize = place.stmt
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    axes = [(axis, value) for axis, value in pairs if not is_const_int(axis.dom.extent, 1)]
    loops = [loop for loop in place.loops() if not is_const_int(loop.extent, 1)]
    return len(axes) == len(loops) and all(
        value is loop.loop_var and structural_equal((loop.min, loop.extent), (axis.dom.min, axis.dom.extent))
        for (axis, value), loop in zip(axes, loops, strict=True)
    )


def _may_be_straight(place: Place) -> bool:
    realize: SBlockRealize = place.stmt
    block, loops = realize.block, place.loops()
    inner: For | SBlockRealize = loops[0]
    while isinstance(inner, For):
        if inner.kind is not ForKind.SERIAL or inner.annotations:
            return False
        inner = inner.body  # type: ignore[assignment]
    if inner is not realize or block.annotations:
        return False
    kinds = {axis.iter_type for axis in block.iter_vars}
    if not kinds <= {IterType.DataPar, IterType.CommReduce} or not keeps_contract(block):
        return False
    if any(not is_const_int(axis.dom.min, 0) for axis in block.iter_vars):
        return False
    axes: list[PrimExpr] = [axis.var for axis in block.iter_vars]
    return reaches_all(place, axes, [axis.dom.extent for axis in block.iter_vars])
