"""Pooling over windows."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.conv import LAYOUTS, paddings, spatial_rank, window_attr
from heddle.frontend.onnx.ops.reduce import norm_of
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.runtime.dtype import DataType


def _pool(ctx: NodeContext, x: Expr, op: str, count_include_pad: bool = False) -> Expr:
    rank = spatial_rank(ctx)
    kernel, strides = window_attr(ctx, "kernel_shape", rank), window_attr(ctx, "strides", rank)
    dilations = window_attr(ctx, "dilations", rank)
    return ctx.call(
        f"nn.{op}_pool{rank}d",
        x,
        pool_size=kernel,
        strides=strides,
        padding=paddings(ctx, kernel, strides, dilations),
        dilation=dilations,
        ceil_mode=ctx.flag("ceil_mode"),
        count_include_pad=count_include_pad,
        layout=LAYOUTS[rank][0],
    )


@converts("MaxPool")
def max_pool(ctx: NodeContext) -> Result:
    x = ctx.tensor(0)
    if ctx.has_output(1):
        ctx.unsupported("the indices of maxima (output 1) are not supported")
    if not DataType(ctx.dtype(0)).is_float:
        return ctx.astype(_pool(ctx, ctx.astype(x, "float32"), "max"), ctx.dtype(0))
    return _pool(ctx, x, "max")


@converts("AveragePool")
def average_pool(ctx: NodeContext) -> Result:
    return _pool(ctx, ctx.tensor(0), "avg", ctx.flag("count_include_pad"))


@converts("LpPool")
def lp_pool(ctx: NodeContext) -> Result:
    """(sum |x| ** p) ** (1 / p) over the elements that a window holds."""
    return norm_of(ctx, ctx.tensor(0), float(ctx.attr("p", 2)), lambda powers: _pool(ctx, powers, "sum"))
