"""Elementwise operators, pools and joins of com.microsoft on 8-bit tensors: each is computed on the numbers
that they stand for, and the result is rounded once."""

from __future__ import annotations

from typing import Any

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.quantized_linear import scalar_of
from heddle.frontend.onnx.ops.contrib.standard import standard
from heddle.frontend.onnx.ops.nn.quantize import dequantize_linear, quantize_linear, quantized
from heddle.frontend.onnx.ops.tensor.rearrange import joined
from heddle.frontend.onnx.registry import MICROSOFT, add_converter, converts
from heddle.ir.expr import Expr

add_converter("QuantizeLinear", quantize_linear, domain=MICROSOFT)
add_converter("DequantizeLinear", dequantize_linear, domain=MICROSOFT)


def real(ctx: NodeContext, first: int) -> Expr:
    """What an input stands for; its scale and zero point follow it."""
    made = _shifted(ctx, first)
    return ctx.call("multiply", made, scalar_of(ctx, first + 1))


def _shifted(ctx: NodeContext, first: int) -> Expr:
    x = ctx.astype(ctx.tensor(first), "float32")
    return ctx.call("subtract", x, scalar_of(ctx, first + 2)) if ctx.has(first + 2) else x


def rounded(ctx: NodeContext, x: Expr, scale: int) -> Expr:
    """In the type of input 0, by a scale and the zero point behind it."""
    zero = scalar_of(ctx, scale + 1) if ctx.has(scale + 1) else None
    return quantized(ctx, x, scalar_of(ctx, scale), zero, ctx.dtype(0))


@converts("QLinearAdd", domain=MICROSOFT)
def q_linear_add(ctx: NodeContext) -> Result:
    """QLinearAdd: the sum of two quantised tensors, quantised again."""
    return rounded(ctx, ctx.binary("add", real(ctx, 0), real(ctx, 3)), 6)


@converts("QLinearMul", domain=MICROSOFT)
def q_linear_mul(ctx: NodeContext) -> Result:
    """The product of the integers is exact."""
    exact = ctx.binary("multiply", _shifted(ctx, 0), _shifted(ctx, 3))
    scale = ctx.call("multiply", scalar_of(ctx, 1), scalar_of(ctx, 4))
    return rounded(ctx, ctx.call("multiply", exact, scale), 6)


@converts("QLinearSigmoid", domain=MICROSOFT)
def q_linear_sigmoid(ctx: NodeContext) -> Result:
    """QLinearSigmoid: sigmoid of a quantised tensor, quantised again."""
    return rounded(ctx, ctx.call("sigmoid", real(ctx, 0)), 3)


@converts("QLinearLeakyRelu", domain=MICROSOFT)
def q_linear_leaky_relu(ctx: NodeContext) -> Result:
    """QLinearLeakyRelu: leaky relu of a quantised tensor, quantised again."""
    return rounded(ctx, ctx.call("nn.leakyrelu", real(ctx, 0), alpha=ctx.attr("alpha", 0.01)), 3)


@converts("QLinearSoftmax", domain=MICROSOFT)
def q_linear_softmax(ctx: NodeContext) -> Result:
    """`opset` says which Softmax is meant: before 13 the dimensions from the axis on count as one."""
    opset = max(1, min(ctx.attr("opset"), 13))
    return rounded(ctx, standard(ctx, "Softmax", real(ctx, 0), opset=opset, axis=ctx.attr("axis", -1))[0], 3)


@converts("QLinearAveragePool", domain=MICROSOFT)
def q_linear_average_pool(ctx: NodeContext) -> Result:
    """QLinearAveragePool: windows averaged, quantised again; channels may come last."""
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    return _pooled(ctx, "AveragePool", {name: ctx.attr(name) for name in names if name in ctx.node.attrs})


@converts("QLinearGlobalAveragePool", domain=MICROSOFT)
def q_linear_global_average_pool(ctx: NodeContext) -> Result:
    """QLinearGlobalAveragePool: the whole image averaged, quantised again."""
    return _pooled(ctx, "GlobalAveragePool", {})


def _pooled(ctx: NodeContext, op: str, attrs: dict[str, Any]) -> Expr:
    """A pool of channels that come second, or last."""
    x, rank = real(ctx, 0), ctx.ndim(0)
    if not ctx.flag("channels_last"):
        return rounded(ctx, standard(ctx, op, x, **attrs)[0], 3)
    x = ctx.call("permute_dims", x, axes=(0, rank - 1, *range(1, rank - 1)))
    made = rounded(ctx, standard(ctx, op, x, **attrs)[0], 3)
    return ctx.call("permute_dims", made, axes=(0, *range(2, rank), 1))


@converts("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(ctx: NodeContext) -> Result:
    """Inputs: the result's scale and zero point, then tensors, each followed by its own."""
    if ctx.num_inputs < 5 or (ctx.num_inputs - 2) % 3:
        ctx.malformed(f"tensors with scales and zero points, got {ctx.num_inputs - 2} inputs for them")
    scale, zero, dtype = scalar_of(ctx, 0), scalar_of(ctx, 1), ctx.dtype(1)
    parts = [quantized(ctx, real(ctx, k), scale, zero, dtype) for k in range(2, ctx.num_inputs, 3)]
    return joined(ctx, parts, ctx.attr("axis"))
