"""Operators of the dialect itself: calls of loop and packed functions, shapes as values, memory, the virtual
machine.

They have no loops of their own: passes rewrite them, and at the end the virtual machine's code generator
knows those that
remain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.ir.expr import DataTypeImm, GlobalVar, Tuple
from heddle.ir.op_def import AttrSpec, Input, OpDef, Without, declare_op
from heddle.ir.types import AnyType, FuncType, TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.relax.analysis.type_relations import match_dims
from heddle.relax.codes import R0201, R0202
from heddle.relax.infer import Inference, type_of
from heddle.relax.types import ShapeExpr, ShapeType, TensorType
from heddle.runtime.dtype import DataType

_NO_LOOPS = Without("no tensor operator: the machine or a pass gives it meaning")
_NO_REFERENCE = Without("it names a function or memory, not a value of its arguments")
_NO_SAMPLES = Without("the tests of the pass or machine that gives it meaning cover it")
_NO_LAYOUT = Without("it has no tensor layout")


def _declare(name: str, inputs: tuple[Input, ...], infer: Any, doc: str, **facets: Any) -> None:
    defaults: dict[str, Any] = {
        "attrs": (),
        "reference": _NO_REFERENCE,
        "opaque": _NO_LOOPS,
        "samples": _NO_SAMPLES,
        "layout": _NO_LAYOUT,
    }
    declare_op(OpDef(name=name, inputs=inputs, doc=doc, infer=infer, **{**defaults, **facets}))


def _stated_type(ctx: Inference) -> Type:
    types = ctx.call.ty_args
    if not types:
        ctx.fail(R0201, "the result's type is missing", "give it as out_ty= or ty_args=")
    return types[0] if len(types) == 1 else TupleType(types)


def _stated_or_any(ctx: Inference) -> Type:
    return _stated_type(ctx) if ctx.call.ty_args else AnyType()


def _call_tir(ctx: Inference) -> Type:
    if not isinstance(ctx.args[0], GlobalVar):
        ctx.fail(R0202, "the first argument must be a global loop function")
    if not isinstance(ctx.args[1], Tuple):
        ctx.fail(R0202, "the second argument must be a tuple of tensors")
    return _stated_type(ctx)


def _nothing(_ctx: Inference) -> Type:
    return TupleType(())


def _any(_ctx: Inference) -> Type:
    return AnyType()


def _shape_of(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    return ShapeType(ty.dims) if ty.dims is not None else ShapeType(None, ty.ndim)


def _tensor_to_shape(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.ndim not in (-1, 1):
        ctx.shape_error(f"expected a tensor of 1 dimension, got {ty.ndim}")
    size = ty.dims[0] if ty.dims is not None else None
    return ShapeType(None, int(size)) if isinstance(size, IntImm) else ShapeType()


def _shape_to_tensor(ctx: Inference) -> Type:
    ty = ctx.type_of(0)
    if not isinstance(ty, ShapeType):
        ctx.fail(R0202, f"expected a shape, got {ty}")
    return TensorType((ty.ndim,), "int64") if ty.ndim >= 0 else TensorType(None, "int64", None, 1)  # type: ignore[arg-type]


def _alloc_tensor(ctx: Inference) -> Type:
    shape, dtype = ctx.args[0], ctx.args[1]
    return TensorType(shape, _dtype_of(ctx, dtype))


def _memory_alloc_tensor(ctx: Inference) -> Type:
    return TensorType(ctx.args[2], _dtype_of(ctx, ctx.args[3]))


def _dtype_of(ctx: Inference, expr: Any) -> DataType:
    if not isinstance(expr, DataTypeImm):
        ctx.fail(R0202, "the element type must be given as R.dtype(...)")
    return DataType(expr.value)


def _same_as_first(ctx: Inference) -> Type:
    return ctx.type_of(0)


def _reshape_result(ctx: Inference) -> Type:
    source = ctx.tensor(0)
    return TensorType(ctx.args[1], source.dtype, source.vdevice)


def _first_shape(ctx: Inference) -> Type:
    shape = ctx.args[0]
    return ShapeType(shape.values) if isinstance(shape, ShapeExpr) else ctx.type_of(0)


_FUNC = Input("func", "func", "the function")
_ARGS = Input("args", "args", "the arguments, as a tuple")
_REST = Input("args", "any", "the arguments", variadic=True)


def _closure_type(ctx: Inference) -> Type:
    """The function's type without the bound, last parameters, in the dimensions of what is bound."""
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
    """Put the operators of this file into the table."""
    _declare_calls()
    _declare_closures()
    _declare_shapes()
    _declare_devices()
    _declare_memory()
    _declare_machine()


def _declare_calls() -> None:
    _declare(
        "call_tir",
        (_FUNC, _ARGS, Input("tir_vars", "shape", "scalar arguments that no tensor's shape gives", True)),
        _call_tir,
        "Call a loop function on the arguments and on fresh outputs of the stated type; give the outputs.",
    )
    _declare(
        "call_tir_inplace",
        (_FUNC, _ARGS, Input("tir_vars", "shape", "scalar arguments", True)),
        _call_tir,
        "As `call_tir`, with outputs that may be arguments: `inplace_indices[i]` is the argument that "
        "output i overwrites, "
        "or -1 for a fresh one. Nothing else may need the argument afterwards, so it counts as pure.",
        attrs=(AttrSpec("inplace_indices", "ints"),),
    )
    _declare(
        "call_dps_packed",
        (Input("func", "packed", "a packed function or its name"), _ARGS),
        _stated_type,
        "Call a packed function on the arguments and on fresh outputs of the stated type; give the outputs.",
    )
    _declare(
        "call_pure_packed",
        (Input("func", "packed", "a packed function or its name"), _REST),
        _stated_or_any,
        "Call a packed function that has no effects.",
    )
    _declare(
        "call_inplace_packed",
        (Input("func", "packed", "a packed function or its name"), _REST),
        _stated_or_any,
        "Call a packed function that overwrites some arguments and gives them.",
        attrs=(AttrSpec("inplace_indices", "ints"),),
    )
    _declare(
        "call_builtin_with_ctx",
        (Input("func", "packed", "a builtin or its name"), _ARGS),
        _stated_or_any,
        "Call a builtin with the machine as hidden first argument.",
        is_pure=False,
    )


def _declare_closures() -> None:
    _declare(
        "invoke_closure",
        (Input("closure", "any"), _ARGS),
        _stated_or_any,
        "Call a closure.",
        is_pure=False,
    )
    _declare(
        "invoke_pure_closure",
        (Input("closure", "any"), _ARGS),
        _stated_or_any,
        "Call a closure that has no effects.",
    )
    _declare(
        "make_closure",
        (_FUNC, _ARGS),
        lambda ctx: _closure_type(ctx),
        "Bind the last parameters of a function.",
    )
    _declare("null_value", (), _any, "No value.")


def _declare_shapes() -> None:
    _declare(
        "shape_of",
        (Input("x"),),
        _shape_of,
        "The shape of a tensor as a shape value.",
        reference=lambda attrs, x: tuple(x.shape),
    )
    _declare(
        "tensor_to_shape",
        (Input("x"),),
        _tensor_to_shape,
        "The elements of a 1-dimensional integer tensor as a shape.",
        reference=lambda attrs, x: tuple(int(v) for v in x),
    )
    _declare(
        "shape_to_tensor",
        (Input("x", "shape"),),
        _shape_to_tensor,
        "A shape as a 1-dimensional int64 tensor.",
        reference=lambda attrs, x: np.asarray(x, dtype=np.int64),
    )


def _on_target(ctx: Inference) -> Type:
    """The argument's type on the device that the call names."""
    ty = ctx.tensor(0)
    return TensorType(ty.shape, ty.dtype, ctx.attrs.dst_vdevice, ty.ndim)


def _declare_devices() -> None:
    target = AttrSpec("dst_vdevice", "vdevice", meaning='a VDevice, a Device, or text such as "llvm:1"')
    _declare(
        "to_vdevice",
        (Input("data"),),
        _on_target,
        "A copy of a tensor on a virtual device.",
        attrs=(target,),
        reference=lambda attrs, data: data,
    )
    _declare(
        "hint_on_device",
        (Input("data"),),
        _on_target,
        "The tensor, which is wanted on a device. RealizeVDevice decides what is computed where, and copies.",
        attrs=(target, AttrSpec("memory_scope", "str", "global", "where a Device has no scope of its own")),
        reference=lambda attrs, data: data,
    )


def _declare_memory() -> None:
    _declare(
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
    _declare(
        "memory.alloc_storage",
        (
            Input("size", "shape"),
            Input("virtual_device_index", "prim"),
            Input("storage_scope", "any"),
            Input("dtype", "any"),
        ),
        _any,
        "A storage of size[0] bytes.",
        is_pure=False,
    )
    _declare(
        "memory.alloc_tensor",
        (Input("storage", "any"), Input("offset", "prim"), Input("shape", "shape"), Input("dtype", "any")),
        _memory_alloc_tensor,
        "A tensor in a storage, at a byte offset.",
        is_pure=False,
    )
    _declare(
        "memory.kill_storage",
        (Input("storage", "any"),),
        _nothing,
        "The storage is not used after this.",
        is_pure=False,
    )
    _declare(
        "memory.kill_tensor",
        (Input("tensor", "any"),),
        _nothing,
        "The tensor is not used after this.",
        is_pure=False,
    )


def _declare_machine() -> None:
    _declare(
        "vm.alloc_storage",
        (
            Input("size", "shape"),
            Input("runtime_device_index", "prim"),
            Input("dtype", "any"),
            Input("scope", "any"),
        ),
        _any,
        "A storage, by the machine's allocator.",
        is_pure=False,
    )
    _declare(
        "vm.alloc_tensor",
        (Input("storage", "any"), Input("offset", "prim"), Input("shape", "shape"), Input("dtype", "any")),
        _memory_alloc_tensor,
        "A tensor in a storage, made by the machine.",
        is_pure=False,
    )
    _declare("vm.kill_object", (Input("value", "any"),), _nothing, "The register is cleared.", is_pure=False)
    _declare(
        "vm.call_tir_dyn",
        (_FUNC, _ARGS),
        _nothing,
        "Call a loop function whose scalar arguments come as a shape, last.",
        is_pure=False,
    )
    _declare(
        "memory.view_reshape",
        (Input("x"), Input("shape", "shape")),
        _reshape_result,
        "The same memory with another shape of as many elements.",
        reference=lambda attrs, x, shape: x.reshape(shape),
    )
