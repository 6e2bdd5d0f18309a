"""Parallel loops: the body becomes a function over a range of iterations, which the thread pool calls.

    for parallel i in m .. m + n: body      →      ctx = {captured values}
                                                   status = heddle_parallel_for(@f.parallel, ctx, n, grain)
    with  i32 @f.parallel(i64 begin, i64 end, ptr ctx): for i in m + begin .. m + end: body; return 0

A parallel loop inside another runs serially. A status other than 0 makes the function return -1.
"""

from __future__ import annotations

from heddle.codegen.llvm.emit_stmt import StmtEmitter
from heddle.codegen.llvm.types import INT64, register_type
from heddle.codegen.llvm.writer import symbol
from heddle.codegen.parallel import captured_vars, stated_grain
from heddle.prim.nodes import Var
from heddle.prim.ops import cast
from heddle.tir.nodes import For


def emit_serially(emitter: StmtEmitter, node: For) -> None:
    """A parallel loop inside a parallel loop."""
    emitter.loop(node, emitter.emit_index(node.min), emitter.emit_index(node.min + node.extent))


class ParallelLoops:
    """Outlines the parallel loops of one function; `header_tail` is the attribute group of functions."""

    def __init__(self, function_name: str, header_tail: str) -> None:
        self._stem = f"{function_name}.parallel"
        self._header_tail = header_tail

    def __call__(self, emitter: StmtEmitter, node: For) -> None:
        captured = captured_vars(node, emitter.env)
        name = emitter.module.symbols.fresh(self._stem)
        fields = ", ".join(register_type(var.dtype) for var in captured)
        context_ty = f"{{ {fields} }}"
        context = emitter.out.alloca(f"{context_ty}, align 16")
        for position, var in enumerate(captured):
            slot = emitter.out.value(
                f"getelementptr inbounds {context_ty}, ptr {context}, i32 0, i32 {position}"
            )
            emitter.out.effect(f"store {register_type(var.dtype)} {emitter.env[var]}, ptr {slot}")
        extent = emitter.emit_index(cast(INT64, node.extent))
        count = emitter.emit_index(stated_grain(node))
        callee = emitter.module.declare("heddle_parallel_for", "i32", ["ptr", "ptr", "i64", "i64"])
        arguments = f"ptr {symbol(name)}, ptr {context}, i64 {extent}, i64 {count}"
        status = emitter.out.value(f"call i32 {callee}({arguments})")
        emitter.check_status(status)
        self._outline(emitter, node, name, context_ty, captured)

    def _outline(
        self, outer: StmtEmitter, node: For, name: str, context_ty: str, captured: tuple[Var, ...]
    ) -> None:
        out = outer.module.function(outer.out)
        inner = type(outer)(outer.module, out, outer.scopes, emit_serially)
        inner.nonnegative = set(outer.nonnegative)
        inner.divisors.copy_from(outer.divisors)
        for position, var in enumerate(captured):
            slot = out.value(f"getelementptr inbounds {context_ty}, ptr %ctx, i32 0, i32 {position}")
            inner.env[var] = out.value(f"load {register_type(var.dtype)}, ptr {slot}")
        ty, first = register_type(node.loop_var.dtype), inner.emit_index(node.min)
        bounds = []
        for bound in ("%begin", "%end"):
            moved = inner.convert(bound, INT64, node.loop_var.dtype)
            bounds.append(out.value(f"add nsw {ty} {first}, {moved}"))
        inner.loop(node, *bounds)
        inner.leave("0")
        header = (
            f"define internal i32 {symbol(name)}(i64 %begin, i64 %end, ptr noalias %ctx) {self._header_tail}"
        )
        outer.module.add_function(name, out.build(header))
