"""Expressions that use a part again and again: functions, machine code and time grow with the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import te
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import if_then_else, maximum, minimum, select
from heddle.te.shared_values import MOST_NODES
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import Bind, PrimFunc

STEPS: dict[str, Callable[[PrimExpr], PrimExpr]] = {
    "sum": lambda v: v + v,
    "product": lambda v: v * v * 0.5 + v,
    "minimum": lambda v: minimum(v, v * 2.0 + 1.0),
    "choice": lambda v: select(v > 1.0, v - 1.0, v + v),
    "condition": lambda v: if_then_else(v > 1.0, v * 0.5, maximum(v, 0.25 - v)),
}


def ladder(step: Callable[[Any], Any], count: int, start: Any) -> Any:
    made = start
    for _ in range(count):
        made = step(made)
    return made


def function(step: Callable[[PrimExpr], PrimExpr], count: int) -> PrimFunc:
    x = te.placeholder((40,), "float32", "x")
    made: PrimFunc = te.create_prim_func(
        [x, te.compute((40,), lambda i: ladder(step, count, x[i]), name="y")]
    )
    return made


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("count", [3, 40])
def test_ladders_compute_what_they_say(name: str, count: int) -> None:
    func = function(STEPS[name], count)
    x = np.random.default_rng().uniform(-0.3, 0.3, 40).astype("float32")
    expected, got = np.zeros_like(x), np.zeros_like(x)
    run_primfunc(func, x, expected)
    heddle.build(func, target="llvm")["main"](heddle.tensor(x), (out := heddle.tensor(got)))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", STEPS)
def test_functions_grow_with_the_steps(name: str) -> None:
    sizes = [sum(1 for _ in walk(function(STEPS[name], count).body)) for count in (40, 80)]
    assert sizes[1] < 2.5 * sizes[0]


def test_small_expressions_stay_as_they_are() -> None:
    func = function(STEPS["sum"], 5)
    assert MOST_NODES > 2**5 and not any(isinstance(node, Bind) for node in walk(func.body))


def test_what_a_condition_decides_about_stays_below_it() -> None:
    """Element i - 1 of the first row does not exist."""
    x = te.placeholder((8,), "float32", "x")
    y = te.compute((8,), lambda i: if_then_else(i > 0, ladder(STEPS["sum"], 9, x[i - 1]), 0.0), name="y")
    func, data, out = te.create_prim_func([x, y]), np.ones(8, "float32"), np.full(8, 7, "float32")
    run_primfunc(func, data, out)  # which checks every access
    np.testing.assert_array_equal(out, [0, *[512] * 7])
