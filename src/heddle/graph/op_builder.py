"""Calls of operators from Python values: what builder functions, scripts and importers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0103, R0201
from heddle.graph.types import ShapeExpr, TensorType, dim
from heddle.graph.vdevices import vdevice_of
from heddle.ir.attrs import attrs_of
from heddle.ir.codes import I0403
from heddle.ir.expr import Call, Constant, DataTypeImm, Expr, ExternFunc, StringImm, Tuple
from heddle.ir.op import Op
from heddle.ir.op_def import Input, OpDef, op_named
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import IRTypeError, UsageError


def const(value: Any, dtype: Any = None) -> Constant:
    """A tensor constant. Python floats give float32, ints int32, bools bool, unless `dtype` says otherwise:
    an element type, or a whole TensorType, which may name a virtual device."""
    if isinstance(dtype, TensorType):
        plain = value if isinstance(value, Constant) else const(value, dtype.dtype)
        known = TensorType(tuple(plain.data.shape), plain.data.dtype, dtype.vdevice)
        return Constant(plain.data, known)
    if isinstance(value, Tensor):
        return typed_constant(value)
    array = np.asarray(value)
    if dtype is None and not hasattr(value, "dtype"):
        dtype = {"f": "float32", "i": "int32", "b": "bool"}.get(array.dtype.kind)
    return typed_constant(
        tensor(array.astype(DataType(dtype).numpy()), dtype=dtype) if dtype else tensor(array)
    )


def typed_constant(data: Tensor) -> Constant:
    return Constant(data, TensorType(tuple(data.shape), data.dtype))


def shape_expr(value: Any) -> Expr:
    """A shape from dimensions; an expression is returned as it is."""
    if isinstance(value, Expr) and not isinstance(value, PrimExpr):
        return value
    items = value if isinstance(value, (tuple, list)) else [value]
    return ShapeExpr(tuple(dim(item) for item in items))


def graph_expr(value: Any) -> Expr:
    """An expression from a Python value: arrays are constants, tuples tuples, numbers scalars, strings
    strings.

    Raises: IRTypeError R0103.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (np.ndarray, np.generic, Tensor)):
        return const(value)
    if isinstance(value, (tuple, list)):
        return Tuple(tuple(graph_expr(item) for item in value))
    if isinstance(value, DataType):
        return DataTypeImm(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (bool, int, float)):
        return as_expr(value, "int64" if type(value) is int else None)
    raise IRTypeError(R0103, f"expected a graph expression, got {type(value).__name__}")


def convert_input(spec: Input, value: Any) -> Expr:
    """A Python value as the kind of argument that an operator declares."""
    if spec.kind == "shape":
        return shape_expr(value)
    if spec.kind == "packed" and isinstance(value, str):
        return ExternFunc(value)
    if spec.kind == "args" and not isinstance(value, (tuple, list, Tuple)):
        return Tuple((graph_expr(value),))
    if spec.kind == "prim":
        return value if isinstance(value, Expr) else as_expr(value, "int64" if type(value) is int else None)
    if spec.kind == "tensor" and isinstance(value, (bool, int, float)):
        return const(value)
    return graph_expr(value)


def build_call(
    record: OpDef, args: Sequence[Any], kwargs: dict[str, Any], ty_args: Sequence[Any] = ()
) -> Call:
    """A call of an operator: inputs by position or name, then attributes by position or name.

    Raises: IRTypeError R0201 for missing or surplus arguments, UsageError for attributes.
    """
    values = list(args)
    given: list[Expr] = []
    for spec in record.inputs:
        if spec.variadic:
            given.extend(convert_input(spec, value) for value in values)
            values = []
        elif values:
            value = values.pop(0)
            if value is None and spec.optional:
                continue
            given.append(convert_input(spec, value))
        elif spec.name in kwargs:
            value = kwargs.pop(spec.name)
            if value is not None:
                given.append(convert_input(spec, value))
        elif not spec.optional:
            raise IRTypeError(R0201, f"{record.name} needs the argument {spec.name!r}")
    attrs = dict(zip((spec.name for spec in record.attrs), values, strict=False))
    if len(values) > len(record.attrs):
        most = len(record.inputs) + len(record.attrs)
        raise IRTypeError(R0201, f"{record.name} takes at most {most} arguments, got {len(args)}")
    twice = [name for name in kwargs if name in attrs]
    if twice:
        raise UsageError(I0403, f"{record.name} got {twice[0]!r} twice")
    bound = record.bind_attrs({**attrs, **kwargs})
    for attr in record.attrs:
        if attr.kind == "vdevice":
            bound[attr.name] = vdevice_of(bound[attr.name], scope=bound.get("memory_scope", "global"))
    return Call(Op.get(record.key), tuple(given), attrs_of(bound), tuple(ty_args))


def call_op(name: str, *args: Any, **kwargs: Any) -> Call:
    """A call of the operator `name` ("add", "nn.relu"), as `build_call`. Raises: MissingNameError S0202."""
    return build_call(op_named(name), args, kwargs)
