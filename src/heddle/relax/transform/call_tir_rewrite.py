"""CallTIRRewrite: allocate outputs explicitly and call loop functions on them.

y = R.call_tir(cls.f, (x,), out_ty=R.Tensor((n,), "float32"))
    →
y = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), 0)
_ = cls.f(x, y)

An output on a virtual device is allocated on the machine's device of that number, in its memory scope. A
copy to another device (`to_vdevice`) says from now on where the tensor was, as types do not (`vm.to_device`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.codes import R0202
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.vdevices import device_index, tensor_types
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, DataTypeImm, Expr, Function, StringImm, Tuple, Var
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import TupleType, Type
from heddle.prim.nodes import IntImm, constant
from heddle.runtime.device import cpu
from heddle.support.diagnostics import IRTypeError


class CallTIRRewrite(FunctionPass):
    """Requires: no dataflow blocks. Establishes: no call_tir, call_dps_packed."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Rewriter(mod).run(func)


class _Rewriter(BindingRewriter):
    def binding(self, binding: Binding) -> None:
        if is_call(binding.value, "relax.to_vdevice"):
            assert isinstance(binding.value, Call)
            binding = replace(binding, value=_with_source(binding.value))
        super().binding(binding)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if is_call(value, "relax.call_tir") or is_call(value, "relax.call_dps_packed"):
            assert isinstance(value, Call)
            return self._replace(var, self._with_outputs(value, [None] * _num_outputs(value)))
        if is_call(value, "relax.call_tir_inplace"):
            assert isinstance(value, Call) and isinstance(value.args[1], Tuple)
            fields = value.args[1].fields
            return self._with_outputs(
                value, [None if k < 0 else fields[k] for k in value.attrs.inplace_indices]
            )
        if is_call(value, "relax.shape_to_tensor"):
            return self._on_its_device(value, var.ty)
        return value

    def _on_its_device(self, value: Expr, ty: Any) -> Expr:
        """A tensor that the host makes, where its type says."""
        target = ty.vdevice if isinstance(ty, TensorType) else None
        if target is None or target.device is cpu(0):
            return value
        attrs = attrs_of({"dst_vdevice": target, "src_vdevice": None})
        return Call(Op.get("relax.vm.to_device"), (self.emit(value, "sizes"),), attrs)

    def _replace(self, var: Var, outputs: Expr) -> Expr | None:
        """A single output needs no binding of its own: the allocation takes the variable's place."""
        if not isinstance(outputs, Var):
            return outputs
        self.renamed[var] = outputs
        return None

    def _with_outputs(self, value: Call, given: list[Expr | None]) -> Expr:
        """Allocate outputs that are not given, call, and give the outputs."""
        ty = type_of(value)
        types = ty.fields if isinstance(ty, TupleType) else (ty,)
        fresh = {k for k, out in enumerate(given) if out is None}
        outputs = [self._alloc(t) if out is None else out for t, out in zip(types, given, strict=True)]
        args = value.args[1]
        assert isinstance(args, Tuple)
        operands = (*args.fields, *(outputs[k] for k in sorted(fresh)))
        self.add(VarBinding(Var("_", TupleType(())), self.value(self._kernel_call(value, operands))))
        return Tuple(tuple(outputs)) if isinstance(ty, TupleType) else outputs[0]

    def _kernel_call(self, value: Call, operands: tuple[Expr, ...]) -> Call:
        scalars = value.args[2] if len(value.args) > 2 else None
        if isinstance(scalars, ShapeExpr) and all(isinstance(size, IntImm) for size in scalars.values):
            operands = (*operands, *scalars.values)  # known sizes need nobody to look them up
        elif isinstance(scalars, ShapeExpr):
            return Call(Op.get("relax.vm.call_tir_dyn"), (value.args[0], Tuple((*operands, scalars))))
        return Call(value.args[0], operands, value.attrs, (TupleType(()),))

    def _alloc(self, ty: Type) -> Var:
        if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
            raise IRTypeError(R0202, f"an output needs a known shape and dtype, got {ty}")
        index = device_index(self.mod, ty.vdevice)
        scope = "global" if ty.vdevice is None else ty.vdevice.memory_scope
        args = (ty.shape, DataTypeImm(ty.dtype), constant(index, "int64"), StringImm(scope))
        return self.bind(self.value(Call(Op.get("relax.builtin.alloc_tensor"), args)), "alloc")


def _with_source(value: Call) -> Call:
    source = next(tensor_types(type_of(value.args[0])))
    attrs = value.attrs.with_attr("src_vdevice", source.vdevice)
    return replace(value, op=Op.get("relax.vm.to_device"), attrs=attrs)


def _num_outputs(value: Call) -> int:
    ty = type_of(value)
    return len(ty.fields) if isinstance(ty, TupleType) else 1
