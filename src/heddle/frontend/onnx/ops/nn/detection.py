"""Boxes: NonMaxSuppression, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.index import positions_of_nonzero
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import is_const_int


@converts("NonMaxSuppression", since=10)
def non_max_suppression(ctx: NodeContext) -> Result:
    """(chosen, 3): batch, class and box. Inputs: boxes, scores, most of a class, overlap, least score."""
    boxes = ctx.astype(ctx.tensor(0), "float32")
    if ctx.flag("center_point_box"):
        boxes = _corners(ctx, boxes)
    scores = ctx.astype(ctx.tensor(1), "float32")
    limits = [
        _scalar(ctx, index, default, dtype)
        for index, default, dtype in ((2, 0, "int64"), (3, 0.0, "float32"), (4, -np.inf, "float32"))
    ]
    chosen = ctx.call("vision.nms_boxes", boxes, scores, *limits)
    is_there = ctx.call("greater_equal", chosen, ctx.const(np.asarray(0), "int64"))
    rows = ctx.call("permute_dims", positions_of_nonzero(ctx, is_there), axes=(1, 0))  # batch, class, place
    box = ctx.call("expand_dims", ctx.call("gather_nd", chosen, rows), axis=(1,))
    batch_and_class = ctx.call("take", rows, ctx.const([0, 1], "int64"), axis=1)
    return ctx.call("concat", (batch_and_class, box), axis=1)


def _scalar(ctx: NodeContext, index: int, default: float, dtype: str) -> Expr:
    if not ctx.has(index):
        return ctx.const(np.asarray(default), dtype)
    own = ctx.dims(index)
    if any(is_const_int(dim) and not is_const_int(dim, 1) for dim in own):
        ctx.malformed(f"input {index} has the shape ({', '.join(map(str, own))}), and one number is expected")
    return ctx.reshape(ctx.astype(ctx.tensor(index), dtype), ())


def _corners(ctx: NodeContext, boxes: Expr) -> Expr:
    """Middle and size to two corners."""
    middle, size = (ctx.call("take", boxes, ctx.const(part, "int64"), axis=2) for part in ([0, 1], [2, 3]))
    half = ctx.call("multiply", size, ctx.const([0.5], "float32"))
    ends = (ctx.call("subtract", middle, half), ctx.call("add", middle, half))
    return ctx.call("concat", ends, axis=2)


@converts("RoiAlign", since=10)
def roi_align(ctx: NodeContext) -> Result:
    """RoiAlign: (n, c, h, w) and boxes (r, 4) → (r, c, oh, ow)."""
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
    rois = ctx.cast_shape(ctx.tensor(1), (ctx.dims(1)[0], 5))
    scale = ctx.attr("spatial_scale", 1.0)
    return ctx.call("vision.roi_pool", ctx.tensor(0), rois, pooled_size=pooled, spatial_scale=scale)
