"""RealizeVDevice: infer the device of every tensor, and insert copies where data must move.

    a = R.hint_on_device(x, "llvm:0")             b = R.add(x, y)                    # x, y, b: on llvm:0
    b = R.add(a, y)                         →     c = R.to_vdevice(b, llvm:1)
    c = R.hint_on_device(b, "llvm:1")             d = R.multiply(c, c)               # c, d: on llvm:1
    d = R.multiply(c, c)

Operators, loop functions and other functions of the module have their tensors on one device. What is known
(annotated types, `to_vdevice`, hints) is spread over all that is computed together; where that leaves the
argument of a hint without a device, it takes the hint's, and otherwise the hint is a copy. What no device
reaches stays on the machine's first. Devices that the module does not list are added to its list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.codes import R0207
from heddle.graph.copying import Copier
from heddle.graph.nodes import Binding, MatchCast, VarBinding, body_of
from heddle.graph.rewriter import is_call
from heddle.graph.types import TensorType, VDevice
from heddle.graph.vdevices import on_device, with_listed
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.op_def import op_def
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.support.diagnostics import IRTypeError
from heddle.support.disjoint_sets import DisjointSets

_MOVES = ("relax.to_vdevice", "relax.hint_on_device")
_STATED_TYPES = ("relax.call_tir", "relax.call_dps_packed", "relax.call_tir_inplace")
Slot = tuple[Any, ...]
"""A tensor: a variable or constant, and the way to it in a tuple."""


class RealizeVDevice(Pass):
    """Requires the normal form. Establishes: no hint_on_device, and every device in use is listed.

    Raises: IRTypeError R0207 where one computation's operands are on different devices.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {var: func for var, func in mod.functions.items() if func.dialect == "relax"}
        named = devices_named(functions.values())
        if not named:
            return mod
        mod = with_listed(mod, named)
        places = _Places(functions)
        builder = BlockBuilder(mod)
        for var, func in functions.items():
            moved: Function = _Mover(places).visit(func)
            builder.update_func(var, moved)
        for var in functions:
            builder.update_func(var, builder.normalize_function(builder.module[var]))
        return builder.get()


def devices_named(functions: Iterable[Function]) -> list[VDevice]:
    """The devices that functions mention, in order, each once."""
    found: list[VDevice] = []
    for func in functions:
        types = [param.ty for param in func.params]
        types += [node.var.ty for node in walk_distinct(func.body) if isinstance(node, Binding)]
        for node in (*(n for ty in types if ty is not None for n in walk_distinct(ty)), *walk_distinct(func)):
            if isinstance(node, VDevice) and not any(structural_equal(node, other) for other in found):
                found.append(node)
    return found


class _Places:
    """Which tensors lie together, and where: a union-find over slots."""

    def __init__(self, functions: dict[GlobalVar, Function]) -> None:
        self.functions = functions
        self._sets: DisjointSets[Slot] = DisjointSets()
        self._device: dict[Slot, VDevice] = {}
        self._hints: list[tuple[Slot, VDevice]] = []
        for func in functions.values():
            for param in func.params:
                self._annotated(param)
            self._sequence(func.body)
        for slot, device in self._hints:
            self._device.setdefault(self._sets.root(slot), device)

    def of(self, slot: Slot) -> VDevice | None:
        return self._device.get(self._sets.root(slot))

    def located(self, ty: Type, slot: Slot) -> Type:
        """A type with the devices of a value's tensors."""
        if isinstance(ty, TupleType):
            fields = (self.located(item, (*slot, index)) for index, item in enumerate(ty.fields))
            return TupleType(tuple(fields))
        return on_device(ty, self.of(slot))

    # ---- the sets

    def _place(self, slot: Slot, device: VDevice | None, node: Any) -> None:
        if device is None:
            return
        known = self._device.setdefault(self._sets.root(slot), device)
        if not structural_equal(known, device):
            raise IRTypeError(
                R0207,
                f"operands are on different devices: {known} and {device}",
                span=node.span,
                help="copy one of them with R.to_vdevice",
            )

    def _join(self, a: Slot, b: Slot, node: Any) -> None:
        first, second = self._sets.root(a), self._sets.root(b)
        if first != second:
            device = self._device.pop(second, None)
            self._sets.join(second, first)
            self._place(first, device, node)

    def _join_values(self, ty: Type | None, a: Expr, b: Expr, node: Any) -> None:
        """Two names of one value, tensor by tensor."""
        for path in _paths(ty):
            left, right = _slot(a, path), _slot(b, path)
            if left is not None and right is not None:
                self._join(left, right, node)

    # ---- what a program says

    def _annotated(self, var: Any) -> None:
        for path in _paths(var.ty):
            ty = var.ty
            for index in path:
                ty = ty.fields[index]
            self._place((var, *path), ty.vdevice, var)

    def _sequence(self, body: Any) -> None:
        for binding in body.bindings():
            self._binding(binding.var, binding.value)
            self._annotated(binding.var)

    def _binding(self, var: Var, value: Expr) -> None:
        for item in walk_distinct(value) if not isinstance(value, (If, Function)) else ():
            if isinstance(item, Constant):
                self._annotated(item)
        if isinstance(value, If):
            for branch in (value.true_branch, value.false_branch):
                self._sequence(branch)
                self._join_values(var.ty, var, branch.body, value)  # type: ignore[attr-defined]
        elif isinstance(value, Function):
            for param in value.params:
                self._annotated(param)
            self._sequence(value.body)
        elif isinstance(value, Call):
            self._call(var, value)
        elif isinstance(value, (Var, Constant, Tuple, TupleGetItem)):
            self._join_values(var.ty, var, value, value)

    def _call(self, var: Var, value: Call) -> None:
        record = op_def(value.op)
        if isinstance(value.op, GlobalVar) and value.op in self.functions:
            callee = self.functions[value.op]
            for param, arg in zip(callee.params, value.args, strict=True):
                self._join_values(param.ty, param, arg, value)
            self._join_values(var.ty, var, body_of(callee).body, value)
        elif any(is_call(value, name) for name in _MOVES):
            self._place((var,), value.attrs.dst_vdevice, value)
            source = _slot(value.args[0], ())
            if is_call(value, "relax.hint_on_device") and source is not None:
                self._hints.append((source, value.attrs.dst_vdevice))
        elif record is not None and (record.opaque is None or any(is_call(value, n) for n in _STATED_TYPES)):
            self._together(var, value)

    def _together(self, var: Var, value: Call) -> None:
        """The tensors of one computation."""
        slots: list[Slot] = [(var, *path) for path in _paths(var.ty)]
        for arg in value.args:
            found = (_slot(arg, path) for path in _paths(getattr(arg, "ty", None)))
            slots.extend(slot for slot in found if slot is not None)
        for slot in slots[1:]:
            self._join(slots[0], slot, value)


def _paths(ty: Type | None) -> list[tuple[int, ...]]:
    """The ways to the tensors of a value."""
    if isinstance(ty, TupleType):
        return [(index, *path) for index, item in enumerate(ty.fields) for path in _paths(item)]
    return [()] if isinstance(ty, TensorType) else []


def _slot(expr: Expr, path: tuple[int, ...]) -> Slot | None:
    if isinstance(expr, Tuple) and path:
        return _slot(expr.fields[path[0]], path[1:])
    if isinstance(expr, TupleGetItem):
        return _slot(expr.tuple_value, (expr.index, *path))
    return (expr, *path) if isinstance(expr, (Var, Constant)) else None


class _Mover(Copier):
    """Writes the devices into types, and copies for hints."""

    def __init__(self, places: _Places) -> None:
        super().__init__()
        self._places = places

    def define(self, var: Var, is_dataflow: bool = False) -> Var:
        made = super().define(var, is_dataflow)
        ty = None if made.ty is None else self._places.located(made.ty, (var,))
        self.variables[var] = moved = Var(made.name_hint, ty, is_dataflow, span=made.span)
        return moved

    def visit_Constant(self, node: Constant) -> Constant:
        return node if node.ty is None else replace(node, ty=self._places.located(node.ty, (node,)))

    def visit_Function(self, node: Function) -> Function:
        ret = node.ret_ty
        if ret is not None:
            ret = self._result_type(ret, body_of(node).body)
        return replace(super().visit_Function(replace(node, ret_ty=ret)), ty=None)

    def _result_type(self, ty: Type, result: Expr) -> Type:
        if isinstance(ty, TupleType) and isinstance(result, Tuple):
            fields = (self._result_type(*pair) for pair in zip(ty.fields, result.fields, strict=True))
            return TupleType(tuple(fields))
        slot = _slot(result, ())
        return ty if slot is None else self._places.located(ty, slot)

    def visit_GlobalVar(self, node: GlobalVar) -> GlobalVar:
        """The function's type has devices now too."""
        return node if node not in self._places.functions else GlobalVar(node.name_hint, span=node.span)

    def visit_VarBinding(self, node: VarBinding) -> VarBinding:
        value = node.value
        if isinstance(value, Call) and any(is_call(value, name) for name in _STATED_TYPES):
            whole = value.ty_args[0] if len(value.ty_args) == 1 else TupleType(value.ty_args)
            located = self._places.located(whole, (node.var,))
            types = (located,) if len(value.ty_args) == 1 else located.fields  # type: ignore[attr-defined]
            node = replace(node, value=replace(value, ty_args=types))
        return super().visit_VarBinding(node)

    def visit_MatchCast(self, node: MatchCast) -> MatchCast:
        source = _slot(node.value, ())
        return super().visit_MatchCast(
            node if source is None else replace(node, ty=self._places.located(node.ty, source))
        )

    def visit_Call(self, node: Any) -> Any:
        if not isinstance(node, Call):
            return self.default(node)
        if is_call(node, "relax.hint_on_device"):
            return self._hint(node)
        return replace(self.default(node), ty=None)

    def visit_Tuple(self, node: Tuple) -> Any:
        return replace(self.default(node), ty=None)

    def visit_TupleGetItem(self, node: TupleGetItem) -> Any:
        return replace(self.default(node), ty=None)

    def visit_If(self, node: If) -> Any:
        return replace(self.default(node), ty=None)

    def _hint(self, node: Call) -> Expr:
        source = _slot(node.args[0], ())
        wanted = node.attrs.dst_vdevice
        there = None if source is None else self._places.of(source)
        value: Expr = self.visit(node.args[0])
        if there is not None and structural_equal(there, wanted):
            return value
        return Call(Op.get("relax.to_vdevice"), (value,), attrs_of({"dst_vdevice": wanted}), span=node.span)
