"""Operators whose result's size depends on values. They decompose: count, name the size, fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference, type_of
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Call, Tuple, TupleGetItem
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import TupleType, Type
from heddle.ops.elementwise import random_array
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import unknown_dims
from heddle.prim.nodes import SizeVar
from heddle.runtime.dtype import DataType
from heddle.topi import reduce, transform, unique
from heddle.topi import sorting as sort

_LAYOUT = Without("it goes over all elements")
_INT64 = DataType("int64")


def named_size(builder: Any, count: Any) -> ShapeExpr:
    """A vector of one number, known when it runs, as a symbolic dimension."""
    shape = builder.emit(call_op("tensor_to_shape", count))
    size = SizeVar(builder.names.fresh("s"))
    builder.match_cast(shape, ShapeType((size,)))
    return ShapeExpr((size,))


def _flags(shape: tuple[int, ...]) -> Callable[[Any, str], tuple[Any, ...]]:
    return lambda rng, dtype: (random_array(rng, shape, "bool").astype(dtype),)


def _repeated(shape: tuple[int, ...]) -> Callable[[Any, str], tuple[Any, ...]]:
    return lambda rng, dtype: (np.asarray(rng.integers(0, 4, size=shape)).astype(dtype),)


def _decompose_nonzero(builder: Any, call: Call) -> Any:
    (x,) = call.args
    size = named_size(builder, builder.emit(builder.call_te(unique.count_nonzero, x)))
    return builder.call_te(unique.nonzero, x, size)


def _declare_nonzero() -> None:
    declare_op(
        OpDef(
            name="nonzero",
            inputs=(Input("x", meaning="a tensor"),),
            attrs=(),
            doc="The positions of elements that are not zero: int64, (rank, count), in row-major order.",
            infer=lambda ctx: (ctx.tensor(0), unknown_dims(_INT64, 2))[1],
            reference=lambda attrs, x: (
                np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)[: x.ndim]
                if x.ndim
                else np.zeros((0, int(x != 0)), np.int64)
            ),
            decompose=_decompose_nonzero,
            layout=_LAYOUT,
            samples=tuple(
                Sample((s,), {}, ("float32", "bool", "int32"), _flags(s))
                for s in ((3, 5), (7,), (2, 3, 2), (0, 2))
            ),
        )
    )


def _unique_axis(ctx: Inference) -> int | None:
    ty, axis = ctx.tensor(0), ctx.attrs.axis
    if axis is None or ty.ndim < 0:
        return None
    at = ctx.axis(int(axis), ty.ndim)
    if ty.ndim > 1:
        ctx.attr_error(
            f"axis must be None for a tensor of {ty.ndim} dimensions: values are compared, not slices"
        )
    return at


def _infer_unique(ctx: Inference) -> Type:
    ty, attrs = ctx.tensor(0), ctx.attrs
    _unique_axis(ctx)
    if not attrs.sorted:
        ctx.attr_error("sorted must be true")
    fields: list[Type] = [unknown_dims(ty.dtype, 1)]
    fields += [
        unknown_dims(_INT64, 1) for name in ("return_index", "return_inverse", "return_counts") if attrs[name]
    ]
    return TupleType(tuple(fields)) if len(fields) > 1 else fields[0]


def _decompose_unique(builder: Any, call: Call) -> Any:
    """Sort positions, mark where values begin, count the marks, fill."""
    (x,), attrs = call.args, call.attrs
    flat = x if x.ty.ndim == 1 else builder.emit(builder.call_te(transform.flatten, x))
    order = builder.emit(builder.call_te(sort.argsort, flat, axis=0, dtype="int64"))
    starts = builder.emit(builder.call_te(unique.group_starts, flat, order))
    count = builder.emit(builder.call_te(reduce.sum, starts, axis=0, keepdims=True))
    parts = builder.emit(
        builder.call_te(unique.unique_parts, flat, order, starts, named_size(builder, count))
    )
    names = ("return_index", "return_inverse", "return_counts")
    kept = [
        TupleGetItem(parts, 0),
        *(TupleGetItem(parts, k) for k, name in enumerate(names, start=1) if attrs[name]),
    ]
    return Tuple(tuple(kept)) if len(kept) > 1 else kept[0]


def _np_unique(attrs: Any, x: Any) -> Any:
    values, index, inverse, counts = np.unique(x.reshape(-1), True, True, True)
    parts = [values]
    for name, part in (("return_index", index), ("return_inverse", inverse), ("return_counts", counts)):
        if attrs[name]:
            parts.append(part.reshape(-1).astype(np.int64))
    return tuple(parts) if len(parts) > 1 else values


def _declare_unique() -> None:
    def flag(name: str, meaning: str) -> AttrSpec:
        return AttrSpec(name, "bool", False, meaning)

    every = {"return_index": True, "return_inverse": True, "return_counts": True}
    declare_op(
        OpDef(
            name="unique",
            inputs=(Input("x", meaning="a tensor; it is flattened"),),
            attrs=(
                AttrSpec("sorted", "bool", True, "values in rising order"),
                flag("return_index", "where each value occurs first"),
                flag("return_inverse", "the value's number of each element"),
                flag("return_counts", "how often each value occurs"),
                AttrSpec("axis", "int", None, "None flattens"),
            ),
            doc=(
                "The distinct elements in rising order, and on request first positions, inverse and "
                "counts (int64 vectors). NaN is one value, the greatest; zeros of both signs are one, given "
                "as it occurs first."
            ),
            infer=_infer_unique,
            reference=_np_unique,
            decompose=_decompose_unique,
            layout=_LAYOUT,
            samples=tuple(
                Sample((s,), attrs, ("float32", "int64"), _repeated(s))
                for s, attrs in (((7,), {}), ((3, 5), every), ((1,), {"return_counts": True}), ((0,), every))
            )
            + (Sample(((9, 2),), every, ("float16", "float32", "float64"), _with_nan),),
            errors=(
                ErrorSample(((2, 3),), {"axis": 0}, "R0205", "axis must be None"),
                ErrorSample(((3,),), {"sorted": False}, "R0205", "sorted"),
            ),
        )
    )


def _infer_row_numbers(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.ndim not in (-1, 2):
        ctx.shape_error(f"rows are those of a tensor of 2 dimensions, got {ty.ndim}")
    return unknown_dims(_INT64, 1) if ty.dims is None else TensorType((ty.dims[0],), _INT64)


def _np_row_numbers(attrs: Any, x: Any) -> Any:
    """Columns as numbers among their different values, in which NaN is the last and one value."""
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in x.T]
    if not codes or not len(x):
        return np.zeros(len(x), np.int64)
    numbers = np.unique(np.stack(codes, 1), axis=0, return_inverse=True)[1]
    return numbers.reshape(-1).astype(np.int64)


def _declare_row_numbers() -> None:
    declare_op(
        OpDef(
            name="row_numbers",
            inputs=(Input("x", meaning="(n, m)"),),
            attrs=(),
            doc=(
                "The place of each row among the different rows, in rising order: int64 (n,). The first "
                "elements that differ decide; NaN is the greatest, and equal to itself."
            ),
            infer=_infer_row_numbers,
            reference=_np_row_numbers,
            lower=lambda attrs, x: unique.row_numbers(x),
            layout=_LAYOUT,
            samples=tuple(
                Sample((s,), {}, ("float32", "int64", "int8"), _repeated(s))
                for s in ((7, 2), (30, 1), (1, 3), (0, 3), (4, 0), (65, 3))
            )
            + (Sample(((9, 2),), {}, ("float32",), _with_nan),),
            errors=(ErrorSample(((3,),), {}, "R0203", "rows are those of a tensor of 2 dimensions"),),
        )
    )


def _with_nan(rng: Any, dtype: str) -> tuple[Any, ...]:
    return (np.asarray(rng.choice([0.0, -0.0, 1.0, np.nan, -np.inf], (9, 2))).astype(dtype),)


def _infer_ensured(ctx: Inference) -> Type:
    ty, target = ctx.tensor(0), target_shape(ctx, 1)
    if target is None:
        return unknown_dims(ty.dtype, ctx.type_of(1).ndim)  # type: ignore[attr-defined]
    if ty.ndim not in (-1, len(target)):
        ctx.shape_error(f"expected {len(target)} dimensions, got {ty.ndim}")
    for axis, (stated, own) in enumerate(zip(target, ty.dims or (), strict=False)):
        if ctx.surely_differ(stated, own):
            ctx.shape_error(f"axis {axis}: expected size {stated}, got {own}")
    return TensorType(target, ty.dtype)


def _np_ensured(attrs: Any, x: Any, shape: Any) -> Any:
    if x.shape != tuple(shape):
        raise ValueError(f"expected a tensor of shape {tuple(shape)}, got {x.shape}")
    return x


def _decompose_ensured(builder: Any, call: Call) -> Any:
    x, known = call.args[0], type_of(call.args[1])
    assert isinstance(known, ShapeType)
    return builder.match_cast(x, TensorType(known.values, x.ty.dtype, x.ty.vdevice), "ensured")


def _declare_ensure_shape() -> None:
    declare_op(
        OpDef(
            name="ensure_shape",
            inputs=(Input("x", meaning="a tensor"), Input("shape", "shape", "the sizes that it has")),
            attrs=(),
            doc=(
                "The tensor itself. What its type does not say of its sizes is checked when it runs, and an "
                "error where they are others."
            ),
            infer=_infer_ensured,
            reference=_np_ensured,
            decompose=_decompose_ensured,
            layout=_LAYOUT,
            samples=(Sample(((3, 5), (3, 5))), Sample(((), ())), Sample(((0, 2), (0, 2)))),
            errors=(
                ErrorSample(((3, 5), (3, 4)), {}, "R0203", "expected size 4, got 5"),
                ErrorSample(((3, 5), (3,)), {}, "R0203", "expected 1 dimensions, got 2"),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_ensure_shape()
    _declare_row_numbers()
    _declare_nonzero()
    _declare_unique()
