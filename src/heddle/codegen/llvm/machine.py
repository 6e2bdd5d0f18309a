"""LLVM at work: the target machine, optimisation, object code and assembly text."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from heddle.codegen.codes import G0102
from heddle.support.diagnostics import InternalError
from heddle.target import Target

_lock = threading.Lock()


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def create_target_machine(target: Target) -> Any:
    """A machine of one's own: LLVM's are not shared between threads."""
    with _lock:
        _initialize()
    found = llvm.Target.from_triple(target.mtriple)
    return found.create_target_machine(
        cpu=target.mcpu, features=target.features, opt=target.opt_level, reloc="pic", codemodel="small"
    )


@cache
def data_layout(target: Target) -> str:
    """How the target lays out memory, as LLVM's modules state it."""
    return str(create_target_machine(target).target_data)


@dataclass(frozen=True, slots=True)
class MachineCode:
    object_code: bytes
    assembly: str = ""
    optimized_ir: str = ""


def compile_text(text: str, target: Target, want_text: bool = False) -> MachineCode:
    """Optimise a module's text and emit object code; with `want_text` also assembly and optimised IR.

    Raises: InternalError G0102 for a text that LLVM rejects.
    """
    machine = create_target_machine(target)
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise InternalError(G0102, f"LLVM rejects the generated program: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=target.opt_level)
    options.loop_vectorization = options.slp_vectorization = target.opt_level > 1
    options.loop_unrolling = options.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    object_code: bytes = machine.emit_object(module)
    if not want_text:
        return MachineCode(object_code)
    return MachineCode(object_code, machine.emit_assembly(module), str(module))
