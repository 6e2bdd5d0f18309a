"""PrimFunc → the code of a target."""

from heddle.codegen.backend import Backend, backend_of
from heddle.codegen.build import build, generate_text
from heddle.codegen.cache import KernelCache, kernel_cache
from heddle.codegen.functions import as_module
from heddle.codegen.llvm.build import compile_kernels, compile_module
from heddle.codegen.llvm.kernels import CompiledKernels
from heddle.codegen.pipeline import lower, lowering_passes

__all__ = [
    "Backend",
    "CompiledKernels",
    "KernelCache",
    "as_module",
    "backend_of",
    "build",
    "compile_kernels",
    "compile_module",
    "generate_text",
    "kernel_cache",
    "lower",
    "lowering_passes",
]
