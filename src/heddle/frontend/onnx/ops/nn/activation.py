"""Activations. Those that are not listed have bodies of simpler operators in their specification."""

from __future__ import annotations

import math

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType


@converts("Relu")
def relu(ctx: NodeContext) -> Result:
    """Relu: max(x, 0)."""
    return ctx.call("nn.relu", ctx.tensor(0))


@converts("LeakyRelu")
def leaky_relu(ctx: NodeContext) -> Result:
    """LeakyRelu: x, or alpha * x where x < 0."""
    return ctx.call("nn.leakyrelu", ctx.tensor(0), alpha=ctx.attr("alpha", 0.01))


@converts("Elu")
def elu(ctx: NodeContext) -> Result:
    """Elu: x, or alpha * (exp(x) - 1) where x < 0."""
    return ctx.call("nn.elu", ctx.tensor(0), alpha=ctx.attr("alpha", 1.0))


@converts("Celu")
def celu(ctx: NodeContext) -> Result:
    """Celu: max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
    return ctx.call("nn.celu", ctx.tensor(0), alpha=ctx.attr("alpha", 1.0))


@converts("Selu")
def selu(ctx: NodeContext) -> Result:
    """gamma * (x if x > 0 else alpha * (exp(x) - 1))."""
    alpha, gamma = ctx.attr("alpha", 1.67326319217681884765625), ctx.attr("gamma", 1.05070102214813232421875)
    return ctx.call("multiply", ctx.call("nn.elu", ctx.tensor(0), alpha=alpha), ctx.like(gamma, 0))


@converts("HardSigmoid")
def hard_sigmoid(ctx: NodeContext) -> Result:
    """max(0, min(1, alpha * x + beta))."""
    line = ctx.call("multiply", ctx.tensor(0), ctx.like(ctx.attr("alpha", 0.2), 0))
    return ctx.call("clip", ctx.call("add", line, ctx.like(ctx.attr("beta", 0.5), 0)), 0.0, 1.0)


@converts("HardSwish")
def hard_swish(ctx: NodeContext) -> Result:
    """HardSwish: x * max(0, min(1, x / 6 + 0.5))."""
    return ctx.call("nn.hardswish", ctx.tensor(0))


@converts("Mish")
def mish(ctx: NodeContext) -> Result:
    """Mish: x * tanh(softplus(x))."""
    return ctx.call("nn.mish", ctx.tensor(0))


_EQUAL_FROM = {"float64": 40.0}
"""By the type, from where on log(1 + exp(x)) is x; 20 for others."""


@converts("Softplus")
def softplus(ctx: NodeContext) -> Result:
    """Softplus: log(1 + exp(x))."""
    return ctx.call("nn.softplus", ctx.tensor(0), threshold=_EQUAL_FROM.get(ctx.dtype(0), 20.0))


@converts("Softsign")
def softsign(ctx: NodeContext) -> Result:
    """Softsign: x / (1 + |x|)."""
    return ctx.call("nn.softsign", ctx.tensor(0))


@converts("Swish")
def swish(ctx: NodeContext) -> Result:
    """Swish: x * sigmoid(alpha * x)."""
    alpha = ctx.attr("alpha", 1.0)
    if alpha == 1.0:
        return ctx.call("nn.silu", ctx.tensor(0))
    gate = ctx.call("sigmoid", ctx.call("multiply", ctx.tensor(0), ctx.like(alpha, 0)))
    return ctx.call("multiply", ctx.tensor(0), gate)


@converts("Gelu")
def gelu(ctx: NodeContext) -> Result:
    """Gelu, exact or by tanh, as `approximate` says."""
    form = ctx.attr("approximate", "none")
    if form not in ("none", "tanh"):
        ctx.malformed(f"approximate must be none or tanh, got {form!r}")
    return ctx.call("nn.gelu" if form == "none" else "nn.gelu_tanh", ctx.tensor(0))


@converts("PRelu")
def prelu(ctx: NodeContext) -> Result:
    """x if x > 0 else slope * x; the slope broadcasts."""
    x, slope = ctx.tensor(0), ctx.tensor(1)
    if ctx.opset < 7 and ctx.ndim(1) == 1 and ctx.ndim(0) > 2:
        slope = ctx.reshape(slope, (*ctx.dims(1), *([1] * (ctx.ndim(0) - 2))))
    scaled = ctx.binary("multiply", x, slope)
    return ctx.call("where", ctx.call("greater", x, ctx.like(0, 0)), x, scaled)


@converts("Shrink")
def shrink(ctx: NodeContext) -> Result:
    """x + bias where x < -lambd, x - bias where x > lambd, else 0. Integers are compared and moved as floats,
    as attributes are, and lose the fraction then."""
    dtype = ctx.dtype(0)
    wide = dtype if DataType(dtype).is_float else "float64"
    x, zero = ctx.astype(ctx.tensor(0), wide), ctx.const(0, wide)
    limit, bias = ctx.attr("lambd", 0.5), ctx.const(ctx.attr("bias", 0.0), wide)
    is_above = ctx.call("greater", x, ctx.const(limit, wide))
    is_below = ctx.call("less", x, ctx.const(-limit, wide))
    above = ctx.call("where", is_above, ctx.call("subtract", x, bias), zero)
    return ctx.astype(ctx.call("where", is_below, ctx.call("add", x, bias), above), dtype)


@converts("ThresholdedRelu")
def thresholded_relu(ctx: NodeContext) -> Result:
    """ThresholdedRelu: x where x > alpha, else 0."""
    x, zero = ctx.tensor(0), ctx.like(0, 0)
    return ctx.call("where", ctx.call("greater", x, ctx.like(ctx.attr("alpha", 1.0), 0)), x, zero)


@converts("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(ctx: NodeContext) -> Result:
    """Softmax along `axis`, and its logarithm."""
    return _along_axis(ctx, ctx.tensor(0), ctx.axis(ctx.attr("axis", -1), max(1, ctx.ndim(0))))


@converts("Softmax", "LogSoftmax", "Hardmax", since=1)
def softmax_1(ctx: NodeContext) -> Result:
    """The dimensions from `axis` on count as one."""
    rank = ctx.ndim(0)
    axis = ctx.axis(ctx.attr("axis", 1), rank) if rank else 0
    x, dims = ctx.tensor(0), ctx.dims(0)
    if axis == rank - 1:
        return _along_axis(ctx, x, axis)
    flat = ctx.reshape(x, (*dims[:axis], math.prod(dims[axis:], start=IntImm("int64", 1))))  # type: ignore[arg-type]
    return ctx.reshape(_along_axis(ctx, flat, axis), dims)


def _along_axis(ctx: NodeContext, x: Expr, axis: int) -> Expr:
    if ctx.node.op_type == "Softmax":
        return ctx.call("nn.softmax", x, axis=axis)
    if ctx.node.op_type == "LogSoftmax":
        return ctx.call("nn.log_softmax", x, axis=axis)
    return _hardmax(ctx, x, axis)


def _hardmax(ctx: NodeContext, x: Expr, axis: int) -> Expr:
    """One at the first of the greatest elements of each row. An empty row has none: where one may be empty, a
    column after the last stands in for it, which no other row takes."""
    dims = ctx.dims_of(x)
    if not dims:
        return ctx.reshape(_hardmax(ctx, ctx.reshape(x, (1,)), 0), ())
    size, rows = dims[axis], x
    if isinstance(size, IntImm):
        if not size.value:
            return x
    else:
        column = [*dims[:axis], 1, *dims[axis + 1 :]]
        lowest = ctx.const(-math.inf, ctx.dtype(0))
        rows = ctx.call("concat", (x, ctx.call("full", column, lowest, dtype=ctx.dtype(0))), axis=axis)
    best = ctx.call("argmax", rows, axis=axis)
    counter = ctx.call("arange", 0, dims[axis], 1, dtype="int64")
    if axis + 1 < len(dims):
        counter = ctx.reshape(counter, (dims[axis], *([1] * (len(dims) - axis - 1))))
    one, zero = ctx.const(1, ctx.dtype(0)), ctx.const(0, ctx.dtype(0))
    hits = ctx.call("equal", ctx.call("expand_dims", best, axis=axis), counter)
    return ctx.call("where", hits, one, zero)
