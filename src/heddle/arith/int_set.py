"""Sets of integers: intervals with symbolic ends, and vectors of single values.

An interval holds both its ends. `pos_inf` and `neg_inf` stand for no end.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from heddle.arith.interval_eval import Interval
from heddle.ir.node import Node, node
from heddle.prim.nodes import PrimExpr, Range, Var, as_expr
from heddle.prim.ops import add, maximum, minimum, subtract
from heddle.runtime.dtype import DataType

pos_inf = Var("pos_inf", DataType("handle"))
neg_inf = Var("neg_inf", DataType("handle"))


class IntSet(Node):
    """The base of integer sets, with constructors for the usual ones."""

    __slots__ = ()

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty."""
        return False

    def is_everything(self) -> bool:
        """Whether the set holds every integer."""
        return False

    @staticmethod
    def vector(values: Iterable[Any]) -> IntervalSet:
        """The smallest interval that holds all lanes or values."""
        points = [as_expr(value) for value in values]
        return IntervalSet(reduce(minimum, points), reduce(maximum, points))

    @staticmethod
    def single_point(value: Any) -> IntervalSet:
        """The set of one value: an expression or a number."""
        point = as_expr(value)
        return IntervalSet(point, point)

    @staticmethod
    def from_range(dom: Range) -> IntervalSet:
        """The values `dom.min` to below `dom.min + dom.extent`."""
        return IntervalSet(dom.min, subtract(add(dom.min, dom.extent), 1))

    @staticmethod
    def from_min_extent(low: Any, extent: Any) -> IntervalSet:
        """The values `low` to below `low + extent`."""
        return IntSet.from_range(Range.from_min_extent(low, extent))

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(neg_inf, pos_inf)

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set."""
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
        """The least value: an expression, or `neg_inf`."""
        return self.min_value

    @property
    def max(self) -> PrimExpr:
        """The greatest value, which is in the set: an expression, or `pos_inf`."""
        return self.max_value

    def is_nothing(self) -> bool:
        """Whether an end says that the set is empty; ends that are expressions do not."""
        return self.min_value is pos_inf or self.max_value is neg_inf

    def is_everything(self) -> bool:
        """Whether neither end is known."""
        return self.min_value is neg_inf and self.max_value is pos_inf

    def is_single_point(self) -> bool:
        """Whether both ends are one and the same expression."""
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
    """The set of an interval, whose missing ends are infinite."""
    if interval.empty:
        return IntSet.nothing()
    low = neg_inf if interval.low is None else interval.low
    return IntervalSet(low, pos_inf if interval.high is None else interval.high)
