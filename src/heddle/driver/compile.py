"""From a module to an executable."""

from __future__ import annotations

from typing import Any

from heddle.codegen.build import build as build_kernels
from heddle.driver.pipeline import default_pipeline
from heddle.ir.module import IRModule
from heddle.lower.codegen_vm import vm_codegen
from heddle.runtime.module import KernelModule
from heddle.target import Target
from heddle.tir.nodes import PrimFunc
from heddle.vm.relax.executable import VMExecutable


def build(mod: IRModule, target: Any = None, relax_pipeline: Any = "default") -> VMExecutable:
    """Compile a graph module: the pipeline, bytecode, kernels, linked into one executable."""
    chosen = target if isinstance(target, Target) else Target(target or "llvm")
    lowered = default_pipeline(chosen)(mod)
    builder, loops = vm_codegen(lowered)
    return builder.get(imports=kernel_modules(loops, chosen))


def kernel_modules(mod: IRModule, target: Target) -> list[KernelModule]:
    """The loop functions of a module as machine code."""
    if not any(isinstance(func, PrimFunc) for func in mod.functions.values()):
        return []
    return [build_kernels(mod, target)]
