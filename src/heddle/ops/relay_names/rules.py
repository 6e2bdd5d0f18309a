"""What mappings of Relay's arguments share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0205
from heddle.graph.infer import type_of
from heddle.graph.normalize import Normalizer
from heddle.graph.op_builder import call_op, const
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.expr import Expr, Tuple
from heddle.ir.op_def import AttrSpec, Input, OpAlias
from heddle.ir.types import TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.support.diagnostics import IRTypeError
from heddle.support.limits import current_limits, exceeded

Given = Mapping[str, Any]
Rows = Iterator[tuple[str, OpAlias]]
"""Names of records with what Relay calls them."""

DATA = (Input("data"),)
LHS_RHS = (Input("lhs"), Input("rhs"))


def alias(
    name: str,
    inputs: Sequence[Input] | None = None,
    attrs: Sequence[AttrSpec] = (),
    *,
    derived: Mapping[str, Callable[[Given], Type | None]] | None = None,
    results: Callable[[Any], int | None] | None = None,
    expression: Callable[[Given], Expr] | None = None,
    function: Callable[..., Given] | None = None,
    defaults: Given | None = None,
    **arguments: Any,
) -> OpAlias:
    """A name of Relay; `arguments` are the sources of the record's arguments."""
    return OpAlias(
        "relay",
        name,
        inputs=None if inputs is None else tuple(inputs),
        attrs=tuple(attrs),
        arguments=arguments,
        derived=derived or {},
        results=results,
        expression=expression,
        function=function,
        defaults=defaults or {},
    )


def attr(name: str, kind: str, *default: Any) -> AttrSpec:
    """An attribute of Relay's operator; without a default it must be given."""
    return AttrSpec(name, kind, *default)


def fixed(value: Any) -> Callable[[Given], Any]:
    """An argument that is always the same."""
    return lambda given: value


def or_none(name: str) -> Callable[[Given], Any]:
    """An attribute whose empty string means that it is left out."""
    return lambda given: given[name] or None


def typed(expr: Expr) -> Type:
    """The type of an argument, also of a call that was made of arguments."""
    ty = getattr(expr, "ty", None)
    if ty is not None:
        return ty  # type: ignore[no-any-return]
    normalizer = Normalizer()
    with normalizer.scope():
        return type_of(normalizer.value(expr))


def tensor_type(expr: Expr) -> TensorType:
    """Raises: IRTypeError R0205 for another value than a tensor."""
    ty = typed(expr)
    if not isinstance(ty, TensorType):
        raise IRTypeError(R0205, f"expected a tensor, got {ty}")
    return ty


def dims_of(expr: Expr) -> tuple[PrimExpr, ...]:
    """The dimensions of a tensor. Raises: IRTypeError R0205 where not even symbols stand for them."""
    dims = tensor_type(expr).dims
    if dims is None:
        raise IRTypeError(R0205, "the shape must be known here")
    return dims


def rank(expr: Expr) -> int:
    """The number of dimensions of a tensor."""
    return len(dims_of(expr))


def axis_from(axis: int, ndim: int) -> int:
    """An axis as a number from 0. Raises: IRTypeError R0205."""
    if not -ndim <= axis < ndim:
        raise IRTypeError(R0205, f"axis {axis} is out of range for a tensor of {ndim} dimensions")
    return axis % ndim


def whole(dim: PrimExpr) -> int | None:
    """A dimension that is known."""
    return dim.value if isinstance(dim, IntImm) else None


def stated(expr: Expr, dims: Sequence[Any]) -> Expr:
    """A tensor that has these sizes: those that are not known are checked when it runs."""
    own = dims_of(expr)
    is_same = all(a is b or None not in (whole(a), whole(b)) for a, b in zip(own, dims, strict=True))
    return expr if is_same else call_op("ensure_shape", expr, list(dims))


def size_vector(dims: Sequence[Any]) -> Expr:
    """Sizes as a vector of int64, a constant where all are known."""
    known = [whole(dim) for dim in dims]
    return call_op("shape_to_tensor", list(dims)) if None in known else const(np.array(known, "int64"))


def sizes_of(tensor: Expr) -> Expr:
    """The dimensions of a tensor as a vector of int64."""
    dims = tensor_type(tensor).dims
    if dims is None:
        return call_op("shape_to_tensor", call_op("shape_of", tensor))
    return size_vector(dims)


def whole_within(given: Given, name: str, least: int, most: int) -> int:
    """An attribute that is a number in a range. Raises: IRTypeError R0205."""
    value = int(given[name])
    if not least <= value <= most:
        raise IRTypeError(R0205, f"attribute {name} must be between {least} and {most}, got {value}")
    return value


def known_places(count: int, what: str) -> np.ndarray[Any, Any]:
    """0, 1, ... for a constant. Raises: UsageError S0601 beyond the limit `fold_bytes`."""
    check_constant(count, what)
    return np.arange(count)


def check_constant(count: int, what: str) -> None:
    """Raises: UsageError S0601 where so many numbers of int64 are beyond the limit `fold_bytes`."""
    if 8 * count > current_limits().fold_bytes:
        raise exceeded("fold_bytes", f"{what} takes a constant of {8 * count} bytes")


def as_list(value: Any) -> list[Any]:
    """A list of the items of a list or tuple, or of one value."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


def shape_input(expr: Expr) -> Expr:
    """A tensor of sizes as a shape."""
    if isinstance(getattr(expr, "ty", None), ShapeType):
        return expr
    return call_op("tensor_to_shape", call_op("astype", expr, dtype="int64"))


def fields_of(expr: Expr) -> tuple[Expr, ...]:
    """The parts of an argument that is a tuple."""
    if isinstance(expr, Tuple):
        return expr.fields
    raise IRTypeError(R0205, f"expected a tuple, got {typed(expr)}")


def tuple_types(expr: Expr) -> tuple[Type, ...]:
    """The types of a tuple's fields; none where it is no tuple."""
    ty = typed(expr)
    return ty.fields if isinstance(ty, TupleType) else ()


def dtype_of(name: str) -> Callable[[Given], str]:
    """The element type of an argument."""
    return lambda given: str(tensor_type(given[name]).dtype)


def as_is(
    name: str,
    inputs: Sequence[Input],
    attrs: Sequence[AttrSpec],
    make: Callable[[Given], Any],
    dtype: Callable[[Given], str],
    function: Callable[..., Given] | None = None,
) -> tuple[str, OpAlias]:
    """A name for an expression of several records, cast to an element type."""
    return "astype", alias(name, inputs, attrs, function=function, x=make, dtype=dtype)


def window(ndim: int) -> tuple[Any, ...]:
    """How a window goes over `ndim` axes."""
    ones = (1,) * ndim
    return attr("strides", "ints", ones), attr("padding", "ints", (0,) * ndim), attr("dilation", "ints", ones)


def kernel_window(ndim: int) -> tuple[Any, ...]:
    """How a kernel of a convolution goes over `ndim` axes, and its sizes."""
    sizes = attr("channels", "int", None), attr("kernel_size", "ints", None)
    return *window(ndim), attr("groups", "int", 1), *sizes


def typed_as(name: str) -> Any:
    """An argument in the element type that the attribute `dtype` asks for, if it does."""
    return lambda given: (
        call_op("astype", given[name], dtype=given["dtype"]) if given["dtype"] else given[name]
    )
