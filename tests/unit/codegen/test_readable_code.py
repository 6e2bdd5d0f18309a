"""The texts of code that people read: assembly that is of the object code."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from heddle import te, topi
from heddle.codegen import compile_kernels
from heddle.ir.module import IRModule
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.target import Target

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
