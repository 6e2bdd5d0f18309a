"""Memory that a parallel loop allocates for itself: what its size is made of comes with the loop."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.codegen import KernelCache, build
from heddle.runtime import tensor
from heddle.script import from_source
from heddle.tir.nodes import PrimFunc

SCRATCH = {
    "rows of a free size": "T.sblock_alloc_buffer((n, m), 'float32')",
    "with gaps": "T.sblock_alloc_buffer((n, 4), 'float32', strides=(9, 1))",
    "with gaps of a free size": "T.sblock_alloc_buffer((n, 4), 'float32', strides=(m + 4, 1))",
}


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("scratch", SCRATCH)
def test_the_size_is_known_inside(scratch: str, target: str) -> None:
    """The loop itself names neither size."""
    func = from_source(f"""
@T.prim_func
def f(a: T.handle, b: T.handle, p: T.handle, c: T.handle):
    n = T.int64(is_size_var=True)
    m = T.int64(is_size_var=True)
    A = T.match_buffer(a, (8, 3), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    P = T.match_buffer(p, (8,), "int64")
    C = T.match_buffer(c, (8,), "float32")
    S = {SCRATCH[scratch]}
    for i in T.parallel(8):
        with T.sblock("fill"):
            vi = T.axis.spatial(8, i)
            S[P[vi], P[vi]] = A[vi, 1] * T.float32(2)
        with T.sblock("read"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[P[vi], P[vi]]
""")
    assert isinstance(func, PrimFunc)
    marked = func.with_attr({"tir.is_scheduled": True, "global_symbol": "f"})
    kernels = build(marked, target, KernelCache(None))
    rng = np.random.default_rng(2)
    a, places = rng.standard_normal((8, 3)).astype("float32"), rng.integers(0, 4, 8)
    found = tensor(np.zeros(8, "float32"))
    kernels["f"](tensor(a), tensor(np.zeros((5, 4), "float32")), tensor(places), found)
    np.testing.assert_array_equal(found.numpy(), a[:, 1] * 2)
