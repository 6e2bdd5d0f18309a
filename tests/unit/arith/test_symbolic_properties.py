"""Loops of symbolic extent: values are kept, bounds and proofs hold, for every extent and every iteration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from expressions import conditions, index_exprs, show
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.arith import Analyzer
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, Range, SizeVar, Var

SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
I, J = Var("i", "int64"), Var("j", "int64")
N, M = SizeVar("n"), SizeVar("m")
DOMAIN = {I: range(4), J: range(4), N: range(1, 5), M: range(1, 5)}


def analyzer() -> Analyzer:
    ana = Analyzer()
    ana.bind(I, Range(IntImm("int64", 0), M))
    ana.bind(J, Range(IntImm("int64", 0), N))
    return ana


def iterations() -> Iterator[dict[Var, int]]:
    for m, n in itertools.product(range(1, 5), repeat=2):
        for i, j in itertools.product(range(m), range(n)):
            yield {I: i, J: j, N: n, M: m}


@st.composite
def symbolic_exprs(draw: Any) -> Any:
    """Sums of products of iterators and extents, divided by extents or constants."""
    total: Any = draw(index_exprs(DOMAIN, 1))
    for _ in range(draw(st.integers(1, 3))):
        factors = draw(st.lists(st.sampled_from((I, J, N, M, IntImm("int64", 2))), min_size=1, max_size=2))
        term: Any = factors[0]
        for factor in factors[1:]:
            term = term * factor
        total = total + term if draw(st.booleans()) else total - term
    divisor = draw(st.sampled_from((N, M, N * 2, N + 1, IntImm("int64", 4), N * M)))
    kind = draw(
        st.sampled_from((ops.floordiv, ops.floormod, ops.minimum, ops.maximum, ops.add, ops.multiply))
    )
    result = kind(total, divisor)
    if draw(st.booleans()):
        result = result * divisor + draw(st.sampled_from((total % divisor, J, N)))
    return result


@SETTINGS
@given(expr=symbolic_exprs())
def test_values_are_kept(expr: Any) -> None:
    simplified = analyzer().simplify(expr)
    for point in iterations():
        assert evaluate(simplified, point) == evaluate(expr, point), f"{show(expr)} became {show(simplified)}"
    again = analyzer().simplify(simplified)
    assert again is simplified, f"{show(expr)} became {show(simplified)} then {show(again)}"


@SETTINGS
@given(data=st.data())
def test_conditions_are_kept_and_proofs_true(data: Any) -> None:
    compare = data.draw(st.sampled_from((ops.less, ops.less_equal, ops.equal, ops.not_equal)))
    condition = compare(data.draw(symbolic_exprs()), data.draw(symbolic_exprs()))
    ana = analyzer()
    simplified, proved = ana.simplify(condition), ana.can_prove(condition)
    for point in iterations():
        value = evaluate(condition, point)
        assert evaluate(simplified, point) == value, f"{show(condition)} became {show(simplified)}"
        assert value or not proved, show(condition)


@SETTINGS
@given(data=st.data())
def test_constraints_with_symbols(data: Any) -> None:
    assumed, condition = data.draw(conditions(DOMAIN, 1)), data.draw(conditions(DOMAIN, 1))
    ana = analyzer()
    with ana.constraint_scope(assumed):
        simplified, proved = ana.simplify(condition), ana.can_prove(condition)
    for point in iterations():
        if evaluate(assumed, point):
            value = evaluate(condition, point)
            assert evaluate(simplified, point) == value, f"{show(condition)} under {show(assumed)}"
            assert value or not proved, f"{show(condition)} under {show(assumed)}"


def test_flattened_positions_are_joined() -> None:
    """The position of an element in rows of free sizes, from its number: one term, whatever is in front."""
    r, f, d, h, w = Var("r", "int64"), Var("f", "int64"), *map(SizeVar, "dhw")
    div, mod = ops.floordiv, ops.floormod
    rows = (r * h + div(f, w)) * w + mod(f, w)
    volumes = ((r * d + div(f, h * w)) * h + mod(div(f, w), h)) * w + mod(f, w)
    ana = Analyzer()
    assert show(ana.simplify(rows)) == show(ana.simplify(r * h * w + f))
    assert show(ana.simplify(volumes)) == show(ana.simplify(r * d * h * w + f))
    kept = (r * h + div(f, h)) * w + mod(f, w)
    for values in itertools.product((0, 1, 3), (0, 5, 11), (1, 2), (1, 3), (1, 2, 4)):
        point = dict(zip((r, f, d, h, w), values, strict=True))
        for expr in (rows, volumes, kept):
            assert evaluate(ana.simplify(expr), point) == evaluate(expr, point)
