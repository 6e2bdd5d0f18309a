"""Sets of integers: intervals with symbolic ends, and vectors of single values.

    eval_set(i * 4 + j, {i: [0, 7], j: [0, 3]}) = [0, 31]       union([0, 3], [8, 9]) = [0, 9]
An interval holds both its ends. `pos_inf` and `neg_inf` stand for no end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.interval_eval import Interval, IntervalEvaluator
from heddle.arith.interval_eval import intersect as intersect_intervals
from heddle.arith.interval_eval import unite
from heddle.ir.node import Node, node
from heddle.prim.nodes import PrimExpr, Range, Var, as_expr, constant
from heddle.prim.ops import add, subtract
from heddle.runtime.dtype import DataType

pos_inf = Var("pos_inf", DataType("handle"))
neg_inf = Var("neg_inf", DataType("handle"))


class IntSet(Node):
    """The base of integer sets, with constructors for the usual ones."""

    __slots__ = ()

    def is_nothing(self) -> bool:
        return False

    def is_everything(self) -> bool:
        return False

    @staticmethod
    def vector(values: Iterable[Any]) -> IntervalSet:
        """The smallest interval that holds all lanes or values."""
        return union([IntSet.single_point(value) for value in values])

    @staticmethod
    def single_point(value: Any) -> IntervalSet:
        point = as_expr(value)
        return IntervalSet(point, point)

    @staticmethod
    def from_range(dom: Range) -> IntervalSet:
        return IntervalSet(dom.min, subtract(add(dom.min, dom.extent), 1))

    @staticmethod
    def from_min_extent(low: Any, extent: Any) -> IntervalSet:
        return IntSet.from_range(Range.from_min_extent(low, extent))

    @staticmethod
    def everything() -> IntervalSet:
        return IntervalSet(neg_inf, pos_inf)

    @staticmethod
    def nothing() -> IntervalSet:
        return IntervalSet(pos_inf, neg_inf)


@node("arith.IntervalSet")
class IntervalSet(IntSet):
    """[min_value, max_value], both ends included."""

    min_value: PrimExpr
    max_value: PrimExpr

    def __post_init__(self) -> None:
        for name in ("min_value", "max_value"):
            value = getattr(self, name)
            self.set_derived(name, _end(value))

    @property
    def min(self) -> PrimExpr:
        return self.min_value

    @property
    def max(self) -> PrimExpr:
        return self.max_value

    def is_nothing(self) -> bool:
        return self.min_value is pos_inf or self.max_value is neg_inf

    def is_everything(self) -> bool:
        return self.min_value is neg_inf and self.max_value is pos_inf

    def is_single_point(self) -> bool:
        return self.min_value is self.max_value


def _end(value: Any) -> PrimExpr:
    if isinstance(value, float):
        return pos_inf if value > 0 else neg_inf
    return as_expr(value)


def to_interval(value: Any) -> Interval:
    """The pair of ends, None for an infinite one; of a set, a range or an expression."""
    if isinstance(value, Range):
        value = IntSet.from_range(value)
    if not isinstance(value, IntervalSet):
        point = as_expr(value)
        return Interval(point, point)
    if value.is_nothing():
        return Interval(None, None, empty=True)
    low = None if value.min_value is neg_inf else value.min_value
    return Interval(low, None if value.max_value is pos_inf else value.max_value)


def from_interval(interval: Interval) -> IntervalSet:
    if interval.empty:
        return IntSet.nothing()
    low = neg_inf if interval.low is None else interval.low
    return IntervalSet(low, pos_inf if interval.high is None else interval.high)


def eval_set(expr: Any, dom_map: Mapping[Var, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """The values of an expression (or of a set's or range's ends) as its variables run through sets."""
    known = Analyzer() if analyzer is None else analyzer
    evaluator = IntervalEvaluator(known, {var: to_interval(dom) for var, dom in dom_map.items()})
    if isinstance(expr, (IntervalSet, Range)):
        return from_interval(evaluator.ends(to_interval(expr)))
    return from_interval(evaluator.evaluate(as_expr(expr)))


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that holds all sets."""
    known = Analyzer() if analyzer is None else analyzer
    result = Interval(None, None, empty=True)
    for item in sets:
        result = unite(known, result, to_interval(item))
    return from_interval(result)


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """What all sets have in common; nothing only where that can be proved."""
    known = Analyzer() if analyzer is None else analyzer
    result = Interval(None, None)
    for item in sets:
        result = intersect_intervals(known, result, to_interval(item))
    return from_interval(result)


def union_lower_bound(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval inside the union: intervals that touch or overlap are joined, others are left out."""
    known = Analyzer() if analyzer is None else analyzer
    result: IntervalSet | None = None
    for item in sets:
        if item.is_nothing():
            continue
        if result is None:
            result = item
        elif _touch(known, result, item) and _touch(known, item, result):
            result = union([result, item], known)
    return IntSet.nothing() if result is None else result


def _touch(known: Analyzer, a: IntervalSet, b: IntervalSet) -> bool:
    """Whether b begins no later than right after a ends."""
    if a.max_value is pos_inf or b.min_value is neg_inf:
        return True
    return known.can_prove(subtract(b.min_value, a.max_value) <= constant(1, b.min_value.dtype))
