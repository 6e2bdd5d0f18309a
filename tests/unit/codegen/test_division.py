"""Divisions in machine code: under a condition in loops that LLVM vectorises, and where processors trap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.codegen.llvm.divisors import Divisors
from heddle.prim import intrinsics, ops
from heddle.prim.nodes import IntImm, PrimExpr, SizeVar, Var
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer, seq
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


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
@pytest.mark.parametrize("divisor", ["m", "m // 2", "m - 1", "m * m"])
def test_sizes_of_zero_divide_in_indices_and_bounds(divisor: str, kind: ForKind) -> None:
    """x // 0 and x % 0 are 0 there too, as in the loop interpreter: nothing traps."""
    n, m, i = SizeVar("n"), SizeVar("m"), Var("i", "int64")
    below = {"m": m, "m // 2": ops.floordiv(m, 2), "m - 1": m - 1, "m * m": m * m}[divisor]
    x, y, out = decl_buffer((n,), "float32", "x"), decl_buffer((m,), name="y"), decl_buffer((n,), name="out")
    element = x[ops.floordiv(i, below)] + x[ops.floormod(i, below)] * 100.0
    body = seq(
        For(i, 0, n, kind, BufferStore(out, element, (i,))),
        For(i, 0, ops.floordiv(n, below), kind, BufferStore(out, 7.0, (i,))),
    )
    func = PrimFunc((x, y, out), body, attrs={"global_symbol": "f", "tir.noalias": True})
    machine = Kernels(compile_kernels(func, HOST))
    for size in range(4 if divisor == "m - 1" else 3):
        if divisor == "m - 1" and size == 0:
            continue  # a negative divisor gives negative indices
        data = [np.arange(1, 6, dtype="f4"), np.zeros(size, "f4"), np.zeros(5, "f4")]
        want = [array.copy() for array in data]
        run_primfunc(func, *want)
        machine("f", *data)
        np.testing.assert_array_equal(data[2], want[2])


def test_loops_that_have_an_iteration_know_their_divisors() -> None:
    """What reshapes divide by is a factor of the extent around, so that it costs no look."""
    n, m, held = SizeVar("n"), SizeVar("m"), Var("held", "int64")
    known = Divisors(
        lambda expr: expr.value >= 0 if isinstance(expr, IntImm) else getattr(expr, "is_size", False)
    )
    known.values[held] = n * m
    for extent in (n * m, ops.ceildiv(n * m, 256), n * 4 * m, held, ops.cast("int64", n * m)):
        known.nonzero = ()
        known.nonzero = known.inside(extent)
        for divisor in (m, n, n * m, m + 3, ops.maximum(n, 1)):
            assert not known.may_be_zero(divisor, in_index=True), (extent, divisor)
        for other in (m - 1, ops.floordiv(m, 2), SizeVar("k"), Var("i", "int64") + 1):
            assert known.may_be_zero(other, in_index=True), (extent, other)
        assert known.may_be_zero(m + 3, in_index=False)
