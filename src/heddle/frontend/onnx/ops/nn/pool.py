"""Pooling over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.math.reduce import norm_of
from heddle.frontend.onnx.ops.nn.conv import LAYOUTS, padded, paddings, spatial_rank, window_attr
from heddle.frontend.onnx.ops.tensor.shape import product
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr, constant
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
    x = ctx.tensor(0)
    wide = x if DataType(ctx.dtype(0)).is_float else ctx.astype(x, "float32")
    made = _pool(ctx, wide, "max", fill=-math.inf)
    result = ctx.astype(made, ctx.dtype(0))
    return (result, _places(ctx, wide, ctx.dims_of(made)[2:])) if ctx.has_output(1) else result


def _places(ctx: NodeContext, x: Expr, outputs: Sequence[PrimExpr]) -> Expr:
    """Where each window's first maximum lies: its number in the whole data, whose images are counted by rows
    or, with a storage order of 1, by columns."""
    batch, channels, *sizes = ctx.dims_of(x)
    windows = [_window(ctx, axis, dim, outputs[axis]) for axis, dim in enumerate(sizes)]
    rows, numbers = (
        _numbered(ctx, windows, sizes, False),
        _numbered(ctx, windows, sizes, ctx.flag("storage_order")),
    )
    inside = windows[0][1]
    for _, other in windows[1:]:
        inside = ctx.call("logical_and", inside, other)
    taps = math.prod(ctx.attr("kernel_shape"))
    count, area, images = product(outputs), product(sizes), batch * channels
    table = [ctx.reshape(item, (count, taps)) for item in (rows, numbers, inside)]
    values = ctx.call("take", ctx.reshape(x, (images, area)), table[0], axis=1)
    dtype = str(ctx.type_of(x).dtype)
    best = ctx.call(
        "argmax", ctx.call("where", table[2], values, ctx.const(np.finfo(dtype).min, dtype)), axis=2
    )
    window = ctx.call("multiply", ctx.call("arange", 0, count, 1, dtype="int64"), ctx.const(taps, "int64"))
    place = ctx.call("take", ctx.reshape(table[1], (count * taps,)), ctx.call("add", best, window), axis=0)
    image = ctx.call("expand_dims", ctx.call("arange", 0, images, 1, dtype="int64"), axis=(1,))
    whole = ctx.call("add", place, ctx.call("multiply", image, ctx.size(area)))
    return ctx.reshape(whole, (batch, channels, *outputs))


def _window(ctx: NodeContext, axis: int, size: PrimExpr, outputs: PrimExpr) -> tuple[Expr, Expr]:
    """The positions along an axis that each window reads, brought into the data, and whether they lie in it:
    (.., outputs, .., taps, ..), both at their axis."""
    rank = spatial_rank(ctx)
    kernel, strides = window_attr(ctx, "kernel_shape", rank), window_attr(ctx, "strides", rank)
    dilations = window_attr(ctx, "dilations", rank)
    before = paddings(ctx, kernel, strides, dilations)[axis]
    first = ctx.call("arange", 0, outputs, 1, dtype="int64")
    first = ctx.call("multiply", first, ctx.const(strides[axis], "int64"))
    steps = ctx.const(np.arange(kernel[axis]) * dilations[axis] - before, "int64")
    place = ctx.call("add", ctx.reshape(first, (outputs, 1)), steps)
    shape: list[PrimExpr | int] = [1] * (2 * rank)
    shape[axis], shape[rank + axis] = outputs, kernel[axis]
    place = ctx.reshape(place, shape)
    zero = ctx.const(0, "int64")
    inside = ctx.call(
        "logical_and", ctx.call("greater_equal", place, zero), ctx.call("less", place, ctx.size(size))
    )
    last = ctx.call("subtract", ctx.size(size), ctx.const([1], "int64"))
    return ctx.call("maximum", ctx.call("minimum", place, last), zero), inside


def _numbered(
    ctx: NodeContext, windows: Sequence[tuple[Expr, Expr]], sizes: Sequence[PrimExpr], by_columns: bool
) -> Expr:
    """The numbers of positions in an image: (outputs.., taps..)."""
    order = list(range(len(sizes)))
    made: Expr | None = None
    step: PrimExpr = constant(1, "int64")
    for axis in order if by_columns else reversed(order):
        part = ctx.call("multiply", windows[axis][0], ctx.size(step))
        made = part if made is None else ctx.call("add", made, part)
        step = step * sizes[axis]
    assert made is not None
    return made


@converts("AveragePool")
def average_pool(ctx: NodeContext) -> Result:
    return _pool(ctx, ctx.tensor(0), "avg", ctx.flag("count_include_pad"))


@converts("LpPool")
def lp_pool(ctx: NodeContext) -> Result:
    """(sum |x| ** p) ** (1 / p) over the elements that a window holds."""
    return norm_of(ctx, ctx.tensor(0), float(ctx.attr("p", 2)), lambda powers: _pool(ctx, powers, "sum"))
