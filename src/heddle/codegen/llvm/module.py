"""Lowered PrimFuncs → the text of an LLVM module."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.codegen.codes import G0103
from heddle.codegen.llvm.emit_memory import AliasScopes
from heddle.codegen.llvm.emit_stmt import StmtEmitter
from heddle.codegen.llvm.object_code import AS_WRITTEN
from heddle.codegen.llvm.parallel import ParallelLoops
from heddle.codegen.llvm.places import PlacedEmitter, PlacedModule, Places
from heddle.codegen.llvm.program_builtins import emit_program_function
from heddle.codegen.llvm.types import register_type
from heddle.codegen.llvm.unroll_budget import MOST_LOOPS
from heddle.codegen.llvm.writer import ModuleWriter, symbol
from heddle.prim.nodes import Var
from heddle.runtime.native.library import kernel_symbol
from heddle.support.diagnostics import UsageError
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import AllocBuffer, PrimFunc
from heddle.tir.program_abi import PROGRAM_CONV

_ENTRY = " noimplicitfloat"
"""Of entries, which look at words: LLVM need not try what vectors could do for them."""


def emit_module(
    funcs: Sequence[PrimFunc], triple: str, data_layout: str, vector_bits: int, places: Places | None = None
) -> str:
    """LLVM IR text of functions that `MakePackedAPI` made. With `places`, for texts that are read, each
    instruction has the place that it comes from. Raises: UsageError G0101, G0103."""
    module, emitter = ModuleWriter(triple, data_layout), StmtEmitter
    if places is not None:
        module, emitter = PlacedModule(triple, data_layout, places), PlacedEmitter
    width = f' "prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}"'
    attributes = module.attributes(f"nounwind{width}")
    for func in funcs:
        if func.attrs.get(CALLING_CONV) == PROGRAM_CONV:
            emit_program_function(module, func)
        else:
            _emit_function(module, func, attributes, emitter)
    is_straight = all(func.attrs.get(CALLING_CONV) == PROGRAM_CONV for func in funcs)
    if is_straight or module.unrolled.num_loops > MOST_LOOPS:
        module.flag(AS_WRITTEN)
    return module.build()


def _emit_function(
    module: ModuleWriter, func: PrimFunc, attributes: str, emitter_class: type[StmtEmitter]
) -> None:
    name = func.attrs.get("global_symbol")
    if not name:
        raise UsageError(G0103, "a function to compile needs the attribute 'global_symbol'")
    out = module.function()
    scopes = AliasScopes(module, distinct_memory(func))
    emitter = emitter_class(module, out, scopes, ParallelLoops(name, attributes))
    params = []
    for position, param in enumerate(func.params):
        emitter.env[param] = f"%p{position}"
        params.append(f"{_param_type(func, param)} %p{position}")
    emitter.scoped(func.body)
    if not out.terminated:
        out.terminate("ret i32 0")
    is_kernel = func.attrs.get(CALLING_CONV) == "packed"
    linked, inline = (kernel_symbol(name), _ENTRY) if is_kernel else (name, " noinline")
    module.add_function(
        linked, out.build(f"define i32 {symbol(linked)}({', '.join(params)}){inline} {attributes}")
    )


def _param_type(func: PrimFunc, param: Var) -> str:
    noalias = param.dtype.is_handle and func.attrs.get("tir.noalias") and param.element_dtype is not None
    return register_type(param.dtype) + (" noalias" if noalias else "")


def distinct_memory(func: PrimFunc) -> list[Var]:
    """Pointers that share no memory: allocations, and parameters where the function says so."""
    found: dict[Var, None] = {}
    if func.attrs.get("tir.noalias"):
        found.update((param, None) for param in func.params if param.element_dtype is not None)
    found.update((node.buffer.data, None) for node in walk_stmts(func.body) if isinstance(node, AllocBuffer))
    return list(found)
