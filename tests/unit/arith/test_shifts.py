"""What is said of shifts holds for every value and count: negative ones, those of the width, huge ones."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.arith import Analyzer, ConstIntBound, ModularSet
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, Range, Var

COUNTS = (0, 1, 2, 5, 30, 31, 32, 33, 62, 63, 64, 100, 1 << 20, -1, -2, -40)


def check(expr: Any, spans: dict[Var, range]) -> None:
    """The class, the bounds and the simplified expression against all values."""
    known = Analyzer()
    for var, span in spans.items():
        low, size = (IntImm(var.dtype, end) for end in (span.start, len(span)))
        known.bind(var, Range.from_min_extent(low, size))
    residues, bound = known.modular_set(expr), known.const_int_bound(expr)
    simplified = known.simplify(expr)
    for values in itertools.product(*spans.values()):
        env = dict(zip(spans, values, strict=True))
        value = evaluate(expr, env)
        assert evaluate(simplified, env) == value
        assert bound.min_value == ConstIntBound.NEG_INF or bound.min_value <= value
        assert bound.max_value == ConstIntBound.POS_INF or value <= bound.max_value
        apart = value - residues.base
        assert apart % residues.coeff == 0 if residues.coeff else apart == 0


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count", COUNTS)
def test_constant_counts(dtype: str, count: int) -> None:
    x = Var("x", dtype)
    for operand in (x, x * 3, x * 6 + 1, x * 8 + 4):
        for shift in (ops.shift_left, ops.shift_right):
            check(shift(operand, IntImm(dtype, count)), {x: range(-3, 6)})


def test_what_fits_keeps_its_class() -> None:
    x = Var("x", "int32")
    known = Analyzer()
    known.bind(x, Range(IntImm("int32", 0), IntImm("int32", 9)))
    assert known.modular_set(ops.shift_left(x * 3 + 1, 4)) == ModularSet(48, 16)
    assert known.modular_set(ops.shift_left(x, -1)) == ModularSet(0, 0)


@pytest.mark.parametrize("count", [1 << 40, (1 << 63) - 1, -(1 << 63)])
def test_huge_counts(count: int) -> None:
    """No number of so many bits is ever made."""
    x = Var("x", "int64")
    for shift in (ops.shift_left, ops.shift_right):
        check(shift(x, IntImm("int64", count)), {x: range(-3, 6)})
        check(shift(IntImm("int64", -5), IntImm("int64", count)) + x, {x: range(-3, 6)})


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_shifts(data: Any) -> None:
    dtype = data.draw(st.sampled_from(("int32", "int64")))
    spans = {}
    for name in "xy":
        low = data.draw(st.sampled_from((-40, -3, 0, 2, 30, 62)))
        spans[Var(name, dtype)] = range(low, low + data.draw(st.integers(1, 6)))
    x, y = spans
    scale, offset = data.draw(st.integers(-6, 6)), data.draw(st.integers(-9, 9))
    shift = data.draw(st.sampled_from((ops.shift_left, ops.shift_right)))
    count: Any = data.draw(st.sampled_from((y, *COUNTS)))
    moved = shift(x * scale + offset, count if count is y else IntImm(dtype, count))
    check(data.draw(st.sampled_from((moved, moved % 7, moved // 4, ops.maximum(moved, y)))), spans)
