"""A store of several lanes computes its places, values and mask before it writes the first."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.prim.nodes import Var, constant
from heddle.prim.ops import select
from heddle.runtime.dtype import DataType
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import BufferLoad, BufferStore, For, ForKind, PrimFunc, decl_buffer, seq
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


@pytest.mark.parametrize("target", ["llvm", "llvm -opt-level=0", "c"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool", "bfloat16"])
def test_scalars_with_a_condition(dtype: str, target: str) -> None:
    """What does not hold is not written, and reads 0 without looking: the place may be out of the buffer."""
    n, i = 6, Var("i", "int64")
    data, found, kept = (decl_buffer((n,), dtype, name) for name in ("data", "found", "kept"))
    mask = decl_buffer((n,), "bool", "mask")
    holds = BufferLoad(mask, (i,))
    far = select(holds, i, constant(1 << 40, "int64"))
    body = seq(
        BufferStore(found, BufferLoad(data, (far,), holds), (i,)),
        BufferStore(kept, BufferLoad(data, (i,)), (far,), holds),
    )
    func = PrimFunc(
        (data, mask, found, kept),
        For(i, constant(0, "int64"), constant(n, "int64"), ForKind.SERIAL, body),
        attrs={"global_symbol": "k"},
    )
    rng = np.random.default_rng(4)
    given = rng.integers(0, 9, n).astype(DataType(dtype).numpy())
    where = np.array([True, False, True, True, False, False])
    made, left = np.ones(n, given.dtype), np.ones(n, given.dtype)
    Kernels(compiled_for({"k": func}, Target(target)))("k", given, where, made, left)
    np.testing.assert_array_equal(made, np.where(where, given, 0).astype(given.dtype))
    np.testing.assert_array_equal(left, np.where(where, given, np.ones(n, given.dtype)))
