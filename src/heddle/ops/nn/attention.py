"""Scaled dot-product attention, in terms of matmul and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.infer import Inference
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import broadcast_dims, require_float, require_ndim, unknown_dims
from heddle.prim.intrinsics import sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, select
from heddle.topi.broadcast import read_broadcast
from heddle.topi.reduce import accumulator

_MASKS = (None, "", "TopLeft", "BottomRight")
_AXES = ("batch", "sequence", "heads", "head size")


def _infer(ctx: Inference) -> Type:
    q, k, v = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    require_float(ctx, q, k, v)
    dtype = ctx.same_dtype(q, k, v)
    if ctx.attrs.causal_mask not in _MASKS:
        ctx.attr_error(f"causal_mask must be TopLeft or BottomRight, got {ctx.attrs.causal_mask!r}")
    if ctx.attrs.window_size is not None and not ctx.attrs.causal_mask:
        ctx.attr_error("window_size needs a causal_mask")
    for what, ty in (("query", q), ("key", k), ("value", v)):
        require_ndim(ctx, ty, 4, what)
    if q.dims is None or k.dims is None or v.dims is None:
        return unknown_dims(dtype, 4)
    for axis in (0, 2, 3):
        ctx.require_equal(q.dims[axis], k.dims[axis], f"{_AXES[axis]} of query and key")
    for axis in (0, 1, 2):
        ctx.require_equal(k.dims[axis], v.dims[axis], f"{_AXES[axis]} of key and value")
    if len(ctx.args) > 3:
        bias = ctx.tensor(3)
        require_ndim(ctx, bias, 4, "bias")
        broadcast_dims(ctx, bias, TensorType((q.dims[0], q.dims[2], q.dims[1], k.dims[1]), dtype))
    return TensorType((*q.dims[:3], v.dims[3]), dtype)


def _scores(attrs: Any, product: te.Tensor, query: te.Tensor, *bias: te.Tensor) -> te.Tensor:
    """Scaled products plus the bias, minus infinity where the mask hides a key; one elementwise loop."""
    wide = accumulator(query.dtype)
    rows, columns = product.shape[-2:]
    scale = (
        constant(attrs.scale, wide) if attrs.scale else constant(1, wide) / sqrt(cast(wide, query.shape[-1]))
    )
    shift = columns - rows if attrs.causal_mask == "BottomRight" else constant(0, "int64")

    def element(*index: PrimExpr) -> PrimExpr:
        value = cast(wide, product[index]) * scale
        if bias:
            value = value + cast(wide, read_broadcast(bias[0], index, product.shape))
        hidden = constant(-math.inf, wide)
        if attrs.causal_mask:
            value = select(index[-1] <= index[-2] + shift, value, hidden)
        if attrs.window_size is not None:
            value = select(index[-1] > index[-2] + shift - int(attrs.window_size), value, hidden)
        return cast(query.dtype, value)

    result: te.Tensor = te.compute(product.shape, element, name="scores")
    return result


def _decompose(builder: Any, call: Any) -> Any:
    query, key, value, *bias = call.args
    q = builder.emit(call_op("permute_dims", query, axes=(0, 2, 1, 3)))
    k = builder.emit(call_op("permute_dims", key, axes=(0, 2, 3, 1)))
    v = builder.emit(call_op("permute_dims", value, axes=(0, 2, 1, 3)))
    product = builder.emit(call_op("matmul", q, k))

    def scores(*tensors: te.Tensor) -> te.Tensor:
        return _scores(call.attrs, *tensors)

    scored = builder.emit(builder.call_te(scores, product, query, *bias))
    weights = builder.emit(call_op("nn.softmax", scored, axis=-1))
    joined = builder.emit(call_op("matmul", weights, v))
    return call_op("permute_dims", joined, axes=(0, 2, 1, 3))


def _reference(attrs: Any, query: Any, key: Any, value: Any, *bias: Any) -> Any:
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (query, key, value))
    scores = q @ k.swapaxes(-1, -2) * (attrs.scale or 1 / math.sqrt(query.shape[-1]))
    if bias:
        scores = scores + bias[0]
    rows, columns = scores.shape[-2:]
    distance = (
        np.arange(columns)[None, :]
        - np.arange(rows)[:, None]
        - (columns - rows if attrs.causal_mask == "BottomRight" else 0)
    )
    if attrs.causal_mask:
        scores = np.where(distance <= 0, scores, -np.inf)
    if attrs.window_size is not None:
        scores = np.where(distance > -attrs.window_size, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    return ((e / e.sum(axis=-1, keepdims=True)) @ v).transpose(0, 2, 1, 3).astype(query.dtype)


def _work(_attrs: Any, shapes: Sequence[tuple[int, ...]], _result: tuple[int, ...]) -> int:
    query, key, value = shapes[:3]
    return prod(query) * key[1] + prod(value) * query[1]


def declare() -> None:
    """Put the operators of this file into the table."""
    q, k, v = (2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 3)
    declare_op(
        OpDef(
            name="nn.attention",
            inputs=(
                Input("query", meaning="(batch, sequence, heads, head size)"),
                Input("key", meaning="(batch, keys, heads, head size)"),
                Input("value", meaning="(batch, keys, heads, size)"),
                Input("bias", "tensor", "broadcasts to (batch, heads, sequence, keys)", True),
            ),
            attrs=(
                AttrSpec("scale", "float", None, "default: 1 / sqrt(head size)"),
                AttrSpec(
                    "causal_mask",
                    "str",
                    None,
                    "TopLeft or BottomRight: hide later keys, aligned at that corner",
                ),
                AttrSpec("window_size", "int", None, "hide keys this far back and farther"),
            ),
            doc="softmax(query @ key.T * scale + bias) @ value for every batch and head.",
            infer=_infer,
            reference=_reference,
            work=_work,
            decompose=_decompose,
            layout=Without("axes have fixed places"),
            samples=(
                Sample((q, k, v), dtypes=("float32", "float16", "bfloat16")),
                Sample((q, k, v, (2, 1, 3, 5)), {"scale": 0.3}),
                Sample((q, k, v), {"causal_mask": "TopLeft"}),
                Sample((q, k, v), {"causal_mask": "BottomRight", "window_size": 2}),
            ),
            errors=(
                ErrorSample((q, (2, 5, 2, 3), v), {}, "R0203", "head size of query and key"),
                ErrorSample((q, k, (2, 4, 2, 3)), {}, "R0203", "sequence of key"),
                ErrorSample((q, k, v), {"causal_mask": "Left"}, "R0205", "causal_mask must be"),
                ErrorSample(((2, 3, 4), k, v), {}, "R0203", "query must have 4 dimensions"),
            ),
        )
    )
