"""Regions of a buffer that a loop nest touches: each index range as the loops run, as an interval for
each dimension.

loops i in [0, 8), region [i*4, i*4 + 4):  [0, 31]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.int_set import IntervalSet, IntSet
from heddle.arith.iters.iter_map import detect_iter_map, normalize_iter_map_to_expr
from heddle.arith.iters.iter_nodes import IterMapLevel, IterSumExpr
from heddle.arith.set_ops import eval_set
from heddle.prim.nodes import PrimExpr, Range, Var, as_expr, is_const_int
from heddle.prim.ops import add, multiply, subtract


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """Intervals that hold everything that is touched. Tight where `estimate_region_strict_bound` finds
    a region."""
    strict = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if strict is not None:
        return strict
    known = _bound_analyzer(var_dom, analyzer)
    domains = {var: IntSet.from_range(dom) for var, dom in var_dom.items()}
    with known.constraint_scope(as_expr(predicate)):
        return [eval_set(dim, domains, known) for dim in region]


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """The intervals that are touched exactly, dimension by dimension; None where that cannot be told."""
    known = _bound_analyzer(var_dom, analyzer)
    found = detect_iter_map(
        [dim.min for dim in region], var_dom, predicate, IterMapLevel.Surjective, True, analyzer
    )
    if not found.indices:
        return None
    result = []
    for dim, index in zip(region, found.indices, strict=True):
        interval = _touched(index, dim.extent, known)
        if interval is None:
            return None
        result.append(interval)
    return result


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """Intervals all of whose points are touched; None where none could be found."""
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)


def _touched(index: IterSumExpr, extent: PrimExpr, known: Analyzer) -> IntervalSet | None:
    """[base, base + scale * (n - 1) + extent - 1] for one digit of n values, if windows that long leave
    no gap."""
    base = normalize_iter_map_to_expr(index.base, known)
    if not index.args:
        return IntervalSet(base, known.simplify(subtract(add(base, extent), 1)))
    (digit,) = index.args
    if not is_const_int(digit.scale, 1) and not known.can_prove(digit.scale <= extent):
        return None
    if not known.can_prove_greater_equal(digit.scale, 0):
        return None
    last = add(base, multiply(digit.scale, subtract(digit.extent, 1)))
    return IntervalSet(base, known.simplify(subtract(add(last, extent), 1)))


def _bound_analyzer(var_dom: Mapping[Var, Range], analyzer: Analyzer | None) -> Analyzer:
    known = Analyzer() if analyzer is None else analyzer.clone()
    for var, dom in var_dom.items():
        known.bind(var, dom, allow_override=True)
    return known
