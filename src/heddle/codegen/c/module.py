"""Lowered PrimFuncs → the text of C functions.

A parallel loop becomes a function over a range of iterations, as for LLVM (`codegen/llvm/parallel.py`):

    for parallel i in m .. m + n: body      →      struct {captured values} values = {...};
                                                   heddle_parallel_for(f_parallel, &values, n, grain)

`heddle_parallel_for` is a function that programs may bring along; the one of `heddle_runtime.h` runs loops
on the thread that asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.codegen.c.emit_memory import Pointers
from heddle.codegen.c.emit_stmt import INT64, StmtEmitter
from heddle.codegen.c.program_builtins import emit_program_function
from heddle.codegen.c.types import element_type
from heddle.codegen.c.writer import FunctionWriter, ModuleWriter, symbol
from heddle.codegen.codes import G0103
from heddle.codegen.parallel import captured_vars, stated_grain
from heddle.prim.nodes import Var
from heddle.prim.ops import cast
from heddle.runtime.native.library import kernel_symbol
from heddle.support.diagnostics import UsageError
from heddle.tir.kernel_abi import BODY_SUFFIX, CALLING_CONV
from heddle.tir.nodes import For, PrimFunc
from heddle.tir.program_abi import PROGRAM_CONV


def emit_functions(module: ModuleWriter, funcs: Sequence[PrimFunc]) -> None:
    """Add functions that `MakePackedAPI` made, declared before the first of them. Raises: UsageError G0101,
    G0103.
    """
    for func in funcs:
        if func.attrs.get(CALLING_CONV) == PROGRAM_CONV:
            continue
        if not func.attrs.get("global_symbol"):
            raise UsageError(G0103, "a function to compile needs the attribute 'global_symbol'")
        module.own.add(c_name(func))
        module.declare(f"{_header(func, _types(func))};")
    for func in funcs:
        if func.attrs.get(CALLING_CONV) == PROGRAM_CONV:
            emit_program_function(module, func)
        else:
            _emit_function(module, func)


def c_name(func: PrimFunc) -> str:
    """The name of a function in C: kernels have the linker's names of kernels."""
    name = str(func.attrs["global_symbol"])
    return symbol(kernel_symbol(name) if _is_kernel(func) else name)


def _is_kernel(func: PrimFunc) -> bool:
    return bool(func.attrs.get(CALLING_CONV) == "packed")


def _header(func: PrimFunc, params: Sequence[str]) -> str:
    """The head of a function; `params` are the declarations of its parameters, or their types alone."""
    static = "" if _is_kernel(func) else "static "
    return f"{static}int32_t {c_name(func)}({', '.join(params) or 'void'})"


def _types(func: PrimFunc) -> list[str]:
    if _is_kernel(func):
        return ["const HeddleCell *", "int32_t"]
    return [element_type(param.dtype) for param in func.params]


def _emit_function(module: ModuleWriter, func: PrimFunc) -> None:
    out, pointers = FunctionWriter(), Pointers(func)
    kernel = str(func.attrs["global_symbol"]).removesuffix(BODY_SUFFIX)
    module.workspaces.setdefault(kernel, [])
    emitter = StmtEmitter(module, out, pointers, kernel, ParallelLoops(c_name(func)))
    names, opening = [], []
    for param in func.params:
        name = out.names.fresh(param.name)
        names.append(name)
        emitter.env[param] = name
        if not _is_kernel(func) and param.dtype.is_handle:
            opening.append((param, name))
    for param, name in opening:
        emitter.env[param] = _typed(emitter, param, name)
    emitter.scoped(func.body)
    out.line("return 0;")
    params = [f"{_spaced(ty)}{name}" for ty, name in zip(_types(func), names, strict=True)]
    header = _header(func, params)
    module.add(out.build(header, tuple(names)))


def _typed(emitter: StmtEmitter, var: Var, value: str) -> str:
    """A pointer of the type of what it points to, which nothing else points to where the function says so."""
    restrict = " restrict" if var in emitter.pointers.restricted else ""
    ty = emitter.pointer_type(var)
    if ty == "void *":
        return value
    return emitter.out.declare(var.name, f"{ty}const{restrict} {{}} = {value};")


def _spaced(ty: str) -> str:
    return ty if ty.endswith("*") else f"{ty} "


def _serially(emitter: StmtEmitter, node: For) -> None:
    """A parallel loop inside a parallel loop."""
    emitter.loop(node, emitter.emit_index(node.min), emitter.emit_index(node.min + node.extent))


class ParallelLoops:
    """Outlines the parallel loops of one function."""

    def __init__(self, function_name: str) -> None:
        self._stem = f"{function_name}_parallel"

    def __call__(self, emitter: StmtEmitter, node: For) -> None:
        captured = captured_vars(node, emitter.env)
        name = emitter.module.names.fresh(self._stem)
        fields = [f"{_spaced(emitter.type_of(var))}v{position};" for position, var in enumerate(captured)]
        emitter.module.declare(f"struct {name} {{ {' '.join(fields) or 'int32_t none;'} }};")
        emitter.module.declare(f"static int32_t {name}(int64_t begin, int64_t end, void *values);")
        given = ", ".join(emitter.emit(var) for var in captured) or "0"
        values = emitter.out.declare("values", f"struct {name} {{}} = {{{given}}};")
        extent = emitter.emit_index(cast(INT64, node.extent))
        grain = emitter.emit_index(stated_grain(node))
        emitter.check_status(f"heddle_parallel_for({name}, &{values}, {extent}, {grain})")
        self._outline(emitter, node, name, captured)

    def _outline(self, outer: StmtEmitter, node: For, name: str, captured: tuple[Var, ...]) -> None:
        out = FunctionWriter()
        for taken in ("begin", "end", "values", "given"):
            out.names.fresh(taken)
        inner = StmtEmitter(outer.module, out, outer.pointers, outer.kernel, _serially)
        out.line(f"const struct {name} *const given = (const struct {name} *)values;")
        for position, var in enumerate(captured):
            text = f"given->v{position}"
            if var.dtype.is_handle:
                restrict = " restrict" if var in outer.pointers.restricted else ""
                inner.env[var] = out.declare(
                    var.name, f"{outer.pointer_type(var)}const{restrict} {{}} = {text};"
                )
            else:
                inner.env[var] = out.value(element_type(var.dtype), text, var.name)
        ty, first = element_type(node.loop_var.dtype), inner.emit_index(node.min)
        inner.loop(node, *(f"{first} + ({ty}){bound}" for bound in ("begin", "end")))
        out.line("return 0;")
        header = f"static int32_t {name}(int64_t begin, int64_t end, void *values)"
        outer.module.add(out.build(header, ("begin", "end", "given")))
