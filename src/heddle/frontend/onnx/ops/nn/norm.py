"""Normalisations."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.math.reduce import lp_norm
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr


@converts("BatchNormalization")
def batch_norm(ctx: NodeContext) -> Result:
    """In training the statistics of the batch normalise, and outputs 1 and 2 are the running ones: a mean of
    the old and the new, weighted by `momentum`."""
    if ctx.flag("training_mode"):
        return _batch_norm_of_batch(ctx)
    if any(ctx.has_output(index) for index in range(1, ctx.num_outputs)):
        ctx.unsupported("statistics as outputs without training mode", "export the model for inference")
    values = [ctx.astype(ctx.tensor(index), ctx.dtype(0)) for index in range(1, 5)]
    made = ctx.call(
        "nn.batch_norm", ctx.tensor(0), *values, axis=1, epsilon=ctx.attr("epsilon", 1e-5), training=False
    )
    return ctx.item(made, 0)


def _batch_norm_of_batch(ctx: NodeContext) -> Result:
    rank, wide = ctx.ndim(0), ctx.dtype(3)
    axes, column = tuple(axis for axis in range(rank) if axis != 1), (ctx.dims(0)[1], *([1] * (rank - 2)))
    x = ctx.astype(ctx.tensor(0), wide)
    mean = ctx.call("mean", x, axis=axes)
    centred = ctx.call("subtract", x, ctx.reshape(mean, column))
    variance = ctx.call("mean", ctx.call("square", centred), axis=axes)
    deviation = ctx.call("sqrt", ctx.call("add", variance, ctx.const(ctx.attr("epsilon", 1e-5), wide)))
    scale, bias = (ctx.reshape(ctx.astype(ctx.tensor(index), wide), column) for index in (1, 2))
    made = ctx.call("multiply", ctx.call("divide", centred, ctx.reshape(deviation, column)), scale)
    share = ctx.attr("momentum", 0.9)
    running = [
        ctx.call(
            "add",
            ctx.call("multiply", ctx.tensor(index), ctx.const(share, wide)),
            ctx.call("multiply", own, ctx.const(1 - share, wide)),
        )
        for index, own in ((3, mean), (4, variance))
    ]
    return ctx.astype(ctx.call("add", made, bias), ctx.dtype(0)), *running


@converts("LayerNormalization")
def layer_norm(ctx: NodeContext) -> Result:
    """Outputs 1 and 2 are the mean and the inverse deviation."""
    rank = ctx.ndim(0)
    axes = tuple(range(ctx.axis(ctx.attr("axis", -1), rank), rank))
    epsilon, x = ctx.attr("epsilon", 1e-5), ctx.tensor(0)
    same_shape = ctx.ndim(1) == len(axes)
    if same_shape and not ctx.has_output(1) and not ctx.has_output(2):
        return ctx.call(
            "nn.layer_norm",
            x,
            ctx.tensor(1),
            ctx.tensor(2) if ctx.has(2) else _zeros_like(ctx, 1),
            axes=axes,
            epsilon=epsilon,
        )
    mean = ctx.call("mean", x, axis=axes, keepdims=True)
    centred = ctx.call("subtract", x, mean)
    variance = ctx.call("mean", ctx.call("square", centred), axis=axes, keepdims=True)
    inverse = ctx.call("rsqrt", ctx.call("add", variance, ctx.like(epsilon, 0)))
    made = ctx.binary("multiply", ctx.call("multiply", centred, inverse), ctx.tensor(1))
    return (ctx.binary("add", made, ctx.tensor(2)) if ctx.has(2) else made), mean, inverse


def _zeros_like(ctx: NodeContext, index: int) -> Expr:
    return ctx.call("zeros", ctx.dims(index), dtype=ctx.dtype(index))


@converts("RMSNormalization")
def rms_norm(ctx: NodeContext) -> Result:
    """RMSNormalization over the axes from `axis` on; a scale of another rank is broadcast."""
    rank = ctx.ndim(0)
    axes = tuple(range(ctx.axis(ctx.attr("axis", -1), rank), rank))
    x, epsilon = ctx.tensor(0), ctx.attr("epsilon", 1e-5)
    if ctx.ndim(1) == len(axes):
        return ctx.call("nn.rms_norm", x, ctx.tensor(1), axes=axes, epsilon=epsilon)
    square = ctx.call("mean", ctx.call("square", x), axis=axes, keepdims=True)
    inverse = ctx.call("rsqrt", ctx.call("add", square, ctx.like(epsilon, 0)))
    return ctx.binary("multiply", ctx.call("multiply", x, inverse), ctx.tensor(1))


@converts("InstanceNormalization")
def instance_norm(ctx: NodeContext) -> Result:
    """InstanceNormalization: each channel of each image by its own mean and variance."""
    return ctx.call(
        "nn.instance_norm",
        ctx.tensor(0),
        ctx.tensor(1),
        ctx.tensor(2),
        channel_axis=1,
        axes=tuple(range(2, ctx.ndim(0))),
        epsilon=ctx.attr("epsilon", 1e-5),
    )


@converts("GroupNormalization", since=21)
def group_norm(ctx: NodeContext) -> Result:
    """One scale and bias for each channel: their number, where it is known, is that of the channels."""
    dims = ctx.dims(0)
    if len(dims) < 2:
        ctx.malformed(f"data of {len(dims)} dimensions: expected a batch and channels")
    ctx.require_rank(1, 1)
    channels = ctx.importer.common_dim((dims[1], *ctx.dims(1)))
    return ctx.call(
        "nn.group_norm",
        ctx.cast_shape(ctx.tensor(0), (dims[0], channels, *dims[2:])),
        ctx.tensor(1),
        ctx.tensor(2),
        num_groups=ctx.attr("num_groups"),
        channel_axis=1,
        axes=tuple(range(2, ctx.ndim(0))),
        epsilon=ctx.attr("epsilon", 1e-5),
    )


@converts("LRN")
def lrn(ctx: NodeContext) -> Result:
    """LRN across channels, with the standard's defaults."""
    return ctx.call(
        "nn.lrn",
        ctx.tensor(0),
        size=ctx.attr("size"),
        axis=1,
        bias=ctx.attr("bias", 1.0),
        alpha=ctx.attr("alpha", 1e-4),
        beta=ctx.attr("beta", 0.75),
    )


@converts("LpNormalization")
def lp_normalization(ctx: NodeContext) -> Result:
    """x / |x|_p along an axis; where the norm is 0 the result is 0."""
    axis = ctx.axis(ctx.attr("axis", -1), ctx.ndim(0))
    x = ctx.tensor(0)
    size = lp_norm(ctx, x, float(ctx.attr("p", 2)), (axis,))
    zero = ctx.like(0, 0)
    return ctx.call("where", ctx.call("equal", size, zero), zero, ctx.call("divide", x, size))
