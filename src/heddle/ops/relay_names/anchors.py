"""Relay's operators that make boxes of anchors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.op_builder import call_op, const
from heddle.ir.expr import Tuple
from heddle.ir.op_def import Input
from heddle.ops.relay_names.detections import LOWEST, along
from heddle.ops.relay_names.pixels import known_sizes
from heddle.ops.relay_names.rules import Given, Rows, alias, attr, dims_of, fixed

_INT = "int64"


def _moved(given: Given) -> Any:
    """Boxes of the anchors that are of some class: class, score and corners, these first, then -1; and how
    many they are."""
    scores, moves, anchors = given["cls_prob"], given["loc_pred"], given["anchor"]
    batch, _, count = dims_of(scores)
    first = 0 if given["keep_background"] else 1
    if first:
        scores = call_op("strided_slice", scores, axes=[1], begin=[1], end=[np.iinfo("int32").max])
    best, kind = call_op("max", scores, axis=[1]), call_op("argmax", scores, axis=1)
    is_kept = call_op("greater_equal", best, const(float(given["threshold"]), "float32"))
    moves = call_op("reshape", moves, [batch, count, 4])
    variances = const([float(value) for value in given["variances"]], "float32")
    moves = call_op("multiply", moves, variances)
    low, high = (call_op("strided_slice", anchors, axes=[2], begin=[k], end=[k + 2]) for k in (0, 2))
    size, half = call_op("subtract", high, low), const(0.5, "float32")
    center = call_op("multiply", call_op("add", low, high), half)
    shift, scale = (call_op("strided_slice", moves, axes=[2], begin=[k], end=[k + 2]) for k in (0, 2))
    center = call_op("add", call_op("multiply", shift, size), center)
    reach = call_op("multiply", call_op("multiply", call_op("exp", scale), size), half)
    boxes = call_op("concat", (call_op("subtract", center, reach), call_op("add", center, reach)), axis=2)
    boxes = call_op("clip", boxes, 0.0, 1.0) if given["clip"] else boxes
    columns = [call_op("astype", kind, dtype="float32"), best]
    columns = [call_op("expand_dims", column, axis=[2]) for column in columns]
    rows = call_op("concat", (*columns, boxes), axis=2)
    order = call_op(
        "argsort", call_op("astype", call_op("logical_not", is_kept), dtype="int8"), axis=1, dtype=_INT
    )
    index = call_op("broadcast_to", call_op("expand_dims", order, axis=[2]), [batch, count, 6])
    number = call_op("sum", call_op("astype", is_kept, dtype="int32"), axis=[1])
    ends = call_op("astype", call_op("expand_dims", number, axis=[1, 2]), dtype=_INT)
    is_in = call_op("less", along(count, 1, 3), ends)
    found = call_op("where", is_in, call_op("gather_elements", rows, index, axis=1), const(-1, "float32"))
    return Tuple((found, number))


def _anchors(stride: int, ratios: Any, scales: Any) -> Any:
    """Boxes around a square of the stride: (ratios x scales, 4), corners."""
    middle, area, found = (stride - 1) / 2, stride * stride, []
    for ratio in ratios:
        width = np.floor(np.sqrt(np.floor(area / ratio)) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in scales:
            x, y = (width * scale - 1) / 2, (height * scale - 1) / 2
            found.append([middle - x, middle - y, middle + x, middle + y])
    return np.array(found, "float32")


def _proposed(given: Given) -> Any:
    """The best boxes of each image that do not overlap: (images x most, 5), the image first; where there are
    fewer, they come again."""
    scores, moves, info = given["cls_prob"], given["bbox_pred"], given["im_info"]
    _, height, width = known_sizes(scores, "vision.proposal")
    batch, stride = dims_of(scores)[0], int(given["feature_stride"])
    base = _anchors(stride, given["ratios"], given["scales"])
    number, total = len(base), height * width * len(base)
    y, x = np.indices((height, width)) * stride
    shifts = np.stack([x, y, x, y], -1)[:, :, None]
    anchors = (base + shifts).reshape(1, total, 4).astype("float32")
    moves = call_op("reshape", moves, [batch, number, 4, height, width])
    moves = call_op("reshape", call_op("permute_dims", moves, axes=[0, 3, 4, 1, 2]), [batch, total, 4])
    scores = call_op("strided_slice", scores, axes=[1], begin=[number], end=[2 * number])
    scores = call_op("reshape", call_op("permute_dims", scores, axes=[0, 2, 3, 1]), [batch, total])
    boxes = _shifted(moves, anchors, bool(given["iou_loss"]))
    limit = call_op("take", info, const([1, 0, 1, 0], _INT), axis=1)
    limit = call_op("expand_dims", call_op("subtract", limit, const(1, "float32")), axis=[1])
    boxes = call_op("maximum", call_op("minimum", boxes, limit), const(0, "float32"))
    low, high = (call_op("strided_slice", boxes, axes=[2], begin=[k], end=[k + 2]) for k in (0, 2))
    sizes = call_op("add", call_op("subtract", high, low), const(1, "float32"))
    least = call_op(
        "multiply",
        call_op("take", info, const([2], _INT), axis=1),
        const(float(given["rpn_min_size"]), "float32"),
    )
    is_large = call_op(
        "all", call_op("greater_equal", sizes, call_op("expand_dims", least, axis=[1])), axis=[2]
    )
    scores = call_op("where", is_large, scores, const(-1, "float32"))
    before, most = min(int(given["rpn_pre_nms_top_n"]), total), int(given["rpn_post_nms_top_n"])
    before = before if before > 0 else total
    order = call_op("argsort", scores, axis=1, descending=True, dtype=_INT)
    order = call_op("strided_slice", order, axes=[1], begin=[0], end=[before])
    index = call_op("broadcast_to", call_op("expand_dims", order, axis=[2]), [batch, before, 4])
    boxes = call_op("gather_elements", boxes, index, axis=1)
    wide = call_op("add", boxes, const([0, 0, 1, 1], "float32"))
    ranks = call_op(
        "broadcast_to", const(-np.arange(before).reshape(1, 1, -1), "float32"), [batch, 1, before]
    )
    reach = const(float(given["threshold"]), "float32")
    chosen = call_op("vision.nms_boxes", wide, ranks, const(most, _INT), reach, const(LOWEST, "float32"))
    chosen = call_op("squeeze", chosen, axis=[1])
    count = call_op(
        "sum",
        call_op("astype", call_op("greater_equal", chosen, const(0, _INT)), dtype=_INT),
        axis=[1],
        keepdims=True,
    )
    again = call_op("floor_mod", along(most, 1, 2), call_op("maximum", count, const(1, _INT)))
    picked = call_op("maximum", call_op("gather_elements", chosen, again, axis=1), const(0, _INT))
    index = call_op("broadcast_to", call_op("expand_dims", picked, axis=[2]), [batch, most, 4])
    rows = call_op("gather_elements", boxes, index, axis=1)
    images = call_op("broadcast_to", call_op("astype", along(batch, 0, 3), dtype="float32"), [batch, most, 1])
    return call_op("reshape", call_op("concat", (images, rows), axis=2), [batch * most, 5])


def _shifted(moves: Any, anchors: Any, is_iou: bool) -> Any:
    """The anchors with corners moved, or with middle and size changed."""
    if is_iou:
        return call_op("add", moves, const(anchors, "float32"))
    size = anchors[..., 2:] - anchors[..., :2] + 1
    center = anchors[..., :2] + (size - 1) / 2
    shift, scale = (call_op("strided_slice", moves, axes=[2], begin=[k], end=[k + 2]) for k in (0, 2))
    middle = call_op("add", call_op("multiply", shift, const(size, "float32")), const(center, "float32"))
    wide = call_op("multiply", call_op("exp", scale), const(size, "float32"))
    half = call_op("multiply", call_op("subtract", wide, const(1, "float32")), const(0.5, "float32"))
    return call_op("concat", (call_op("subtract", middle, half), call_op("add", middle, half)), axis=2)


def aliases() -> Rows:
    """The names of this file."""
    yield (
        "concat",
        alias(
            "vision.multibox_transform_loc",
            (Input("cls_prob"), Input("loc_pred"), Input("anchor")),
            (
                attr("clip", "bool", True),
                attr("threshold", "float", 0.01),
                attr("variances", "floats", (0.1, 0.1, 0.2, 0.2)),
                attr("keep_background", "bool", False),
            ),
            expression=_moved,
            results=fixed(2),
        ),
    )
    yield (
        "vision.nms_boxes",
        alias(
            "vision.proposal",
            (Input("cls_prob"), Input("bbox_pred"), Input("im_info")),
            (
                attr("scales", "floats", (4.0, 8.0, 16.0, 32.0)),
                attr("ratios", "floats", (0.5, 1.0, 2.0)),
                attr("feature_stride", "int", 16),
                attr("threshold", "float", 0.7),
                attr("rpn_pre_nms_top_n", "int", 6000),
                attr("rpn_post_nms_top_n", "int", 300),
                attr("rpn_min_size", "int", 16),
                attr("iou_loss", "bool", False),
            ),
            expression=_proposed,
        ),
    )
