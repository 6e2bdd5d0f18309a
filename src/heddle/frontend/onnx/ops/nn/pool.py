"""Pooling over windows."""

from __future__ import annotations

import math

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.math.reduce import norm_of
from heddle.frontend.onnx.ops.nn.conv import LAYOUTS, padded, padding_dims, spatial_rank, window_attr
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim.nodes import constant
from heddle.runtime.dtype import DataType


def _pool(ctx: NodeContext, x: Expr, op: str, count_include_pad: bool = False, fill: float = 0) -> Expr:
    """`fill`: what data is padded with where only a run knows how far."""
    rank = spatial_rank(ctx)
    kernel, strides = window_attr(ctx, "kernel_shape", rank), window_attr(ctx, "strides", rank)
    dilations = window_attr(ctx, "dilations", rank)
    data, padding = padded(ctx, x, kernel, strides, dilations, fill)

    def pooled(values: Expr, counts_pads: bool) -> Expr:
        return ctx.call(
            f"nn.{op}_pool{rank}d",
            values,
            pool_size=kernel,
            strides=strides,
            padding=padding,
            dilation=dilations,
            ceil_mode=ctx.flag("ceil_mode"),
            count_include_pad=counts_pads,
            layout=LAYOUTS[rank][0],
        )

    if data is x or op != "avg" or count_include_pad:
        return pooled(data, count_include_pad)
    one = constant(1, "int64")
    ones = ctx.call("ones", (one, one, *ctx.dims_of(x)[2:]), dtype=str(ctx.type_of(x).dtype))
    parts = pooled(padded(ctx, ones, kernel, strides, dilations)[0], True)
    return ctx.call("divide", pooled(data, True), parts)  # of the share of each window that is data


@converts("MaxPool")
def max_pool(ctx: NodeContext) -> Result:
    """MaxPool: the greatest element of each window; its place too where it is asked for."""
    x = ctx.tensor(0)
    if ctx.has_output(1):
        return _with_places(ctx, x)
    wide = x if DataType(ctx.dtype(0)).is_float else ctx.astype(x, "float32")
    return ctx.astype(_pool(ctx, wide, "max", fill=-math.inf), ctx.dtype(0))


def _with_places(ctx: NodeContext, x: Expr) -> Result:
    """Each window's maximum and where the first lies: its number in the whole data, whose images are counted
    by rows or, with a storage order of 1, by columns."""
    rank = spatial_rank(ctx)
    kernel, strides = window_attr(ctx, "kernel_shape", rank), window_attr(ctx, "strides", rank)
    dilations = window_attr(ctx, "dilations", rank)
    made = ctx.call(
        "nn.max_pool_with_index",
        x,
        ShapeExpr(padding_dims(ctx, kernel, strides, dilations)),
        pool_size=kernel,
        strides=strides,
        dilation=dilations,
        ceil_mode=ctx.flag("ceil_mode"),
        by_columns=bool(ctx.flag("storage_order")),
    )
    return ctx.item(made, 0), ctx.item(made, 1)


@converts("AveragePool")
def average_pool(ctx: NodeContext) -> Result:
    """AveragePool: the mean of each window, with or without padding."""
    return _pool(ctx, ctx.tensor(0), "avg", ctx.flag("count_include_pad"))


@converts("LpPool")
def lp_pool(ctx: NodeContext) -> Result:
    """(sum |x| ** p) ** (1 / p) over the elements that a window holds."""
    return norm_of(ctx, ctx.tensor(0), float(ctx.attr("p", 2)), lambda powers: _pool(ctx, powers, "sum"))
