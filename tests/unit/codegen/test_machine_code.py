"""Machine code: conversions, parallel loops, workspaces, assertions, register tiles, other processors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from heddle import te
from heddle.codegen import CompiledKernels, KernelCache, build, compile_kernels, compile_module
from heddle.prim import ops
from heddle.prim.intrinsics import call_packed
from heddle.prim.nodes import Broadcast, Shuffle, Var
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError, UsageError
from heddle.target import Target
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.vector_math.small_float import SMALL_FLOATS
from heddle.topi.nn.max_places import max_pool_with_index
from tests.unit.codegen.kernel_runner import KernelError, Kernels

SERIAL, VECTORIZED = ForKind.SERIAL, ForKind.VECTORIZED
UNROLLED, PARALLEL = ForKind.UNROLLED, ForKind.PARALLEL
HOST = Target("llvm")
n, i, j = Var("n", "int64"), Var("i", "int64"), Var("j", "int64")


def func_of(params: Any, body: Stmt, name: str = "f") -> PrimFunc:
    return PrimFunc(params, body, attrs={"global_symbol": name, "tir.noalias": True})


def convert_kernel(source: str, target: str, lanes: int) -> Kernels:
    a, b = decl_buffer((n, lanes), source, "A"), decl_buffer((n, lanes), target, "B")
    store = BufferStore(b, ops.cast(target, a[i, j]), (i, j))
    body = For(i, 0, n, SERIAL, For(j, 0, lanes, VECTORIZED, store))
    return Kernels(compile_kernels(func_of((a, b), body), HOST))


@pytest.mark.parametrize("target", ["bfloat16", "float16"])
def test_narrowing_rounds_to_nearest_even_everywhere(target: str) -> None:
    """Every 16-bit value, and the float32 just below, at and above the middle between it and the next."""
    bits = np.arange(2**16, dtype=np.uint32)
    stored = decl_buffer((1,), target).dtype.numpy()
    wide = bits.astype(np.uint16).view(stored).astype(np.float32)
    with np.errstate(all="ignore"):
        middle = (bits << 16 | 0x8000).view(np.float32)
        if target == "float16":
            middle = (wide + np.roll(wide, -1)) / 2
        data = np.concatenate(
            [wide, middle, np.nextafter(middle, np.float32(0)), middle * np.float32(1.0001)]
        )
    out = np.zeros((len(data) // 16, 16), stored)
    convert_kernel("float32", target, 16)("f", data.reshape(-1, 16), out)
    with np.errstate(all="ignore"):
        want = data.astype(out.dtype).reshape(out.shape)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    finite = ~np.isnan(want)
    np.testing.assert_array_equal(out[finite].view(np.uint16), want[finite].view(np.uint16))


@pytest.mark.parametrize(
    "dtypes", [("bool", "float32"), ("uint64", "float64"), ("int8", "uint32"), ("float64", "int16")]
)
def test_conversions(dtypes: tuple[str, str]) -> None:
    data = np.random.default_rng(1).integers(0, 2 if dtypes[0] == "bool" else 100, (6, 7)).astype(dtypes[0])
    out = np.zeros((6, 7), dtypes[1])
    convert_kernel(*dtypes, 7)("f", data, out)
    np.testing.assert_array_equal(out, data.astype(dtypes[1]))


def test_shuffle_of_vectors() -> None:
    a = decl_buffer((8,), "float32", "A")
    four = a.vload([0], "float32x4")
    value = Shuffle((four, Broadcast(ops.const(9.0), 2)), (3, 4, 0, 1))
    run = Kernels(compile_kernels(func_of((a,), a.vstore([4], value)), HOST))
    data = np.arange(8, dtype=np.float32)
    run("f", data)
    np.testing.assert_array_equal(data[4:], [3, 9, 0, 1])


def failing(check_at: int, workspace: bool) -> PrimFunc:
    """Row 7 of a parallel loop fails its assertion, a workspace in hand."""
    a, t = decl_buffer((n,), "int64", "A"), decl_buffer((n,), "int64", "T")
    check = AssertStmt(ops.not_equal(a[i], check_at), "row %g is bad", "ValueError", None, i)
    body = seq(AllocBuffer(t) if workspace else None, BufferStore(t if workspace else a, a[i], (i,)), check)
    return func_of((a,), For(i, 0, n, PARALLEL, body))


@pytest.mark.parametrize(
    ("dtype", "target"),
    [(name, "llvm") for name in SMALL_FLOATS if name != "float16"] + [("float16", "llvm -mcpu=x86-64")],
)
def test_small_floats_convert_by_their_bits(dtype: str, target: str) -> None:
    """All values up; all values, their neighbours and the middles between them down."""
    a, b = decl_buffer((n,), dtype, "A"), decl_buffer((n,), "float32", "B")
    stored = a.dtype.numpy()
    up = func_of((a, b), For(i, 0, n, SERIAL, BufferStore(b, ops.cast("float32", a[i]), (i,))))
    down = func_of((a, b), For(i, 0, n, SERIAL, BufferStore(a, ops.cast(dtype, b[i]), (i,))))
    small = np.arange(2 ** DataType(dtype).bits).astype(f"u{stored.itemsize}").view(stored)
    wide = np.zeros(len(small), np.float32)
    Kernels(compile_kernels(up, Target(target)))("f", small, wide)
    np.testing.assert_array_equal(wide, small.astype(np.float32))
    values = np.sort(wide[np.isfinite(wide)])
    middles = (values[1:] + values[:-1]) / 2
    data = np.concatenate(
        [wide, middles, np.nextafter(middles, 0), middles * 1.0001, np.float32([1e9, -1e9])]
    )
    data = data.astype(np.float32)
    out = np.zeros(len(data), stored)
    Kernels(compile_kernels(down, Target(target)))("f", out, data)
    with np.errstate(all="ignore"):
        want = data.astype(stored)
    bits = f"u{stored.itemsize}"
    known = ~np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), ~known)
    np.testing.assert_array_equal(out[known].view(bits), want[known].view(bits))


@pytest.mark.parametrize("workspace", [False, True])
def test_error_in_parallel_loop_reaches_the_caller(workspace: bool) -> None:
    run = Kernels(compile_kernels(failing(7, workspace), HOST))
    run("f", np.arange(7))
    with pytest.raises(KernelError, match="row 7 is bad"):
        run("f", np.arange(20))


def test_kernels_run_in_the_thread_pool() -> None:
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    loop = For(i, 0, n, PARALLEL, BufferStore(b, a[i] * 2.0, (i,)), annotations={"grain": 64})
    module = build(func_of((a, b), loop), HOST, KernelCache(None))
    for size in (0, 1, 63, 10_000):
        source, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        module["f"](source, out)
        np.testing.assert_array_equal(out, source * 2)
    with pytest.raises(
        TrapValueError, match=r"argument 1 \('B'\): expected dimension 0 \(n\) to be 5, got 4"
    ):
        module["f"](np.zeros(5, np.float32), np.zeros(4, np.float32))
    with pytest.raises(TrapTypeError, match="expected dtype float32, got float64"):
        module["f"](np.zeros(5), np.zeros(5))
    with pytest.raises(TrapTypeError, match="expected a tensor, got an int"):
        module["f"](np.zeros(5, np.float32), 5)


def test_error_of_a_pool_thread_becomes_an_exception() -> None:
    module = build(failing(7, True), HOST, KernelCache(None))
    with pytest.raises(Trap, match="row 7 is bad"):
        module["f"](np.arange(5000))


def matmul_tile(rows: int, lanes: int, vectors: int) -> PrimFunc:
    """C = A @ B for one register tile; A is (K, rows), B (K, lanes * vectors)."""
    k, depth = Var("k", "int64"), Var("K", "int64")
    width = lanes * vectors
    a, b = decl_buffer((depth, rows), "float32", "A"), decl_buffer((depth, width), "float32", "B")
    c, acc = (
        decl_buffer((rows, width), "float32", "C"),
        decl_buffer((rows, width), "float32", "acc", scope="local"),
    )

    def tile(make: Any) -> Stmt:
        r, v, x = Var("r", "int64"), Var("v", "int64"), Var("x", "int64")
        inner = For(x, 0, lanes, VECTORIZED, make(r, v * lanes + x))
        return For(r, 0, rows, UNROLLED, For(v, 0, vectors, UNROLLED, inner))

    init = tile(lambda r, x: BufferStore(acc, 0.0, (r, x)))
    step = tile(lambda r, x: BufferStore(acc, acc[r, x] + a[k, r] * b[k, x], (r, x)))
    done = tile(lambda r, x: BufferStore(c, acc[r, x], (r, x)))
    return func_of((a, b, c), seq(AllocBuffer(acc), init, For(k, 0, depth, SERIAL, step), done))


def test_register_tile_stays_in_vector_registers() -> None:
    """12 x 32 accumulators are 24 zmm registers: the loop is loads, broadcasts and 24 fused multiply-adds."""
    compiled = compile_kernels(matmul_tile(12, 16, 2), Target("llvm -mcpu=skylake-avx512"))
    body = compiled.assembly.split("f__body:")[1].split(".Lfunc_end")[0]
    assert len(re.findall(r"vfmadd\d+ps.*%zmm", body)) == 24
    assert not re.findall(r"%zmm\d+, -?\d*\(%rsp", body), "an accumulator was spilled"
    assert "alloca" not in compiled.optimized_ir.split("@f__body")[-1]


def test_register_tile_computes_a_product() -> None:
    run = Kernels(compile_kernels(matmul_tile(4, 8, 2), HOST))
    rng = np.random.default_rng(0)
    a, b = rng.random((13, 4), dtype=np.float32), rng.random((13, 16), dtype=np.float32)
    c = np.zeros((4, 16), np.float32)
    run("f", a, b, c)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("target", "magic"),
    [
        ("llvm -mtriple=aarch64-unknown-linux-gnu", b"\x7fELF"),
        ("llvm -mtriple=riscv64-unknown-linux-gnu", b"\x7fELF"),
        ("llvm -mtriple=wasm32-unknown-unknown", b"\0asm"),
        ("llvm -mcpu=x86-64", b"\x7fELF"),
    ],
)
def test_object_code_for_other_processors(target: str, magic: bytes) -> None:
    assert compile_kernels(matmul_tile(4, 4, 2), Target(target)).object_code.startswith(magic)


def test_each_function_is_an_object_of_its_own() -> None:
    funcs = {f"g{index}": matmul_tile(index, 4, 1).without_attr("global_symbol") for index in (1, 2)}
    compiled = compile_module(funcs, HOST)
    assert [kernels.functions for kernels in compiled] == [("g1",), ("g2",)]
    assert all(isinstance(kernels, CompiledKernels) for kernels in compiled)


def test_intrinsic_without_machine_form_is_refused() -> None:
    a = decl_buffer((1,), "float32", "A")
    body = seq(Evaluate(call_packed("python.function")), BufferStore(a, 0.0, (0,)))
    with pytest.raises(UsageError) as caught:
        compile_kernels(func_of((a,), body), HOST)
    assert caught.value.code == "G0101"
    assert "'tir.call_packed' has no machine form" in str(caught.value)


def test_sums_run_in_lanes_only_where_a_loop_says_so() -> None:
    a, s = decl_buffer((n,), "float32", "A"), decl_buffer((1,), "float32", "S")
    for marks in ({}, {"reassoc": True}):
        body = BufferStore(s, s[0] + a[i], (0,))
        loop = For(i, 0, n, SERIAL, body, annotations=marks)
        compiled = compile_kernels(func_of((a, s), loop), HOST)
        assert bool(re.search(r"fadd <\d+ x float>", compiled.optimized_ir)) is bool(marks)


def test_sums_in_their_own_order_where_a_marked_loop_has_no_lanes() -> None:
    a, s = decl_buffer((n,), "float32", "A"), decl_buffer((1,), "float32", "S")
    body = seq(BufferStore(s, s[0] + a[i], (0,)), BufferStore(a, a[i] * 2.0, (i,)))
    compiled = compile_kernels(
        func_of((a, s), For(i, 0, n, SERIAL, body, annotations={"reassoc": True})), HOST
    )
    assert not re.search(r"fadd <\d+ x float>|reassoc", compiled.optimized_ir)


def test_only_products_inside_sums_round_with_them() -> None:
    """A product that is an operand of a sum is one instruction with it; LLVM joins no others."""
    for dtype in ("float32", "float64"):
        a, s = decl_buffer((n,), dtype, "A"), decl_buffer((n,), dtype, "S")
        for value, count in (
            (s[i] + a[i] * a[i], 1),
            (a[i] * a[i] - s[i], 1),
            (s[i] - a[i] * a[i], 1),
            (a[i] * s[i] + a[i] * a[i], 1),
            ((s[i] + a[i]) * a[i], 0),
        ):
            compiled = compile_kernels(
                func_of((a, s), For(i, 0, n, SERIAL, BufferStore(s, value, (i,)))), HOST
            )
            calls = re.findall(r"call \w+ @llvm.fmuladd", compiled.llvm_ir)
            assert len(calls) == count, (dtype, str(value))
            assert "contract" not in compiled.llvm_ir


def test_an_index_is_computed_once_in_a_block() -> None:
    """Sixteen elements beside one another: the text holds the arithmetic of their row once."""
    a, b = decl_buffer((n, 64), "float32", "A"), decl_buffer((n, 16), "float32", "B")
    row = ops.floormod(i * 7, ops.maximum(n, 1))
    stores = [BufferStore(b, a[row, 3 * k] + a[row, 3 * k + 1], (i, k)) for k in range(16)]
    made = compile_kernels(func_of((a, b), For(i, 0, n, SERIAL, seq(*stores))), HOST)
    lines = [line.partition(" = ")[2] for line in made.llvm_ir.splitlines() if " = " in line]
    divisions = [line for line in lines if line.startswith(("srem", "urem", "sdiv", "udiv"))]
    assert len(divisions) <= 2 and sum("mul nsw i64" in line for line in lines) < 16
    array = np.random.default_rng(0).standard_normal((5, 64)).astype("float32")
    result = np.zeros((5, 16), "float32")
    Kernels(made)("f", array, result)
    rows = array[np.arange(5) * 7 % 5]
    np.testing.assert_array_equal(result, rows[:, 0:48:3] + rows[:, 1:49:3])


def test_places_that_change_by_turns_are_rows_of_addresses() -> None:
    """A turn reads one of two rows and writes the other: vectors are loaded and stored, not gathered."""
    t = Var("t", "int64")
    both, a = decl_buffer((2, 512), "float32", "both"), decl_buffer((512,), "float32", "A")
    here, there = ops.floormod(t, 2), ops.floormod(t + 1, 2)
    store = BufferStore(both, a[i] / both[here, i] + a[i], (there, i))
    func = func_of((both, a, n), For(t, 0, n, SERIAL, For(i, 0, 512, SERIAL, store)))
    compiled = compile_kernels(func, Target("llvm -mcpu=skylake-avx512"))
    body = compiled.assembly.split("f__body:")[1].split(".Lfunc_end")[0]
    assert "vdivps" in body and not re.search("vgather|vscatter", body)
    rng = np.random.default_rng(0)
    state, added = rng.random((2, 512), np.float32), rng.random(512, np.float32)
    want = state.copy()
    for turn in range(3):
        want[(turn + 1) % 2] = added / want[turn % 2] + added
    Kernels(compile_kernels(func, HOST))("f", state, added, 3)
    np.testing.assert_array_equal(state, want)


@pytest.mark.parametrize("cpu", ["znver2", "znver3"])
def test_no_instruction_without_a_form_for_avx(cpu: str) -> None:
    """A mask of a few lanes is cut to its length, which SSE4a has an instruction for."""
    x = te.placeholder((1, 16, 14, 14), "float32")
    none = [ops.const(0, "int64")] * 4
    values, places = max_pool_with_index(x, none, (2, 2), (2, 2), (1, 1), False, False)
    made = compile_kernels(te.create_prim_func([x, values, places]), Target(f"llvm -mcpu={cpu}"))
    assert "vblendvps" in made.assembly
    assert not re.search(r"\b(extrq|insertq|movntss|movntsd)\b", made.assembly)
