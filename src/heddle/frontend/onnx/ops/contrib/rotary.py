"""Rotary embeddings: pairs of elements turned by an angle that grows with the position."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks, standard
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr


@converts("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(ctx: NodeContext) -> Result:
    """Inputs: x (batch, sequence, hidden) or (batch, heads, sequence, size); positions for each element, or
    one for the first; tables of cosines and sines (positions, half)."""
    if ctx.flag("is_packed_batching"):
        ctx.unsupported("packed batches", "give each sequence a row of the batch")
    if ctx.attr("scale", 1.0) != 1.0:
        ctx.unsupported(f"a scale of {ctx.attr('scale')}", "multiply the tables of cosines and sines by it")
    expect_ranks(ctx, input=(3, 4), position_ids=(1, 2), cos_cache=2, sin_cache=2)
    rank, dims = ctx.ndim(0), ctx.dims(0)
    turned = 2 * ctx.static_dim(2, 1, "half the size that is turned")
    given = ctx.attr("rotary_embedding_dim", 0)
    if given and given != turned:
        ctx.malformed(f"rotary_embedding_dim is {given}, and the tables are for {turned}")
    x = ctx.tensor(0)
    if rank == 3:
        x = _by_heads(ctx, x, turned)
    positions = _positions(ctx, dims[0], dims[2] if rank == 4 else dims[1])
    made = rotated(
        ctx,
        x,
        (ctx.tensor(2), ctx.tensor(3)),
        ctx.call("expand_dims", positions, axis=(1 if rank == 4 else 2,)),
        ctx.flag("interleaved"),
    )
    return ctx.reshape(made, dims)


def _by_heads(ctx: NodeContext, x: Expr, turned: int) -> Expr:
    """(batch, sequence, heads * size) → (batch, sequence, heads, size)."""
    hidden = ctx.static_dim(0, 2, "the hidden size")
    heads = ctx.attr("num_heads", 0)
    if not heads and ctx.attr("rotary_embedding_dim", 0):
        ctx.malformed("rotary_embedding_dim without num_heads")
    size = hidden // heads if heads else turned
    if size < turned or hidden % size or (heads and hidden % heads):
        ctx.malformed(
            f"a hidden size of {hidden} for {heads or 'whole'} heads, {turned} elements of each turned"
        )
    return ctx.reshape(x, (*ctx.dims(0)[:2], hidden // size, size))


def _positions(ctx: NodeContext, batch: PrimExpr, sequence: PrimExpr) -> Expr:
    """(batch, sequence)."""
    given = ctx.tensor(1)
    if ctx.ndim(1) == 2:
        return ctx.cast_shape(given, (batch, sequence))
    count = ctx.call("arange", 0, sequence, 1, dtype="int64")
    positions = ctx.call("add", ctx.cast_shape(given, (1,)), count)
    return ctx.call("broadcast_to", positions, (batch, sequence))


def rotated(ctx: NodeContext, x: Expr, tables: tuple[Expr, Expr], positions: Expr, interleaved: bool) -> Expr:
    """The first elements of the last axis turned, as many as two rows of the tables have; `positions` have
    the dimensions of x but for the last, 1 where they do not differ.

    The pairs are (k, k + half), or neighbours where they are interleaved.
    """
    dims = ctx.dims_of(x)
    cos, sin = (standard(ctx, "Gather", table, positions, axis=0)[0] for table in tables)
    half = ctx.dims_of(cos)[-1]
    size, turned = dims[-1], ctx.importer.simplify(half * 2)
    axis = len(dims) - 1
    whole = ctx.importer.same_dims((size,), (turned,))
    head = x if whole else _cut(ctx, x, axis, 0, turned)
    if interleaved:
        pairs = ctx.reshape(head, (*dims[:-1], half, 2))
        first, second = (
            ctx.call("take", pairs, ctx.const(side, "int64"), axis=axis + 1, mode="fast") for side in (0, 1)
        )
    else:
        first, second = _cut(ctx, head, axis, 0, half), _cut(ctx, head, axis, half, turned)
    real = _turn(ctx, "subtract", (first, cos), (second, sin))
    imaginary = _turn(ctx, "add", (first, sin), (second, cos))
    if interleaved:
        parts = tuple(ctx.call("expand_dims", part, axis=(axis + 1,)) for part in (real, imaginary))
        made = ctx.reshape(ctx.call("concat", parts, axis=axis + 1), (*dims[:-1], turned))
        return made if whole else ctx.call("concat", (made, _cut(ctx, x, axis, turned, size)), axis=axis)
    rest = () if whole else (_cut(ctx, x, axis, turned, size),)
    return ctx.call("concat", (real, imaginary, *rest), axis=axis)


def _turn(ctx: NodeContext, op: str, *products: Sequence[Expr]) -> Expr:
    return ctx.call(op, *(ctx.call("multiply", *factors) for factors in products))


def _cut(ctx: NodeContext, x: Expr, axis: int, low: PrimExpr | int, high: PrimExpr | int) -> Expr:
    return ctx.call(
        "strided_slice", x, axes=(axis,), begin=(low,), end=(high,), strides=(1,), assume_inbound=True
    )
