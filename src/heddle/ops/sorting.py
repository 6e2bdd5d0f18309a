"""Sorting, searching sorted tensors, running sums and products."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.arith.sizes import product
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import TupleType, Type
from heddle.ops.rules import require_ndim, unknown_dims
from heddle.runtime.dtype import DataType
from heddle.topi import scan
from heddle.topi import sorting as sort

_DATA = Input("data", meaning="a tensor")
_LAYOUT = Without("the axis is an attribute")
_AXIS = AttrSpec("axis", "int", -1, "the axis")
_DESCENDING = AttrSpec("descending", "bool", False, "from the greatest to the least")


def _distinct(shape: tuple[int, ...]) -> Callable[[Any, str], tuple[Any, ...]]:
    """Few values, so that equal ones occur, NaN among floats."""

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        values = np.asarray(rng.integers(-3, 4, size=shape)).astype(dtype)
        if dtype.startswith("float") and values.size > 4:
            values.reshape(-1)[3] = np.nan
        return (values,)

    return make


def _checked_axis(ctx: Inference, ty: TensorType) -> None:
    if ty.ndim >= 0:
        ctx.axis(int(ctx.attrs.axis), ty.ndim)


def _infer_sort(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    _checked_axis(ctx, ty)
    return ty


def _infer_argsort(ctx: Inference) -> Type:
    ty, dtype = ctx.tensor(0), DataType(ctx.attrs.dtype)
    _checked_axis(ctx, ty)
    return TensorType(ty.dims, dtype) if ty.dims is not None else unknown_dims(dtype, ty.ndim)


def _np_order(x: Any, axis: int, descending: bool) -> Any:
    """A stable order with NaN as the greatest; descending, equal elements keep their order too."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    reverse = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(reverse, axis)


_SORT_ROWS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((3, 7), {}),
    ((7, 2), {"axis": 0}),
    ((2, 5, 3), {"axis": -2, "descending": True}),
    ((13,), {"descending": True}),
    ((1,), {}),
    ((0,), {}),
    ((2, 0), {}),
)


def _declare_sorts() -> None:
    errors = (ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range"),)
    declare_op(
        OpDef(
            name="sort",
            dispatch="sort_scan",
            inputs=(Input("x", meaning="a tensor"),),
            attrs=(_AXIS, _DESCENDING),
            doc="The elements along an axis in sorted order; NaN is the greatest.",
            infer=_infer_sort,
            reference=lambda a, x: np.take_along_axis(x, _np_order(x, a.axis, a.descending), a.axis),
            lower=lambda a, x: sort.sort(x, int(a.axis), bool(a.descending)),
            layout=_LAYOUT,
            errors=errors,
            samples=tuple(Sample((s,), attrs, ("float32", "int32"), _distinct(s)) for s, attrs in _SORT_ROWS),
        )
    )
    declare_op(
        OpDef(
            name="argsort",
            dispatch="sort_scan",
            inputs=(_DATA,),
            attrs=(_AXIS, _DESCENDING, AttrSpec("dtype", "dtype", "int32")),
            doc=(
                "The positions of elements along an axis in sorted order. Equal elements keep their "
                "order; NaN is the greatest."
            ),
            infer=_infer_argsort,
            reference=lambda a, x: _np_order(x, a.axis, a.descending).astype(DataType(a.dtype).numpy()),
            lower=lambda a, x: sort.argsort(x, int(a.axis), bool(a.descending), a.dtype),
            layout=_LAYOUT,
            errors=errors,
            samples=tuple(Sample((s,), attrs, ("float32", "int32"), _distinct(s)) for s, attrs in _SORT_ROWS)
            + (Sample(((5,),), {"dtype": "int64"}),),
        )
    )
    declare_op(
        OpDef(
            name="topk",
            dispatch="sort_scan",
            inputs=(_DATA,),
            attrs=(
                AttrSpec("k", "int", 1, "below 1 means all"),
                _AXIS,
                AttrSpec("ret_type", "str", "both", "both, values or indices"),
                AttrSpec("largest", "bool", True, "the greatest, not the least"),
                AttrSpec("dtype", "dtype", "int32", "of the indices"),
            ),
            doc=(
                "The k greatest (least) elements along an axis in sorted order and their positions; "
                "fewer where the axis is shorter."
            ),
            infer=_infer_topk,
            reference=_np_topk,
            lower=lambda a, x: sort.topk(x, int(a.k), int(a.axis), str(a.ret_type), bool(a.largest), a.dtype),
            layout=_LAYOUT,
            samples=tuple(
                Sample((s,), attrs, ("float32", "int32"), _distinct(s))
                for s, attrs in (
                    ((3, 7), {"k": 3}),
                    ((5, 2), {"k": 2, "axis": 0, "largest": False, "dtype": "int64"}),
                    ((6,), {"ret_type": "values"}),
                    ((6,), {"k": 9, "ret_type": "indices"}),
                    ((2, 3), {"k": 0}),
                )
            ),
            errors=(*errors, ErrorSample(((3,),), {"ret_type": "none"}, "R0205", "ret_type must be")),
        )
    )


def _infer_topk(ctx: Inference) -> Type:
    ty, attrs, dtype = ctx.tensor(0), ctx.attrs, DataType(ctx.attrs.dtype)
    _checked_axis(ctx, ty)
    if attrs.ret_type not in ("both", "values", "indices"):
        ctx.attr_error(f"ret_type must be both, values or indices, got {attrs.ret_type!r}")
    if ty.dims is None:
        types = (unknown_dims(ty.dtype, ty.ndim), unknown_dims(dtype, ty.ndim))
    else:
        axis = ctx.axis(int(attrs.axis), ty.ndim)
        dims = (*ty.dims[:axis], sort.topk_length(ty.dims[axis], int(attrs.k)), *ty.dims[axis + 1 :])
        types = (TensorType(dims, ty.dtype), TensorType(dims, dtype))
    return TupleType(types) if attrs.ret_type == "both" else types[attrs.ret_type == "indices"]


def _np_topk(attrs: Any, x: Any) -> Any:
    size = x.shape[attrs.axis]
    count = size if attrs.k < 1 else min(int(attrs.k), size)
    order = np.take(_np_order(x, attrs.axis, attrs.largest), np.arange(count), attrs.axis)
    values, indices = np.take_along_axis(x, order, attrs.axis), order.astype(DataType(attrs.dtype).numpy())
    return {"both": (values, indices), "values": values, "indices": indices}[attrs.ret_type]


def _infer_search(ctx: Inference) -> Type:
    x, boundaries = ctx.tensor(0), ctx.tensor(1)
    ctx.same_dtype(x, boundaries)
    dtype = DataType("int32" if ctx.attrs.out_int32 else "int64")
    if boundaries.ndim != 1:
        require_ndim(ctx, x, boundaries.ndim, "a tensor with boundaries for each row")
    if boundaries.dims is not None and x.dims is not None and boundaries.ndim > 1:
        for own, dim in zip(boundaries.dims[:-1], x.dims[:-1], strict=True):
            ctx.require_equal(own, dim, "rows of boundaries and data")
    return TensorType(x.dims, dtype) if x.dims is not None else unknown_dims(dtype, x.ndim)


def _declare_search() -> None:
    def sample(shape: tuple[int, ...], size: int | tuple[int, ...], attrs: dict[str, Any]) -> Sample:
        return Sample(
            (shape, size if isinstance(size, tuple) else (size,)),
            attrs,
            ("float32", "int32"),
            lambda rng, dtype: (
                np.asarray(rng.integers(-6, 7, size=shape)).astype(dtype),
                np.sort(rng.integers(-5, 6, size=size)).astype(dtype),
            ),
        )

    def reference(attrs: Any, x: Any, boundaries: Any) -> Any:
        place = bisect_right if attrs.right else bisect_left
        made = np.empty(x.shape, "int32" if attrs.out_int32 else "int64")
        if boundaries.ndim > 1 and boundaries.shape[:-1] != x.shape[:-1]:
            raise ValueError("rows of boundaries and data differ")
        for at in np.ndindex(x.shape):
            made[at] = place(boundaries if boundaries.ndim == 1 else boundaries[at[:-1]], x[at])
        return made

    declare_op(
        OpDef(
            name="bucketize",
            inputs=(
                Input("input_tensor", meaning="a tensor"),
                Input(
                    "boundaries",
                    meaning="a sorted vector, or one for each row: (..., n), as the tensor (..., m)",
                ),
            ),
            attrs=(
                AttrSpec("out_int32", "bool", False, "int32 results instead of int64"),
                AttrSpec("right", "bool", False),
            ),
            doc=(
                "For every element its place in the sorted boundaries: before equal ones, or behind "
                "them if `right`."
            ),
            infer=_infer_search,
            reference=reference,
            lower=lambda a, x, b: sort.searchsorted(b, x, bool(a.right), "int32" if a.out_int32 else "int64"),
            layout=_LAYOUT,
            samples=(
                sample((3, 5), 7, {}),
                sample((6,), 4, {"right": True, "out_int32": True}),
                sample((), 3, {}),
                sample((2,), 0, {}),
                sample((3, 4), (3, 9), {"right": True}),
                sample((2, 1, 5), (2, 1, 3), {}),
            ),
            errors=(
                ErrorSample(((3,), (2, 2)), {}, "R0203", "must have 2 dimensions"),
                ErrorSample(((3, 2), (2, 2)), {}, "R0203", "rows of boundaries and data differ"),
            ),
        )
    )


def _infer_scan(ctx: Inference) -> Type:
    ty, axis = ctx.tensor(0), ctx.attrs.axis
    dtype = DataType(ctx.attrs.dtype) if ctx.attrs.dtype else ty.dtype
    if axis is not None:
        _checked_axis(ctx, ty)
        return TensorType(ty.dims, dtype) if ty.dims is not None else unknown_dims(dtype, ty.ndim)
    return TensorType((product(ty.dims),), dtype) if ty.dims is not None else unknown_dims(dtype, 1)


def _np_scan(function: Callable[..., Any], start: int) -> Callable[[Any, Any], Any]:
    def reference(attrs: Any, x: Any) -> Any:
        dtype = np.dtype(DataType(attrs.dtype).numpy()) if attrs.dtype else x.dtype
        wide = np.float64 if dtype.kind == "f" else dtype
        data = x.reshape(-1) if attrs.axis is None else x
        axis = 0 if attrs.axis is None else attrs.axis
        result = function(data.astype(wide), axis=axis, dtype=wide)
        if attrs.exclusive:
            result = np.roll(result, 1, axis)
            np.moveaxis(result, axis, 0)[:1] = start
        return result.astype(dtype)

    return reference


def _declare_scans() -> None:
    rows: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((3, 7), {"axis": 1}),
        ((3, 5, 2), {"axis": -2, "exclusive": True}),
        ((3, 4), {}),
        ((5,), {"axis": 0, "dtype": "float64"}),
        ((2, 0), {"axis": 1}),
    )

    def make(shape: tuple[int, ...]) -> Callable[[Any, str], tuple[Any, ...]]:
        return lambda rng, dtype: (np.asarray(rng.integers(-2, 3, size=shape)).astype(dtype),)

    for name, function, numpy_function, start, word in (
        ("cumsum", scan.cumsum, np.cumsum, 0, "sums"),
        ("cumprod", scan.cumprod, np.cumprod, 1, "products"),
    ):
        declare_op(
            OpDef(
                name=name,
                dispatch="sort_scan",
                inputs=(_DATA,),
                attrs=(
                    AttrSpec("axis", "int", None, "None flattens"),
                    AttrSpec("dtype", "dtype", None, "default: the data's"),
                    AttrSpec("exclusive", "bool", False, "leave out the element itself"),
                ),
                doc=f"Running {word} along an axis.",
                infer=_infer_scan,
                reference=_np_scan(numpy_function, start),
                lower=lambda a, x, function=function: function(x, a.axis, a.dtype, bool(a.exclusive)),
                layout=_LAYOUT,
                samples=tuple(Sample((s,), attrs, ("float32", "int32"), make(s)) for s, attrs in rows),
                errors=(ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range"),),
            )
        )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_sorts()
    _declare_search()
    _declare_scans()
