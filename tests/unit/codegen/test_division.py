"""Divisions in machine code: under a condition in loops that LLVM vectorises, and where processors trap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.prim import intrinsics, ops
from heddle.prim.nodes import PrimExpr, SizeVar, Var
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from tests.unit.codegen.kernel_runner import Kernels

HOST = Target("llvm")


def kernel(params: tuple, element: Callable[[Var], PrimExpr], size: PrimExpr, name: str = "f") -> Kernels:
    """out[i] = element(i) for i in size; `out` is the last of the parameters."""
    i = Var("i", "int64")
    body = For(i, 0, size, ForKind.SERIAL, BufferStore(params[-1], element(i), (i,)))
    func = PrimFunc(params, body, attrs={"global_symbol": name, "tir.noalias": True})
    return Kernels(compile_kernels(func, HOST))


@pytest.mark.parametrize("first", [0, 1, 7, 40])
def test_a_quotient_under_a_condition_reaches_every_lane(first: int) -> None:
    """The row s // m is the same in every lane, and the first lanes do not meet the condition."""
    m, n, s = SizeVar("m"), SizeVar("n"), SizeVar("s")
    x, out = decl_buffer((m, n), "float32", "x"), decl_buffer((n,), "float32", "out")

    def element(i: Var) -> PrimExpr:
        return ops.if_then_else(i >= s, x[ops.floordiv(s, m), i], 0.0)

    data, got = np.arange(50 * 41, dtype="f4").reshape(50, 41), np.full(41, 9, "f4")
    kernel((s, x, out), element, n)("f", first, data, got)
    assert np.array_equal(got, np.where(np.arange(41) >= first, data[first // 50], 0))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_least_integer_divided_by_minus_one_wraps(dtype: str) -> None:
    n, least = SizeVar("n"), np.iinfo(dtype).min
    x, y, out = (decl_buffer((n,), dtype, name) for name in ("x", "y", "out"))
    a = np.array([least, least, 7, -7, -7, 0] * 5, dtype)
    b = np.array([-1, 1, -1, 2, -2, -1] * 5, dtype)
    for divide, want in (
        (ops.floordiv, [least, least, -7, -4, 3, 0]),
        (ops.truncdiv, [least, least, -7, -3, 3, 0]),
        (ops.floormod, [0, 0, 0, 1, -1, 0]),
        (ops.truncmod, [0, 0, 0, -1, -1, 0]),
    ):
        got = np.full(30, 9, dtype)
        kernel((x, y, out), lambda i, divide=divide: divide(x[i], y[i]), n)("f", a, b, got)
        assert got.tolist() == want * 5


def test_a_kernel_may_have_the_name_of_the_c_function_that_it_calls() -> None:
    n = SizeVar("n")
    x, out = (decl_buffer((n,), "float64", name) for name in ("x", "out"))
    data, got = np.linspace(-3, 3, 37), np.zeros(37)
    kernel((x, out), lambda i: intrinsics.exp(x[i]), n, "exp")("exp", data, got)
    np.testing.assert_allclose(got, np.exp(data), rtol=1e-14)
