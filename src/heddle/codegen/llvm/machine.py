"""LLVM for a Target: its data layout, object code and assembly text."""

from __future__ import annotations

from functools import cache

from heddle.codegen.codes import G0102
from heddle.codegen.llvm.object_code import MachineOptions, optimized, target_machine
from heddle.support.diagnostics import InternalError
from heddle.support.frozen import frozen
from heddle.target import Target

_LEFT_OUT = {"x86_64": "-sse4a"}
"""By machine: features that code does without. SSE4a's instructions have no form for AVX: where LLVM puts one
among vectors of 256 bits, to cut a mask to length, Zen 3 takes 110 ns to change over."""


def machine_options(target: Target) -> MachineOptions:
    """Raises: UsageError H0105, H0106, H0107 for a target that LLVM cannot make code for."""
    target.check()
    left_out = _LEFT_OUT.get(target.mtriple.partition("-")[0], "")
    features = ",".join(text for text in (target.features, left_out) if text)
    return MachineOptions(target.mtriple, target.mcpu, features, target.opt_level)


@cache
def data_layout(target: Target) -> str:
    """How the target lays out memory, as LLVM's modules state it."""
    return str(target_machine(machine_options(target)).target_data)


@frozen
class MachineCode:
    object_code: bytes


@frozen
class ReadableCode:
    """What LLVM makes of a module on the way to object code, as text."""

    optimized_ir: str
    assembly: str


def refused(message: object) -> InternalError:
    """The error for a text that LLVM rejects."""
    return InternalError(G0102, f"LLVM rejects the generated program: {message}")


def compile_text(text: str, target: Target) -> MachineCode:
    """Optimise a module's text and emit object code.

    Raises: InternalError G0102 for a text that LLVM rejects.
    """
    options = machine_options(target)
    machine = target_machine(options)
    try:
        with optimized(text, machine, options.opt_level) as module:
            return MachineCode(machine.emit_object(module))
    except RuntimeError as error:
        raise refused(error) from error


def readable_code(text: str, target: Target) -> ReadableCode:
    """The optimised IR and the assembly of what `compile_text` makes of a text. Raises: as `compile_text`.

    Emitting code changes the module: the IR is written before, and the assembly is all that is emitted of it.
    """
    options = machine_options(target)
    machine = target_machine(options)
    try:
        with optimized(text, machine, options.opt_level) as module:
            return ReadableCode(str(module), machine.emit_assembly(module))
    except RuntimeError as error:
        raise refused(error) from error


def assembly(text: str, target: Target) -> str:
    """The assembly text that a module's text becomes. Raises: as `compile_text`."""
    return readable_code(text, target).assembly
