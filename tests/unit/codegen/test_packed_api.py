"""The entry's checks: what is wrong with which argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen import CompiledKernels, as_module, compile_kernels
from heddle.codegen.llvm.build import emit
from heddle.codegen.llvm.machine import compile_text
from heddle.codegen.llvm.passes import lowering_passes
from heddle.ir.transform import Sequential
from heddle.prim import ops
from heddle.prim.nodes import Var
from heddle.support.diagnostics import UsageError
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from heddle.tir.transform import MakePackedAPI
from tests.unit.codegen.kernel_runner import KernelError, Kernels

n = Var("n", "int64")
A = decl_buffer((n, 4), "float32", "A")
B = decl_buffer((n * 2,), "float32", "B")
K, ALPHA, FLAG = Var("k", "int32"), Var("alpha", "float32"), Var("flag", "bool")


def compiled(func: PrimFunc, by_runtime: bool) -> Kernels:
    """A kernel whose arguments the native library checks, or that checks them itself, as C does."""
    target = Target("llvm")
    passes = [each for each in lowering_passes(target) if not isinstance(each, MakePackedAPI)]
    lowered = Sequential([*passes, MakePackedAPI(by_runtime=by_runtime)])(as_module(func))
    text = emit(list(lowered.functions.values()), target)
    code = compile_text(text, target).object_code
    return Kernels(CompiledKernels(code, (str(func.attrs["global_symbol"]),), target, text))


@pytest.fixture(scope="module", params=[True, False], ids=["by runtime", "by code"])
def kernel(request: Any) -> Kernels:
    i = Var("i", "int64")
    scale = ops.select(FLAG, ALPHA, ops.const(0.0, "float32"))
    value = A[ops.floordiv(i, 2), 1] * scale + ops.cast("float32", K)
    body = For(i, 0, n * 2, ForKind.SERIAL, BufferStore(B, value, (i,)))
    return compiled(PrimFunc((A, B, K, ALPHA, FLAG), body, attrs={"global_symbol": "f"}), request.param)


def arrays(rows: int = 3) -> tuple[Any, Any]:
    return np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), np.zeros(rows * 2, np.float32)


def test_scalars_and_tensors_arrive(kernel: Kernels) -> None:
    a, b = arrays()
    kernel("f", a, b, 7, 0.5, True)
    np.testing.assert_array_equal(b, np.repeat(a[:, 1], 2) * 0.5 + 7)
    kernel("f", a, b, True, 2, 0)
    np.testing.assert_array_equal(b, np.ones(6, np.float32))


def test_empty_tensors_are_fine(kernel: Kernels) -> None:
    kernel("f", *arrays(0), 1, 1.0, True)


a, b = arrays()
WRONG = {
    "count": ((a, b), 2, "f: expected 5 arguments, got 2"),
    "kind": ((a, 3, 1, 1.0, True), 2, "f: argument 1 ('B'): expected a tensor, got an int"),
    "none": ((None, b, 1, 1.0, True), 2, "f: argument 0 ('A'): expected a tensor, got None"),
    "rank": ((a, b.reshape(1, 6), 1, 1.0, True), 1, "f: argument 1 ('B'): expected 1 dimensions, got 2"),
    "dtype": (
        (a.astype(np.float64), b, 1, 1.0, True),
        2,
        "f: argument 0 ('A'): expected dtype float32, got float64",
    ),
    "dim": (
        (a[:, :3].copy(), b, 1, 1.0, True),
        1,
        "f: argument 0 ('A'): expected dimension 1 to be 4, got 3",
    ),
    "expr": ((a, b[:5].copy(), 1, 1.0, True), 1, "f: argument 1 ('B'): expected dimension 0 to be 6, got 5"),
    "stride": (
        (np.asfortranarray(a), b, 1, 1.0, True),
        1,
        "f: argument 0 ('A'): expected stride 0 to be 4, got 1 (the kernel takes dense tensors)",
    ),
    "scalar": ((a, b, 1.5, 1.0, True), 2, "f: argument 2 ('k'): expected an integer for int32, got a float"),
    "range": ((a, b, 2**40, 1.0, True), 1, f"f: argument 2 ('k'): {2**40} does not fit int32"),
    "number": ((a, b, 1, a, True), 2, "f: argument 3 ('alpha'): expected a number for float32, got a tensor"),
    "align": (
        (np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4), b, 1, 1.0, True),
        1,
        "f: argument 0 ('A'): expected data aligned to 4 bytes, got an address 1 bytes past that",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(kernel: Kernels, case: str) -> None:
    args, kind, message = WRONG[case]
    with pytest.raises(KernelError) as caught:
        kernel("f", *args)
    assert (str(caught.value), caught.value.kind) == (message, kind)


def test_declared_strides_are_bound_and_used() -> None:
    m, s = Var("m", "int64"), Var("s", "int64")
    source, target = decl_buffer((m, m), "int32", "S", strides=(s, 1)), decl_buffer((m,), "int32", "T")
    i = Var("i", "int64")
    body = For(i, 0, m, ForKind.SERIAL, BufferStore(target, source[i, m - 1], (i,)))
    run = Kernels(
        compile_kernels(PrimFunc((source, target), body, attrs={"global_symbol": "g"}), Target("llvm"))
    )
    whole, out = np.arange(30, dtype=np.int32).reshape(5, 6), np.zeros(4, np.int32)
    run("g", whole[:4, 1:5], out)
    np.testing.assert_array_equal(out, whole[:4, 4])
    run("g", np.ascontiguousarray(whole[:4, 1:5]), out)
    np.testing.assert_array_equal(out, whole[:4, 4])


def test_dimension_only_inside_an_expression_is_refused() -> None:
    q = Var("q", "int64")
    buffer = decl_buffer((q * 2,), "float32", "Q")
    func = PrimFunc((buffer,), BufferStore(buffer, 1.0, (0,)), attrs={"global_symbol": "h"})
    with pytest.raises(UsageError) as caught:
        MakePackedAPI()(as_module(func))
    assert caught.value.code == "T0501"
    assert "'q' is no dimension by itself" in str(caught.value)
