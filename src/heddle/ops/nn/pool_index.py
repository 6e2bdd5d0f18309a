"""Pooling that gives the greatest element of each window and where it lies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import TupleType, Type
from heddle.ops.manipulate import target_shape
from heddle.ops.nn.window import spread_attr
from heddle.ops.rules import pool_work, unknown_dims
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType
from heddle.topi.nn import max_places as topi
from heddle.topi.nn.window import spread

_INT64 = DataType("int64")


def _infer(ctx: Inference) -> Type:
    data, padding = ctx.tensor(0), target_shape(ctx, 1)
    if data.ndim >= 0 and not 3 <= data.ndim <= 5:
        ctx.shape_error(f"data must have 3, 4 or 5 dimensions, got {data.ndim}")
    if data.dims is None or padding is None:
        return TupleType((unknown_dims(data.dtype, data.ndim), unknown_dims(_INT64, data.ndim)))
    ndim = data.ndim - 2
    windows = [spread_attr(ctx, name, getattr(ctx.attrs, name), ndim) for name in _WINDOW]
    for name, values in zip(_WINDOW, windows, strict=True):
        if any(value < 1 for value in values):
            ctx.attr_error(f"{name} must be at least 1, got {list(values)}")
    if len(padding) != 2 * ndim:
        ctx.shape_error(f"the padding must be {2 * ndim} numbers, got {len(padding)}")
    if any(isinstance(pad, IntImm) and pad.value < 0 for pad in padding):
        ctx.shape_error(f"padding must be at least 0, got ({', '.join(map(str, padding))})")
    sizes, steps, spaces = windows
    made = topi.pooled_sizes(data.dims[2:], padding, sizes, steps, spaces, bool(ctx.attrs.ceil_mode))
    for k, size in enumerate(made):
        ctx.require_at_least(
            size,
            1,
            f"the window of size {sizes[k]} does not fit into the padded data of size {data.dims[2 + k]}",
        )
    dims = (*data.dims[:2], *made)
    return TupleType((TensorType(dims, data.dtype), TensorType(dims, _INT64)))


def _reference(attrs: Any, data: Any, padding: Any) -> Any:
    """Window by window, tap by tap."""
    ndim = data.ndim - 2
    sizes, steps, spaces = (spread(getattr(attrs, name), ndim) for name in _WINDOW)
    windows = []
    for k in range(ndim):
        room = data.shape[2 + k] + padding[k] + padding[ndim + k] - (sizes[k] - 1) * spaces[k] - 1
        count = (-(-room // steps[k]) if attrs.ceil_mode else room // steps[k]) + 1
        starts = [i * steps[k] - padding[k] for i in range(count)]
        starts = [s for s in starts if not attrs.ceil_mode or s < data.shape[2 + k]]
        windows.append([[s + t * spaces[k] for t in range(sizes[k])] for s in starts])
    if any(len(window) < 1 for window in windows):
        raise ValueError("the window does not fit into the data")
    shape = (*data.shape[:2], *map(len, windows))
    values = np.full(shape, -np.inf if data.dtype.kind not in "iu" else np.iinfo(data.dtype).min, data.dtype)
    indices = np.full(shape, -1, np.int64)
    strides = np.ones(ndim, np.int64)
    order = range(1, ndim) if attrs.by_columns else range(ndim - 2, -1, -1)
    for k in order:
        before = k - 1 if attrs.by_columns else k + 1
        strides[k] = strides[before] * data.shape[2 + before]
    for at in np.ndindex(*shape):
        image, best = data[at[:2]], None
        for place in itertools.product(*(windows[k][i] for k, i in enumerate(at[2:]))):
            if not all(0 <= p < n for p, n in zip(place, image.shape, strict=True)):
                continue
            value = image[place]
            if best is None or value > best or (value != value and best == best):
                best, values[at] = value, value
                number = (at[0] * data.shape[1] + at[1]) * image.size
                indices[at] = number + sum(int(p) * int(s) for p, s in zip(place, strides, strict=True))
    return values, indices


def _few_values(shape: tuple[int, ...]) -> Any:
    """Few whole numbers, so that windows have several maxima; of floats also some NaN and infinities."""

    def make(rng: Any, dtype: str) -> Any:
        x = np.asarray(rng.integers(-3, 4, size=shape)).astype(dtype)
        if np.dtype(dtype).kind == "f":
            x[rng.random(shape) < 0.05] = np.nan
            x[rng.random(shape) < 0.1] = -np.inf
        else:
            x[rng.random(shape) < 0.3] = np.iinfo(dtype).min
        return x

    return make


def _sample(
    shape: tuple[int, ...], padding: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",), **attrs: Any
) -> Sample:
    make = _few_values(shape)
    return Sample((shape, padding), attrs, dtypes, lambda rng, dtype: (make(rng, dtype), padding))


_WINDOW = ("pool_size", "strides", "dilation")
_IMAGE = (1, 1, 4, 4)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="nn.max_pool_with_index",
            inputs=(
                Input("data", meaning="(n, channels, spatial...), of 1 to 3 spatial axes"),
                Input("padding", "shape", "before each spatial axis, then after each, none of them negative"),
            ),
            attrs=(
                *(AttrSpec(name, "ints", (1,)) for name in _WINDOW),
                AttrSpec("ceil_mode", "bool", False, "keep a last, incomplete window"),
                AttrSpec("by_columns", "bool", False, "number an image with its first axis fastest"),
            ),
            doc=(
                "The greatest element of sliding windows and its number (int64) in the whole data. NaN is "
                "the greatest; of equal elements the first counts. A window without data has the least value "
                "and -1."
            ),
            infer=_infer,
            reference=_reference,
            lower=lambda attrs, data, padding: topi.max_pool_with_index(
                data,
                padding,
                attrs.pool_size,
                attrs.strides,
                attrs.dilation,
                bool(attrs.ceil_mode),
                bool(attrs.by_columns),
            ),
            work=pool_work,
            layout=Without("axes have fixed places"),
            gradient=Without("nn.max_pool1d, 2d and 3d have rules"),
            samples=(
                _sample((2, 3, 8), (0, 0), ("float32", "int8"), pool_size=2, strides=2),
                _sample((1, 2, 47), (2, 1), ("uint8", "float64"), pool_size=5, strides=2, dilation=2),
                _sample((1, 1, 50), (0, 4), pool_size=11),
                _sample((1, 3, 9, 40), (1, 1, 1, 1), ("float16",), pool_size=3),
                _sample((2, 1, 6, 37), (0, 1, 1, 0), pool_size=[3, 2], strides=[2, 3], ceil_mode=True),
                _sample((1, 1, 4, 40), (1, 0, 1, 2), pool_size=3, strides=2, by_columns=True),
                _sample((1, 1, 4, 3), (3, 3, 3, 3), pool_size=2, dilation=5),
                _sample((0, 2, 5, 4), (0, 0, 0, 0), pool_size=2),
                _sample((1, 1, 3, 4, 5), (1, 1, 1, 0, 1, 1), pool_size=[2, 3, 2], strides=2, by_columns=True),
            ),
            errors=(
                ErrorSample((_IMAGE, (0, 0)), {"pool_size": 2}, "R0203", "the padding must be 4 numbers"),
                ErrorSample((_IMAGE, (0,) * 4), {"pool_size": 5}, "R0203", "does not fit"),
                ErrorSample((_IMAGE, (0,) * 4), {"strides": 0}, "R0205", "strides must be at least 1"),
                ErrorSample(((4, 4), ()), {}, "R0203", "must have 3, 4 or 5 dimensions"),
            ),
        )
    )
