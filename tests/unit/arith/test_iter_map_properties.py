"""Whatever is said of iterator maps holds at every point: random chains of //, %, + and * are enumerated."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from expressions import show
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.arith import (
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var
from heddle.prim.substitute import free_vars

X, Y = (Var(name, "int64") for name in "xy")
FACTORS = (1, 2, 3, 4, 6, 8, -1, -2, -3, -4)
LEVELS = ("bijective", "surjective", "nocheck")
EXAMPLES = settings(max_examples=250, deadline=None)


class Loops:
    """One or two loop variables with their ranges, and the points that they take."""

    def __init__(self, spans: dict[Var, range]) -> None:
        self.spans = spans
        self.iters = {
            var: Range.from_min_extent(IntImm("int64", span.start), IntImm("int64", len(span)))
            for var, span in spans.items()
        }

    def points(self, predicate: Any = True) -> list[dict[Var, int]]:
        found = (
            dict(zip(self.spans, values, strict=True)) for values in itertools.product(*self.spans.values())
        )
        return [env for env in found if predicate is True or evaluate(predicate, env)]

    def __repr__(self) -> str:
        return str({var.name: span for var, span in self.spans.items()})


@st.composite
def loops(draw: Any) -> Loops:
    names = (X, Y)[: draw(st.integers(1, 2))]
    starts = st.sampled_from((0, 0, 0, -2, 3))
    sizes = st.sampled_from((1, 2, 3, 4, 5, 6, 8, 12))
    spans = {}
    for var in names:
        low = draw(starts)
        spans[var] = range(low, low + draw(sizes))
    return Loops(spans)


@st.composite
def chains(draw: Any, nest: Loops, length: int = 5) -> PrimExpr:
    """A variable or the row-major place of two, then a few operations with constants."""
    start = draw(st.sampled_from(("x", "y", "xy", "yx", "any")))
    if len(nest.spans) == 1 or start == "x":
        expr: Any = X
    elif start == "y":
        expr = Y
    elif start == "any":
        expr = X * draw(st.sampled_from(FACTORS)) + Y * draw(st.sampled_from(FACTORS))
    else:
        outer, inner = (X, Y) if start == "xy" else (Y, X)
        expr = outer * len(nest.spans[inner]) + inner
    for _ in range(draw(st.integers(0, length))):
        factor = draw(st.sampled_from(FACTORS))
        kind = draw(st.sampled_from(("//", "%", "//", "%", "*", "+", "sum")))
        if kind == "sum":
            expr = expr * factor + draw(chains(nest, 1))
        elif kind == "+":
            expr = expr + factor
        elif kind == "*":
            expr = expr * factor
        else:
            expr = ops.floordiv(expr, factor) if kind == "//" else ops.floormod(expr, factor)
    return expr


@st.composite
def predicates(draw: Any, nest: Loops) -> Any:
    if draw(st.integers(0, 2)):
        return True
    bounds = []
    for _ in range(draw(st.integers(1, 2))):
        term, end = draw(chains(nest, 1)), draw(st.integers(-2, 12))
        bounds.append(draw(st.sampled_from((term < end, term >= end, term <= end))))
    return ops.all(*bounds)


def value_sets(indices: Any, points: Any) -> list[tuple[int, ...]]:
    return [tuple(evaluate(index, env) for index in indices) for env in points]


def check_maps(nest: Loops, indices: list[Any], predicate: Any) -> bool:
    """Whether a level held; all that each says is compared with the points."""
    points = nest.points(predicate)
    said = False
    for level in LEVELS:
        found = detect_iter_map(indices, nest.iters, predicate, level)
        simplified = iter_map_simplify(indices, nest.iters, predicate, level)
        assert value_sets(simplified, points) == value_sets(indices, points), level
        if not found.indices:
            assert found.errors
            continue
        said = True
        exprs = [normalize_iter_map_to_expr(item) for item in found.indices]
        values = value_sets(indices, points)
        assert value_sets(exprs, points) == values, level
        digits = []
        for item in found.indices:
            assert len(item.args) <= 1
            steps = range(item.args[0].extent.value) if item.args else range(1)
            scale = item.args[0].scale.value if item.args else 1
            digits.append({item.base.value + scale * step for step in steps})
        claimed = set(itertools.product(*digits))
        assert set(values) <= claimed, level
        if level != "nocheck":
            assert set(values) == claimed, level
        if level == "bijective":
            assert len(points) == len(claimed)
            outputs = [Var(f"out{place}", "int64") for place in range(len(indices))]
            inverse = inverse_affine_iter_map(found.indices, outputs)
            for env, made in zip(points, values, strict=True):
                known = dict(zip(outputs, made, strict=True))
                assert all(evaluate(expr, known) == env[var] for var, expr in inverse.items())
    return said


@EXAMPLES
@given(data=st.data())
def test_detected_maps_are_what_enumeration_finds(data: Any) -> None:
    nest = data.draw(loops())
    indices = data.draw(st.lists(chains(nest), min_size=1, max_size=2))
    predicate = data.draw(predicates(nest))
    try:
        check_maps(nest, indices, predicate)
    except AssertionError as error:
        raise AssertionError(f"{[*map(show, indices)]} where {show(predicate)} in {nest}: {error}") from None


@EXAMPLES
@given(data=st.data())
def test_digits_of_one_index_are_what_enumeration_finds(data: Any) -> None:
    """All digits of an index: what is injective or covers a range shows here."""
    nest = data.draw(loops())
    index = data.draw(chains(nest, 2))
    factors = data.draw(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=2))
    indices = []
    for factor in factors:
        indices.append(ops.floormod(index, factor))
        index = ops.floordiv(index, factor)
    try:
        check_maps(nest, [*indices, index], True)
    except AssertionError as error:
        raise AssertionError(f"{[*map(show, indices)]}, {show(index)} in {nest}: {error}") from None


@EXAMPLES
@given(data=st.data())
def test_normal_sums_have_the_value(data: Any) -> None:
    nest = data.draw(loops())
    index = data.draw(chains(nest))
    points = nest.points()
    made = normalize_to_iter_sum(index, nest.iters)
    assert value_sets([normalize_iter_map_to_expr(made)], points) == value_sets([index], points), (
        f"{show(index)} in {nest}: {show(normalize_iter_map_to_expr(made))}"
    )


@EXAMPLES
@given(data=st.data())
def test_regions_are_what_enumeration_finds(data: Any) -> None:
    nest = data.draw(loops())
    starts = data.draw(st.lists(chains(nest), min_size=1, max_size=2))
    sizes = [data.draw(st.integers(1, 5)) for _ in starts]
    predicate = data.draw(predicates(nest))
    region = [Range.from_min_extent(a, IntImm("int64", n)) for a, n in zip(starts, sizes, strict=True)]
    touched = set()
    for env in nest.points(predicate):
        lows = [evaluate(start, env) for start in starts]
        touched |= set(itertools.product(*(range(a, a + n) for a, n in zip(lows, sizes, strict=True))))
    text = f"{[*map(show, starts)]} {sizes} where {show(predicate)} in {nest}"
    upper = estimate_region_upper_bound(region, nest.iters, predicate)
    for dim, interval in enumerate(upper):
        low, high = ends(interval)
        assert all(low <= point[dim] <= high for point in touched), f"{text}: {low} to {high}"
    for found in (
        estimate_region_strict_bound(region, nest.iters, predicate),
        estimate_region_lower_bound(region, nest.iters, predicate),
    ):
        if found is not None:
            spans = [range(low, high + 1) for low, high in map(ends, found)]
            assert touched == set(itertools.product(*spans)), f"{text}: {spans}"


def ends(interval: Any) -> tuple[float, float]:
    """The ends of an interval of constants."""
    low, high = interval.min_value, interval.max_value
    return (
        low.value if isinstance(low, IntImm) else float("-inf"),
        high.value if isinstance(high, IntImm) else float("inf"),
    )


@EXAMPLES
@given(data=st.data())
def test_subspaces_divide_as_enumeration_finds(data: Any) -> None:
    nest = data.draw(loops())
    bindings = data.draw(st.lists(chains(nest, 3), min_size=1, max_size=2))
    inner_vars = data.draw(st.sets(st.sampled_from(list(nest.spans))))
    predicate = data.draw(predicates(nest))
    level = data.draw(st.sampled_from(LEVELS))
    pairs = subspace_divide(bindings, nest.iters, inner_vars, predicate, level)
    if not pairs:
        return
    text = f"{[*map(show, bindings)]} by {inner_vars} where {show(predicate)} in {nest} at {level}"
    points = nest.points(predicate)
    for binding, (outer, inner) in zip(bindings, pairs, strict=False):
        outer_expr, inner_expr = normalize_iter_map_to_expr(outer), normalize_iter_map_to_expr(inner)
        for env in points:
            is_outer, is_inner = evaluate(outer_expr, env), evaluate(inner_expr, env)
            whole = is_outer * evaluate(inner.extent, env) + is_inner
            assert whole == evaluate(binding, env), text
        for expr, variables in ((outer_expr, inner_vars), (inner_expr, set(nest.spans) - inner_vars)):
            assert not variables & set(free_vars(expr)), text


@pytest.mark.parametrize("index", [(0 - X) // 4, X * -3 // 6, (8 - X * 2) // 4, X // -4, (X % 6) // -3])
def test_a_quotient_of_a_falling_index_is_no_digit(index: Any) -> None:
    """`(0 - x) // 4` is -ceil(x / 4): three values of eight x, where a digit of x has two or four."""
    nest = Loops({X: range(8)})
    for level in LEVELS:
        assert detect_iter_map([index], nest.iters, True, level).errors, level


def test_a_region_of_a_falling_quotient_is_not_empty() -> None:
    region = [Range.from_min_extent((0 - X) // 4 + 4, IntImm("int64", 1))]
    (found,) = estimate_region_upper_bound(region, Loops({X: range(8)}).iters)
    low, high = ends(found)
    assert low <= 2 and high >= 4


@pytest.mark.parametrize("index", [X % 6 // 4, X % 6 % 4, X // 2 % 3 // 2, X // 2 % 3 % 2])
def test_only_the_coarsest_digit_is_cut_unevenly(index: Any) -> None:
    nest = Loops({X: range(12)})
    found = detect_iter_map([index], nest.iters, check_level="nocheck")
    assert found.errors == ("a divisor does not divide the extent of an iterator",)
    made = normalize_iter_map_to_expr(normalize_to_iter_sum(index, nest.iters))
    assert value_sets([made], nest.points()) == value_sets([index], nest.points())


@pytest.mark.parametrize("index", [X // 5, X % 5, X // 5 // 2])
def test_the_coarsest_digit_may_be_cut_unevenly_where_nothing_is_checked(index: Any) -> None:
    assert check_maps(Loops({X: range(12)}), [index], True)


def test_a_bound_on_other_scales_of_the_digits_is_no_bound_of_the_index() -> None:
    nest = Loops({X: range(2), Y: range(2)})
    assert detect_iter_map([Y * 2 + X], nest.iters, X * 2 + Y < 1).errors
    check_maps(nest, [Y * 2 + X], X * 2 + Y < 1)


def test_a_sum_that_a_predicate_divides_and_bounds() -> None:
    """The predicate fuses the sum before its lower bound is known; the index must not take that sum."""
    nest = Loops({X: range(6), Y: range(2)})
    total = X * 2 + Y
    assert check_maps(nest, [total], ops.logical_and(total // 3 % 2 < 1, total >= 3))
