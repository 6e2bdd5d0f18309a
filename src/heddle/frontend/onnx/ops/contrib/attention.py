"""Attention and MultiHeadAttention of com.microsoft: projections, masks, and keys and values of the past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.scores import (
    Sizes,
    by_heads,
    causal,
    joined_heads,
    masked,
    padding_bias,
    scores_of,
    weighted,
)
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks
from heddle.frontend.onnx.ops.math.linear import product
from heddle.frontend.onnx.ops.tensor.rearrange import joined
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm, PrimExpr, constant

_FILTER = -10000.0
_ZERO = constant(0, "int64")


@converts("Attention", domain=MICROSOFT)
def attention(ctx: NodeContext) -> Result:
    """Inputs: x (batch, sequence, width), weights (width, q + k + v), bias, mask, past (2, batch, heads,
    past, size), attention bias. Output 1 is the past with the new keys and values."""
    if ctx.has(6):
        ctx.unsupported("past_sequence_length, of buffers that are shared")
    expect_ranks(ctx, input=3, weights=2, bias=1, past=5, attention_bias=4)
    made = product(ctx, ctx.tensor(0), ctx.tensor(1))
    if ctx.has(2):
        made = ctx.call("add", made, ctx.tensor(2))
    parts = projected_parts(ctx, made)
    return attend_with_past(ctx, parts, mask=3, past=4, bias=5)


def projected_parts(ctx: NodeContext, made: Expr) -> list[Expr]:
    """Queries, keys and values from one projection, each (batch, heads, sequence, size)."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if ctx.flag(name):
            ctx.unsupported(f"{name}")
    dims = ctx.dims_of(made)
    if len(dims) != 3 or not isinstance(dims[2], IntImm):
        ctx.malformed(
            f"projections of shape {list(map(str, dims))}, and the width of weights must be constant"
        )
    width, heads = int(dims[2]), ctx.attr("num_heads")
    widths = list(ctx.attr("qkv_hidden_sizes", ())) or [width // 3] * 3
    if len(widths) != 3 or sum(widths) != width or widths[0] != widths[1]:
        ctx.malformed(f"weights of width {width} for queries, keys and values of {widths}")
    ends = [0, widths[0], 2 * widths[0], width]
    names = ("queries", "keys", "values")
    return [
        by_heads(ctx, _columns(ctx, made, low, high), heads, name)
        for low, high, name in zip(ends[:-1], ends[1:], names, strict=True)
    ]


def _columns(ctx: NodeContext, x: Expr, low: int, high: int) -> Expr:
    last = len(ctx.dims_of(x)) - 1
    return ctx.call(
        "strided_slice", x, axes=(last,), begin=(low,), end=(high,), strides=(1,), assume_inbound=True
    )


def attend_with_past(
    ctx: NodeContext, parts: Sequence[Expr], mask: int, past: int, bias: int | None
) -> Result:
    """Attention of one projection's parts; keys and values of the past come before them."""
    q, k, v = parts
    length: PrimExpr = _ZERO
    if ctx.has(past):
        length = ctx.dims(past)[3]
        k, v = (joined(ctx, [_side(ctx, past, side), x], 2) for side, x in ((0, k), (1, v)))
    made = joined_heads(ctx, attended(ctx, (q, k, v), length, mask, bias))
    if not ctx.has_output(1):
        return made
    return made, ctx.call("concat", tuple(ctx.call("expand_dims", x, axis=(0,)) for x in (k, v)), axis=0)


def _side(ctx: NodeContext, index: int, side: int) -> Expr:
    return ctx.call("take", ctx.tensor(index), ctx.const(side, "int64"), axis=0, mode="fast")


def attended(ctx: NodeContext, parts: Sequence[Expr], past: PrimExpr, mask: int, bias: int | None) -> Expr:
    """(batch, heads, sequence, size) by the node's scale, mask, bias and direction."""
    q, k, v = parts
    batch, _, sequence, size = ctx.dims_of(q)
    sizes = Sizes(batch, sequence, ctx.dims_of(k)[2])
    scale = ctx.attr("scale", 0.0) or 1 / math.sqrt(int(size))  # type: ignore[call-overload]
    padding = None
    if ctx.has(mask):
        padding = padding_bias(ctx, mask, sizes, ctx.attr("mask_filter_value", _FILTER))
    seen = causal(ctx, sizes, past) if ctx.flag("unidirectional") else None
    biases = [ctx.tensor(bias)] if bias is not None and ctx.has(bias) else []
    return weighted(ctx, masked(ctx, scores_of(ctx, q, k, scale), padding, seen, biases), v)


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(ctx: NodeContext) -> Result:
    """Inputs: query, key, value, bias, mask, attention bias, past key, past value. Outputs 1 and 2 are the
    keys and values of the past and of now."""
    if ctx.has(8) or ctx.has(9):
        ctx.unsupported("past_sequence_length and cache_indirection, of buffers that are shared")
    if ctx.has_output(3):
        ctx.unsupported("the scores as output 3")
    expect_ranks(
        ctx,
        query=(3, 5),
        key=(3, 4, 5),
        value=(3, 4),
        bias=1,
        attention_bias=4,
        past_key=4,
        past_value=4,
    )
    if ctx.has(6) != ctx.has(7):
        ctx.malformed("past_key and past_value go together")
    q, k, v = _parts(ctx)
    length: PrimExpr = _ZERO
    if ctx.has(6):
        length = ctx.dims(6)[2]
        k, v = (joined(ctx, [ctx.tensor(index), x], 2) for index, x in ((6, k), (7, v)))
    made = joined_heads(ctx, attended(ctx, (q, k, v), length, 4, 5))
    return made, k, v


def _parts(ctx: NodeContext) -> list[Expr]:
    """Queries, keys and values as (batch, heads, sequence, size), with their biases."""
    heads, rank = ctx.attr("num_heads"), ctx.ndim(0)
    if rank == 5:
        return _with_bias(ctx, _unpacked(ctx, 0, 3))
    if not ctx.has(1):
        ctx.malformed("without keys, queries must be packed with keys and values in 5 dimensions")
    query = by_heads(ctx, _biased(ctx, ctx.tensor(0), 0), heads, "queries")
    if ctx.ndim(1) == 5:
        return [query, *_with_bias(ctx, [query, *_unpacked(ctx, 1, 2)])[1:]]
    if not ctx.has(2):
        ctx.malformed("keys without values")
    if ctx.ndim(1) == 4 and ctx.ndim(2) == 4:  # projected before, for attention to another sequence
        return [query, ctx.tensor(1), ctx.tensor(2)]
    key, value = (_biased(ctx, ctx.tensor(index), index) for index in (1, 2))
    return [query, by_heads(ctx, key, heads, "keys"), by_heads(ctx, value, heads, "values")]


def _unpacked(ctx: NodeContext, index: int, count: int) -> list[Expr]:
    """(batch, sequence, heads, count, size) → count of (batch, heads, sequence, size)."""
    if not isinstance(ctx.dims(index)[3], IntImm) or int(ctx.dims(index)[3]) != count:  # type: ignore[call-overload]
        ctx.malformed(f"packed heads of {count} parts, got the dimensions {list(map(str, ctx.dims(index)))}")
    x = ctx.call("permute_dims", ctx.tensor(index), axes=(3, 0, 2, 1, 4))
    return [ctx.call("take", x, ctx.const(part, "int64"), axis=0, mode="fast") for part in range(count)]


def _biased(ctx: NodeContext, x: Expr, part: int) -> Expr:
    """(batch, sequence, width) with its part of the bias, which is for queries, keys and values in turn."""
    if not ctx.has(3):
        return x
    return ctx.call("add", x, _bias_parts(ctx)[part])


def _bias_parts(ctx: NodeContext) -> list[Expr]:
    total = ctx.static_dim(3, 0, "the bias")
    width = ctx.static_dim(0, 2, "the width of queries")
    ends = (0, width, 2 * width, total)
    return [_columns(ctx, ctx.tensor(3), low, high) for low, high in pairwise(ends)]


def _with_bias(ctx: NodeContext, parts: Sequence[Expr]) -> list[Expr]:
    """Heads with their parts of the bias."""
    if not ctx.has(3):
        return list(parts)
    heads = ctx.attr("num_heads")
    total = ctx.static_dim(3, 0, "the bias")
    made = []
    for part, x in enumerate(parts):
        own = _columns(ctx, ctx.tensor(3), part * total // 3, (part + 1) * total // 3)
        made.append(ctx.call("add", x, ctx.reshape(own, (heads, 1, total // (3 * heads)))))
    return made
