"""Object code needs nothing that a process may lack."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.codegen.cache import CachedCode, KernelCache
from heddle.codegen.llvm.build import compile_module
from heddle.codegen.llvm.machine import compile_text
from heddle.codegen.llvm.required_symbols import check_symbols, declared_symbols, provided_symbols
from heddle.ir.structural import structural_bytes
from heddle.prim import ops
from heddle.prim.nodes import SizeVar, Var
from heddle.runtime.native.elf import undefined_symbols
from heddle.runtime.native.foreign_symbols import needed_symbols
from heddle.support.diagnostics import InternalError
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from tests.unit.codegen.kernel_runner import Kernels

DTYPES = [
    "bool",
    "int4",
    "int8",
    "int32",
    "int64",
    "uint4",
    "uint8",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
]
IS_X86 = Target("llvm").mtriple.startswith("x86_64")
TARGETS = ("llvm", "llvm -mcpu=x86-64", "llvm -mcpu=haswell") if IS_X86 else ("llvm",)
"""This processor; one that converts no halves; one that converts them, but not from float64."""


def cast_kernel(source: str, target: str) -> PrimFunc:
    n, i = SizeVar("n"), Var("i", "int64")
    x, out = decl_buffer((n,), source, "x"), decl_buffer((n,), target, "out")
    body = For(i, 0, n, ForKind.SERIAL, BufferStore(out, ops.cast(target, x[i]), (i,)))
    return PrimFunc((x, out), body, attrs={"global_symbol": f"{source}_{target}"})


@pytest.mark.parametrize("target", TARGETS)
def test_no_conversion_needs_a_runtime_library(target: str) -> None:
    pairs = itertools.permutations(DTYPES, 2)
    code = compile_kernels({f"{a}_{b}": cast_kernel(a, b) for a, b in pairs}, Target(target)).object_code
    needed = {symbol.decode() for symbol in undefined_symbols(code)}
    assert needed <= provided_symbols() | {"heddle_check_args"}


@pytest.mark.parametrize("target", TARGETS)
def test_float64_is_rounded_to_float16_once(target: str) -> None:
    """Halves of the last place and their neighbours; by way of float32 the neighbours would be ties."""
    ties = (np.arange(1, 400) * 2 + 1) * 2.0**-12
    edges = np.array([65519.999999999, 65520, 65536, 1e300, 2.0**-25, 2.0**-25 * (1 + 2**-40), 5e-324, 0.0])
    values = np.concatenate([ties, ties * (1 + 2**-40), ties * (1 - 2**-40), edges, [np.inf, np.nan]])
    values = np.concatenate([values, -values])
    got = np.zeros(len(values), "float16")
    Kernels(compile_kernels(cast_kernel("float64", "float16"), Target(target)))(
        "float64_float16", values, got
    )
    with np.errstate(over="ignore"):
        want = values.astype("float16")
    assert np.array_equal(got[~np.isnan(want)].view("u2"), want[~np.isnan(want)].view("u2"))
    assert np.isnan(got[np.isnan(want)]).all()


def test_a_function_that_nobody_provides_is_refused() -> None:
    """A call that LLVM itself makes of a conversion."""
    text = "define half @f(double %x) {\n  %y = fptrunc double %x to half\n  ret half %y\n}\n"
    code = compile_text(text, Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64")).object_code
    with pytest.raises(InternalError, match="needs __truncdfhf2") as caught:
        check_symbols(code, declared_symbols(text), "f")
    assert caught.value.code == "G0105"


def test_declared_functions_may_be_needed() -> None:
    text = "declare i32 @mine(i32)\ndefine i32 @f(i32 %x) {\n  %y = call i32 @mine(i32 %x)\n  ret i32 %y\n}\n"
    check_symbols(compile_text(text, Target("llvm")).object_code, declared_symbols(text), "f")


OTHERS = {
    "Windows": "llvm -mtriple=x86_64-pc-windows-msvc",
    "Windows on Arm": "llvm -mtriple=aarch64-pc-windows-msvc",
    "macOS": "llvm -mtriple=x86_64-apple-macosx",
    "macOS on Arm": "llvm -mtriple=arm64-apple-macosx",
}


@pytest.mark.parametrize("platform", OTHERS)
def test_objects_for_other_platforms_are_read(platform: str) -> None:
    """What is declared and called is needed; what is defined, or declared alone, is not."""
    long = "a_function_with_a_long_name"
    text = f"""
declare i32 @mine(i32)
declare i32 @{long}(i32)
declare i32 @unused(i32)
@data = global i32 3
define i32 @f(i32 %x) {{
  %y = call i32 @mine(i32 %x)
  %z = call i32 @{long}(i32 %y)
  %w = load i32, ptr @data
  %v = add i32 %z, %w
  ret i32 %v
}}
"""
    code = compile_text(text, Target(OTHERS[platform])).object_code
    assert needed_symbols(code) == {"mine", long}
    assert declared_symbols(text) == (long, "mine", "unused")
    with pytest.raises(InternalError, match=rf"G0105.*{long}, mine"):
        check_symbols(code, (), "f")


@pytest.mark.parametrize("platform", OTHERS)
def test_no_conversion_needs_a_runtime_library_elsewhere(platform: str) -> None:
    pairs = itertools.permutations(DTYPES, 2)
    compile_kernels({f"{a}_{b}": cast_kernel(a, b) for a, b in pairs}, Target(OTHERS[platform]))


def test_code_from_the_cache_is_checked(tmp_path: Path) -> None:
    target, func = Target("llvm -mtriple=x86_64-unknown-linux-gnu"), cast_kernel("float32", "int32")
    text = "declare i32 @mine(i32)\ndefine i32 @f(i32 %x) {\n  %y = call i32 @mine(i32 %x)\n  ret i32 %y\n}\n"
    code = compile_text(text, target).object_code
    for declared in (("mine",), ()):
        KernelCache(tmp_path).add(structural_bytes(func), target, CachedCode(code, ("f",), declared))
        cache = KernelCache(tmp_path)  # another process
        if declared:
            assert compile_module(func, target, cache)[0].object_code == code
        else:
            with pytest.raises(InternalError, match=r"G0105.*needs mine"):
                compile_module(func, target, cache)
        assert cache.counters.disk_hits == 1
