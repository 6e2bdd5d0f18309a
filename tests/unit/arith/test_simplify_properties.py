"""Simplification keeps values, is idempotent and returns the same object where nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressions import analyzer_for, conditions, domains, index_exprs, points, show, values_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.arith import Analyzer
from heddle.ir.structural import structural_equal
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import EQ, LT, Add, Broadcast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Ramp, Sub

SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
METHODS = ("simplify", "rewrite_simplify", "canonical_simplify")


def check(method: str, domain: Any, expr: Any) -> None:
    simplified = getattr(analyzer_for(domain), method)(expr)
    message = f"{method}: {show(expr)}  became  {show(simplified)}"
    assert simplified.dtype == expr.dtype, message
    for point in points(domain):
        assert evaluate(simplified, point) == evaluate(expr, point), f"{message}  at  {point}"
    again = getattr(analyzer_for(domain), method)(simplified)
    assert again is simplified, f"{message}  then  {show(again)}"


@pytest.mark.parametrize("method", METHODS)
@SETTINGS
@given(data=st.data())
def test_index_expressions(method: str, data: Any) -> None:
    domain = data.draw(domains())
    check(method, domain, data.draw(index_exprs(domain)))


@pytest.mark.parametrize("method", METHODS)
@SETTINGS
@given(data=st.data())
def test_conditions(method: str, data: Any) -> None:
    domain = data.draw(domains())
    check(method, domain, data.draw(conditions(domain)))


@SETTINGS
@given(data=st.data())
def test_unbounded_variables(data: Any) -> None:
    domain = data.draw(domains())
    expr = data.draw(index_exprs(domain))
    simplified = Analyzer().simplify(expr)
    for point in points(domain):
        assert evaluate(simplified, point) == evaluate(expr, point), f"{show(expr)} became {show(simplified)}"
    assert Analyzer().simplify(simplified) is simplified, show(simplified)


@SETTINGS
@given(data=st.data())
def test_constraints(data: Any) -> None:
    """Inside a constraint scope the value is kept where the constraint holds."""
    domain = data.draw(domains())
    condition, expr = data.draw(conditions(domain, 1)), data.draw(index_exprs(domain, 2))
    analyzer = analyzer_for(domain)
    outside = analyzer.simplify(expr)
    with analyzer.constraint_scope(condition):
        inside = analyzer.simplify(expr)
    for point in points(domain):
        if evaluate(condition, point):
            message = f"{show(expr)} became {show(inside)} under {show(condition)} at {point}"
            assert evaluate(inside, point) == evaluate(expr, point), message
    assert structural_equal(analyzer.simplify(expr), outside)


@SETTINGS
@given(data=st.data())
def test_bounds_and_residues(data: Any) -> None:
    domain = data.draw(domains())
    expr = data.draw(index_exprs(domain))
    analyzer = analyzer_for(domain)
    bound, residues = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    for value in values_of(expr, domain):
        assert bound.min_value <= value <= bound.max_value, show(expr)
        left = value - residues.base
        assert left % residues.coeff == 0 if residues.coeff else left == 0, show(expr)


@SETTINGS
@given(data=st.data())
def test_proofs_are_true(data: Any) -> None:
    domain = data.draw(domains())
    condition = data.draw(conditions(domain))
    if analyzer_for(domain).can_prove(condition):
        assert all(values_of(condition, domain)), show(condition)


@pytest.mark.parametrize("method", ["simplify", "rewrite_simplify"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@SETTINGS
@given(data=st.data())
def test_other_dtypes(dtype: str, method: str, data: Any) -> None:
    """Narrow integers wrap, and their arithmetic is only rearranged where wrapping does not show."""
    domain = data.draw(domains(dtype=dtype))
    check(method, domain, data.draw(index_exprs(domain, 2)))


@SETTINGS
@given(data=st.data())
def test_bounds_of_narrow_dtypes(data: Any) -> None:
    domain = data.draw(domains(dtype="int8"))
    expr = data.draw(index_exprs(domain)) * 40
    bound = analyzer_for(domain).const_int_bound(expr)
    assert all(bound.min_value <= value <= bound.max_value for value in values_of(expr, domain)), show(expr)


@SETTINGS
@given(data=st.data())
def test_vectors(data: Any) -> None:
    domain = data.draw(domains(2))
    parts = [
        Ramp(data.draw(index_exprs(domain, 1)), IntImm("int64", data.draw(st.sampled_from((0, 1, 2, 4)))), 4)
        if data.draw(st.booleans())
        else Broadcast(data.draw(index_exprs(domain, 1)), 4)
        for _ in range(2)
    ]
    kind = data.draw(st.sampled_from((Add, Sub, Mul, Min, Max, LT, EQ)))
    expr = kind(*parts)
    if kind in (Add, Sub, Mul):
        divisor = Broadcast(IntImm("int64", data.draw(st.sampled_from((2, 4, 8)))), 4)
        expr = data.draw(st.sampled_from((FloorDiv, FloorMod)))(expr, divisor)
    simplified = analyzer_for(domain).simplify(expr)
    for point in points(domain):
        assert np.array_equal(evaluate(simplified, point), evaluate(expr, point)), show(expr)
    assert analyzer_for(domain).simplify(simplified) is simplified, show(expr)
