"""Statements as C. The function under way returns 0, or -1 after `heddle_set_error`."""

from __future__ import annotations

from collections.abc import Callable

from heddle.codegen.c.emit_memory import MemoryEmitter, Pointers
from heddle.codegen.c.intrinsics import emit_call
from heddle.codegen.c.types import element_type, memory_type, text_literal
from heddle.codegen.c.writer import FunctionWriter, ModuleWriter, bare
from heddle.codegen.codes import G0101
from heddle.codegen.error_kinds import ERROR_KINDS, INDEX_ERROR
from heddle.codegen.expressions import is_mask, is_speculatable
from heddle.ir.node import replace
from heddle.prim.checked_index import MESSAGE
from heddle.prim.nodes import Call, IntImm, PrimExpr, Var, as_expr, is_const_int
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.tir.allocation import is_on_stack, num_elements
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)

INT64 = DataType("int64")
ParallelEmitter = Callable[["StmtEmitter", For], None]


class StmtEmitter(MemoryEmitter):
    """Emits statements of a `kernel`. `emit_parallel` outlines the loops of kind PARALLEL."""

    def __init__(
        self,
        module: ModuleWriter,
        out: FunctionWriter,
        pointers: Pointers,
        kernel: str,
        emit_parallel: ParallelEmitter,
    ) -> None:
        super().__init__(out, pointers)
        self.module, self.kernel = module, kernel
        self._emit_parallel = emit_parallel
        self._workspaces: list[str] = []

    def visit_Call(self, node: Call) -> str:
        return emit_call(self, node)

    def run(self, stmt: Stmt) -> None:
        """Emit a statement. Raises: UsageError G0101 for one that has no form in C."""
        self._method(type(stmt))(self, stmt)

    def scoped(self, stmt: Stmt) -> None:
        """A body whose allocations end with it."""
        held = len(self._workspaces)
        self.run(stmt)
        self._free_down_to(held)

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        held = len(self._workspaces)
        for stmt in node.seq:
            self.run(stmt)
        self._free_down_to(held)

    def pointer_type(self, var: Var) -> str:
        """The type of a variable that holds an address."""
        return f"{self.pointers.target(var)} *"

    def type_of(self, var: Var) -> str:
        """The C type of a variable; of a vector, that of one lane."""
        return self.pointer_type(var) if var.dtype.is_handle else element_type(var.dtype)

    def visit_Bind(self, node: Bind) -> None:
        if node.var.dtype.lanes > 1:
            self.env[node.var] = self.in_array(node.value, node.var.name)
            return
        self.env[node.var] = self.out.value(self.type_of(node.var), self.emit(node.value), node.var.name)

    def visit_BufferStore(self, node: BufferStore) -> None:
        if node.predicate is not None and not is_mask(node.predicate, node.buffer.dtype, node.value.dtype):
            with self.out.block(f"if ({bare(self.predicate(node.predicate))})"):
                self.visit_BufferStore(replace(node, predicate=None))
            return
        index = self.flat_index(node.buffer, node.indices)
        if node.value.dtype.lanes > 1:
            self.store_vector(node, index)
        else:
            self.store_lane(node.buffer, index, self.emit(node.value))

    def visit_Evaluate(self, node: Evaluate) -> None:
        value = node.value
        if isinstance(value, Call) and value.op.name == "tir.ret":
            self.leave(self.emit(cast("int32", as_expr(value.args[0]))))
        elif isinstance(value, PrimExpr) and not is_speculatable(value):
            if value.dtype.lanes > 1:
                self.in_array(value, "unused")
                return
            text = self.emit_effect(value)
            if text:
                self.out.line(f"(void)({text});" if element_type(value.dtype) != "void" else f"{text};")

    def leave(self, status: str) -> None:
        """Return from the function, workspaces given back."""
        if self._workspaces and not status.lstrip("-").isdigit():
            status = self.out.value("int32_t", status, "status")
        for workspace in reversed(self._workspaces):
            self._free(workspace)
        self.out.line(f"return {status};")

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        """Nothing to do: accesses name the pointer."""

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        buffer = node.buffer
        count, ty = num_elements(buffer), memory_type(buffer.dtype)
        if is_on_stack(node):
            assert isinstance(count, IntImm)
            elements = max(count.value * buffer.dtype.lanes, 1)
            if self.pointers.is_punned(buffer.data):  # the union aligns the bytes
                size = elements * buffer.dtype.element.itemsize
                union = self.out.declare(
                    buffer.name,
                    f"union {{ unsigned char bytes[{size}]; double real; int64_t integer; }} {{}};",
                )
                self.env[buffer.data] = f"{union}.bytes"
            else:
                self.env[buffer.data] = self.out.declare(buffer.name, f"{_spaced(ty)}{{}}[{elements}];")
            if buffer.data not in self.pointers.read:
                self.out.line(f"(void){self.env[buffer.data]};")
            return
        constant = count.value * buffer.dtype.itemsize if isinstance(count, IntImm) else None
        self.module.workspaces.setdefault(self.kernel, []).append(constant)
        size_bytes = self.emit_index(cast(INT64, num_elements(buffer)) * buffer.dtype.itemsize)
        pointer = self.pointer_type(buffer.data)
        name = self.out.value(pointer, f"heddle_workspace_alloc({size_bytes})", buffer.name)
        with self.out.block(f"if ({name} == NULL)"):
            self.leave("-1")
        self.env[buffer.data] = name
        self._workspaces.append(name)

    def _free_down_to(self, count: int) -> None:
        while len(self._workspaces) > count:
            self._free(self._workspaces.pop())

    def _free(self, workspace: str) -> None:
        self.out.line(f"heddle_workspace_free({workspace});")

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        with self.out.block(f"if (!{self.emit(node.condition)})"):
            expected, got = self._error_operand(node.expected), self._error_operand(node.got)
            self._report(ERROR_KINDS[node.error_kind], node.message, expected, got)

    def checked_index(self, node: Call) -> str:
        """The position that an index means; the function is left where it is outside."""
        index, extent, from_end, *mask = (arg for arg in node.args if isinstance(arg, PrimExpr))
        given = self.out.value("int64_t", self.emit(index), "given")
        with self.in_lane(None):
            size = self.out.value("int64_t", self.emit(extent), "size")
        moved = f"{given} < 0 ? {given} + {size} : {given}" if is_const_int(from_end, 1) else given
        position = self.out.value("int64_t", moved, "position")
        test = f"{position} < 0 || {position} >= {size}"
        if mask:
            test = f"({test}) && {self.emit(mask[0])}"
        with self.out.block(f"if ({bare(test)})"):
            self._report(INDEX_ERROR, MESSAGE, size, given)
        return position

    def _report(self, kind: int, message: str, expected: str, got: str) -> None:
        self.out.line(f"heddle_set_error({kind}, {text_literal(message)}, {expected}, {got});")
        self.leave("-1")

    def _error_operand(self, value: PrimExpr | None) -> str:
        return "0" if value is None else self.emit(cast(INT64, value))

    def check_status(self, status: str) -> None:
        """Leave with -1 where a callee reported an error."""
        with self.out.block(f"if ({status} != 0)"):
            self.leave("-1")

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        test = self.emit(node.condition)
        if node.else_case is None:
            with self.out.block(f"if ({bare(test)})"):
                self.scoped(node.then_case)
            return
        with self.out.block(f"if ({bare(test)})", tail="} else {"):
            self.scoped(node.then_case)
        with self.out.rest():
            self.scoped(node.else_case)

    def visit_While(self, node: While) -> None:
        with self.out.block("for (;;)"):
            self.out.line(f"if (!{self.emit(node.condition)}) break;")
            self.scoped(node.body)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.scoped(node.body)

    def visit_For(self, node: For) -> None:
        if node.kind is ForKind.PARALLEL:
            self._emit_parallel(self, node)
            return
        if node.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING):
            raise UsageError(G0101, f"a {node.kind.name.lower()} loop was not lowered", span=node.span)
        self.loop(node, self.emit_index(node.min), self.emit_index(node.min + node.extent))

    def loop(self, node: For, begin: str, end: str) -> None:
        """for (v = begin; v < end; ++v) body."""
        ty = element_type(node.loop_var.dtype)
        if isinstance(node.extent, IntImm) and node.extent.value <= 0:
            return
        if not end.isalnum():
            end = self.out.value(ty, end, f"{node.loop_var.name}_end")
        name = self.env[node.loop_var] = self.out.names.fresh(node.loop_var.name)
        with self.out.block(f"for ({ty} {name} = {begin}; {name} < {end}; ++{name})"):
            self.scoped(node.body)


def _spaced(ty: str) -> str:
    return ty if ty.endswith("*") else f"{ty} "
