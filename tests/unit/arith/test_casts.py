"""What analysis says of integers that are converted to another width or sign: never less than they may be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from heddle.arith import Analyzer, ConstIntBound, IntervalSet
from heddle.prim.nodes import Cast, IntImm, Var
from heddle.prim.ops import cast, floordiv, floormod, greater_equal, minimum, truncdiv
from heddle.prim.values import convert, int_range
from heddle.runtime.dtype import DataType

DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64")


def edges(dtype: str) -> list[int]:
    low, high = int_range(DataType(dtype))
    return sorted({low, low // 2, -1 if low else 0, 0, 1, 100, high // 2, high // 2 + 1, high})


def contains(bound: ConstIntBound, value: int) -> bool:
    low = -math.inf if bound.min_value == ConstIntBound.NEG_INF else bound.min_value
    high = math.inf if bound.max_value == ConstIntBound.POS_INF else bound.max_value
    return bool(low <= value <= high)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(DTYPES, 2)))
def test_bounds_and_sets_of_casts(source: str, target: str) -> None:
    """uint64 above 2**63 - 1 is negative as int64, and -1 is the greatest of uint64."""
    x = Var("x", source)
    for low, high in itertools.combinations_with_replacement(edges(source), 2):
        analyzer = Analyzer()
        analyzer.update(x, ConstIntBound(low, high))
        bound = analyzer.const_int_bound(Cast(target, x))
        given_set = IntervalSet(IntImm(source, low), IntImm(source, high))
        ends = Analyzer().int_set(Cast(target, x), {x: given_set})
        for value in (item for item in edges(source) if low <= item <= high):
            given = np.asarray(value).astype(DataType(source).numpy())
            found = int(convert(given, DataType(target)))
            assert contains(bound, found), (low, high, value, bound)
            for end, holds in ((ends.min_value, found.__ge__), (ends.max_value, found.__le__)):
                assert not isinstance(end, IntImm) or holds(end.value), (low, high, value, ends)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_unsigned_arithmetic_wraps(dtype: str) -> None:
    x, high = Var("x", dtype), int_range(DataType(dtype))[1]
    analyzer = Analyzer()
    assert not analyzer.can_prove(greater_equal(cast("int64", x), 0)) or high < 1 << 63
    for expr in (x + 5, x * 3, x - 1):
        bound = analyzer.const_int_bound(expr)
        assert contains(bound, 0) and contains(bound, high), expr
        ends = analyzer.int_set(expr, {x: IntervalSet(IntImm(dtype, 0), IntImm(dtype, high))})
        assert not isinstance(ends.min_value, IntImm) or ends.min_value.value == 0


@pytest.mark.parametrize("divide", [floordiv, truncdiv])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_the_least_of_few_bits_by_minus_one_wraps(dtype: str, divide: Callable) -> None:
    x, d = Var("x", dtype), Var("d", dtype)
    least, most = int_range(DataType(dtype))
    given = {x: IntervalSet(*(IntImm(dtype, end) for end in (least, most)))}
    for low, high in ((-1, -1), (-3, -1)):
        given[d] = IntervalSet(IntImm(dtype, low), IntImm(dtype, high))
        for quotient in (divide(x, d), divide(x, IntImm(dtype, -1))):
            ends, analyzer = Analyzer().int_set(quotient, given), Analyzer()
            analyzer.update(d, ConstIntBound(low, high))
            assert contains(analyzer.const_int_bound(quotient), least)
            assert contains(analyzer.const_int_bound(quotient), most)
            for end, holds in ((ends.min_value, least.__ge__), (ends.max_value, most.__le__)):
                assert not isinstance(end, IntImm) or holds(end.value), ends


def test_what_keeps_its_value_keeps_its_bound() -> None:
    """Widening, and unsigned numbers that are known to be small."""
    analyzer, k, u = Analyzer(), Var("k", "int32"), Var("u", "uint64")
    analyzer.update(k, ConstIntBound(-3, 9))
    analyzer.update(u, ConstIntBound(2, 9))
    assert analyzer.const_int_bound(cast("int64", k)) == ConstIntBound(-3, 9)
    assert analyzer.const_int_bound(cast("int64", u)) == ConstIntBound(2, 9)
    assert analyzer.const_int_bound(cast("int8", u)) == ConstIntBound(2, 9)
    free = Var("free", "uint64")
    assert analyzer.const_int_bound(cast("int64", floormod(free, 8))) == ConstIntBound(0, 7)
    assert analyzer.const_int_bound(cast("int64", minimum(free, 8))) == ConstIntBound(0, 8)
    half = analyzer.const_int_bound(cast("int64", floordiv(free, 2)))
    assert half.min_value == 0
