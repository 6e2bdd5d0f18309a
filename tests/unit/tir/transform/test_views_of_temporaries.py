"""A temporary that another buffer is over (`T.decl_buffer(data=H.data)`): its memory is there, whole, for all
accesses of both."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.ir.module import IRModule
from heddle.script import from_source

THROUGH_THE_VIEW = """
@T.prim_func
def f(A: T.Buffer(({n}, 4), "float32"), B: T.Buffer(({n}, 4), "float32")):
    T.func_attr({{"global_symbol": "f"}})
    H = T.alloc_buffer(({n} * 4,), "float32"{scope})
    V = T.decl_buffer(({n}, 4), "float32", data=H.data)
    for i, j in T.grid({n}, 4):
        V[i, j] = A[i, j] * T.float32(2)
    for i, j in T.grid({n}, 4):
        B[i, j] = V[{n} - 1 - i, j]
"""
BOTH = """
@T.prim_func
def f(A: T.Buffer(({n}, 4), "float32"), B: T.Buffer(({n}, 4), "float32")):
    T.func_attr({{"global_symbol": "f"}})
    H = T.alloc_buffer(({n} * 4,), "float32"{scope})
    V = T.decl_buffer(({n}, 4), "float32", data=H.data)
    for i in range({n} * 4):
        H[i] = A[i // 4, i % 4] * T.float32(2)
    for i, j in T.grid({n}, 4):
        B[i, j] = V[{n} - 1 - i, j]
"""
IN_A_LOOP = """
@T.prim_func
def f(A: T.Buffer(({n}, 4), "float32"), B: T.Buffer(({n}, 4), "float32")):
    T.func_attr({{"global_symbol": "f"}})
    for r in range({n}):
        H = T.alloc_buffer((64,), "float32"{scope})
        V = T.decl_buffer((2, 2), "float32", data=H.data)
        for i, j in T.grid(2, 2):
            V[i, j] = A[{n} - 1 - r, i * 2 + j] * T.float32(2)
        for j in range(4):
            B[r, j] = H[j]
"""
TWO_TEMPORARIES = """
@T.prim_func
def f(A: T.Buffer(({n}, 4), "float32"), B: T.Buffer(({n}, 4), "float32")):
    T.func_attr({{"global_symbol": "f"}})
    H = T.alloc_buffer(({n} * 4,), "float32"{scope})
    V = T.decl_buffer(({n}, 4), "float32", data=H.data)
    for i, j in T.grid({n}, 4):
        V[i, j] = A[i, j]
    G = T.alloc_buffer(({n}, 4), "float32"{scope})
    for i, j in T.grid({n}, 4):
        G[i, j] = V[{n} - 1 - i, j]
    for i, j in T.grid({n}, 4):
        B[i, j] = G[i, j] + H[({n} - 1 - i) * 4 + j]
"""


@pytest.mark.parametrize("size", [1, 3, 16, 1009])
@pytest.mark.parametrize("scope", ["", ', scope="local"'])
@pytest.mark.parametrize("text", [THROUGH_THE_VIEW, BOTH, IN_A_LOOP, TWO_TEMPORARIES])
def test_machine_code(text: str, scope: str, size: int) -> None:
    func = from_source(text.format(n=size, scope=scope))
    lib = heddle.build(IRModule.from_expr(func), target="llvm")
    x = np.random.default_rng().standard_normal((size, 4), dtype=np.float32)
    made = heddle.runtime.tensor(np.zeros((size, 4), np.float32))
    lib["f"](heddle.runtime.tensor(x), made)
    np.testing.assert_array_equal(made.numpy(), x[::-1] * 2)
