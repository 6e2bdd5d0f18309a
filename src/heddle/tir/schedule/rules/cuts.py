"""Where the conditions of a loop's body change: there the loop is cut, so that each part needs none of them.

    for j in range(w + 6):                              for j in range(3): out[j] = x[0]
        out[j] = x[max(min(j - 3, w - 1), 0)]     →     for j in range(3, w + 3): out[j] = x[j - 3]
                                                        for j in range(w + 3, w + 6): out[j] = x[w - 1]

Conditions count that choose between loads, or between indices: of them a vector of the machine would need
masks or gathers. A part of the loop reads memory in order. The simplifier takes the conditions away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heddle.arith import Analyzer
from heddle.ir.node import Node
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    CompareExpr,
    Max,
    Min,
    PrimExpr,
    Select,
    Var,
    constant,
)
from heddle.prim.ops import greater_equal, less_equal
from heddle.prim.substitute import free_vars
from heddle.tir.nodes import BufferLoad, SBlock
from heddle.tir.schedule.rules.rule import try_primitive
from heddle.tir.schedule.schedule import LoopRV, Schedule

MAX_CUTS = 32
Choice = CompareExpr | Min | Max
_SHIFT: dict[type[Choice], tuple[int, ...]] = {
    LT: (0,),
    GE: (0,),
    LE: (1,),
    GT: (1,),
    EQ: (0, 1),
    Min: (1,),
    Max: (0,),
}
"""Comparison of an axis with a place → where it changes, from that place on."""


def cut_loop(sch: Schedule, loop: LoopRV, block: SBlock, axis: Var, is_scalar: bool = False) -> None:
    """Cut the loop that is an axis of the block wherever conditions on this axis change.

    `is_scalar`: also those that choose between a load and none. A loop in vectors has masks for them.
    """
    extent = sch.get(loop).extent
    bound = frozenset(iter_var.var for iter_var in block.iter_vars)
    places = _in_order(list(_places(block, axis, bound, is_scalar)), extent)
    if places:
        begins = [constant(0, extent.dtype), *places[:-1]]
        factors = [end - begin for begin, end in zip(begins, places, strict=True)]
        try_primitive(sch, lambda: sch.loop_partition(loop, [*factors, None]))


def _places(block: SBlock, axis: Var, bound: frozenset[Var], is_scalar: bool) -> Iterator[PrimExpr]:
    """Where conditions of the body change, as expressions without axes of the block."""
    for condition in _conditions(block, is_scalar):
        left, right = condition.a, condition.b
        while isinstance(left, (Min, Max)):  # as in max(min(j, high), low)
            left = left.a
        shift = Analyzer().simplify(left - axis)
        if axis in free_vars(shift):
            continue
        place = Analyzer().simplify(right - shift)
        if not bound.intersection(free_vars(place)):
            for step in _SHIFT[type(condition)]:
                yield Analyzer().simplify(place + step)


def _conditions(block: SBlock, is_scalar: bool) -> Iterator[Choice]:
    """Comparisons, and minima and maxima, that choose between indices or between loads."""
    for node in walk(block.body):
        if isinstance(node, BufferLoad):
            for part in (part for index in node.indices for part in walk(index)):
                if isinstance(part, (Min, Max)):
                    yield part
                elif isinstance(part, Select):
                    yield from _comparisons(part.condition)
        elif isinstance(node, Call) and node.op.name == "tir.if_then_else":
            loading = [any(isinstance(part, BufferLoad) for part in walk(arm)) for arm in node.args[1:]]
            if all(loading) or (is_scalar and any(loading)):
                yield from _comparisons(node.args[0])


def _comparisons(condition: Node) -> Iterator[CompareExpr]:
    if isinstance(condition, And):
        yield from _comparisons(condition.a)
        yield from _comparisons(condition.b)
    elif isinstance(condition, CompareExpr) and type(condition) in _SHIFT:
        yield condition


def _in_order(places: Sequence[PrimExpr], extent: PrimExpr) -> list[PrimExpr]:
    """The different places within the loop, ascending; none where their order is not known, or where there
    are too many."""
    analyzer, found = Analyzer(), list[PrimExpr]()
    for place in places:
        if any(structural_equal(place, other) for other in found):
            continue
        if analyzer.can_prove(less_equal(place, 0)) or analyzer.can_prove(greater_equal(place, extent)):
            continue
        at = 0
        while at < len(found) and analyzer.can_prove(less_equal(found[at], place)):
            at += 1
        if at < len(found) and not analyzer.can_prove(less_equal(place, found[at])):
            return []
        found.insert(at, place)
        if len(found) > MAX_CUTS:
            return []
    is_inside = all(analyzer.can_prove(less_equal(place, extent)) for place in found)
    return found if is_inside else []
