"""Build operator calls from Python values, for builder functions, scripts and importers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0103, R0201
from heddle.graph.types import ShapeExpr, TensorType, dim
from heddle.graph.vdevices import vdevice_of
from heddle.ir.attrs import attrs_of
from heddle.ir.codes import I0403
from heddle.ir.expr import Call, Constant, DataTypeImm, Expr, ExternFunc, StringImm, Tuple
from heddle.ir.op import Op
from heddle.ir.op_def import AttrSpec, Input, OpAlias, OpDef, bind_attrs, op_named, op_named_in
from heddle.prim.codes import K0106
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, refuse_masked, tensor
from heddle.support.diagnostics import IRTypeError, UsageError


def const(value: Any, dtype: Any = None) -> Constant:
    """Make a tensor constant. Python floats become float32, ints int32 (int64 if a value does not fit), bools
    bool, unless `dtype` says otherwise: an element type, or a TensorType, which may have a virtual device.
    Arrays are cast by numpy's rules.

    Raises: IRTypeError K0106 for Python numbers that `dtype` cannot represent, U0302 for a masked array.
    """
    if isinstance(dtype, TensorType):
        plain = value if isinstance(value, Constant) else const(value, dtype.dtype)
        known = TensorType(tuple(plain.data.shape), plain.data.dtype, dtype.vdevice)
        return Constant(plain.data, known)
    if isinstance(value, Tensor):
        return typed_constant(value)
    refuse_masked(value)
    array = np.asarray(value)
    is_plain = not hasattr(value, "dtype")
    dtype = dtype or (default_dtype(array) if is_plain else None)
    if dtype is None:
        return typed_constant(tensor(array))
    if is_plain:
        check_fits(array, DataType(dtype))
    return typed_constant(tensor(array.astype(DataType(dtype).numpy()), dtype=dtype))


def default_dtype(numbers: np.ndarray[Any, Any]) -> str | None:
    """The dtype of a constant of Python's numbers; None where there is no rule."""
    if numbers.dtype.kind == "i":
        return "int32" if _is_within(numbers, *int_range(DataType("int32"))) else "int64"
    return {"f": "float32", "b": "bool"}.get(numbers.dtype.kind)


def _is_within(numbers: np.ndarray[Any, Any], least: int, most: int) -> bool:
    return not numbers.size or bool(least <= numbers.min() and numbers.max() <= most)


def check_fits(numbers: np.ndarray[Any, Any], wanted: DataType) -> None:
    """Raises: IRTypeError K0106 for integers outside the range of a dtype, and complex numbers as others."""
    help_text = "take another dtype, or give an array: numpy's casts wrap and drop what does not fit"
    if numbers.dtype.kind in "iuO" and wanted.is_int:
        least, most = int_range(wanted)
        if not _is_within(numbers, least, most):
            given = f"{numbers.min()} to {numbers.max()}" if numbers.size > 1 else numbers.min()
            message = f"{given} is outside the range of {wanted}: expected {least} to {most}"
            raise IRTypeError(K0106, message, help=help_text)
    if numbers.dtype.kind == "c" and not wanted.startswith("complex"):
        raise IRTypeError(K0106, f"complex numbers are outside the range of {wanted}", help=help_text)


def typed_constant(data: Tensor) -> Constant:
    """A tensor as a constant of the graph, with its type."""
    return Constant(data, TensorType(tuple(data.shape), data.dtype))


def as_constant(value: Any) -> Constant:
    """A tensor as `typed_constant` makes it; a constant is returned unchanged."""
    return value if isinstance(value, Constant) else typed_constant(value)


def shape_expr(value: Any) -> Expr:
    """Make a shape expression from dimensions. An expression is returned unchanged."""
    if isinstance(value, Expr) and not isinstance(value, PrimExpr):
        return value
    items = value if isinstance(value, (tuple, list)) else [value]
    return ShapeExpr(tuple(dim(item) for item in items))


def graph_expr(value: Any) -> Expr:
    """Convert a Python value to an expression: arrays become constants, tuples tuples, numbers scalars,
    strings strings.

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
    record: OpDef, args: Sequence[Any], kwargs: Mapping[str, Any], ty_args: Sequence[Any] = ()
) -> Call:
    """Build a call of an operator. Inputs are given by position or name, then attributes by position or name.

    Raises: IRTypeError R0201 for missing or surplus arguments, UsageError for invalid attributes.
    """
    inputs, attrs = bind_arguments(record.name, record.inputs, record.attrs, args, kwargs)
    given = [value for values in inputs.values() for value in values]
    return Call(Op.get(record.key), tuple(given), attrs_of(attrs), tuple(ty_args))


def call_op(name: str, /, *args: Any, **kwargs: Any) -> Call:
    """Build a call of the operator `name` ("add", "nn.relu"); see `build_call`. Raises: MissingNameError
    S0202."""
    return build_call(op_named(name), args, kwargs)


def build_call_in(
    dialect: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], ty_args: Sequence[Any] = ()
) -> Any:
    """A call of the operator that a dialect calls `name`, from the arguments that it takes there, or the
    expression that the call is (`OpAlias.expression`).

    Raises: MissingNameError S0202 for a name that there is not; else as `build_call`.
    """
    record, alias = op_named_in(dialect, name)
    if alias is None:
        return build_call(record, args, kwargs, ty_args)
    specs, attr_specs = alias.inputs_of(record), alias.attrs_of(record)
    inputs, attrs = bind_arguments(name, specs, attr_specs, args, kwargs)
    given: dict[str, Any] = dict(attrs)
    for spec in specs:
        values = inputs.get(spec.name, ())
        given[spec.name] = values if spec.variadic else values[0] if values else None
    return expand_alias(record, alias, given, ty_args)


def expand_alias(record: OpDef, alias: OpAlias, given: Mapping[str, Any], ty_args: Sequence[Any] = ()) -> Any:
    """What a call under an alias is, from all its arguments by name. Raises: as `build_call`, and what the
    alias raises."""
    if alias.expression is not None:
        return alias.expression(given)
    return build_call(record, (), alias.map_arguments(record, given), ty_args)


def bind_arguments(
    name: str,
    inputs: Sequence[Input],
    attrs: Sequence[AttrSpec],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[dict[str, tuple[Expr, ...]], dict[str, Any]]:
    """Arguments by the names of inputs, an optional one that is left out missing, and attributes with
    defaults; `name` is the operator's in messages.

    Raises: as `build_call`.
    """
    values, named = list(args), dict(kwargs)
    given: dict[str, tuple[Expr, ...]] = {}
    for spec in inputs:
        if spec.variadic:
            rest = values or named.pop(spec.name, ())
            given[spec.name] = tuple(convert_input(spec, value) for value in rest)
            values = []
        elif values or spec.name in named:
            value = values.pop(0) if values else named.pop(spec.name)
            if value is not None or not spec.optional:
                given[spec.name] = (convert_input(spec, value),)
        elif not spec.optional:
            raise IRTypeError(R0201, f"{name} needs the argument {spec.name!r}")
    if len(values) > len(attrs):
        most = len(inputs) + len(attrs)
        raise IRTypeError(R0201, f"{name} takes at most {most} arguments, got {len(args)}")
    by_place = dict(zip((spec.name for spec in attrs), values, strict=False))
    twice = [key for key in named if key in by_place]
    if twice:
        raise UsageError(I0403, f"{name} got {twice[0]!r} twice")
    bound = bind_attrs(name, attrs, {**by_place, **named})
    for attr in attrs:
        if attr.kind == "vdevice" and bound[attr.name] is not attr.default:
            bound[attr.name] = vdevice_of(bound[attr.name], scope=bound.get("memory_scope", "global"))
    return given, bound
