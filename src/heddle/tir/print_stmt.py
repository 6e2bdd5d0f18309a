"""Statements and loop functions as script text; `tir.parser` reads it back to an equal structure."""

from __future__ import annotations

from typing import Any

from heddle.ir.node import Node
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, Var, constant
from heddle.prim.substitute import free_vars
from heddle.support.text import TextBuilder
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
)
from heddle.tir.print_expr import ExprPrinter, Names, quote

_LOOP_NAMES = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}
_AXIS_NAMES = {
    IterType.DataPar: "spatial",
    IterType.CommReduce: "reduce",
    IterType.Ordered: "scan",
    IterType.Opaque: "opaque",
    IterType.ThreadIndex: "thread",
}


class StmtPrinter(ExprPrinter):
    """Writes statements into `out`, one `visit_*` a class."""

    def __init__(self, names: Names | None = None) -> None:
        super().__init__(names)
        self.out = TextBuilder()
        self._loops: dict[Var, For] = {}

    def stmt(self, node: Stmt) -> None:
        """Write a statement, on lines of its own."""
        before = self.out.begin(node.span)
        self._method(type(node))(self, node)
        self.out.end(before)

    def block_of(self, node: Stmt) -> None:
        """A nested statement, indented."""
        with self.out.indented():
            self.stmt(node)

    # ---- functions

    def prim_func(self, func: PrimFunc, name: str, private: bool = False) -> None:
        """Write a loop function with its decorator. `private` leaves out its global symbol."""
        with_text = self._parameters(func)
        self.out.line("@T.prim_func(private=True)" if private else "@T.prim_func")
        returns = f" -> {self.type(func.ret_type)}" if func.ret_type is not None else ""
        self.out.line(f"def {name}({', '.join(text for text, _ in with_text)}){returns}:")
        with self.out.indented():
            self._function_attrs(func, name, private)
            self._match_buffers(
                [(text.split(":")[0], buffer) for text, buffer in with_text if buffer is not None]
            )
            self._function_body(func.body)

    def _parameters(self, func: PrimFunc) -> list[tuple[str, Buffer | None]]:
        """Each parameter's text, and the buffer to match in the body where the annotation cannot hold it."""
        result: list[tuple[str, Buffer | None]] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                result.append((f"{self.names.define(param, param.name)}: {self.type(param.ty)}", None))
            elif not free_vars(*_buffer_exprs(buffer)):
                text = self._define_buffer(buffer)
                result.append((f"{text}: T.Buffer({self._buffer_arguments(buffer)})", None))
            else:
                result.append((f"{self.names.define(param, f'var_{buffer.name}')}: T.handle", buffer))
        return result

    def _function_attrs(self, func: PrimFunc, name: str, private: bool) -> None:
        attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol" or (v != name or private)}
        if "global_symbol" not in func.attrs and not private:
            attrs["global_symbol"] = None
        if attrs:
            self.out.line(f"T.func_attr({self.value(attrs)})")

    def _match_buffers(self, params: list[tuple[str, Buffer]]) -> None:
        for handle, buffer in params:
            self._declare_vars(*_buffer_exprs(buffer))
            name = self._define_buffer(buffer)
            self.out.line(f"{name} = T.match_buffer({handle}, {self._buffer_arguments(buffer)})")

    def _declare_vars(self, *exprs: PrimExpr) -> None:
        for var in free_vars(*exprs):
            if var not in self.names:
                size = "is_size_var=True" if var.is_size else ""
                self.out.line(f"{self.names.define(var, var.name)} = T.{var.dtype}({size})")

    def _function_body(self, body: Stmt) -> None:
        if isinstance(body, SBlockRealize) and _is_implicit_root(body):
            self._allocations(body.block)
            self.stmt(body.block.body)
        else:
            self.stmt(body)

    # ---- buffers

    def _define_buffer(self, buffer: Buffer) -> str:
        name = self.names.define(buffer, buffer.name)
        self.names.pointers.setdefault(buffer.data, name)
        return name

    def _buffer_arguments(self, buffer: Buffer, data: str | None = None) -> str:
        parts = [self.tuple(buffer.shape), quote(buffer.dtype)]
        if data is not None:
            parts.append(f"data={data}")
        if buffer.strides:
            parts.append(f"strides={self.tuple(buffer.strides)}")
        if buffer.elem_offset is not None:
            parts.append(f"elem_offset={self.expr(buffer.elem_offset)}")
        if buffer.scope != "global" and data is None:
            parts.append(f"scope={quote(buffer.scope)}")
        if buffer.align_bytes != 64:
            parts.append(f"align={buffer.align_bytes}")
        return ", ".join(parts)

    def _allocations(self, block: SBlock) -> None:
        for buffer in block.alloc_buffers:
            arguments = self._buffer_arguments(buffer)
            self.out.line(f"{self._define_buffer(buffer)} = T.sblock_alloc_buffer({arguments})")

    # ---- statements

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        for stmt in node.seq:
            self.stmt(stmt)

    def visit_Evaluate(self, node: Evaluate) -> None:
        self.out.line(f"T.evaluate({self.expr(node.value)})")

    def visit_Bind(self, node: Bind) -> None:
        value = self.expr(node.value)
        self.out.line(f"{self.names.define(node.var, node.var.name)}: {self.type(node.var.ty)} = {value}")

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        extra = f", annotations={self.value(node.annotations)}" if node.annotations else ""
        arguments = self._buffer_arguments(node.buffer)
        self.out.line(f"{self._define_buffer(node.buffer)} = T.alloc_buffer({arguments}{extra})")

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        arguments = self._buffer_arguments(node.buffer, self.expr(node.buffer.data))
        self.out.line(f"{self.names.define(node.buffer, node.buffer.name)} = T.decl_buffer({arguments})")

    def visit_BufferStore(self, node: BufferStore) -> None:
        name = self.names.of(node.buffer, node.buffer.name)
        value = self.expr(node.value)
        if node.predicate is not None:
            predicate = self.expr(node.predicate)
            self.out.line(f"{name}.vstore([{self.list(*node.indices)}], {value}, predicate={predicate})")
        else:
            self.out.line(f"{name}[{self.list(*node.indices) or '()'}] = {value}")

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        parts = [self.expr(node.condition), quote(node.message)]
        if node.error_kind != "RuntimeError":
            parts.append(f"error_kind={quote(node.error_kind)}")
        for name in ("expected", "got"):
            if getattr(node, name) is not None:
                parts.append(f"{name}={self.expr(getattr(node, name))}")
        self.out.line(f"T.assert_({', '.join(parts)})")

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.out.line(f"if {self.expr(node.condition)}:")
        self.block_of(node.then_case)
        if node.else_case is not None:
            self.out.line("else:")
            self.block_of(node.else_case)

    def visit_While(self, node: While) -> None:
        self.out.line(f"while {self.expr(node.condition)}:")
        self.block_of(node.body)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.out.line(
            f"with T.attr({self.value(node.node)}, {quote(node.attr_key)}, {self.expr(node.value)}):"
        )
        self.block_of(node.body)

    def visit_For(self, node: For) -> None:
        nest = _plain_nest(node)
        if len(nest) > 1:
            extents = self.list(*(loop.extent for loop in nest))
            names = [self._define_loop(loop) for loop in nest]
            self.out.line(f"for {', '.join(names)} in T.grid({extents}):")
        else:
            text = self._loop_range(node)
            self.out.line(f"for {self._define_loop(node)} in {text}:")
        self.block_of(nest[-1].body)

    def _define_loop(self, loop: For) -> str:
        self._loops[loop.loop_var] = loop
        return self.names.define(loop.loop_var, loop.loop_var.name)

    def _loop_range(self, node: For) -> str:
        plain = node.kind is ForKind.SERIAL and not node.annotations
        zero = isinstance(node.min, IntImm) and node.min.value == 0
        bounds = (
            self.expr(node.extent) if zero else f"{self.expr(node.min)}, {self.expr(node.min + node.extent)}"
        )
        if plain:
            return f"range({bounds})"
        extra = f", thread={quote(node.thread_binding)}" if node.thread_binding is not None else ""
        if node.annotations:
            extra += f", annotations={self.value(node.annotations)}"
        return f"T.{_LOOP_NAMES[node.kind]}({bounds}{extra})"

    # ---- blocks

    def visit_SBlockRealize(self, node: SBlockRealize) -> None:
        block = node.block
        self.out.line(f"with T.sblock({quote(block.name_hint)}):")
        with self.out.indented():
            self._axes(node)
            if not (isinstance(node.predicate, IntImm) and node.predicate.value == 1):
                self.out.line(f"T.where({self.expr(node.predicate)})")
            self._block_body(block)

    def visit_SBlock(self, node: SBlock) -> None:
        self.visit_SBlockRealize(SBlockRealize(tuple(v.var for v in node.iter_vars), constant(True), node))

    def _axes(self, node: SBlockRealize) -> None:
        axes, values = node.block.iter_vars, node.iter_values
        if len(axes) > 1 and all(self._is_loop_axis(a, v) for a, v in zip(axes, values, strict=True)):
            bound = self.list(*values)
            kinds = "".join("S" if axis.iter_type is IterType.DataPar else "R" for axis in axes)
            names = ", ".join(self.names.define(axis.var, axis.var.name) for axis in axes)
            self.out.line(f'{names} = T.axis.remap("{kinds}", [{bound}])')
            return
        for axis, value in zip(axes, values, strict=True):
            text = self.expr(value)
            low = axis.dom.min
            zero = isinstance(low, IntImm) and low.value == 0
            domain = self.expr(axis.dom.extent) if zero else f"({self.expr(low)}, {self.expr(axis.dom.end)})"
            name = self.names.define(axis.var, axis.var.name)
            self.out.line(f"{name} = T.axis.{_AXIS_NAMES[axis.iter_type]}({domain}, {text})")

    def _is_loop_axis(self, axis: IterVar, value: PrimExpr) -> bool:
        """Whether the axis runs over exactly the range of the loop that it is bound to."""
        loop = self._loops.get(value) if isinstance(value, Var) else None
        if loop is None or axis.iter_type not in (IterType.DataPar, IterType.CommReduce):
            return False
        same_range = structural_equal(axis.dom.min, loop.min) and structural_equal(
            axis.dom.extent, loop.extent
        )
        return same_range and axis.var.dtype == loop.loop_var.dtype

    def _block_body(self, block: SBlock) -> None:
        self.out.line(f"T.reads({self.list(*block.reads)})")
        self.out.line(f"T.writes({self.list(*block.writes)})")
        if block.annotations:
            self.out.line(f"T.sblock_attr({self.value(block.annotations)})")
        self._allocations(block)
        for match in block.match_buffers:
            self._declare_vars(*_buffer_exprs(match.buffer))
            source = self.expr(match.source)
            arguments = self._buffer_arguments(match.buffer)
            self.out.line(f"{self._define_buffer(match.buffer)} = T.match_buffer({source}, {arguments})")
        if block.init is not None:
            self.out.line("with T.init():")
            self.block_of(block.init)
        self.stmt(block.body)


def _buffer_exprs(buffer: Buffer) -> tuple[PrimExpr, ...]:
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


def _is_implicit_root(node: SBlockRealize) -> bool:
    """The root block is not written where reading would make the very same one."""
    block = node.block
    plain = not (
        block.iter_vars
        or block.reads
        or block.writes
        or block.annotations
        or block.match_buffers
        or block.init
    )
    trivial = isinstance(node.predicate, IntImm) and node.predicate.value == 1
    has_blocks = any(isinstance(inner, SBlockRealize) for inner in walk_distinct(block.body)) or bool(
        block.alloc_buffers
    )
    return plain and trivial and block.name_hint == "root" and has_blocks


def _plain_nest(loop: For) -> list[For]:
    """A loop and those directly inside it that `T.grid` can write together."""
    nest = [loop]
    while _fits_grid(nest[-1]) and isinstance(nest[-1].body, For) and _fits_grid(nest[-1].body):
        inner = nest[-1].body
        if any(var in {outer.loop_var for outer in nest} for var in free_vars(inner.extent)):
            break
        nest.append(inner)
    return nest


def _fits_grid(loop: For) -> bool:
    zero = isinstance(loop.min, IntImm) and loop.min.value == 0
    return loop.kind is ForKind.SERIAL and zero and not loop.annotations


def tir_script(node: Node, **_options: Any) -> str:
    """Text of a node of loops or of scalar expressions."""
    if isinstance(node, PrimFunc):
        printer = StmtPrinter()
        name = node.attrs.get("global_symbol")
        printer.prim_func(node, name or "main", private=False)
        return "# from heddle.script import tir as T\n\n" + printer.out.build()
    if isinstance(node, Stmt):
        printer = StmtPrinter()
        printer.stmt(node)
        return printer.out.build()
    if isinstance(node, (IntImm, FloatImm)):
        return str(node.value)  # alone, in a message: the dtype is noise
    if isinstance(node, IterVar):
        return f"T.iter_var({node.var.name}, {ExprPrinter().expr(node.dom)}, {quote(node.iter_type.name)})"
    return ExprPrinter().expr(node)
