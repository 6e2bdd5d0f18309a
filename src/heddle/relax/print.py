"""Print graph functions as script text, which `relax.parser` parses to a structurally equal function.

Constants of more than a few elements are written `metadata[k]`; the printer collects them in `constants`, and
the parser takes them from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr
from heddle.graph.type_relations import symbolic_vars
from heddle.graph.types import UNKNOWN_NDIM, ShapeExpr, ShapeType, TensorType, VDevice
from heddle.ir.attrs import Attrs
from heddle.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from heddle.ir.node import Node
from heddle.ir.op import Op
from heddle.ir.op_def import OpDef, op_def
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.relax.metadata import embedded_metadata
from heddle.support.text import TextBuilder
from heddle.tir.print_expr import ExprPrinter, Names, quote

INLINE_ELEMENTS = 8
"""Constants of up to this many elements are printed inline."""


class TypePrinter(ExprPrinter):
    """Types and leaf expressions of the graph dialect. While `quoting`, dimensions are written as strings, as
    in a signature, where the function's own symbolic dimensions are not names yet."""

    quoting = False

    def dim(self, value: PrimExpr) -> str:
        """A dimension as it stands in a type: a number, or an expression, in quotes where its names are
        new."""
        if isinstance(value, IntImm):
            return str(value.value)
        text = self.expr(value)
        return quote(text) if self.quoting else text

    def dims(self, values: tuple[PrimExpr, ...]) -> str:
        """The dimensions of a shape in parentheses, as Python writes a tuple."""
        items = [self.dim(value) for value in values]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

    def type(self, ty: Type | None) -> str:
        if ty is None:
            return "R.Any"
        text: str = self._method(type(ty))(self, ty)
        return text

    def visit_Type(self, ty: Type) -> str:
        return super().type(ty)

    def visit_AnyType(self, _ty: AnyType) -> str:
        return "R.Any"

    def visit_PrimType(self, ty: PrimType) -> str:
        value = "" if ty.value is None else f", value={self.dim(ty.value)}"
        return f"R.Prim({quote(ty.dtype)}{value})"

    def visit_TensorType(self, ty: TensorType) -> str:
        parts = []
        if ty.dims is not None:
            parts.append(self.dims(ty.dims))
        elif ty.shape is not None:
            parts.append(self.expr(ty.shape))
        if ty.dtype is not None:
            parts.append(f"dtype={quote(ty.dtype)}")
        if ty.shape is None and ty.ndim != UNKNOWN_NDIM:
            parts.append(f"ndim={ty.ndim}")
        if ty.vdevice is not None:
            parts.append(f"vdevice={self.expr(ty.vdevice)}")
        return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor"

    def visit_VDevice(self, node: VDevice) -> str:
        return f"R.VDevice({self.value(node.target)}, {node.vdevice_id}, {quote(node.memory_scope)})"

    def visit_ShapeType(self, ty: ShapeType) -> str:
        if ty.values is not None:
            return f"R.Shape([{', '.join(self.dim(value) for value in ty.values)}])"
        return f"R.Shape(ndim={ty.ndim})" if ty.ndim != UNKNOWN_NDIM else "R.Shape"

    def visit_TupleType(self, ty: TupleType) -> str:
        return f"R.Tuple({', '.join(self.type(item) for item in ty.fields)})" if ty.fields else "R.Tuple()"

    def visit_FuncType(self, ty: FuncType) -> str:
        purity = "" if ty.is_pure else ", purity=False"
        if ty.params is None:
            return f"R.Callable(ret={self.type(ty.ret)}{purity})"
        params = ", ".join(self.type(param) for param in ty.params)
        return f"R.Callable(({params}{',' if len(ty.params) == 1 else ''}), {self.type(ty.ret)}{purity})"


class RelaxPrinter(TypePrinter):
    """Prints graph functions to `out`."""

    def __init__(self, names: Names | None = None, constants: list[Any] | None = None) -> None:
        super().__init__(names)
        self.out = TextBuilder()
        self.constants: list[Any] = constants if constants is not None else []

    def _mark(self) -> int:
        return len(self.constants)

    def _reset(self, mark: int) -> None:
        del self.constants[mark:]

    # ---- functions

    def function(
        self, func: Function, name: str, private: bool = False, refers_to_module: bool = False
    ) -> None:
        """Print a function with its name and decorator."""
        options = [
            text for text in ("private=True" if private else "", "" if func.is_pure else "pure=False") if text
        ]
        self.out.line(f"@R.function({', '.join(options)})" if options else "@R.function")
        dims = [var for param in func.params if param.ty is not None for var in symbolic_vars(param.ty)]
        new_dims = [var for var in dict.fromkeys(dims) if var not in self.names]
        self.quoting = bool(new_dims) or not dims
        params = [f"{self.names.define(p, p.name_hint)}: {self.type(p.ty)}" for p in func.params]
        returns = f" -> {self.type(func.ret_ty)}" if func.ret_ty is not None else ""
        self.quoting = False
        self.out.line(f"def {name}({', '.join(params)}){returns}:")
        with self.out.indented():
            for var in new_dims:
                self.out.line(f"{self.names.of(var, var.name)} = T.{var.dtype}()")
            for var in symbolic_vars(func.ret_ty) if func.ret_ty is not None else ():
                if var not in dims and not var.is_size:
                    self.out.line(f"{self.names.of(var, var.name)} = T.{var.dtype}(is_size_var=False)")
            self._attrs(func, name, private)
            if refers_to_module:
                self.out.line("cls = Module")
            self._sequence(func.body, "return ")

    def _attrs(self, func: Function, name: str, private: bool) -> None:
        attrs = {
            k: v for k, v in func.attrs.items() if not (k == "global_symbol" and v == name and not private)
        }
        if "global_symbol" not in func.attrs and not private:
            attrs["global_symbol"] = None
        if attrs:
            self.out.line(f"R.func_attr({self.value(attrs)})")

    def _sequence(self, body: Any, result: str) -> None:
        """Bindings, then the result after `result` ("return " or "name: type = ")."""
        if isinstance(body, SeqExpr):
            for block in body.blocks:
                self._block(block)
            body = body.body
        self.out.line(f"{result}{self.expr(body)}")

    def _block(self, block: BindingBlock) -> None:
        if not block.is_dataflow:
            for binding in block.bindings:
                self._binding(binding)
            return
        self.out.line("with R.dataflow():")
        with self.out.indented():
            for binding in block.bindings:
                self._binding(binding)
            outputs = [self.expr(b.var) for b in block.bindings if not b.var.is_dataflow]
            self.out.line(f"R.output({', '.join(outputs)})")

    def _new_dims(self, ty: Type | None) -> None:
        """Dimensions that a type mentions first: a match_cast's, or what is left of one that was lowered. A
        number that may be negative, an element of a tensor, says so."""
        for var in symbolic_vars(ty) if ty is not None else ():
            if var not in self.names:
                kind = "" if var.is_size else "is_size_var=False"
                self.out.line(f"{self.names.define(var, var.name)} = T.{var.dtype}({kind})")

    def _binding(self, binding: Binding) -> None:
        before = self.out.begin(binding.origin)
        self._plain_binding(binding)
        self.out.end(before)

    def _plain_binding(self, binding: Binding) -> None:
        value = binding.value
        if not isinstance(value, Function):
            self._new_dims(binding.ty if isinstance(binding, MatchCast) else binding.var.ty)
        if isinstance(binding, MatchCast):
            call = f"R.match_cast({self.expr(value)}, {self.type(binding.ty)})"
            self.out.line(f"{self._target(binding.var)} = {call}")
        elif isinstance(value, Function):
            name = self.names.define(binding.var, binding.var.name_hint)
            with self.names.scope(PrimVar):
                self.function(value, name, private=True)
        elif isinstance(value, If):
            self._if(binding.var, value)
        else:
            text = self.expr(value)
            self.out.line(f"{self._target(binding.var)} = {text}")

    def _target(self, var: Var) -> str:
        name = self.names.define(var, var.name_hint)
        return name if var.ty is None else f"{name}: {self.type(var.ty)}"

    def _if(self, var: Var, value: If) -> None:
        self.out.line(f"if {self.expr(value.cond)}:")
        target = f"{self._target(var)} = "
        with self.out.indented(), self.names.scope(PrimVar):
            self._sequence(value.true_branch, target)
        self.out.line("else:")
        with self.out.indented(), self.names.scope(PrimVar):
            self._sequence(value.false_branch, target)

    # ---- expressions

    def visit_Constant(self, node: Constant) -> str:
        if isinstance(node.ty, TensorType) and node.ty.vdevice is not None:
            return f"R.const({self._constant_value(node)}, {self.type(node.ty)})"
        text = self._constant_value(node)
        return text if text.startswith("metadata") else f"R.const({text}, {quote(node.data.dtype)})"

    def _constant_value(self, node: Constant) -> str:
        """Return a literal, or a reference to `metadata`."""
        data = np.asarray(node.data.numpy())
        if data.size <= INLINE_ELEMENTS and data.dtype.kind in "biuf" and (data.size or data.ndim == 1):
            return self._literal(data)
        self.constants.append(node.data)
        return f"metadata[{len(self.constants) - 1}]"

    def _literal(self, data: Any) -> str:
        if data.ndim == 0:
            return self.value(data.item())
        return f"[{', '.join(self._literal(row) for row in data)}]"

    def visit_ShapeExpr(self, node: ShapeExpr) -> str:
        return f"R.shape([{', '.join(self.dim(value) for value in node.values)}])"

    def visit_Tuple(self, node: Tuple) -> str:
        items = [self.expr(item) for item in node.fields]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

    def visit_TupleGetItem(self, node: TupleGetItem) -> str:
        return f"{self.expr(node.tuple_value)}[{node.index}]"

    def visit_StringImm(self, node: StringImm) -> str:
        return f"R.str({quote(node.value)})"

    def visit_DataTypeImm(self, node: DataTypeImm) -> str:
        return f"R.dtype({quote(node.value)})"

    def visit_ExternFunc(self, node: ExternFunc) -> str:
        attrs = f", attrs={self.value(node.attrs.values)}" if node.attrs else ""
        return f"R.ExternFunc({quote(node.global_symbol)}{attrs})"

    def visit_Op(self, node: Op) -> str:
        return f"R.op({quote(node.name)})"

    def visit_AnyDim(self, node: PrimExpr) -> str:
        """An unknown size of Relay. It appears only in messages; the text cannot be parsed."""
        return "?"

    def visit_Call(self, node: Any) -> str:
        if not isinstance(node, Call):
            return super().visit_Call(node)
        record = op_def(node.op)
        types = [f"ty_args=[{', '.join(self.type(ty) for ty in node.ty_args)}]"] if node.ty_args else []
        args = [self.expr(arg) for arg in node.args]
        if record is not None:
            return f"R.{record.name}({', '.join(args + self._op_attrs(node, record) + types)})"
        attrs = [f"attrs={self.value(node.attrs.values)}"] if node.attrs else []
        if isinstance(node.op, ExternFunc):
            callee = self.expr(node.op) if node.op.attrs else quote(node.op.global_symbol)
            return f"R.call_packed({', '.join([callee, *args, *attrs, *types])})"
        return f"{self.expr(node.op)}({', '.join(args + attrs + types)})"

    def _op_attrs(self, node: Call, record: OpDef) -> list[str]:
        return [f"{name}={self.value(value)}" for name, value in node.attrs.items()]

    def visit_If(self, node: If) -> str:
        parts = (self.expr(node.cond), self.expr(node.true_branch), self.expr(node.false_branch))
        return f"R.if_({', '.join(parts)})"


def relax_script(
    node: Node, constants: list[Any] | None = None, show_meta: bool = False, **_options: Any
) -> str | None:
    """Text of a node of graph programs; None for attributes, which have none of their own."""
    printer = RelaxPrinter(constants=constants)
    if isinstance(node, Function):
        printer.function(node, node.attrs.get("global_symbol") or "main")
        metadata = embedded_metadata(printer.constants) if show_meta else ""
        return "# from heddle.script import relax as R, tir as T\n\n" + metadata + printer.out.build()
    if isinstance(node, BindingBlock):
        printer._block(node)
        return printer.out.build()
    if isinstance(node, Binding):
        printer._binding(node)
        return printer.out.build()
    if isinstance(node, SeqExpr):
        printer._sequence(node, "")
        return printer.out.build()
    if isinstance(node, Type):
        return printer.type(node)
    return None if isinstance(node, Attrs) else printer.expr(node)
