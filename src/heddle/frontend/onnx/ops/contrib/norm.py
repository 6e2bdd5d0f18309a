"""Normalisations of com.microsoft: with a skip connection before them, or of embeddings."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks, standard, wide
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.ir.expr import Expr


def _inverse_root(ctx: NodeContext, x: Expr, epsilon: float, axes: tuple[int, ...]) -> Expr:
    """1 / sqrt(mean(x²) + epsilon) in the type of statistics."""
    dtype = wide(ctx, x)
    square = ctx.call("square", ctx.astype(x, dtype))
    mean = ctx.call("mean", square, axis=axes, keepdims=True)
    return ctx.call("rsqrt", ctx.call("add", mean, ctx.const(epsilon, dtype)))


@converts("SimplifiedLayerNormalization")
def simplified_layer_norm(ctx: NodeContext) -> Result:
    """x / root mean square * scale; output 1 is the inverse of the root."""
    rank, epsilon = ctx.ndim(0), ctx.attr("epsilon", 1e-5)
    first = ctx.axis(ctx.attr("axis", -1), rank)
    axes, x = tuple(range(first, rank)), ctx.tensor(0)
    scale = ctx.astype(ctx.tensor(1), ctx.dtype(0))
    made = ctx.astype(
        standard(ctx, "RMSNormalization", x, scale, axis=first, epsilon=epsilon)[0], ctx.dtype(1)
    )
    return (made, _inverse_root(ctx, x, epsilon, axes)) if ctx.has_output(1) else made


@converts("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(ctx: NodeContext) -> Result:
    """Layer normalisation of input + skip + bias; output 3 is the sum."""
    total, epsilon = _sum_with_skip(ctx, 4), ctx.attr("epsilon", 1e-12)
    beta = ctx.tensor(3) if ctx.has(3) else ctx.call("zeros", ctx.dims(2), dtype=ctx.dtype(2))
    rank = len(ctx.dims_of(total))
    made = ctx.call("nn.layer_norm", total, ctx.tensor(2), beta, axes=(rank - 1,), epsilon=epsilon)
    if not (ctx.has_output(1) or ctx.has_output(2)):
        return made, total, total, total
    exact = ctx.astype(total, wide(ctx, total))
    mean = ctx.call("mean", exact, axis=(rank - 1,), keepdims=True)
    inverse = _inverse_root(ctx, ctx.call("subtract", exact, mean), epsilon, (rank - 1,))
    return made, mean, inverse, total


@converts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_norm(ctx: NodeContext) -> Result:
    """Root mean square normalisation of input + skip + bias; output 3 is the sum."""
    if ctx.has_output(1):
        ctx.unsupported("the mean (output 1), which this normalisation does not compute")
    total, epsilon = _sum_with_skip(ctx, 3), ctx.attr("epsilon", 1e-12)
    rank = len(ctx.dims_of(total))
    made = ctx.call("nn.rms_norm", total, ctx.tensor(2), axes=(rank - 1,), epsilon=epsilon)
    inverse = _inverse_root(ctx, total, epsilon, (rank - 1,)) if ctx.has_output(2) else total
    return made, total, inverse, total


def _sum_with_skip(ctx: NodeContext, bias: int) -> Expr:
    if ctx.ndim(0) not in (2, 3) or ctx.ndim(1) > ctx.ndim(0):
        ctx.malformed(
            f"input and skip of {ctx.ndim(0)} and {ctx.ndim(1)} dimensions, and 2 or 3 are expected"
        )
    total = ctx.binary("add", ctx.tensor(0), ctx.tensor(1))
    total = ctx.cast_shape(total, ctx.dims(0))
    return ctx.binary("add", total, ctx.tensor(bias)) if ctx.has(bias) else total


@converts("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(ctx: NodeContext) -> Result:
    """Rows of tables of words, positions and segments, added and normalised. Output 1 counts the ones of each
    row of the mask, output 2 is the sum."""
    expect_ranks(
        ctx,
        input_ids=2,
        segment_ids=2,
        word_embedding=2,
        position_embedding=2,
        segment_embedding=2,
        gamma=1,
        beta=1,
        mask=2,
        position_ids=2,
    )
    if ctx.has(1) != ctx.has(4):
        ctx.malformed("segment_ids and segment_embedding go together")
    total = ctx.call("add", _rows(ctx, 2, ctx.tensor(0)), _rows(ctx, 3, _positions(ctx)))
    if ctx.has(1):
        total = ctx.call("add", total, _rows(ctx, 4, ctx.cast_shape(ctx.tensor(1), ctx.dims(0))))
    made = ctx.call(
        "nn.layer_norm", total, ctx.tensor(5), ctx.tensor(6), axes=(2,), epsilon=ctx.attr("epsilon", 1e-12)
    )
    return made, _lengths(ctx), total


def _rows(ctx: NodeContext, table: int, numbers: Expr) -> Expr:
    return standard(ctx, "Gather", ctx.tensor(table), numbers, axis=0)[0]


def _positions(ctx: NodeContext) -> Expr:
    if ctx.has(8):
        return ctx.tensor(8)
    count = ctx.call("arange", 0, ctx.dims(0)[1], 1, dtype="int64")
    return ctx.call("expand_dims", count, axis=(0,))


def _lengths(ctx: NodeContext) -> Expr:
    if not ctx.has(7):
        return ctx.call("zeros", (ctx.dims(0)[0],), dtype="int32")
    ones = ctx.call("equal", ctx.tensor(7), ctx.const(1, "int32"))
    return ctx.call("sum", ctx.astype(ones, "int32"), axis=(1,))
