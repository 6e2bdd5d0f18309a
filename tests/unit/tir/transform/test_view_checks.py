"""Views in checked functions lie in the memory that they view: refused, or an error as the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen.build import build
from heddle.script.parser import parse
from heddle.support.diagnostics import Trap, UsageError
from heddle.tir.nodes import CHECK_BOUNDS
from heddle.tir.transform.check_bounds import ALL, UNPROVEN

FREE = """
@T.prim_func
def f(a: T.handle, c: T.handle, k: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    B = T.decl_buffer({view}, data={data})
    for i in range(n):
        C[i] = T.Cast("float32", B[{index}])
"""
FIXED = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), k: T.int64):
    B = T.decl_buffer({view}, data=A.data)
    for i in range(8):
        C[i] = T.Cast("float32", B[{index}])
"""
MODES = pytest.mark.parametrize("mode", [ALL, UNPROVEN])


def kernel(text: str, mode: str, view: str, index: str = "i", data: str = "A.data") -> Any:
    func = parse(text.format(view=view, index=index, data=data)).with_attr(CHECK_BOUNDS, mode)
    return build(func, "llvm")[func.attrs["global_symbol"]]


@MODES
@pytest.mark.parametrize(
    ("view", "index"),
    [
        ('(n * 100000000,), "float32"', "i + n * 90000000"),
        ('(n,), "float64"', "i"),
        ('(k,), "float32"', "T.min(i, k - 1)"),
        ('(n,), "float32", elem_offset=k', "i"),
        ('(n,), "float32", elem_offset=-1', "i"),
    ],
)
def test_view_that_does_not_fit_when_it_runs(mode: str, view: str, index: str) -> None:
    run = kernel(FREE, mode, view, index)
    with pytest.raises(Trap, match="is larger than buffer 'A', which it views"):
        run(np.zeros(4, "float32"), np.zeros(4, "float32"), 1 << 40)


@MODES
@pytest.mark.parametrize("view", ['(n,), "float32"', '(k,), "float32"', '(n,), "int16"', '(n * 2,), "int16"'])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_view_that_fits(mode: str, view: str, size: int) -> None:
    x = np.arange(size, dtype="float32")
    made = np.zeros_like(x)
    kernel(FREE, mode, view)(x, made, size)
    np.testing.assert_array_equal(made, x.view("int16")[:size] if "int16" in view else x)


@MODES
@pytest.mark.parametrize(
    "view", ['(100000000,), "float32"', '(8,), "float64"', '(8,), "float32", strides=(2,)']
)
def test_view_that_is_known_not_to_fit(mode: str, view: str) -> None:
    with pytest.raises(UsageError, match=r"T0801.*cannot be checked"):
        kernel(FIXED, mode, view)


@MODES
def test_view_of_a_pointer(mode: str) -> None:
    text = FREE.replace("k: T.int64", 'k: T.handle("float32")')
    with pytest.raises(UsageError, match=r"T0801.*whose size is not known"):
        kernel(text, mode, '(n,), "float32"', data="k")
