"""Operations on integer sets: values of an expression, union, intersection.

eval_set(i * 4 + j, {i: [0, 7], j: [0, 3]}) = [0, 31]       union([0, 3], [8, 9]) = [0, 9]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.int_set import IntervalSet, IntSet, from_interval, neg_inf, pos_inf, to_interval
from heddle.arith.interval_eval import Interval, IntervalEvaluator, unite
from heddle.arith.interval_eval import intersect as intersect_intervals
from heddle.prim.nodes import Range, Var, as_expr, constant
from heddle.prim.ops import subtract


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
