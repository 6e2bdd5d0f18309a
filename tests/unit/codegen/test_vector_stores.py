"""A store of several lanes computes its places, values and mask before it writes the first."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from tests.fuzz.numbers import compiled_for
from tests.unit.codegen.kernel_runner import Kernels

STORES = {
    "places that it writes": "A[A[T.Ramp(0, 1, 4)]] = B[T.Ramp(0, 1, 4)]",
    "values that it writes": "A[T.Ramp(1, 1, 4)] = A[T.Ramp(0, 1, 4)]",
    "both": "A[A[T.Ramp(0, 1, 4)]] = A[T.Ramp(2, 1, 4)] + 1",
    "places of another buffer": "A[B[T.Ramp(0, 1, 4)]] = A[T.Ramp(0, 1, 4)]",
}


@pytest.mark.parametrize("target", ["llvm", "llvm -opt-level=0", "c"])
@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_lanes_do_not_see_each_other(store: str, target: str) -> None:
    text = f"""
@T.prim_func
def k(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({{"global_symbol": "k"}})
    {store}
"""
    func = from_source(text)
    kernels = Kernels(compiled_for({"k": func}, Target(target)))
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (rng.integers(0, 8, 8, dtype="int32") for _ in range(2))
        a[:4], b[:4] = rng.permutation(8)[:4], rng.permutation(8)[:4]
        wanted, got = a.copy(), a.copy()
        run_primfunc(func, wanted, b.copy())
        kernels("k", got, b.copy())
        np.testing.assert_array_equal(got, wanted)
