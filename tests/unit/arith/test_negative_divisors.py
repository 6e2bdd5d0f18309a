"""Negative divisors: a // -b is -a // b, but for numbers whose negatives do not fit their type."""

from __future__ import annotations

import random

import pytest

from heddle.arith import Analyzer
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("kind", [FloorDiv, FloorMod])
def test_values_are_kept(kind: type[PrimExpr], dtype: str) -> None:
    rng, (low, high) = random.Random(5), int_range(DataType(dtype))
    x = Var("x", dtype)
    for divisor in (low, low + 1, -high // 2, -high // 2 - 2, -7, -4, -1):
        for shift in (0, 3, -16, high, low):
            expr = kind(x + IntImm(dtype, shift), IntImm(dtype, divisor))
            simple = Analyzer().simplify(expr)
            for value in (0, 1, -1, 5, rng.randint(low // 2, high // 2)):
                if not low < value + shift <= high:
                    continue
                wanted = int(evaluate(expr, {x: value}))
                assert int(evaluate(simple, {x: value})) == wanted, (str(expr), value)


def test_small_ones_are_turned() -> None:
    x = Var("x", "int32")
    assert str(Analyzer().simplify(FloorDiv(x * 8, IntImm("int32", -4)))) == "x * -2"
