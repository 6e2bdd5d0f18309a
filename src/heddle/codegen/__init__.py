"""PrimFunc → machine code."""

from heddle.codegen.build import as_module, build, compile_kernels, compile_module, generate_text
from heddle.codegen.cache import KernelCache, kernel_cache
from heddle.codegen.kernels import CompiledKernels
from heddle.codegen.pipeline import lower, lowering_passes

__all__ = [
    "CompiledKernels",
    "KernelCache",
    "as_module",
    "build",
    "compile_kernels",
    "compile_module",
    "generate_text",
    "kernel_cache",
    "lower",
    "lowering_passes",
]
