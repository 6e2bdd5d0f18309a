"""The Relax operators that are not tensor computations: closures, data types, references, devices, memory and
VM operations.

They are not lowered to loops. Passes rewrite them; the VM code generator handles those that remain.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0201, R0202, R0601
from heddle.graph.core_ops import ARGS, FUNC, any_value, declare_core, stated_or_any
from heddle.graph.infer import Inference, type_of
from heddle.graph.type_relations import match_dims
from heddle.graph.types import TensorType
from heddle.ir.expr import DataTypeImm, Tuple
from heddle.ir.op_def import AttrSpec, Input
from heddle.ir.types import FuncType, PrimType, TupleType, Type
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.runtime.data import ConstructorValue, RefValue
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError


def _nothing(_ctx: Inference) -> Type:
    return TupleType(())


def _alloc_tensor(ctx: Inference) -> Type:
    shape, dtype = ctx.args[0], ctx.args[1]
    return TensorType(shape, _dtype_of(ctx, dtype))


def _memory_alloc_tensor(ctx: Inference) -> Type:
    return TensorType(ctx.args[2], _dtype_of(ctx, ctx.args[3]))


def _dtype_of(ctx: Inference, expr: Any) -> DataType:
    if not isinstance(expr, DataTypeImm):
        ctx.fail(R0202, "the element type must be given as R.dtype(...)")
    return DataType(expr.value)


def _reshape_result(ctx: Inference) -> Type:
    source = ctx.tensor(0)
    return TensorType(ctx.args[1], source.dtype, source.vdevice)


def _closure_type(ctx: Inference) -> Type:
    """Return the function's type without the bound (last) parameters, whose dimensions are substituted."""
    ty, bound = ctx.type_of(0), ctx.args[1]
    if not isinstance(ty, FuncType) or ty.params is None or not isinstance(bound, Tuple):
        return FuncType.opaque_func()
    count = len(ty.params) - len(bound.fields)
    if count < 0:
        ctx.fail(R0201, f"a function of {len(ty.params)} parameters cannot bind {len(bound.fields)}")
    mapping: dict[PrimVar, PrimExpr] = {}
    for index, (param, arg) in enumerate(zip(ty.params[count:], bound.fields, strict=True)):
        problem = match_dims(param, type_of(arg), arg, mapping, ctx.analyzer)
        if problem:
            ctx.fail(R0202, f"bound argument {index}: {problem}")
    closed: Type = substitute(FuncType(ty.params[:count], ty.ret, ty.is_pure), mapping)
    return closed


def declare() -> None:
    """Register the operators of this file in the operator table."""
    _declare_closures()
    _declare_data()
    _declare_references()
    _declare_devices()
    _declare_memory()
    _declare_machine()


def _declare_closures() -> None:
    declare_core(
        "invoke_closure",
        (Input("closure", "any"), ARGS),
        stated_or_any,
        "Call a closure.",
        is_pure=False,
    )
    declare_core(
        "invoke_pure_closure",
        (Input("closure", "any"), ARGS),
        stated_or_any,
        "Call a closure that has no effects.",
    )
    declare_core(
        "make_closure",
        (FUNC, ARGS),
        lambda ctx: _closure_type(ctx),
        "Bind the last parameters of a function.",
    )


def _no_clause(_attrs: Any, message: str) -> Any:
    raise TrapValueError(R0601, message)


def _write(_attrs: Any, ref: RefValue, value: Any) -> tuple[Any, ...]:
    ref.value = value
    return ()


def _declare_data() -> None:
    data = Input("data", "any", "a value of a data type")
    declare_core(
        "make_data",
        (Input("tag", "prim", "which constructor makes it"), Input("fields", "args", "what of, as a tuple")),
        any_value,
        "A value of a data type.",
        reference=lambda attrs, tag, fields: ConstructorValue(int(tag), tuple(fields)),
    )
    declare_core(
        "has_tag",
        (data, Input("tag", "prim")),
        lambda ctx: PrimType(DataType("bool")),
        "Whether a value was made by the constructor of a tag.",
        reference=lambda attrs, data, tag: data.tag == int(tag),
    )
    declare_core(
        "get_field",
        (data, Input("index", "prim")),
        stated_or_any,
        "A field of a value of a data type. The call states its type.",
        reference=lambda attrs, data, index: data.fields[int(index)],
    )
    declare_core(
        "fatal",
        (Input("message", "any"),),
        stated_or_any,
        "The end of the program, with a message: no clause of a match fits. The call states the type of "
        "the value that is not there.",
        reference=_no_clause,
    )


def _declare_references() -> None:
    ref = Input("ref", "any", "the reference")
    declare_core(
        "make_ref",
        (Input("value", "any"),),
        any_value,
        "A new reference to a value.",
        is_pure=False,
        reference=lambda attrs, value: RefValue(value),
    )
    declare_core(
        "read_ref",
        (ref,),
        stated_or_any,
        "What a reference holds. The call states its type.",
        is_pure=False,
        reference=lambda attrs, ref: ref.value,
    )
    declare_core(
        "write_ref",
        (ref, Input("value", "any")),
        _nothing,
        "Let a reference hold another value, for all who have it.",
        is_pure=False,
        reference=_write,
    )


def _on_target(ctx: Inference) -> Type:
    """Return the argument's type, with the device that the call names."""
    ty = ctx.tensor(0)
    return TensorType(ty.shape, ty.dtype, ctx.attrs.dst_vdevice, ty.ndim)


def _declare_devices() -> None:
    target = AttrSpec("dst_vdevice", "vdevice", meaning='a VDevice, a Device, or text such as "llvm:1"')
    declare_core(
        "to_vdevice",
        (Input("data"),),
        _on_target,
        "A copy of a tensor on a virtual device.",
        attrs=(target,),
        reference=lambda attrs, data: data,
    )
    source = AttrSpec("src_vdevice", "vdevice", None, "where the tensor is; None for the first device")
    declare_core(
        "vm.to_device",
        (Input("data"),),
        _on_target,
        "As `to_vdevice`, for machines: the types of their memory name no devices.",
        attrs=(target, source),
        reference=lambda attrs, data: data,
    )
    declare_core(
        "hint_on_device",
        (Input("data"),),
        _on_target,
        "The tensor, which is wanted on a device. RealizeVDevice decides what is computed where, and copies.",
        attrs=(target, AttrSpec("memory_scope", "str", "global", "where a Device has no scope of its own")),
        reference=lambda attrs, data: data,
    )


def _declare_memory() -> None:
    declare_core(
        "builtin.alloc_tensor",
        (
            Input("shape", "shape"),
            Input("dtype", "any"),
            Input("runtime_device_index", "prim", optional=True),
            Input("storage_scope", "any", optional=True),
        ),
        _alloc_tensor,
        "A fresh tensor. Memory planning turns it into a view of a storage.",
        is_pure=False,
    )
    declare_core(
        "memory.alloc_storage",
        (
            Input("size", "shape"),
            Input("virtual_device_index", "prim"),
            Input("storage_scope", "any"),
            Input("dtype", "any"),
        ),
        any_value,
        "A storage of size[0] bytes.",
        is_pure=False,
    )
    declare_core(
        "memory.alloc_tensor",
        (Input("storage", "any"), Input("offset", "prim"), Input("shape", "shape"), Input("dtype", "any")),
        _memory_alloc_tensor,
        "A tensor in a storage, at a byte offset.",
        is_pure=False,
    )
    declare_core(
        "memory.kill_storage",
        (Input("storage", "any"),),
        _nothing,
        "The storage is not used after this.",
        is_pure=False,
    )
    declare_core(
        "memory.kill_tensor",
        (Input("tensor", "any"),),
        _nothing,
        "The tensor is not used after this.",
        is_pure=False,
    )


def _declare_machine() -> None:
    declare_core(
        "call_builtin_with_ctx",
        (Input("func", "packed", "a builtin or its name"), ARGS),
        stated_or_any,
        "Call a builtin with the machine as hidden first argument.",
        is_pure=False,
    )
    declare_core(
        "vm.alloc_storage",
        (
            Input("size", "shape"),
            Input("runtime_device_index", "prim"),
            Input("dtype", "any"),
            Input("scope", "any"),
        ),
        any_value,
        "A storage, by the machine's allocator.",
        is_pure=False,
    )
    declare_core(
        "vm.alloc_tensor",
        (Input("storage", "any"), Input("offset", "prim"), Input("shape", "shape"), Input("dtype", "any")),
        _memory_alloc_tensor,
        "A tensor in a storage, made by the machine.",
        is_pure=False,
    )
    declare_core(
        "vm.kill_object", (Input("value", "any"),), _nothing, "The register is cleared.", is_pure=False
    )
    declare_core(
        "vm.call_tir_dyn",
        (FUNC, ARGS),
        _nothing,
        "Call a loop function whose scalar arguments come as a shape, last.",
        is_pure=False,
    )
    declare_core(
        "memory.view_reshape",
        (Input("x"), Input("shape", "shape")),
        _reshape_result,
        "The same memory with another shape of as many elements.",
        reference=lambda attrs, x, shape: x.reshape(shape),
    )
