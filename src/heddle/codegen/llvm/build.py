"""PrimFuncs → object code: passes, text, LLVM; each function on its own, found in the cache where it was
compiled before.

While Python makes the text of one function, LLVM compiles others, in processes of its own; `jobs` counts
this one too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from heddle.codegen.build import generate_text
from heddle.codegen.cache import CachedCode, KernelCache
from heddle.codegen.functions import as_module, named
from heddle.codegen.llvm.kernels import CompiledKernels
from heddle.codegen.llvm.machine import assembly, compile_text, data_layout
from heddle.codegen.llvm.module import emit_module
from heddle.codegen.llvm.places import Places, read_assembly, read_llvm
from heddle.codegen.llvm.required_symbols import check_symbols, declared_symbols
from heddle.codegen.llvm.workers import Workers
from heddle.codegen.pipeline import is_whole
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.structural import structural_bytes
from heddle.ir.transform import CodeMade, PassContext
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.needs import Needs
from heddle.support.settings import settings
from heddle.support.text import TextBuilder
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

TEXT_FORMAT = "ll"
_MIN_FUNCTIONS_FOR_PROCESSES = 8


def emit(funcs: Sequence[PrimFunc], target: Target) -> str:
    """The LLVM IR text of lowered functions."""
    with refusing_deep_nesting("the emitter of LLVM IR", funcs):
        return emit_module(funcs, target.mtriple, data_layout(target), target.vector_width_bits)


def placed_texts(funcs: Sequence[PrimFunc], target: Target) -> Mapping[str, TextBuilder]:
    """LLVM IR and assembly of lowered functions, with the place of each line. Raises: as `compile_text`."""
    text, places = emit(funcs, target), Places()
    placed = emit_module(funcs, target.mtriple, data_layout(target), target.vector_width_bits, places)
    code, placed_code = assembly(text, target), assembly(placed, target)
    return {"llvm": read_llvm(text, placed, places), "asm": read_assembly(code, placed_code, places)}


def compile_kernels(given: Any, target: Target) -> CompiledKernels:
    """Compile all PrimFuncs of a module into one object, without a cache. Raises: as `compile_module`."""
    text, names = generate_text(given, target)
    code = compile_text(text, target).object_code
    check_symbols(code, declared_symbols(text), ", ".join(names))
    return CompiledKernels(code, names, target, text)


def compile_module(
    given: Any, target: Target, cache: KernelCache | None = None, jobs: int | None = None
) -> tuple[CompiledKernels, ...]:
    """Compile each PrimFunc of a module into an object of its own, in the module's order.

    `jobs` is the number of processes at work, by default that of threads in use (HEDDLE_NUM_THREADS). Few
    functions are compiled in this process whatever it is. The code does not depend on it. Where the current
    PassContext leaves out a pass, the cache has no part in it.

    Raises: UsageError G0101, G0103; InternalError G0102, G0104, G0105.
    """
    funcs = [
        named(var, func) for var, func in as_module(given).functions.items() if isinstance(func, PrimFunc)
    ]
    cache = cache if is_whole(target) else None
    sources = [None if cache is None else structural_bytes(func) for func in funcs]
    made: list[CompiledKernels | None] = [_find(source, target, cache) for source in sources]
    missing = [position for position, kernels in enumerate(made) if kernels is None]
    for func, kernels in zip(funcs, made, strict=True):
        if kernels is not None:
            _tell(CodeMade(_name(func), 0.0, 0.0, 0, len(kernels.object_code), is_kept=True))
    helpers = (settings().num_threads if jobs is None else jobs) - 1
    with Workers(target, helpers if len(missing) >= _MIN_FUNCTIONS_FOR_PROCESSES else 0) as workers:
        begun = []
        for position in missing:
            start = time.perf_counter()
            text, names = generate_text(funcs[position], target)
            lowering_s = time.perf_counter() - start
            begun.append((position, names, lowering_s, workers.submit(names[0] if names else "", text)))
        for position, names, lowering_s, job in begun:
            code = workers.result(job)
            declared = declared_symbols(job.text)
            check_symbols(code, declared, job.name)
            made[position] = CompiledKernels(code, names, target, job.text)
            _tell(CodeMade(_name(funcs[position]), lowering_s, job.seconds, len(job.text), len(code)))
            if cache is not None:
                cache.add(sources[position], target, CachedCode(code, names, declared))
    return tuple(kernels for kernels in made if kernels is not None)


def build(given: IRModule, target: Target, cache: KernelCache | None) -> KernelModule:
    """A module of machine code. Raises: as `compile_module`."""
    needs = target.needs
    kernels = compile_module(given, target, cache)
    names = [name for each in kernels for name in each.functions]
    texts = {TEXT_FORMAT: "\n".join(each.llvm_ir for each in kernels)}
    return KernelModule([each.object_code for each in kernels], names, str(target), texts, needs)


def join(kernels: Sequence[KernelModule], made: KernelModule, target: Target) -> KernelModule:
    """All objects in one module: they are linked together."""
    names = [name for module in kernels for name in module.names]
    objects = [code for module in (*kernels, made) for code in module.objects]
    needs = reduce(Needs.joined, (module.needs for module in kernels), made.needs)
    return KernelModule(objects, [*names, *made.names], str(target), made.source, needs)


def _tell(made: CodeMade) -> None:
    for instrument in PassContext.current().instruments:
        instrument.code_made(made)


def _name(func: PrimFunc) -> str:
    return str(func.attrs.get("global_symbol"))


def _find(source: bytes | None, target: Target, cache: KernelCache | None) -> CompiledKernels | None:
    entry = None if cache is None else cache.find(source, target)
    if entry is None:
        return None
    check_symbols(entry.code.object_code, entry.code.declared, ", ".join(entry.code.functions))
    return CompiledKernels(entry.code.object_code, entry.code.functions, target)
