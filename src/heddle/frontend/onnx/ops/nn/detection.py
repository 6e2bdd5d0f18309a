"""Boxes: NonMaxSuppression, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.index import positions_of_nonzero
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr


@converts("NonMaxSuppression", since=10)
def non_max_suppression(ctx: NodeContext) -> Result:
    """(chosen, 3): batch, class and box. Inputs: boxes, scores, most of a class, overlap, least score."""
    boxes = ctx.astype(ctx.tensor(0), "float32")
    if ctx.flag("center_point_box"):
        boxes = _corners(ctx, boxes)
    scores = ctx.astype(ctx.tensor(1), "float32")
    order = ctx.call("argsort", scores, axis=2, descending=True, dtype="int64")
    limits = [
        _scalar(ctx, index, default, dtype)
        for index, default, dtype in ((2, 0, "int64"), (3, 0.0, "float32"), (4, -np.inf, "float32"))
    ]
    flags = ctx.call("vision.nms_flags", boxes, scores, order, *limits)
    found = positions_of_nonzero(ctx, flags)  # batch, class, place in the order
    rows = ctx.call("permute_dims", found, axes=(1, 0))
    box = ctx.call("expand_dims", ctx.call("gather_nd", order, rows), axis=(1,))
    batch_and_class = ctx.call("take", rows, ctx.const([0, 1], "int64"), axis=1)
    return ctx.call("concat", (batch_and_class, box), axis=1)


def _scalar(ctx: NodeContext, index: int, default: float, dtype: str) -> Expr:
    if not ctx.has(index):
        return ctx.const(np.asarray(default), dtype)
    return ctx.reshape(ctx.astype(ctx.tensor(index), dtype), ())


def _corners(ctx: NodeContext, boxes: Expr) -> Expr:
    """Middle and size to two corners."""
    middle, size = (ctx.call("take", boxes, ctx.const(part, "int64"), axis=2) for part in ([0, 1], [2, 3]))
    half = ctx.call("multiply", size, ctx.const([0.5], "float32"))
    ends = (ctx.call("subtract", middle, half), ctx.call("add", middle, half))
    return ctx.call("concat", ends, axis=2)


@converts("RoiAlign", since=10)
def roi_align(ctx: NodeContext) -> Result:
    default = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    return ctx.call(
        "vision.roi_align",
        ctx.tensor(0),
        ctx.tensor(1),
        ctx.tensor(2),
        pooled_size=(ctx.attr("output_height", 1), ctx.attr("output_width", 1)),
        spatial_scale=ctx.attr("spatial_scale", 1.0),
        sample_ratio=ctx.attr("sampling_ratio", 0),
        aligned=ctx.attr("coordinate_transformation_mode", default) == "half_pixel",
        mode=ctx.attr("mode", "avg"),
    )


@converts("MaxRoiPool")
def max_roi_pool(ctx: NodeContext) -> Result:
    """(regions, channels, *pooled_shape): the largest element of each part of a region, whose corners are
    rounded to pixels; a part outside of the image gives 0. Regions are (image, left, top, right, bottom)."""
    pooled = tuple(ctx.attr("pooled_shape"))
    if len(pooled) != 2 or min(pooled) < 1:
        ctx.malformed(f"pooled_shape must be two positive numbers, got {list(pooled)}")
    if ctx.ndim(0) != 4 or ctx.ndim(1) != 2:
        ctx.malformed(f"expected images and rows of regions, got {ctx.ndim(0)} and {ctx.ndim(1)} dimensions")
    dtype = ctx.dtype(0)
    wide = "float64" if dtype == "float64" else "float32"
    regions = ctx.astype(ctx.cast_shape(ctx.tensor(1), (ctx.dims(1)[0], 5)), wide)
    corners = [_column(ctx, regions, column) for column in range(5)]
    images = ctx.call("take", ctx.tensor(0), ctx.astype(corners[0], "int64"), axis=0)
    scale = ctx.const(ctx.attr("spatial_scale", 1.0), wide)
    pixels = [_rounded(ctx, ctx.call("multiply", corner, scale)) for corner in corners[1:]]
    rows, no_rows = _parts(ctx, pixels[1], pixels[3], pooled[0], ctx.dims(0)[2])
    columns, no_columns = _parts(ctx, pixels[0], pixels[2], pooled[1], ctx.dims(0)[3])
    least = ctx.const(np.finfo(dtype).min, dtype)
    across = ctx.call(
        "where",
        ctx.call("expand_dims", columns, axis=(1, 2)),
        ctx.call("expand_dims", images, axis=(3,)),
        least,
    )
    across = ctx.call("max", across, axis=(4,))  # (regions, channels, height, parts)
    down = ctx.call(
        "where",
        ctx.call("expand_dims", rows, axis=(1, 4)),
        ctx.call("expand_dims", across, axis=(2,)),
        least,
    )
    made = ctx.call("max", down, axis=(3,))
    is_empty = ctx.call(
        "logical_or",
        ctx.call("expand_dims", no_rows, axis=(1, 3)),
        ctx.call("expand_dims", no_columns, axis=(1, 2)),
    )
    return ctx.call("where", is_empty, ctx.const(0, dtype), made)


def _column(ctx: NodeContext, regions: Expr, number: int) -> Expr:
    return ctx.call("take", regions, ctx.const(number, "int64"), axis=1)


def _rounded(ctx: NodeContext, x: Expr) -> Expr:
    """To the nearest whole number, halves away from zero."""
    dtype = str(ctx.type_of(x).dtype)
    size = ctx.call("floor", ctx.call("add", ctx.call("abs", x), ctx.const(0.5, dtype)))
    return ctx.call("multiply", ctx.call("sign", x), size)


def _parts(ctx: NodeContext, low: Expr, high: Expr, count: int, size: PrimExpr) -> tuple[Expr, Expr]:
    """(regions, parts, size): which pixels of an axis a part has; (regions, parts): whether it has none."""
    dtype = str(ctx.type_of(low).dtype)

    def number(value: float) -> Expr:
        return ctx.const(value, dtype)

    length = ctx.call("maximum", ctx.call("add", ctx.call("subtract", high, low), number(1)), number(1))
    share = ctx.call("expand_dims", ctx.call("divide", length, number(count)), axis=(1,))
    first = ctx.call("expand_dims", low, axis=(1,))
    starts = ctx.const(np.arange(count).astype(dtype), dtype)
    begin = ctx.call("add", ctx.call("floor", ctx.call("multiply", share, starts)), first)
    ends = ctx.call("multiply", share, ctx.call("add", starts, number(1)))
    end = ctx.call("add", ctx.call("ceil", ends), first)
    limit = ctx.astype(ctx.size(size), dtype)
    begin, end = (ctx.call("minimum", ctx.call("maximum", bound, number(0)), limit) for bound in (begin, end))
    place = ctx.astype(ctx.call("arange", 0, size, 1, dtype="int64"), dtype)
    inside = ctx.call(
        "logical_and",
        ctx.call("greater_equal", place, ctx.call("expand_dims", begin, axis=(2,))),
        ctx.call("less", place, ctx.call("expand_dims", end, axis=(2,))),
    )
    return inside, ctx.call("less_equal", end, begin)
