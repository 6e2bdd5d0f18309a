"""Integer sets, regions and linear solving, checked by enumeration."""

from __future__ import annotations

from typing import Any

import pytest
from expressions import analyzer_for, domains, index_exprs, points, show
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.arith import (
    Analyzer,
    CompareResult,
    ConstIntBound,
    IntervalSet,
    IntSet,
    ModularSet,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect,
    neg_inf,
    pos_inf,
    union,
    union_lower_bound,
)
from heddle.ir.structural import structural_equal
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, Range, SizeVar, Var
from heddle.support.diagnostics import UsageError

X, Y, Z = (Var(name, "int64") for name in "xyz")
N = SizeVar("n")


def lit(value: int) -> IntImm:
    return IntImm("int64", value)


def interval(low: Any, high: Any) -> IntervalSet:
    return IntervalSet(*(lit(end) if isinstance(end, int) else end for end in (low, high)))


def ends(found: IntervalSet) -> tuple[Any, Any]:
    return tuple(end.value if isinstance(end, IntImm) else end for end in (found.min_value, found.max_value))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_sets_hold_all_values(data: Any) -> None:
    domain = data.draw(domains())
    expr = data.draw(index_exprs(domain))
    found = eval_set(expr, {var: interval(values[0], values[-1]) for var, values in domain.items()})
    bounded = analyzer_for(domain).int_set(expr)
    for point in points(domain):
        value = evaluate(expr, point)
        for item in (found, bounded):
            low, high = ends(item)
            assert low is neg_inf or low <= value, show(expr)
            assert high is pos_inf or value <= high, show(expr)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_symbolic_ends_hold(data: Any) -> None:
    """One variable runs through a set, the others stay symbols in the ends."""
    domain = data.draw(domains())
    expr = data.draw(index_exprs(domain, 2))
    var, values = next(iter(domain.items()))
    found = eval_set(expr, {var: interval(values[0], values[-1])}, analyzer_for(domain))
    for point in points(domain):
        value = evaluate(expr, point)
        assert found.min_value is neg_inf or evaluate(found.min_value, point) <= value, show(expr)
        assert found.max_value is pos_inf or value <= evaluate(found.max_value, point), show(expr)


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (X * 4 + Y, 0, 31),
        (X - Y, -3, 7),
        ((X + 16) % 32, 16, 23),
        (X // 4, 0, 1),
        (X * -2, -14, 0),
        (ops.minimum(X, Y), 0, 3),
        (X * Y, 0, 21),
    ],
)
def test_eval_set(expr: Any, low: int, high: int) -> None:
    assert ends(eval_set(expr, {X: interval(0, 7), Y: interval(0, 3)})) == (low, high)


def test_eval_set_symbolic() -> None:
    found = eval_set(X * 4 + Y, {X: Range(lit(0), N), Y: interval(0, 3)})
    assert structural_equal(found.max_value, N * 4 - 1)
    assert eval_set(X - Y, {X: IntSet.everything(), Y: interval(0, 3)}).is_everything()


def test_set_algebra() -> None:
    assert ends(union([interval(0, 3), interval(8, 9)])) == (0, 9)
    assert ends(intersect([interval(0, 5), interval(3, 9)])) == (3, 5)
    assert intersect([interval(0, 2), interval(5, 9)]).is_nothing()
    assert ends(union_lower_bound([interval(0, 3), interval(4, 9)])) == (0, 9)
    assert ends(union_lower_bound([interval(0, 3), interval(8, 9)])) == (0, 3)
    assert ends(IntSet.vector([lit(3), lit(1), lit(2)])) == (1, 3)
    assert IntSet.nothing().is_nothing()
    assert IntSet.single_point(X).is_single_point()


def test_regions() -> None:
    loops = {X: Range(lit(0), lit(8)), Y: Range(lit(0), lit(4))}
    tile = [Range.from_min_extent(X * 4 + Y, lit(1))]
    for estimate in (estimate_region_strict_bound, estimate_region_upper_bound, estimate_region_lower_bound):
        found = estimate(tile, loops)
        assert found is not None
        assert ends(found[0]) == (0, 31)
    gaps = [Range.from_min_extent(X * 8, lit(4))]
    assert estimate_region_strict_bound(gaps, loops) is None
    assert ends(estimate_region_upper_bound(gaps, loops)[0]) == (0, 59)
    bounded = estimate_region_strict_bound(tile, loops, X * 4 + Y < 30)
    assert bounded is not None
    assert ends(bounded[0]) == (0, 29)
    assert estimate_region_strict_bound([*tile, *tile], loops) is None


def test_detect_linear_equation() -> None:
    found = detect_linear_equation(X * 4 + Y + 3, [X, Y])
    assert [item.value for item in found] == [4, 1, 3]
    symbolic = detect_linear_equation(X * N + Z, [X])
    assert symbolic[0] is N
    assert symbolic[1] is Z
    assert detect_linear_equation(X * Y, [X, Y]) == []
    assert detect_linear_equation(X // 2, [X]) == []
    assert detect_linear_equation(X * X, [X]) == []


def test_detect_clip_bound() -> None:
    found = detect_clip_bound(ops.logical_and(X * 1 >= 2, X < 9), [X])
    assert [item.value for item in found] == [2, 8]
    one_sided = detect_clip_bound(ops.logical_and(X < 9, X < N), [X])
    assert one_sided[0] is None
    assert Analyzer().can_prove_equal(one_sided[1], ops.minimum(lit(8), N - 1))
    assert detect_clip_bound(X * 3 < 9 * Y, [X, Y]) == []


@pytest.mark.parametrize("scale", [1, 2, 4, -1, -3])
@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal"])
def test_deduce_bound(scale: int, name: str) -> None:
    """The bound is exactly the set of x that satisfies the condition for every y."""
    condition = getattr(ops, name)(X * scale + Y, lit(10))
    found = deduce_bound(X, condition, {}, {Y: interval(0, 3)})
    low, high = ends(found)
    for value in range(-30, 30):
        holds = all(evaluate(condition, {X: value, Y: other}) for other in range(4))
        inside = (low is neg_inf or low <= value) and (high is pos_inf or value <= high)
        assert holds == inside, f"{show(condition)}: {low}, {high} at {value}"


def test_deduce_bound_symbolic() -> None:
    found = deduce_bound(X, X * N <= Z, {N: interval(1, 64)}, {})
    assert structural_equal(found.max_value, Z // N)
    assert deduce_bound(X, X * Y < Z, {}, {}).is_everything()


def test_telling_facts() -> None:
    ana = Analyzer()
    ana.bind(X, Range(lit(0), lit(8)))
    ana.bind(X, Range(lit(0), lit(8)))
    with pytest.raises(UsageError, match="A0101"):
        ana.bind(X, Range(lit(0), lit(9)))
    ana.bind(X, Range(lit(0), lit(9)), allow_override=True)
    assert ana.const_int_bound(X) == ConstIntBound(0, 8)
    ana.update(Y, ConstIntBound(2, 5))
    assert ana.const_int_bound(Y * 2) == ConstIntBound(4, 10)
    ana.update(Z, ModularSet(4, 1))
    assert ana.modular_set(Z * 2) == ModularSet(8, 2)
    ana.bind(Z, X + 1)
    assert structural_equal(ana.simplify(Z * 2), X * 2 + 2)
    copy = ana.clone()
    copy.bind(X, Range(lit(0), lit(2)), allow_override=True)
    assert ana.const_int_bound(X) == ConstIntBound(0, 8)
    assert copy.const_int_bound(X) == ConstIntBound(0, 1)


def test_marking_dimensions() -> None:
    ana = Analyzer()
    assert not ana.can_prove_greater_equal(X * Y, 0)
    ana.mark_global_non_neg(X)
    ana.mark_global_non_neg(Y)
    assert ana.can_prove_greater_equal(X * Y, 0)
    assert ana.can_prove_less(X - X - 1, 0)


def test_try_compare() -> None:
    ana = Analyzer()
    ana.bind(X, Range(lit(0), N))
    assert ana.try_compare(X, N) is CompareResult.LT
    assert ana.try_compare(X + 1, N) is CompareResult.LE
    assert ana.try_compare(N, X) is CompareResult.GT
    assert ana.try_compare(X + Y - X, Y) is CompareResult.EQ
    assert ana.try_compare(X, Y) is CompareResult.UNKNOWN
    assert ana.try_compare(Y * 2, Z * 2 + 1) is CompareResult.NE


def test_const_int_bound_of_unbounded() -> None:
    found = Analyzer().const_int_bound(X)
    assert (found.min_value, found.max_value) == (ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert Analyzer().const_int_bound(N).min_value == 0
    assert Analyzer().const_int_bound(Var("s", "uint8")) == ConstIntBound(0, 255)
