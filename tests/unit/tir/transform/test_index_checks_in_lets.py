"""HoistIndexChecks leaves checks inside the body of a `let` where its variable has a value."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.codegen import as_module, build
from heddle.script import tir as T
from heddle.support.diagnostics import TrapIndexError


@T.prim_func
def held(x: T.handle, i: T.handle, y: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    I = T.match_buffer(i, (k,), "int64")
    Y = T.match_buffer(y, (n, k), "float32")
    for a in range(n):
        for b in range(k):
            v = T.int64()
            Y[a, b] = T.Let(X[a, T.call_intrin("int64", "checked_index", v - b, m, 1)], where={v: I[b]})


def test_a_check_stays_with_the_variable_that_it_needs() -> None:
    run = build(as_module(held), "llvm")["held"]
    x = np.random.default_rng(0).random((3, 4), "float32")
    indices = np.array([1, 2, 5, 0])
    y = np.zeros((3, 4), "float32")
    run(x, indices, y)
    np.testing.assert_array_equal(y, x[:, indices - np.arange(4)])
    indices[2] = 9
    with pytest.raises(TrapIndexError, match="index 7 is out of range for an axis of 4"):
        run(x, indices, y)
