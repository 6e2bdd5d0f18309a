"""Programs whose kernels run in the loop interpreter: all of the compiler but what makes machine code.

The scheduled loops run as they are, with every access checked, parallel loops backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.codegen.build import build
from heddle.driver.pipeline import default_pipeline
from heddle.ir.module import IRModule
from heddle.ir.node import children
from heddle.ir.visitor import walk
from heddle.lower.codegen_vm import vm_codegen
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import BufferLoad, BufferStore, For, PrimFunc, Stmt
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
        self._depths = _nests(func.body)
        self._compiled: Module | None = None

    def __call__(self, *args: Any) -> Any:
        if _iterations(self._func, self._depths, args) <= MAX_ITERATIONS:
            arrays = [arg.numpy() if isinstance(arg, Tensor) else arg for arg in args]
            return run_primfunc(self._func, *arrays, reverse_parallel=True)
        if self._compiled is None:
            self._compiled = build(self._func, self._target)
        return self._compiled[self._compiled.function_names()[0]](*args)


def _nests(stmt: Stmt) -> list[tuple[PrimExpr, ...]]:
    """The extents of the loops around each store."""
    found: list[tuple[PrimExpr, ...]] = []

    def visit(node: Any, extents: tuple[PrimExpr, ...]) -> None:
        if isinstance(node, For):
            extents = (*extents, node.extent)
        elif isinstance(node, BufferStore):
            found.append(extents)
        for child in children(node):
            visit(child, extents)

    visit(stmt, ())
    return found


def _iterations(func: PrimFunc, nests: Sequence[tuple[PrimExpr, ...]], args: Sequence[Any]) -> int:
    """How often stores run with these arguments."""
    sizes: dict[Var, int] = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            sizes[param] = arg
        else:
            sizes.update(
                (dim, size) for dim, size in zip(buffer.shape, arg.shape, strict=True) if isinstance(dim, Var)
            )
    total = 0
    for extents in nests:
        count = 1
        for extent in extents:
            count *= _value(extent, sizes)
        total += count
    return total


def _value(extent: PrimExpr, sizes: Mapping[Var, int]) -> int:
    """An extent by the sizes of the arguments; of one that depends on loops or elements, a guess."""
    is_known = all(var in sizes for var in free_vars(extent))
    if is_known and not any(isinstance(node, BufferLoad) for node in walk(extent)):
        return int(evaluate(extent, sizes))
    return 4


def with_interpreted_loops(mod: IRModule, target: Target) -> VMExecutable:
    """The default pipeline's program, its loops interpreted."""
    builder, loops = vm_codegen(default_pipeline(target)(mod))
    return builder.get(imports=[InterpretedLoops(loops, target)])
