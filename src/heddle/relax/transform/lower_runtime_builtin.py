"""LowerRuntimeBuiltin: replace VM operators by calls of VM builtins.

s = R.memory.alloc_storage(R.shape([64]), 0, R.str("global"), R.dtype("uint8"))
    →
s = R.call_builtin_with_ctx(R.ExternFunc("vm.builtin.alloc_storage"),
                            (R.shape([64]), 0, R.dtype("uint8"), R.str("global")))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, ExternFunc, Function, StringImm, Tuple, Var
from heddle.ir.op import Op
from heddle.ir.op_def import OpDef, op_def
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import TupleType
from heddle.prim.nodes import constant

BUILTINS: dict[str, str] = {
    "relax.memory.alloc_tensor": "alloc_tensor",
    "relax.vm.alloc_tensor": "alloc_tensor",
    "relax.shape_of": "shape_of",
    "relax.tensor_to_shape": "tensor_to_shape",
    "relax.shape_to_tensor": "shape_to_tensor",
    "relax.memory.view_reshape": "reshape",
    "relax.vm.call_tir_dyn": "call_tir_dyn",
    "relax.make_closure": "make_closure",
    "relax.make_data": "make_data",
    "relax.has_tag": "has_tag",
    "relax.get_field": "get_field",
    "relax.fatal": "fatal",
    "relax.make_ref": "make_ref",
    "relax.read_ref": "read_ref",
    "relax.write_ref": "write_ref",
}
"""Operators whose arguments are the builtin's, as they are; those in a tuple of arguments one by one."""


class LowerRuntimeBuiltin(FunctionPass):
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Rewriter(mod).run(func)


class _Rewriter(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return value
        name, args = value.op.name, value.args
        if name in ("relax.memory.alloc_storage", "relax.vm.alloc_storage"):
            return self._alloc_storage(value)
        if name in ("relax.memory.kill_storage", "relax.memory.kill_tensor"):
            return self._kill(args[0])
        if name in ("relax.invoke_closure", "relax.invoke_pure_closure"):
            fields = args[1].fields if isinstance(args[1], Tuple) else (args[1],)
            return self._with_machine("invoke_closure", (args[0], *fields), value)
        if name == "relax.call_pure_packed":
            return Call(args[0], args[1:], value.attrs, value.ty_args)
        if name in ("relax.to_vdevice", "relax.vm.to_device"):
            return _to_device(args[0], value)
        if name in BUILTINS:
            flat = tuple(_flat(op_def(value.op), args))
            return Call(ExternFunc(f"vm.builtin.{BUILTINS[name]}"), flat, NO_ATTRS, (type_of(value),))
        return value

    def _alloc_storage(self, value: Call) -> Call:
        if value.op.name == "relax.memory.alloc_storage":  # type: ignore[attr-defined]
            size, device, scope, dtype = value.args
        else:
            size, device, dtype, scope = value.args
        return self._with_machine("alloc_storage", (size, device, dtype, scope), value)

    def _with_machine(self, name: str, args: tuple[Expr, ...], value: Call) -> Call:
        op = Op.get("relax.call_builtin_with_ctx")
        return Call(op, (ExternFunc(f"vm.builtin.{name}"), Tuple(args)), NO_ATTRS, (type_of(value),))

    def _kill(self, target: Expr) -> Call:
        return Call(Op.get("relax.vm.kill_object"), (target,), NO_ATTRS, (), TupleType(()))


def _flat(record: OpDef | None, args: Sequence[Expr]) -> Iterator[Expr]:
    """The arguments, with the items of a tuple of arguments in its place. A tuple that is a value stays."""
    assert record is not None
    for spec, arg in zip(record.inputs, args, strict=False):
        if spec.kind == "args" and isinstance(arg, Tuple):
            yield from arg.fields
        else:
            yield arg


def _to_device(source: Expr, value: Call) -> Call:
    """The builtin takes the device's kind and number, not the machine's list. The attributes stay, for
    machines that take numbers of their list."""
    target = value.attrs.dst_vdevice
    device, scope = target.device, StringImm(target.memory_scope)
    numbers = constant(device.device_type, "int64"), constant(device.device_id, "int64")
    args = (source, *numbers, scope)
    return Call(ExternFunc("vm.builtin.to_device"), args, value.attrs, (type_of(value),))
