"""HoistIndexChecks: what moves, what stays, and which index is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen import as_module, build
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk
from heddle.prim.checked_index import CHECKED_INDEX, REQUIRE_INDEX
from heddle.prim.nodes import Call
from heddle.script import tir as T
from heddle.support.diagnostics import TrapIndexError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.transform import HoistIndexChecks


@T.prim_func
def columns(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for a in range(n):
        for b in range(k):
            Y[a, b] = X[a, T.call_intrin("int64", "checked_index", I[b], m, 1)]


@T.prim_func
def elements(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for a in range(n):
        for b in range(k):
            Y[a, b] = X[a, T.call_intrin("int64", "checked_index", I[(a + b) % k], m, 1)]


@T.prim_func
def guarded(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for a in range(n):
        for b in range(k):
            Y[a, b] = T.if_then_else(
                b < 6, X[a, T.call_intrin("int64", "checked_index", I[b], m, 1)], T.float32(0)
            )


@T.prim_func
def written(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for b in range(k):
        I[b] = T.int64(0) - I[b] - T.int64(1)
    for a in range(n):
        for b in range(k):
            Y[a, b] = X[a, T.call_intrin("int64", "checked_index", I[b], m, 1)]


@T.prim_func
def ragged(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for a in range((n + 1) // 2):
        for c in range(T.min(n - a * 2, T.int64(2))):
            for b in range(k):
                Y[a * 2 + c, b] = X[a * 2 + c, T.call_intrin("int64", "checked_index", I[b], m, 1)]


MOVES = {"columns": (columns, True), "elements": (elements, False), "guarded": (guarded, False)}
MOVES |= {"written": (written, False), "ragged": (ragged, False)}


def hoisted(func: PrimFunc) -> PrimFunc:
    (after,) = HoistIndexChecks()(as_module(func)).functions.values()
    assert isinstance(after, PrimFunc)
    return after


def calls(func: PrimFunc, name: str) -> int:
    return sum(isinstance(node, Call) and node.op.name == name for node in walk(func.body))


def runs(func: PrimFunc) -> list[Any]:
    with PassContext(disabled_pass=["HoistIndexChecks"]):
        plain = build(as_module(func), "llvm")[func.attrs["global_symbol"]]
    return [
        plain,
        build(as_module(func), "llvm")[func.attrs["global_symbol"]],
        lambda *args: run_primfunc(func, *args),
        lambda *args: run_primfunc(hoisted(func), *args),
    ]


@pytest.mark.parametrize("name", MOVES)
def test_what_moves(name: str) -> None:
    func, moves = MOVES[name]
    after = hoisted(func)
    assert (calls(after, REQUIRE_INDEX), calls(after, CHECKED_INDEX)) == ((1, 0) if moves else (0, 1))
    assert (after is func) != moves


@pytest.mark.parametrize(("n", "k"), [(0, 5), (1, 1), (3, 0), (7, 13), (2, 1000)])
@pytest.mark.parametrize("name", MOVES)
def test_values_and_errors_stay(name: str, n: int, k: int) -> None:
    """The first index that is out of range is named, as it was given; nothing is checked where nothing is
    read."""
    func, rng = MOVES[name][0], np.random.default_rng(n + k)
    x, m = rng.random((n, 5), "float32"), 5
    good = rng.integers(-m, m, k)
    results = []
    for run in runs(func):
        y = np.zeros((n, k), "float32")
        run(x, good.copy(), y)
        results.append(y)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    for wrong in (m, -m - 1, 2**63 - 1, -(2**63)):
        bad = good.copy()
        if not k or name == "written":
            continue
        bad[k // 2 :] = wrong
        bad[k // 2 + 1 :] = 17
        is_read = n > 0 and (name != "guarded" or k // 2 < 6)
        for run in runs(func):
            if not is_read:
                run(x, bad.copy(), np.zeros((n, k), "float32"))
                continue
            with pytest.raises(TrapIndexError, match=f"index {wrong} is out of range for an axis of 5"):
                run(x, bad.copy(), np.zeros((n, k), "float32"))
