"""Loop functions as C: vectors, masks, shuffles, memory of two types, workspaces, names, errors; strictly
compiled, and compared with the loop interpreter."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.codegen import backend_of, build, c_source
from heddle.codegen.c.backend import BACKEND
from heddle.codegen.c.types import float_literal, int_literal, text_literal
from heddle.codegen.c.writer import bare, identifier, symbol
from heddle.codegen.codes import G0201
from heddle.prim.checked_index import checked_index
from heddle.prim.intrinsics import call_llvm_pure_intrin, exp, fma, reinterpret
from heddle.prim.nodes import Let, Ramp, Select, Shuffle, SizeVar, Var, constant
from heddle.prim.ops import cast, if_then_else
from heddle.runtime import tensor
from heddle.runtime.dtype import DataType
from heddle.runtime.native.abi import Context, DLTensor, Head, Value
from heddle.support.diagnostics import TrapIndexError, UsageError
from heddle.systems.types import ctype_of
from heddle.target import TARGET_KINDS, Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.vector_algebra import broadcast
from tests.e2e.c_file import HEADERS, needs_compiler

TARGET = Target("c -opt-level=1")
n = SizeVar("n", "int64")
ONE = constant(1, "int64")


def func(params: Sequence[Any], *body: Stmt, name: str = "f", **attrs: Any) -> PrimFunc:
    return PrimFunc(tuple(params), seq(*body), attrs={"global_symbol": name, "tir.noalias": True, **attrs})


def agrees(made: PrimFunc, *arrays: np.ndarray) -> str:
    """The kernel and the interpreter give the same; the C text."""
    want, given = [array.copy() for array in arrays], [tensor(array.copy()) for array in arrays]
    run_primfunc(made, *want)
    module = build(made, TARGET)
    module[str(made.attrs["global_symbol"])](*given)
    for mine, other in zip(given, want, strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-6, atol=1e-6)
    text: str = module.get_source()
    return text


def ramp(base: Any, lanes: int, stride: int = 1) -> Ramp:
    return Ramp(constant(base, "int64") if isinstance(base, int) else base, constant(stride, "int64"), lanes)


def floats(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@needs_compiler
@pytest.mark.parametrize("lanes", [2, 3, 8, 16])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_vectors(lanes: int, stride: int) -> None:
    a, b = decl_buffer((lanes * stride,), "float32", "A"), decl_buffer((lanes,), "float32", "B")
    loaded = BufferLoad(a, (ramp(0, lanes, stride),))
    value = Select(
        loaded > broadcast(constant(0.0, "float32"), lanes), exp(loaded), fma(loaded, loaded, loaded)
    )
    agrees(func((a, b), BufferStore(b, value, (ramp(0, lanes),))), floats(lanes * stride), floats(lanes))


@needs_compiler
@pytest.mark.parametrize("shift", [-1, 0, 1, 3])
def test_a_vector_is_read_before_it_is_written(shift: int) -> None:
    """In place, every lane moves by some places: no lane may see what another one wrote."""
    a = decl_buffer((16,), "float32", "A")
    load = BufferLoad(a, (ramp(4, 8),)) * broadcast(constant(2.0, "float32"), 8)
    agrees(func((a,), BufferStore(a, load, (ramp(4 + shift, 8),))), floats(16))


@needs_compiler
def test_masks_and_shuffles() -> None:
    a, b = decl_buffer((8,), "float32", "A"), decl_buffer((8,), "float32", "B")
    first, second = BufferLoad(a, (ramp(0, 4),)), BufferLoad(a, (ramp(4, 4),))
    turned = Shuffle((first, second), (7, 0, 6, 1, 5, 2, 4, 3))
    x = Var("x", "float32x8")
    mask = ramp(0, 8) < broadcast(constant(5, "int64"), 8)
    body = (
        BufferStore(b, Let(x, turned, x + x), (ramp(0, 8),)),
        BufferStore(b, BufferLoad(a, (ramp(0, 8),), mask), (ramp(0, 8),), mask),
        BufferStore(b, Shuffle((first,), (2,)), (constant(7, "int64"),)),
    )
    agrees(func((a, b), *body), floats(8), floats(8, 1))


@needs_compiler
def test_memory_of_two_types() -> None:
    """A parameter is written as floats and read as integers: C may not assume that they are apart."""
    a, b = decl_buffer((4,), "float32", "A"), decl_buffer((4,), "int32", "B")
    same = decl_buffer((4,), "int32", "S", data=a.data)
    i, j = Var("i", "int64"), Var("j", "int64")
    text = agrees(
        func(
            (a, b),
            DeclBuffer(same),
            For(i, 0, 4, ForKind.SERIAL, BufferStore(a, BufferLoad(a, (i,)) * 2.0, (i,))),
            For(j, 0, 4, ForKind.SERIAL, BufferStore(b, BufferLoad(same, (j,)), (j,))),
        ),
        floats(4),
        np.zeros(4, np.int32),
    )
    assert "heddle_store_f32(" in text
    assert "heddle_load_i32(" in text


@needs_compiler
@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_parallel_loops_workspaces_and_free_sizes(size: int) -> None:
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    w = decl_buffer((n,), "float32", "W")
    i, j, k = (Var(name, "int64") for name in "ijk")
    inner = BufferLoad(a, (i,)) + BufferLoad(w, (i,))
    body = (
        AllocBuffer(w),
        For(j, 0, n, ForKind.SERIAL, BufferStore(w, cast("float32", j), (j,))),
        For(i, 0, n, ForKind.PARALLEL, BufferStore(b, inner, (i,))),
        For(k, 0, n, ForKind.SERIAL, IfThenElse(k > 2, BufferStore(b, BufferLoad(b, (k - 1,)), (k,)))),
    )
    text = agrees(func((a, b), *body), floats(size), np.zeros(size, np.float32))
    assert "heddle_parallel_for(f__body_parallel" in text or "heddle_parallel_for(" in text
    assert "heddle_workspace_alloc(" in text


@needs_compiler
def test_what_is_not_asked_for_is_not_read() -> None:
    a, b = decl_buffer((3,), "float32", "A"), decl_buffer((5,), "float32", "B")
    i = Var("i", "int64")
    value = if_then_else(i < 3, BufferLoad(a, (i,)), constant(1.0, "float32"))
    text = agrees(
        func((a, b), For(i, 0, 5, ForKind.SERIAL, BufferStore(b, value, (i,)))), floats(3), floats(5)
    )
    assert "if (i < 3) {" in text


@needs_compiler
def test_names_that_c_has_already() -> None:
    exponent, register = decl_buffer((3,), "float64", "exp"), decl_buffer((3,), "float64", "register")
    i = Var("int", "int64")
    body = For(i, 0, 3, ForKind.SERIAL, BufferStore(register, exp(BufferLoad(exponent, (i,))), (i,)))
    agrees(func((exponent, register), body, name="while"), np.arange(3.0), np.zeros(3))


@needs_compiler
def test_halves() -> None:
    for name in ("float16", "bfloat16", "float8_e4m3fn"):
        a, b = decl_buffer((300,), name, "A"), decl_buffer((300,), name, "B")
        i = Var("i", "int64")
        value = BufferLoad(a, (i,)) * constant(3.0, name) + constant(0.5, name)
        x = (np.random.default_rng(1).standard_normal(300) * 20).astype(DataType(name).numpy())
        module = build(func((a, b), For(i, 0, 300, ForKind.SERIAL, BufferStore(b, value, (i,)))), TARGET)
        out = tensor(np.zeros_like(x))
        module["f"](tensor(x), out)
        want = (x.astype(np.float32) * 3 + np.float32(0.5)).astype(x.dtype)
        np.testing.assert_array_equal(out.numpy().view(f"u{x.itemsize}"), want.view(f"u{x.itemsize}"))


@needs_compiler
def test_an_index_outside_is_reported() -> None:
    a, at = decl_buffer((4,), "float32", "A"), decl_buffer((1,), "int64", "P")
    zero = constant(0, "int64")
    place = checked_index(BufferLoad(at, (zero,)), constant(4, "int64"))
    module = build(func((a, at), BufferStore(a, constant(9.0, "float32"), (place,))), TARGET)
    x = tensor(np.zeros(4, np.float32))
    module["f"](x, tensor(np.array([-1])))
    assert x.numpy().tolist() == [0, 0, 0, 9]
    with pytest.raises(TrapIndexError, match=r"U1001.*index -5.*4 elements"):
        module["f"](x, tensor(np.array([-5])))


@pytest.mark.parametrize(
    "value",
    [
        call_llvm_pure_intrin("float32", "llvm.fabs.f32", constant(1.0, "float32")),
        reinterpret("int32x2", broadcast(constant(1, "int16"), 4)),
    ],
)
def test_what_has_no_form_in_c_is_refused(value: Any) -> None:
    out = decl_buffer((4,), str(value.dtype.element), "B")
    index = ramp(0, value.dtype.lanes) if value.dtype.lanes > 1 else constant(0, "int64")
    with pytest.raises(UsageError, match=r"G0101.*in C"):
        build(func((out,), BufferStore(out, value, (index,))), TARGET)


def test_no_compiler_is_needed_for_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    a = decl_buffer((3,), "float32", "A")
    body = BufferStore(a, constant(1.0, "float32"), (constant(0, "int64"),))
    module = build(func((a,), body), TARGET)

    def refuse(fmt: str) -> list[str]:
        raise UsageError(G0201, "C source needs a compiler, and this machine has none")

    monkeypatch.setattr(c_source, "compiler_command", refuse)
    assert "heddle_kernel_f" in module.get_source()
    with pytest.raises(UsageError, match="G0201"):
        module["f"](tensor(np.zeros(3, np.float32)))


def test_every_kind_has_a_record() -> None:
    for name, kind in TARGET_KINDS.items():
        record = backend_of(Target(name))
        assert record.kind == name
        assert kind.backend == f"heddle.codegen.{name}.backend"
    assert backend_of(Target("c")) is BACKEND


LAYOUT = """
#include <stdio.h>
#include "heddle_runtime.h"
const int64_t heddle_num_functions = 0;
const char *const heddle_function_names[1] = {0};
const HeddleEntry heddle_functions[1] = {{0, 0}};
const HeddleCell *heddle_constants(void) { return 0; }
int main(void) { LINES return 0; }
"""


@needs_compiler
def test_headers_state_the_layouts_of_the_native_interface(tmp_path: Path) -> None:
    """`heddle_c.h` and `heddle_program.h` against `runtime.native.abi`."""
    fields = {
        "HeddleContext": (Context, {"constants": "constants", "functions": "functions"}),
        "DLTensor": (
            DLTensor,
            {"data": "data", "ndim": "rank", "shape": "sizes", "byte_offset": "byte_offset"},
        ),
        "HeddleCell": (Value, {"kind": "kind", "as": "payload"}),
        "HeddleHead": (Head, {"count": "count", "kind": "kind", "flags": "flags", "owner": "owner"}),
    }
    fields["HeddleContext"][1].update({"error_place": "error_place", "call_place": "call_place"})
    asked = [(struct, c_name) for struct, (_, names) in fields.items() for c_name in names]
    lines = [f'printf("%d\\n", (int)offsetof({struct}, {name}));' for struct, name in asked]
    lines += [f'printf("%d\\n", (int)sizeof({struct}));' for struct in fields]
    source = tmp_path / "layout.c"
    source.write_text(LAYOUT.replace("LINES", " ".join(lines)))
    command = ["cc", "-std=c99", f"-I{HEADERS}", "layout.c", "-o", "layout", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True)
    got = [int(line) for line in done.stdout.split()]
    ours = {struct: ctype_of(record) for struct, (record, _) in fields.items()}
    want = [getattr(ours[struct], fields[struct][1][name]).offset for struct, name in asked]
    want += [ctypes.sizeof(ours[struct]) for struct in fields]
    assert got == want
    assert ctypes.sizeof(ctypes.c_void_p) == 8


@pytest.mark.parametrize("value", [0.1, -1.5, 1e30, 1e-45, 3.0, 16777217.0, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_literals_give_the_number_back(value: float, dtype: str) -> None:
    text = float_literal(value, DataType(dtype)).strip("()")
    if np.isfinite(DataType(dtype).numpy().type(value)):
        digits = text.removesuffix("f") if dtype == "float32" else text
        assert DataType(dtype).numpy().type(digits) == DataType(dtype).numpy().type(value)
        assert "." in digits or "e" in digits


def test_texts_and_names() -> None:
    assert int_literal(-(2**63), DataType("int64")) == "INT64_MIN"
    assert int_literal(2**63, DataType("uint64")) == "UINT64_C(9223372036854775808)"
    assert text_literal('a"\\?ü\n') == '"a\\"\\\\\\?\\303\\274\\012"'
    assert [identifier(name) for name in ("a.b", "int", "1x", "_x", "sinf", "heddle_x", "uint8_t")] == [
        *("a_b", "int_", "v_1x", "v__x", "sinf_", "v_heddle_x", "uint8_t_"),
    ]
    assert symbol("a-b") == "a_2d_b"
    assert [bare(text) for text in ("(a)", "(a) + (b)", "((a) + b)", "a")] == [
        "a",
        "(a) + (b)",
        "(a) + b",
        "a",
    ]
