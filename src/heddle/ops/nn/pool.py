"""Pooling over sliding windows and over a given number of windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.nn.window import (
    checked_positions,
    layout_attrs,
    numpy_layout,
    per_axis,
    spread_attr,
    window_attrs,
)
from heddle.ops.rules import pool_work, require_float, require_ndim, unknown_dims
from heddle.prim.ops import min_value
from heddle.runtime.dtype import dtype_of
from heddle.topi.nn import pooling as topi
from heddle.topi.nn.window import output_size, pads, permuted, spatial_letters, spread

_LAYOUT = Without("the layout is an attribute")


def pool_rule(kind: str, ndim: int, data_at: int = 0) -> Callable[[Inference], Type]:
    """The type of a pool, whose data is the argument `data_at`."""
    spatial = spatial_letters(ndim)

    def infer(ctx: Inference) -> Type:
        data, attrs = ctx.tensor(data_at), ctx.attrs
        if kind != "max":
            require_float(ctx, data)
        at = checked_positions(ctx, str(attrs.layout), "NC" + spatial)
        out_layout = attrs.get("out_layout")
        if out_layout not in (None, "", attrs.layout):
            ctx.attr_error(f"out_layout must be the layout {attrs.layout}, got {out_layout}")
        sizes = spread_attr(ctx, "pool_size", attrs.pool_size, ndim)
        window = window_attrs(ctx, ndim)
        require_ndim(ctx, data, ndim + 2, "data")
        if data.dims is None:
            return unknown_dims(data.dtype, ndim + 2)
        x = [data.dims[axis] for axis in at]
        made = [
            output_size(x[2 + k], sizes[k], *per_axis(window, k), bool(attrs.ceil_mode)) for k in range(ndim)
        ]
        for k, size in enumerate(made):
            ctx.require_at_least(
                size, 1, f"the window of size {sizes[k]} does not fit into the padded data of size {x[2 + k]}"
            )
        return TensorType(permuted((x[0], x[1], *made), "NC" + spatial, str(attrs.layout)), data.dtype)

    return infer


def _greatest(values: Any) -> Any:
    """The greatest elements along the last axis; without elements the least number of the dtype."""
    least: Any = min_value(str(dtype_of(values)))
    return values.max(axis=-1, initial=np.array(least.value, values.dtype)[()])


def pool_reference(kind: str) -> Callable[[Any, Any], Any]:
    """Window by window: the elements of the data in it, and how many of its places lie in the padded data."""

    def reference(attrs: Any, data: Any) -> Any:
        ndim = data.ndim - 2
        letters = "NC" + spatial_letters(ndim)
        x = numpy_layout(data, attrs.layout, letters)
        x = x if kind == "max" else x.astype(np.float64)
        before, after = pads(attrs.padding, ndim)
        size, step, space = (spread(v, ndim) for v in (attrs.pool_size, attrs.strides, attrs.dilation))
        windows = []
        for k in range(ndim):
            room = x.shape[2 + k] + before[k] + after[k] - (size[k] - 1) * space[k] - 1
            count = (-(-room // step[k]) if attrs.ceil_mode else room // step[k]) + 1
            starts = [i * step[k] - before[k] for i in range(count)]
            starts = [s for s in starts if not attrs.ceil_mode or s < x.shape[2 + k]]
            windows.append([[s + t * space[k] for t in range(size[k])] for s in starts])
        if any(len(w) < 1 for w in windows):
            raise ValueError("the window does not fit into the data")
        result: Any = np.zeros((*x.shape[:2], *(len(w) for w in windows)), x.dtype)
        for at in itertools.product(*(range(len(w)) for w in windows)):
            places = [windows[k][i] for k, i in enumerate(at)]
            inside = [[p for p in ps if 0 <= p < n] for ps, n in zip(places, x.shape[2:], strict=True)]
            padded = [
                [p for p in ps if p < n + a] for ps, n, a in zip(places, x.shape[2:], after, strict=True)
            ]
            values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
            values = values.reshape(*x.shape[:2], math.prod(values.shape[2:]))
            if kind == "max":
                result[(..., *at)] = _greatest(values)
            elif kind == "sum":
                result[(..., *at)] = values.sum(axis=-1)
            else:
                counted = padded if attrs.count_include_pad else inside
                result[(..., *at)] = values.sum(axis=-1) / max(1, np.prod([len(c) for c in counted]))
        return numpy_layout(result, letters, attrs.layout).astype(data.dtype)

    return reference


_ROWS: dict[int, tuple[tuple[tuple[int, ...], dict[str, Any]], ...]] = {
    1: (
        ((2, 3, 8), {"pool_size": 2, "strides": 2}),
        ((1, 2, 7), {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True}),
        ((1, 2, 7), {"pool_size": 3, "dilation": 2, "padding": [1, 0]}),
        ((1, 1, 5), {"pool_size": 5}),
    ),
    2: (
        ((1, 3, 6, 5), {"pool_size": [2, 2], "strides": [2, 2]}),
        ((1, 2, 7, 5), {"pool_size": 3, "strides": 2, "padding": [1, 1]}),
        ((2, 1, 6, 5), {"pool_size": [3, 2], "strides": [2, 3], "ceil_mode": True, "padding": [0, 1, 1, 0]}),
        (
            (1, 2, 6, 5),
            {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True, "count_include_pad": True},
        ),
        ((1, 5, 4, 3), {"pool_size": 2, "layout": "NHWC", "padding": 1, "count_include_pad": True}),
        ((1, 1, 2, 2), {"pool_size": 1, "strides": 2, "ceil_mode": True}),
        ((0, 2, 5, 4), {"pool_size": 2}),
        ((1, 1, 4, 3), {"pool_size": 2, "padding": 3, "dilation": 5}),
    ),
    3: (
        ((1, 2, 3, 4, 3), {"pool_size": [2, 2, 1], "strides": [1, 2, 1]}),
        ((1, 1, 3, 4, 3), {"pool_size": 3, "padding": 1, "strides": 2, "ceil_mode": True}),
    ),
}


_MEANINGS = {"max": "greatest element", "avg": "mean", "sum": "sum"}
_WITHOUT_DATA = (
    " Without data, in padding alone or of an empty image, it is the least value (-inf of floats)."
)


def _declare(kind: str, ndim: int) -> None:
    def lower(attrs: Any, data: Any) -> Any:
        return topi.pool(
            data,
            kind,
            attrs.pool_size,
            attrs.strides,
            attrs.padding,
            attrs.dilation,
            bool(attrs.ceil_mode),
            bool(attrs.count_include_pad),
            str(attrs.layout),
        )

    letters = "NC" + spatial_letters(ndim)
    ones, shape = (1,) * ndim, (1, 1, *(4,) * ndim)
    declare_op(
        OpDef(
            name=f"nn.{kind}_pool{ndim}d",
            inputs=(Input("data", meaning="(n, channels, spatial...) in the layout"),),
            attrs=(
                AttrSpec("pool_size", "ints", ones),
                AttrSpec("strides", "ints", ones),
                AttrSpec("padding", "ints", (0,) * ndim),
                AttrSpec("dilation", "ints", ones),
                AttrSpec("ceil_mode", "bool", False, "keep a last, incomplete window"),
                AttrSpec("count_include_pad", "bool", False, "average over padding too"),
                *layout_attrs("layout", letters),
                AttrSpec("out_layout", "str", None, "the layout"),
            ),
            doc=(
                f"The {_MEANINGS[kind]} of sliding windows over "
                f"{ndim} spatial axes. A window that "
                "`ceil_mode` adds starts within the data or the padding before it."
                f"{_WITHOUT_DATA if kind == 'max' else ''}"
            ),
            infer=pool_rule(kind, ndim),
            reference=pool_reference(kind),
            lower=lower,
            work=pool_work,
            layout=_LAYOUT,
            samples=tuple(
                Sample(
                    (s,),
                    attrs,
                    ("float32", "int32" if kind == "max" else "float16") if k == 1 else ("float32",),
                )
                for k, (s, attrs) in enumerate(_ROWS[ndim])
            ),
            errors=(
                ErrorSample((shape,), {"pool_size": 5}, "R0203", "does not fit"),
                ErrorSample((shape,), {"strides": 0}, "R0205", "strides must be at least 1"),
                ErrorSample((shape[1:],), {}, "R0203", f"must have {ndim + 2} dimensions"),
                ErrorSample((shape,), {"padding": [-1]}, "R0205", "padding must be at least 0"),
            ),
        )
    )


def _adaptive_rule(kind: str, ndim: int) -> Callable[[Inference], Type]:
    letters = "NC" + spatial_letters(ndim)

    def infer(ctx: Inference) -> Type:
        data, attrs = ctx.tensor(0), ctx.attrs
        if kind == "avg":
            require_float(ctx, data)
        at = checked_positions(ctx, str(attrs.layout), letters)
        if attrs.out_layout not in (None, "", attrs.layout):
            ctx.attr_error(f"out_layout must be the layout {attrs.layout}, got {attrs.out_layout}")
        if attrs.output_size is not None:
            given = (
                attrs.output_size if isinstance(attrs.output_size, (tuple, list)) else (attrs.output_size,)
            )
            if len(given) not in (1, ndim):
                ctx.attr_error(f"output_size must have 1 or {ndim} numbers, got {list(given)}")
        require_ndim(ctx, data, ndim + 2, "data")
        if data.dims is None:
            return unknown_dims(data.dtype, ndim + 2)
        dims = list(data.dims)
        for axis, size in zip(at[2:], topi.adaptive_sizes(data.dims, at[2:], attrs.output_size), strict=True):
            dims[axis] = size
        return TensorType(tuple(dims), data.dtype)

    return infer


def _adaptive_reference(kind: str) -> Callable[[Any, Any], Any]:
    def reference(attrs: Any, data: Any) -> Any:
        ndim = data.ndim - 2
        letters = "NC" + spatial_letters(ndim)
        x = numpy_layout(data, attrs.layout, letters)
        x = x if kind == "max" else x.astype(np.float64)
        size = x.shape[2:] if attrs.output_size is None else spread(attrs.output_size, ndim)
        result: Any = np.zeros((*x.shape[:2], *size), x.dtype)
        for at in itertools.product(*(range(n) for n in size)):
            window = tuple(
                slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(at, x.shape[2:], size, strict=True)
            )
            values = x[(slice(None), slice(None), *window)]
            values = values.reshape(*x.shape[:2], math.prod(values.shape[2:]))
            result[(..., *at)] = _greatest(values) if kind == "max" else values.mean(axis=-1)
        return numpy_layout(result, letters, attrs.layout).astype(data.dtype)

    return reference


_ADAPTIVE_ROWS: dict[int, tuple[tuple[tuple[int, ...], Any], ...]] = {
    1: (((2, 3, 7), 1), ((1, 2, 7), 3), ((1, 2, 6), [3]), ((1, 1, 4), None)),
    2: (
        ((1, 3, 5, 7), [1, 1]),
        ((1, 2, 7, 6), [3, 2]),
        ((1, 2, 3, 4), 5),
        ((1, 2, 5, 4), None),
        ((0, 2, 5, 4), 2),
    ),
    3: (((1, 2, 3, 4, 5), [1, 1, 1]), ((1, 1, 3, 4, 5), [2, 2, 3])),
}


def _declare_adaptive(kind: str, ndim: int) -> None:
    letters = "NC" + spatial_letters(ndim)
    shape = (1, 1, *(4,) * ndim)
    nhwc = (Sample(((1, 5, 4, 3),), {"output_size": [1, 2], "layout": "NHWC"}),) if ndim == 2 else ()
    declare_op(
        OpDef(
            name=f"nn.adaptive_{kind}_pool{ndim}d",
            inputs=(Input("data", meaning="(n, channels, spatial...) in the layout"),),
            attrs=(
                AttrSpec("output_size", "ints", None, "windows along each axis; None keeps the size"),
                *layout_attrs("layout", letters),
                AttrSpec("out_layout", "str", None, "the layout"),
            ),
            doc=(
                f"The {'greatest element' if kind == 'max' else 'mean'} of each of `output_size` "
                f"windows that cover {ndim} spatial "
                "axes: window i of m over n elements goes from floor(i * n / m) to ceil((i + 1) * n / m)."
                f"{_WITHOUT_DATA if kind == 'max' else ''}"
            ),
            infer=_adaptive_rule(kind, ndim),
            reference=_adaptive_reference(kind),
            lower=lambda attrs, x: topi.adaptive_pool(x, attrs.output_size, kind, str(attrs.layout)),
            layout=_LAYOUT,
            samples=(*(Sample((s,), {"output_size": size}) for s, size in _ADAPTIVE_ROWS[ndim]), *nhwc),
            errors=(
                ErrorSample((shape,), {"output_size": [1] * (ndim + 1)}, "R0205", "output_size must have"),
                ErrorSample((shape,), {"layout": "NC"}, "R0205", "layout 'NC' is not supported"),
                ErrorSample((shape[1:],), {}, "R0203", f"must have {ndim + 2} dimensions"),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for kind in ("max", "avg"):
        for ndim in (1, 2, 3):
            _declare(kind, ndim)
            _declare_adaptive(kind, ndim)
    for ndim in (1, 2, 3):
        _declare("sum", ndim)
