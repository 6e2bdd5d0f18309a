"""Generate bytecode from lowered graph functions, for any machine, through the machine's builder.

A variable is a register; parameters come first. A binding is one or a few instructions; a branch is an If,
its two blocks and a Goto; results of both branches are copied to one register.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.graph.nodes import MatchCast, SeqExpr, VarBinding
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.vdevices import device_index, listed
from heddle.ir.expr import (
    BaseFunc,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk
from heddle.lower.codes import L0101, L0201, L0202
from heddle.lower.default_schedule import FAILED_RULES
from heddle.lower.estimate_kernel_cost import KERNEL_COST
from heddle.lower.estimate_peak_memory import PEAK_MEMORY
from heddle.lower.normal_form import is_graph
from heddle.lower.place_kernels import RUNTIME_DEVICE
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr
from heddle.relax.transform.realize_v_device import devices_named
from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.support.diagnostics import VerifyError
from heddle.support.span import Span
from heddle.vm.builder import ProgramBuilder
from heddle.vm.insight.kernel_cost import METADATA_PREFIX, KernelCost
from heddle.vm.insight.peak_memory import METADATA_PREFIX as PEAK_METADATA_PREFIX
from heddle.vm.isa import FuncKind
from heddle.vm.placement import KERNEL_DEVICE_PREFIX, placement_text
from heddle.vm.program_devices import PARAM_DEVICES, Place, device_entries
from heddle.vm.relax.builder import ExecBuilder


def vm_codegen(mod: IRModule, builder: ExecBuilder | None = None) -> tuple[ExecBuilder, IRModule]:
    """The bytecode of a module's graph functions, and the module of what remains (loop functions).

    Raises: VerifyError L0101 for an operator that should have been lowered, L0201 for a function without
    global_symbol.
    """
    builder = builder or ExecBuilder()
    return builder, emit_functions(mod, builder)


def emit_functions(mod: IRModule, builder: ProgramBuilder) -> IRModule:
    """Put the bytecode of a module's graph functions into a machine's builder; the module of what remains.

    Raises: as `vm_codegen`.
    """
    for func in mod.functions.values():
        if is_graph(func) and "global_symbol" in func.attrs:
            builder.declare_function(str(func.attrs.global_symbol), FuncKind.VM)
    rest = {}
    for var, func in mod.functions.items():
        if is_graph(func):
            _FunctionCodegen(builder, mod).function(func, var)
        else:
            rest[var] = _note_device(builder, var, _note_cost(builder, var, func))
    builder.metadata |= _device_entries(mod)
    return mod.with_functions(rest)


def _device_entries(mod: IRModule) -> dict[str, str]:
    """What the metadata says of the devices that graph functions name."""
    functions = [func for func in mod.functions.values() if is_graph(func)]
    named = [device_index(mod, each) for each in devices_named(functions)]
    devices = [each.device for each in listed(mod)[: max(named, default=0) + 1]]
    params = {
        str(func.attrs["global_symbol"]): [_place(mod, func, param) for param in func.params]
        for func in functions
    }
    return device_entries(devices, params)


def _place(mod: IRModule, func: Function, param: Var) -> Place:
    """The number of a parameter's device. The type of a value of a data type does not say it."""
    if not isinstance(param.ty, (TensorType, TupleType)):
        return int(func.attrs.get(PARAM_DEVICES, {}).get(param.name_hint, 0))
    return _place_of_type(mod, param.ty)


def _place_of_type(mod: IRModule, ty: Type) -> Place:
    if isinstance(ty, TupleType):
        return [_place_of_type(mod, item) for item in ty.fields]
    return device_index(mod, ty.vdevice) if isinstance(ty, TensorType) else 0


def _note_device(builder: ProgramBuilder, var: GlobalVar, func: BaseFunc) -> BaseFunc:
    """Move the number of the device that runs a kernel into the executable's metadata, unless it is the
    first."""
    index = -1 if func.attrs.get("tir.is_host_func") else func.attrs.get(RUNTIME_DEVICE)
    if index is None:
        return func
    name = str(func.attrs.get("global_symbol") or var.name_hint)
    builder.metadata[KERNEL_DEVICE_PREFIX + name] = str(int(index))
    return func.without_attr(RUNTIME_DEVICE) if RUNTIME_DEVICE in func.attrs else func


def _note_cost(builder: ProgramBuilder, var: GlobalVar, func: BaseFunc) -> BaseFunc:
    """Move what is known of a kernel's work into the executable's metadata: it is no part of the code."""
    cost = func.attrs.get(KERNEL_COST)
    if cost is None:
        return func
    name = str(func.attrs.get("global_symbol") or var.name_hint)
    rule = str(func.attrs.get("schedule_rule", ""))
    known = {**cost, "rule": rule, "failed_rules": func.attrs.get(FAILED_RULES, ())}
    builder.metadata[METADATA_PREFIX + name] = KernelCost(**known).to_json()
    func = func.without_attr(KERNEL_COST)
    return func.without_attr(FAILED_RULES) if FAILED_RULES in func.attrs else func


def _read_variables(body: Expr) -> frozenset[Var]:
    """The variables that occur in a body beside where they are bound."""
    found = Counter(node for node in walk(body) if isinstance(node, Var))
    found.subtract(node.var for node in walk(body) if isinstance(node, (VarBinding, MatchCast)))
    return frozenset(var for var, count in found.items() if count > 0)


class _FunctionCodegen:
    def __init__(self, builder: ProgramBuilder, mod: IRModule) -> None:
        self.builder, self.mod = builder, mod
        self._registers: dict[Var, int] = {}
        self._read: frozenset[Var] = frozenset()
        self._next = 0
        self._place: Span | None = None

    def function(self, func: Function, var: GlobalVar) -> None:
        name = func.attrs.get("global_symbol")
        if name is None:
            raise VerifyError(L0201, f"function {var.name_hint!r} has no global_symbol", span=func.span)
        if PEAK_MEMORY in func.attrs:
            self.builder.metadata[PEAK_METADATA_PREFIX + str(name)] = str(func.attrs[PEAK_MEMORY])
        with self.builder.function(str(name), len(func.params), [param.name_hint for param in func.params]):
            for param in func.params:
                self._registers[param] = self._fresh()
            body = func.body
            assert isinstance(body, SeqExpr)
            self._place = func.span
            self._read = _read_variables(body)
            self._sequence(body)
            self._place = func.span
            self.builder.emit_ret(self._in_register(body.body), place=self._place)

    def _fresh(self) -> int:
        self._next += 1
        return self._next - 1

    def _sequence(self, body: SeqExpr) -> None:
        for binding in body.bindings():
            self._place = binding.span or self._place
            self._binding(binding.var, binding.value)

    def _binding(self, var: Var, value: Expr) -> None:
        if isinstance(value, If):
            self._registers[var] = self._if(value)
        elif isinstance(value, Call):
            self._call(var, value)
        elif isinstance(value, TupleGetItem):
            source = self._operand(value.tuple_value)
            self._emit(
                "vm.builtin.tuple_getitem",
                [source, self.builder.imm(value.index)],
                self._register(var),
                value.span,
            )
        elif isinstance(value, Function):
            raise VerifyError(
                L0202, f"function {var.name_hint!r} is nested", span=value.span, help="run LambdaLift first"
            )
        elif isinstance(value, Tuple):
            self._make_tuple(value, self._register(var))
        else:
            self._emit("vm.builtin.copy", [self._operand(value)], self._register(var), value.span)

    def _register(self, var: Var) -> int:
        if var not in self._registers:
            self._registers[var] = self._fresh()
        return self._registers[var]

    def _emit(self, name: str, args: list[int], dst: int | None, span: Span | None) -> None:
        """A value that knows no place of its own has its binding's."""
        self.builder.emit_call(name, args, dst, place=span or self._place)

    def _make_tuple(self, value: Tuple, dst: int) -> int:
        self._emit("vm.builtin.make_tuple", [self._operand(item) for item in value.fields], dst, value.span)
        return dst

    # ---- calls

    def _call(self, var: Var, value: Call) -> None:
        name, args = self._callee(value)
        if name == "relax.vm.kill_object":
            self._emit("vm.builtin.null_value", [], self._operand(value.args[0]), value.span)
            return
        if name == "relax.null_value":
            self._emit("vm.builtin.null_value", [], self._register(var), value.span)
            return
        has_no_result = isinstance(var.ty, TupleType) and not var.ty.fields
        dst = None if has_no_result and var not in self._read else self._register(var)
        if name == "vm.builtin.to_device":
            ends = (
                device_index(self.mod, value.attrs.get("src_vdevice")),
                device_index(self.mod, value.attrs.dst_vdevice),
            )
            self.builder.emit_device_copy(args, ends, dst, place=value.span or self._place)
            return
        self._emit(name, args, dst, value.span)

    def _callee(self, value: Call) -> tuple[str, list[int]]:
        op = value.op
        if isinstance(op, GlobalVar):
            func = self.mod.get(op)
            symbol = func.attrs.get("global_symbol") if func is not None else None
            return str(symbol or op.name_hint), self._operands(value.args)
        if isinstance(op, ExternFunc):
            return op.global_symbol, self._operands(value.args)
        if isinstance(op, Var):
            return "vm.builtin.invoke_closure", [
                self.builder.vm_state(),
                self._operand(op),
                *self._operands(value.args),
            ]
        if isinstance(op, Op) and op.name == "relax.call_builtin_with_ctx":
            target, args = value.args
            assert isinstance(target, ExternFunc) and isinstance(args, Tuple)
            return target.global_symbol, [self.builder.vm_state(), *self._operands(args.fields)]
        if isinstance(op, Op) and op.name in ("relax.null_value", "relax.vm.kill_object"):
            return op.name, []
        raise VerifyError(L0101, f"operator {getattr(op, 'name', op)} was not lowered", span=value.span)

    def _operands(self, args: tuple[Expr, ...]) -> list[int]:
        return [self._operand(arg) for arg in args]

    def _operand(self, expr: Expr) -> int:
        """The encoded operand of a leaf."""
        builder = self.builder
        if isinstance(expr, Var):
            return builder.r(self._registers[expr])
        if isinstance(expr, Tuple):
            return builder.r(self._make_tuple(expr, self._fresh()))
        if isinstance(expr, GlobalVar):
            return self._function_operand(expr)
        if isinstance(expr, ExternFunc):
            builder.declare_function(expr.global_symbol)
            return builder.f(expr.global_symbol)
        if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == "relax.null_value":
            return builder.void_arg()
        return builder.convert_constant(_constant_value(expr), self._placement(expr))

    def _placement(self, expr: Expr) -> str:
        """Where a tensor constant lies, if its type says so."""
        ty = expr.ty if isinstance(expr, Constant) else None
        if not isinstance(ty, TensorType) or ty.vdevice is None:
            return ""
        return placement_text(ty.vdevice.memory_scope, device_index(self.mod, ty.vdevice))

    def _function_operand(self, var: GlobalVar) -> int:
        func = self.mod.get(var)
        name = str(func.attrs.get("global_symbol", var.name_hint)) if func is not None else var.name_hint
        if is_graph(func):
            self.builder.declare_function(name, FuncKind.VM)
        else:
            self.builder.declare_function(name)
        return self.builder.f(name)

    def _in_register(self, expr: Expr) -> int:
        if isinstance(expr, Var):
            return self._registers[expr]
        register = self._fresh()
        if isinstance(expr, Tuple):
            return self._make_tuple(expr, register)
        self._emit("vm.builtin.copy", [self._operand(expr)], register, expr.span)
        return register

    # ---- branches

    def _if(self, value: If) -> int:
        """cond := read_if_cond(c); If cond, else; true block; copy; Goto end; else: false block; copy;
        end:"""
        condition, merged = self._fresh(), self._fresh()
        place = value.span or self._place
        self._emit("vm.builtin.read_if_cond", [self._operand(value.cond)], condition, value.span)
        branch = self.builder.emit_if(condition, 2, place=place)
        self._branch(value.true_branch, merged)
        jump = self.builder.emit_goto(1, place=place)
        self.builder.aim_here(branch)
        self._branch(value.false_branch, merged)
        self.builder.aim_here(jump)
        return merged

    def _branch(self, body: Any, merged: int) -> None:
        self._sequence(body)
        self._emit("vm.builtin.copy", [self._operand(body.body)], merged, body.span)


def _constant_value(expr: Expr) -> Any:
    """The value of a constant leaf, as the constant pool holds it."""
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, ShapeExpr):
        return Shape(int(dim) for dim in expr.values)  # type: ignore[call-overload]
    if isinstance(expr, IntImm):
        return bool(expr.value) if expr.dtype.is_bool else expr.value
    if isinstance(expr, FloatImm):
        return expr.value
    if isinstance(expr, StringImm):
        return expr.value
    if isinstance(expr, DataTypeImm):
        return DataType(expr.value)
    kind = "a symbolic scalar" if isinstance(expr, PrimExpr) else type(expr).__name__
    raise VerifyError(L0101, f"{kind} was not lowered: {expr}", span=expr.span)
