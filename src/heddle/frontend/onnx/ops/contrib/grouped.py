"""GroupQueryAttention of com.microsoft: several heads of queries share one of keys; keys and values are kept
in a cache, which every sequence of the batch has filled to a length of its own.

A cache of as many positions as the longest sequence needs, or more, takes the new keys and values behind the
past ones of each sequence. All lengths may be known only when the model runs.
"""

from __future__ import annotations

import math
from itertools import pairwise

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.rotary import rotated
from heddle.frontend.onnx.ops.contrib.scores import (
    Sizes,
    head_size,
    joined_heads,
    masked,
    numbers,
    scores_of,
    static_dim_of,
    weighted,
)
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks, standard, wide
from heddle.frontend.onnx.ops.tensor.rearrange import slice_of
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import MICROSOFT, converts, denies, lacks
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, constant
from heddle.support.frozen import frozen

_ZERO = constant(0, "int64")
_LACKS = {
    12: "a quantised cache (k_scale, v_scale)",
    13: "a quantised cache (k_scale, v_scale)",
    14: "normalised queries and keys (q_norm_weight, k_norm_weight)",
    15: "normalised queries and keys (q_norm_weight, k_norm_weight)",
}
for _form in ("a quantised cache", "normalised queries and keys", "sliding_window_cache", "qk_output"):
    lacks("GroupQueryAttention", _form, MICROSOFT)


@denies("GroupQueryAttention", domain=MICROSOFT)
def _forms(node: Node) -> str | None:
    for index, what in _LACKS.items():
        if index < len(node.inputs) and node.inputs[index]:
            return f"{what} is not supported"
    for name in ("sliding_window_cache", "qk_output"):
        if node.attrs.get(name, 0):
            return f"{name} is not supported"
    for name in ("k_quant_type", "v_quant_type"):
        if node.attrs.get(name, "NONE") != "NONE":
            return f"{name} {node.attrs[name]!r} is not supported"
    return None


@frozen
class _Lengths:
    """`past` is (batch, 1, 1, 1): how many keys each sequence had before. `total` is that of the longest,
    with the new ones."""

    past: Expr
    total: PrimExpr
    sequence: PrimExpr


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(ctx: NodeContext) -> Result:
    """Outputs: (batch, sequence, hidden), and the cache of keys and of values."""
    heads, key_heads = ctx.attr("num_heads"), ctx.attr("kv_num_heads")
    if key_heads < 1 or heads % key_heads:
        ctx.malformed(f"{heads} heads of queries for {key_heads} of keys")
    expect_ranks(
        ctx,
        query=3,
        key=3,
        value=3,
        past_key=4,
        past_value=4,
        total_sequence_length=(0, 1),
        cos_cache=2,
        sin_cache=2,
        position_ids=2,
        attention_bias=4,
        head_sink=1,
    )
    if ctx.has(3) != ctx.has(4):
        ctx.malformed("past_key and past_value go together")
    q, k, v = _parts(ctx, heads, key_heads)
    lengths = _lengths(ctx, ctx.dims_of(q)[1])
    if ctx.flag("do_rotary"):
        q, k = _turned(ctx, lengths, q, k)
    q, k, v = (ctx.call("permute_dims", x, axes=(0, 2, 1, 3)) for x in (q, k, v))
    caches = [_cached(ctx, lengths, index, x) for index, x in ((3, k), (4, v))]
    made = _attended(ctx, lengths, q, caches, heads // key_heads)
    return made, *caches


def _parts(ctx: NodeContext, heads: int, key_heads: int) -> list[Expr]:
    """Queries, keys and values as (batch, sequence, heads, size)."""
    query = ctx.tensor(0)
    width = static_dim_of(ctx, query, 2, "the width of queries")
    batch, sequence = ctx.dims(0)[:2]
    if ctx.has(1) != ctx.has(2):
        ctx.malformed("keys and values go together")
    if not ctx.has(1):
        size = head_size(ctx, width, heads + 2 * key_heads, "a packed width")
        packed = ctx.reshape(query, (batch, sequence, heads + 2 * key_heads, size))
        ends = [constant(end, "int64") for end in (0, heads, heads + key_heads, heads + 2 * key_heads)]
        return [slice_of(ctx, packed, [2], [low], [high], [1]) for low, high in pairwise(ends)]
    size = head_size(ctx, width, heads, "a width of queries")
    made = [ctx.reshape(query, (batch, sequence, heads, size))]
    for index in (1, 2):
        given = ctx.cast_shape(ctx.tensor(index), (batch, sequence, key_heads * size))
        made.append(ctx.reshape(given, (batch, sequence, key_heads, size)))
    return made


def _lengths(ctx: NodeContext, sequence: PrimExpr) -> _Lengths:
    """`seqlens_k` are the sequences' lengths with the new keys, less one. Of a first prompt of different
    lengths, none has a past."""
    totals = ctx.shape_values(6)
    if len(totals) != 1:
        ctx.malformed(f"total_sequence_length must be one number, got {len(totals)}")
    (total,) = totals
    batch = ctx.dims(0)[0]
    whole = ctx.call("add", ctx.astype(ctx.reshape(ctx.tensor(5), (batch,)), "int64"), ctx.const(1, "int64"))
    fresh = ctx.astype(ctx.tensor(16), "int64") if ctx.has(16) else ctx.size(sequence)
    past = ctx.call("maximum", ctx.call("subtract", whole, fresh), ctx.const(0, "int64"))
    return _Lengths(ctx.reshape(past, (batch, 1, 1, 1)), total, sequence)


def _turned(ctx: NodeContext, lengths: _Lengths, *parts: Expr) -> list[Expr]:
    if not (ctx.has(7) and ctx.has(8)):
        ctx.malformed("do_rotary without tables of cosines and sines")
    batch = ctx.dims(0)[0]
    count = numbers(ctx, lengths.sequence, 3, 1)
    if ctx.has(9):
        given = ctx.tensor(9)
        places = ctx.call("expand_dims", ctx.cast_shape(given, (batch, lengths.sequence)), axis=(2,))
        # Of a first prompt, the first position says where all begin.
        one = slice_of(ctx, places, [0, 1], [_ZERO, _ZERO], [constant(1, "int64")] * 2, [1, 1])
        is_first = ctx.call("equal", ctx.size(lengths.sequence), ctx.size(lengths.total))
        places = ctx.call("where", is_first, ctx.call("add", one, count), places)
    else:
        places = ctx.call("add", ctx.reshape(lengths.past, (batch, 1, 1)), count)
        last = ctx.call("subtract", ctx.size(ctx.dims(7)[0]), ctx.const([1], "int64"))
        places = ctx.call("minimum", places, last)  # those of padding may lie behind the table
    tables = (ctx.tensor(7), ctx.tensor(8))
    return [rotated(ctx, x, tables, places, ctx.flag("rotary_interleaved")) for x in parts]


def _cached(ctx: NodeContext, lengths: _Lengths, index: int, fresh: Expr) -> Expr:
    """A cache with new rows behind each sequence's past: (batch, key heads, positions, size)."""
    batch, heads, _, size = ctx.dims_of(fresh)
    dtype = ctx.type_of(fresh).dtype
    have = ctx.dims(index)[2] if ctx.has(index) else _ZERO
    (positions,) = ctx.importer.named_dims((ops.maximum(have, lengths.total),), "positions")
    if ctx.has(index):
        cache = ctx.cast_shape(ctx.tensor(index), (batch, heads, have, size))
        if not ctx.importer.same_dims((have,), (positions,)):
            more = ctx.call("zeros", (batch, heads, ops.maximum(positions - have, 0), size), dtype=dtype)
            cache = ctx.cast_shape(ctx.call("concat", (cache, more), axis=2), (batch, heads, positions, size))
    else:
        cache = ctx.call("zeros", (batch, heads, positions, size), dtype=dtype)
    first = ctx.reshape(lengths.past, (batch,))
    return standard(ctx, "TensorScatter", cache, fresh, first, axis=2)[0]


def _attended(ctx: NodeContext, lengths: _Lengths, q: Expr, caches: list[Expr], group: int) -> Expr:
    batch, heads, sequence, size = ctx.dims_of(q)
    total = lengths.total
    k, v = (slice_of(ctx, x, [2], [_ZERO], [total], [1]) for x in caches)
    scale = ctx.attr("scale", 0.0) or 1 / math.sqrt(int(size))  # type: ignore[call-overload]
    key_heads = ctx.attr("kv_num_heads")
    if group > 1:
        q = ctx.reshape(q, (batch, key_heads, group, sequence, size))
        k, v = (ctx.call("expand_dims", x, axis=(2,)) for x in (k, v))
    scores, softcap = scores_of(ctx, q, k, scale), ctx.attr("softcap", 0.0)
    dtype = wide(ctx, q)
    if softcap > 0:
        cap = ctx.const(softcap, dtype)
        scores = ctx.call("multiply", ctx.call("tanh", ctx.call("divide", scores, cap)), cap)
    seen = _seen(ctx, lengths, Sizes(batch, sequence, total))
    biases = [_bias(ctx, key_heads, group)] if ctx.has(10) else []
    if group > 1:
        seen = ctx.call("expand_dims", seen, axis=(1,))
    made = weighted(ctx, masked(ctx, scores, None, seen, biases), v, _sink(ctx, dtype, key_heads, group))
    return joined_heads(ctx, ctx.reshape(made, (batch, heads, sequence, size)))


def _seen(ctx: NodeContext, lengths: _Lengths, sizes: Sizes) -> Expr:
    """(batch, 1, sequence, total): which keys a query sees."""
    own = ctx.call("add", lengths.past, numbers(ctx, sizes.sequence, 4, 2))
    key, window = numbers(ctx, sizes.total, 4, 3), ctx.attr("local_window_size", -1)
    if not ctx.flag("causal", True):
        if window >= 0:
            ctx.malformed("local_window_size without causal")
        last = ctx.astype(ctx.tensor(5), "int64")
        return ctx.call("less_equal", key, ctx.reshape(last, (sizes.batch, 1, 1, 1)))
    seen = ctx.call("less_equal", key, own)
    if window < 0:
        return seen
    near = ctx.call("greater", key, ctx.call("subtract", own, ctx.const(window, "int64")))
    return ctx.call("logical_and", seen, near)


def _bias(ctx: NodeContext, key_heads: int, group: int) -> Expr:
    """(batch or 1, heads or 1, sequence, total), by groups of heads."""
    bias = ctx.tensor(10)
    if group == 1:
        return bias
    batch, heads, *rest = ctx.dims(10)
    if ctx.importer.same_dims((heads,), (constant(1, "int64"),)):
        return ctx.call("expand_dims", bias, axis=(1,))
    return ctx.reshape(bias, (batch, key_heads, group, *rest))


def _sink(ctx: NodeContext, dtype: str, key_heads: int, group: int) -> Expr | None:
    """One more score of each head: given, or 0 for a smooth softmax."""
    shape = (key_heads, group, 1, 1) if group > 1 else (key_heads, 1, 1)
    if ctx.has(11):
        return ctx.reshape(ctx.astype(ctx.tensor(11), dtype), shape)
    return ctx.const(0.0, dtype) if ctx.attr("smooth_softmax", -1) == 1 else None
