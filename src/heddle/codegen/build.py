"""PrimFuncs → code, by the record of the target's kind."""

from __future__ import annotations

from typing import Any

from heddle.codegen.backend import backend_of
from heddle.codegen.cache import KernelCache, kernel_cache
from heddle.codegen.functions import as_module, is_entry
from heddle.codegen.pipeline import lower
from heddle.runtime.kernel_module import KernelModule
from heddle.target import Target
from heddle.tir.nodes import PrimFunc


def generate_text(given: Any, target: Target) -> tuple[str, tuple[str, ...]]:
    """The text (LLVM IR, C) of all PrimFuncs of a module, and the names of the kernels."""
    funcs = lowered_functions(given, target)
    names = tuple(str(func.attrs["global_symbol"]) for func in funcs if is_entry(func))
    return backend_of(target).emit(funcs, target), names


def lowered_functions(given: Any, target: Target) -> list[PrimFunc]:
    """All PrimFuncs of a module as the target's emitter takes them."""
    mod = lower(as_module(given), target)
    return [func for func in mod.functions.values() if isinstance(func, PrimFunc)]


def build(given: Any, target: Target | str | None = None, cache: KernelCache | None = None) -> KernelModule:
    """A module of kernels that can be called and saved. The target is by default the current one, else this
    machine.
    """
    chosen = Target(target) if target is not None else Target.current() or Target("llvm")
    chosen.check()
    return backend_of(chosen).build(as_module(given), chosen, kernel_cache() if cache is None else cache)
