"""The texts of code that people read: assembly that is of the object code, and the place of each line."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from heddle import te, topi
from heddle.codegen import compile_kernels, compile_module
from heddle.codegen.build import lowered_functions
from heddle.codegen.llvm.build import emit, placed_texts
from heddle.codegen.llvm.machine import assembly, compile_text, data_layout
from heddle.codegen.llvm.module import emit_module
from heddle.codegen.llvm.places import Places
from heddle.ir.module import IRModule
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.support.span import ModelSpan, Span, at
from heddle.support.text import TextBuilder
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

HOST = Target("llvm")


def softmax(size: int) -> IRModule:
    x = te.placeholder((size, size), name="x")
    func = te.create_prim_func([x, topi.nn.softmax(x)]).with_attr("global_symbol", "f")
    return ApplyDefaultSchedule(HOST)(IRModule.from_expr(func))


def machine_words(code: bytes) -> list[bytes]:
    return [part.data() for part in llvm.ObjectFileRef.from_data(code).sections() if part.is_text()]


def assembled(text: str) -> bytes:
    """The object code that an assembler makes of a text: LLVM's, as of assembly within a module."""
    llvm.initialize_native_asmparser()
    plain = [c if c.isprintable() and c.isascii() and c not in '"\\' else f"\\{ord(c):02X}" for c in text]
    lines = "".join(plain).split("\\0A")
    inline = "\n".join(f'module asm "{line}"' for line in lines)
    machine = llvm.Target.from_triple(HOST.mtriple).create_target_machine(
        cpu=HOST.mcpu, features=HOST.features, reloc="pic", codemodel="small"
    )
    with llvm.create_context() as context:
        head = f'target triple = "{HOST.mtriple}"\n'
        with llvm.parse_assembly(head + inline, context) as module:
            code: bytes = machine.emit_object(module)
    return code


@pytest.mark.parametrize("size", [1, 8, 64])
def test_the_assembly_is_of_the_object_code(size: int) -> None:
    compiled = compile_kernels(softmax(size), HOST)
    assert machine_words(assembled(compiled.assembly)) == machine_words(compiled.object_code)


OTHERS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-darwin", "wasm32-wasi")
ADD, TANH = ModelSpan("m.onnx", "sum", "Add"), ModelSpan("m.onnx", "squash", "Tanh")


def chain(target: Target) -> list[PrimFunc]:
    """tanh(x + x) in one kernel, as the emitter takes it."""
    x = te.placeholder((te.var("n", "int64"), 16), name="x")
    with at(ADD):
        total = topi.add(x, x)
    with at(TANH):
        func = te.create_prim_func([x, topi.tanh(total)]).with_attr("global_symbol", "f")
    return lowered_functions(ApplyDefaultSchedule(target)(IRModule.from_expr(func)), target)


def with_places(funcs: list[PrimFunc], target: Target) -> str:
    return emit_module(funcs, target.mtriple, data_layout(target), target.vector_width_bits, Places())


@pytest.mark.parametrize("triple", OTHERS)
def test_texts_with_places_are_those_without(triple: str) -> None:
    target = Target(f"llvm -mtriple={triple}")
    funcs = chain(target)
    texts = placed_texts(funcs, target)
    assert "!dbg" not in emit(funcs, target)
    assert texts["llvm"].build() == emit(funcs, target)
    assert texts["asm"].build() == assembly(emit(funcs, target), target)
    for out in texts.values():
        assert {ADD, TANH} <= set(out.spans) <= {ADD, TANH, None}


@pytest.mark.parametrize("triple", OTHERS)
def test_lines_have_the_place_of_their_operator(triple: str) -> None:
    target = Target(f"llvm -mtriple={triple}")
    texts = placed_texts(chain(target), target)
    assert spans_of(texts["llvm"], "fdiv") == {TANH} and spans_of(texts["llvm"], "load float") == {ADD}
    divide = {"x86": "v?div[ps]s", "aar": "fdiv", "arm": "fdiv", "was": "div"}[triple[:3]]
    assert spans_of(texts["asm"], divide) == {TANH}


def spans_of(out: TextBuilder, word: str) -> set[Span | None]:
    lines = zip(out.build().split("\n"), out.spans, strict=True)
    return {span for line, span in lines if re.search(rf"\b{word}\b", line)}


def test_places_change_no_instruction() -> None:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu")
    funcs = chain(target)
    placed, plain = with_places(funcs, target), emit(funcs, target)
    assert placed != plain
    assert machine_words(compile_text(placed, target).object_code) == machine_words(
        compile_text(plain, target).object_code
    )


def test_code_that_runs_is_made_without_places() -> None:
    assert all("!dbg" not in kernels.llvm_ir for kernels in compile_module(softmax(3), HOST))


def test_a_text_that_looks_like_a_place_is_none() -> None:
    x = te.placeholder((8,), name="x")
    name = "f, !dbg !DILocation(line: 99, scope: !1)"
    func = te.create_prim_func([x, topi.exp(x)]).with_attr("global_symbol", name)
    texts = placed_texts(lowered_functions(func, HOST), HOST)
    assert set(texts["llvm"].spans) == {None} == set(texts["asm"].spans)
