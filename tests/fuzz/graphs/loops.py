"""Programs whose kernels run in the loop interpreter: all of the compiler but what makes machine code.

The scheduled loops run as they are, with every access checked, parallel loops backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.codegen.build import build
from heddle.driver.pipeline import default_pipeline
from heddle.ir.module import IRModule
from heddle.lower.codegen_vm import vm_codegen
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.target import Target
from heddle.tir.analysis.turns import nests_of, num_turns
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.vm.relax import VMExecutable

MAX_ITERATIONS = 300
"""Of a kernel's innermost loops. A call that needs more runs as machine code: the interpreter takes some
10 us for an operation."""


class InterpretedLoops(Module):
    """The loop functions of a module by their names, as functions of tensors."""

    kind = "interpreted loops"

    def __init__(self, loops: IRModule, target: Target) -> None:
        super().__init__()
        self._funcs = {
            str(func.attrs.get("global_symbol") or var.name_hint): _Loops(func, target)
            for var, func in loops.functions.items()
            if isinstance(func, PrimFunc)
        }

    def function_names(self) -> Sequence[str]:
        return tuple(self._funcs)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return self._funcs.get(name)


class _Loops:
    """A kernel: interpreted where that is quick, else compiled when it is first called."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        self._func, self._target = func, target
        self._nests = nests_of(func.body)
        self._compiled: Module | None = None

    def __call__(self, *args: Any) -> Any:
        if num_turns(self._func, self._nests, args) <= MAX_ITERATIONS:
            arrays = [arg.numpy() if isinstance(arg, Tensor) else arg for arg in args]
            return run_primfunc(self._func, *arrays, reverse_parallel=True)
        if self._compiled is None:
            self._compiled = build(self._func, self._target)
        return self._compiled[self._compiled.function_names()[0]](*args)


def with_interpreted_loops(mod: IRModule, target: Target) -> VMExecutable:
    """The default pipeline's program, its loops interpreted."""
    builder, loops = vm_codegen(default_pipeline(target)(mod))
    return builder.get(imports=[InterpretedLoops(loops, target)])
