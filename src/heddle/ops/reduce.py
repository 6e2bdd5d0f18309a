"""Reductions over axes, and the positions of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.elementwise import random_values
from heddle.ops.rules import axes_of, computed_in, require_float, unknown_dims
from heddle.runtime.dtype import DataType
from heddle.topi import reduce as topi
from heddle.topi.reduce import reduced_shape

_X = (Input("x", meaning="a tensor"),)
_ATTRS = (
    AttrSpec("axis", "ints", None, "the axes to reduce; None means all"),
    AttrSpec("keepdims", "bool", False, "keep reduced axes as 1"),
)
_LAYOUT = Without("axes are attributes")


def reduced_type(
    ctx: Inference, ty: TensorType, axes: Any, keepdims: bool, dtype: DataType | None
) -> TensorType:
    """The type after reducing axes."""
    if ty.ndim < 0:
        return unknown_dims(dtype, 0 if axes is None and not keepdims else -1)
    found = axes_of(ctx, axes, ty.ndim)
    if ty.dims is None:
        return unknown_dims(dtype, ty.ndim if keepdims else ty.ndim - len(found))
    return TensorType(reduced_shape(ty.dims, found, keepdims), dtype)


def _rule(accepts: str, result: str | None = None) -> Callable[[Inference], Type]:
    def infer(ctx: Inference) -> Type:
        ty = ctx.tensor(0)
        if accepts == "floats":
            require_float(ctx, ty)
        elif ty.dtype is not None and (ty.dtype.is_bool is not (accepts == "bools")):
            ctx.fail(
                R0204,
                f"expected {'bool' if accepts == 'bools' else 'numbers'}, got {ty.dtype}",
                "convert with astype",
            )
        dtype = DataType(result) if result else ty.dtype
        return reduced_type(ctx, ty, ctx.attrs.axis, bool(ctx.attrs.keepdims), dtype)

    return infer


def _numpy_axes(axis: Any) -> Any:
    return None if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else int(axis)


def _reference(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(attrs: Any, x: Any) -> Any:
        x = np.asarray(x)
        wide = x.astype(computed_in(x.dtype))
        with np.errstate(all="ignore"):
            return np.asarray(
                function(wide, axis=_numpy_axes(attrs.axis), keepdims=bool(attrs.keepdims))
            ).astype(x.dtype)

    return reference


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without elements the greatest is the least value there is, and the other way round, as in loops."""

    def run(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        most = np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max
        return function(x, axis=axis, keepdims=keepdims, initial=least if function is np.max else most)

    return run


def _samples(dtypes: tuple[str, ...], can_be_empty: bool) -> tuple[Sample, ...]:
    rows: list[tuple[tuple[int, ...], dict[str, Any]]] = [
        ((3, 7), {}),
        ((3, 7), {"axis": 1}),
        ((3, 5, 2), {"axis": [0, -1]}),
        ((3, 5, 2), {"axis": -2, "keepdims": True}),
        ((), {}),
        ((1, 4), {"keepdims": True}),
        ((3, 2), {"axis": []}),
        ((0, 3), {"axis": 1}),
    ]
    if can_be_empty:
        rows += [((3, 0), {"axis": 1}), ((0,), {})]

    return tuple(
        Sample((shape,), attrs, dtypes if k < 3 else dtypes[:1], random_values(shape))
        for k, (shape, attrs) in enumerate(rows)
    )


_ROWS: tuple[tuple[str, Any, str, tuple[str, ...], str, bool], ...] = (
    ("sum", np.sum, "numbers", ("float32", "int32", "float16", "int64", "bfloat16", "int8"), "The sum", True),
    ("prod", np.prod, "numbers", ("float32", "int32"), "The product", True),
    ("max", _extreme(np.max), "numbers", ("float32", "int32", "uint8"), "The greatest element", True),
    ("min", _extreme(np.min), "numbers", ("float32", "int32", "uint8"), "The least element", True),
    ("mean", np.mean, "floats", ("float32", "float16", "bfloat16"), "The mean", False),
    (
        "variance",
        np.var,
        "floats",
        ("float32", "float16", "bfloat16"),
        "The mean squared distance from the mean",
        False,
    ),
    ("std", np.std, "floats", ("float32",), "The square root of the variance", False),
    ("all", np.all, "bools", ("bool",), "Whether all elements hold", True),
    ("any", np.any, "bools", ("bool",), "Whether any element holds", True),
)


_NAN = ". Where an element is NaN, any of them may count"
_ENDS = {"max": _NAN, "min": _NAN, "all": "", "any": ""}


def _declare(
    name: str, reference: Any, accepts: str, dtypes: tuple[str, ...], meaning: str, can_be_empty: bool
) -> None:
    function = getattr(topi, name)
    wrong = {
        "floats": ("int32", "float"),
        "bools": ("float32", "expected bool"),
        "numbers": ("bool", "expected numbers"),
    }[accepts]
    declare_op(
        OpDef(
            name=name,
            inputs=_X,
            attrs=_ATTRS,
            doc=f"{meaning} over axes{_ENDS.get(name, ', accumulated in float32 for narrower floats')}.",
            infer=_rule(accepts),
            reference=_reference(reference),
            lower=lambda attrs, x: function(x, attrs.axis, bool(attrs.keepdims)),
            layout=_LAYOUT,
            samples=_samples(dtypes, can_be_empty),
            errors=(
                ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range", dtypes[0]),
                ErrorSample(((2, 3),), {"axis": [1, -1]}, "R0205", "twice", dtypes[0]),
                ErrorSample(((2, 3),), {}, "R0204", wrong[1], wrong[0]),
            ),
        )
    )


def _infer_arg(ctx: Inference) -> Type:
    """Elements without any to choose from have no index."""
    axis, ty = ctx.attrs.axis, ctx.tensor(0)
    if ty.dims is not None:
        over = axes_of(ctx, axis, ty.ndim)
        readers = [dim for k, dim in enumerate(ty.dims) if k not in over]
        for k in over:
            ctx.require_elements(ty.dims[k], readers, f"axis {k}")
    return reduced_type(
        ctx, ctx.tensor(0), None if axis is None else int(axis), bool(ctx.attrs.keepdims), DataType("int64")
    )


def _declare_arg(name: str) -> None:
    function, reference = getattr(topi, name), getattr(np, name)
    rows: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((3, 7), {}),
        ((3, 7), {"axis": 1}),
        ((3, 5, 2), {"axis": -2, "keepdims": True}),
        ((), {}),
        ((4, 1), {"axis": 1}),
        ((2, 3), {"keepdims": True}),
        ((0, 3), {"axis": 1}),
    )
    declare_op(
        OpDef(
            name=name,
            inputs=_X,
            attrs=(AttrSpec("axis", "int", None, "the axis; None flattens"), _ATTRS[1]),
            doc=(
                f"The int64 index of the {'greatest' if name == 'argmax' else 'least'} element along "
                f"an axis, of equal ones the first{_NAN}."
            ),
            infer=_infer_arg,
            reference=lambda attrs, x: np.asarray(
                reference(x, axis=attrs.axis, keepdims=bool(attrs.keepdims)), np.int64
            ),
            lower=lambda attrs, x: function(x, attrs.axis, bool(attrs.keepdims)),
            layout=_LAYOUT,
            samples=tuple(
                Sample((shape,), attrs, ("float32", "int32"), random_values(shape)) for shape, attrs in rows
            ),
            errors=(ErrorSample(((2, 3),), {"axis": -3}, "R0205", "axis -3 is out of range"),),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for row in _ROWS:
        _declare(*row)
    _declare_arg("argmax")
    _declare_arg("argmin")
