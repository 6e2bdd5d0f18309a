"""Bounds hold for divisors that may be zero: what is divided by 0 is 0, as machine code has it."""

import itertools

import pytest

from heddle.arith import Analyzer, detect_iter_map
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import Div, FloorDiv, FloorMod, IntImm, Mod, Range, Var
from heddle.prim.ops import binary
from heddle.prim.substitute import substitute
from heddle.support.diagnostics import IRTypeError

A, B = Var("a", "int64"), Var("b", "int64")
RANGES = [(-3, -1), (-3, 0), (-2, 3), (0, 0), (0, 4), (2, 5)]
TRUNCATED = {FloorDiv: lambda a, b: a // b, FloorMod: lambda a, b: a % b}


def value(kind, a, b):
    if b == 0:
        return 0
    if kind in TRUNCATED:
        return TRUNCATED[kind](a, b)
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if kind is Div else a - quotient * b


def bound(var, low, high, analyzer):
    extent = IntImm("int64", high - low + 1)
    analyzer.bind(var, Range.from_min_extent(IntImm("int64", low), extent))


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod, Div, Mod])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(RANGES, repeat=2)))
def test_every_value_lies_in_the_bound(kind, first, second):
    analyzer = Analyzer()
    bound(A, *first, analyzer)
    bound(B, *second, analyzer)
    found = analyzer.const_int_bound(kind(A, B))
    for a, b in itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1)):
        assert found.min_value <= value(kind, a, b) <= found.max_value, (a, b)


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod, Div, Mod])
def test_a_divisor_without_values_is_no_failure(kind):
    analyzer = Analyzer()
    bound(A, 0, 4, analyzer)
    bound(B, 0, -1, analyzer)
    analyzer.const_int_bound(kind(A, B))
    analyzer.const_int_bound(kind(A, B * 4))


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod, Div, Mod])
def test_a_size_that_becomes_0_leaves_a_division_where_nothing_runs(kind):
    zero = IntImm("int64", 0)
    assert structural_equal(substitute(kind(A, B), {B: zero}), kind(A, zero))
    simplified = Analyzer().simplify(kind(A, B - B))
    assert any(structural_equal(simplified, made) for made in (kind(A, zero), zero))
    with pytest.raises(IRTypeError, match="K0104"):
        binary(kind, A, zero)


def test_an_index_that_divides_by_zero_is_no_map():
    index = FloorDiv(A, IntImm("int64", 0))
    found = detect_iter_map([index], {A: Range.from_min_extent(IntImm("int64", 0), B)})
    assert "divides by zero" in str(found.errors)
