"""Boxes: NonMaxSuppression and RoiAlign."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.index import positions_of_nonzero
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr


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
