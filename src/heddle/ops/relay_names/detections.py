"""Relay's operators on boxes: `vision.non_max_suppression` and what goes with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.expr import Expr, Tuple
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import DATA, Given, Rows, alias, attr, dims_of, fixed, size_vector, whole
from heddle.support.diagnostics import IRTypeError

LOWEST = float(np.finfo("float32").min)
"""What every score that counts exceeds."""
_INT = "int64"


def along(size: Any, axis: int, ndim: int) -> Any:
    """Positions 0, 1, ... of an axis, in a shape of `ndim` dimensions."""
    shape = [size if place == axis else 1 for place in range(ndim)]
    return call_op("reshape", call_op("arange", 0, size, 1, dtype=_INT), shape)


def _column(data: Any, index: int) -> Any:
    return call_op("take", data, const(index, _INT), axis=2)


def _picked(data: Any, order: Any) -> Any:
    """Rows (batch, n, k) in an order (batch, m) of their own each."""
    width = dims_of(data)[2]
    shape = [*dims_of(order), width]
    return call_op(
        "gather_elements",
        data,
        call_op("broadcast_to", call_op("expand_dims", order, axis=[2]), shape),
        axis=1,
    )


def _count(flags: Any, axis: int, keepdims: bool = False, dtype: str = "int32") -> Any:
    return call_op("sum", call_op("astype", flags, dtype=dtype), axis=[axis], keepdims=keepdims)


def _scalar(value: Any, dtype: str) -> Any:
    return call_op("astype", call_op("reshape", value, []), dtype=dtype)


def _limit(value: Any, all_of_them: Any) -> Any:
    """How many at most; a negative number stands for all."""
    own = _scalar(value, _INT)
    return call_op("where", call_op("less", own, const(0, _INT)), _scalar_of(all_of_them), own)


def _scalar_of(dim: Any) -> Any:
    size = whole(dim)
    return const(np.iinfo(_INT).max if size is None else size, _INT)


def _or_no_score(flags: Any, scores: Any) -> Any:
    return call_op("where", flags, scores, const(float("-inf"), "float32"))


# ---- counts and suppression


def _valid_boxes(given: Given) -> Any:
    """How many boxes of each image have a score and class that count; these boxes first, then -1; and which
    they are."""
    data = given["data"]
    size = dims_of(data)[1]
    is_valid = call_op("greater", _column(data, int(given["score_index"])), given["score_threshold"])
    if int(given["id_index"]) >= 0:
        has_class = call_op("greater_equal", _column(data, int(given["id_index"])), const(0, "float32"))
        is_valid = call_op("logical_and", is_valid, has_class)
    order = _first(is_valid)
    count = _count(is_valid, 1)
    is_in = call_op(
        "less", along(size, 1, 2), call_op("astype", call_op("expand_dims", count, axis=[1]), dtype=_INT)
    )
    rows = call_op(
        "where", call_op("expand_dims", is_in, axis=[2]), _picked(data, order), const(-1, "float32")
    )
    places = call_op("astype", call_op("where", is_in, order, const(-1, _INT)), dtype="int32")
    return Tuple((count, rows, places))


def _first(flags: Any) -> Any:
    """The positions along axis 1 at which flags are set, in order, then the others."""
    return call_op(
        "argsort", call_op("astype", call_op("logical_not", flags), dtype="int8"), axis=1, dtype=_INT
    )


def _best_first(scores: Any) -> Any:
    return call_op("argsort", scores, axis=1, descending=True, dtype=_INT)


def _below(threshold: Any) -> Any:
    """The number before a threshold: what exceeds it, is at least the threshold."""
    value = _scalar(threshold, "float32")
    bits = call_op("subtract", call_op("bitcast", value, dtype="int32"), const(1, "int32"))
    before = call_op("bitcast", bits, dtype="float32")
    return call_op("where", call_op("greater", value, const(0, "float32")), before, const(-1, "float32"))


def _suppressed(given: Given) -> Any:
    data, counts = given["data"], given["valid_count"]
    size = dims_of(data)[1]
    scores = _column(data, int(given["score_index"]))
    ends = call_op("astype", call_op("expand_dims", counts, axis=[1]), dtype=_INT)
    is_valid = call_op("less", along(size, 1, 2), ends)
    if int(given["top_k"]) > 0:
        order = _best_first(_or_no_score(is_valid, scores))
        ranks = call_op("argsort", order, axis=1, dtype=_INT)
        is_valid = call_op("logical_and", is_valid, call_op("less", ranks, const(int(given["top_k"]), _INT)))
    scores = _or_no_score(is_valid, scores)
    first = int(given["coord_start"])
    corners = call_op("take", data, const(list(range(first, first + 4)), _INT), axis=2)
    is_apart = int(given["id_index"]) >= 0 and not given["force_suppress"]
    groups = (_column(data, int(given["id_index"])),) if is_apart else ()
    chosen = call_op(
        "vision.nms_boxes",
        corners,
        call_op("expand_dims", scores, axis=[1]),
        _limit(given["max_output_size"], size),
        _below(given["iou_threshold"]),
        const(LOWEST, "float32"),
        *groups,
    )
    chosen = call_op("squeeze", chosen, axis=[1])
    is_kept = call_op("greater_equal", chosen, const(0, _INT))
    places = call_op("maximum", chosen, const(0, _INT))
    if given["return_indices"]:
        own = call_op("gather_elements", given["indices"], places, axis=1)
        own = call_op("where", is_kept, call_op("astype", own, dtype="int32"), const(-1, "int32"))
        return Tuple((own, _count(is_kept, 1, keepdims=True)))
    if given["invalid_to_bottom"]:
        rows = _picked(data, places)
        return call_op("where", call_op("expand_dims", is_kept, axis=[2]), rows, const(-1, "float32"))
    return _marked(given, scores, chosen, is_valid)


def _marked(given: Given, scores: Any, chosen: Any, is_valid: Any) -> Any:
    """All boxes that count by falling score, -1 for score and class of those that are suppressed."""
    data = given["data"]
    batches, size, width = dims_of(data)
    is_kept = call_op("greater_equal", chosen, const(0, _INT))
    spare = call_op(
        "where", is_kept, chosen, call_op("astype", call_op("reshape", _size(size), [1]), dtype=_INT)
    )
    flags = call_op("zeros", [batches, size + 1], dtype="int8")
    ones = call_op("ones", [batches, size], dtype="int8")
    flags = call_op("scatter_elements", flags, spare, ones, axis=1)
    flags = call_op("strided_slice", flags, axes=[1], begin=[0], end=[size])
    order = _best_first(scores)
    stays = call_op("equal", call_op("gather_elements", flags, order, axis=1), const(1, "int8"))
    marks = [int(given["score_index"]), int(given["id_index"])]
    columns = along(width, 2, 3)
    other: Any = None
    for mark in (mark for mark in marks if mark >= 0):
        is_other = call_op("not_equal", columns, const(mark, _INT))
        other = is_other if other is None else call_op("logical_and", other, is_other)
    stays = call_op("logical_or", call_op("expand_dims", stays, axis=[2]), other)
    ends = _count(is_valid, 1, keepdims=True, dtype=_INT)
    is_in = call_op("expand_dims", call_op("less", along(size, 1, 2), ends), axis=[2])
    return call_op("where", call_op("logical_and", stays, is_in), _picked(data, order), const(-1, "float32"))


def _size(dim: Any) -> Any:
    return size_vector([dim])


def _of_all_classes(given: Given) -> Any:
    boxes, scores = given["boxes"], given["scores"]
    batches, classes, size = dims_of(scores)
    chosen = call_op(
        "vision.nms_boxes",
        boxes,
        scores,
        _limit(given["max_output_boxes_per_class"], size),
        _scalar(given["iou_threshold"], "float32"),
        _scalar(given["score_threshold"], "float32"),
    )
    kind = str(given["output_format"])
    if kind not in ("onnx", "tensorflow"):
        raise IRTypeError(R0205, f"output_format is onnx or tensorflow, got {kind!r}")
    shape = [batches, classes, size]
    numbers = [call_op("broadcast_to", along(dim, axis, 3), shape) for axis, dim in enumerate(shape[:2])]
    is_kept = call_op("greater_equal", chosen, const(0, _INT))
    rows = call_op("stack", (*numbers, chosen), axis=3)
    rows = call_op("where", call_op("expand_dims", is_kept, axis=[3]), rows, const(-1, _INT))
    if kind == "onnx":
        flat = call_op("reshape", is_kept, [1, batches * classes * size])
        order = call_op("squeeze", _first(flat), axis=[0])
        rows = call_op("take", call_op("reshape", rows, [batches * classes * size, 3]), order, axis=0)
        return Tuple((rows, _count(flat, 1, dtype=_INT)))
    flat = call_op("reshape", is_kept, [batches, classes * size])
    own = call_op("gather_elements", scores, call_op("maximum", chosen, const(0, _INT)), axis=2)
    own = _or_no_score(flat, call_op("reshape", own, [batches, classes * size]))
    order = _best_first(own)
    rows = call_op("reshape", rows, [batches, classes * size, 3])
    rows = call_op("strided_slice", _picked(rows, order), axes=[2], begin=[1], end=[3])
    sorted_scores = call_op("gather_elements", own, order, axis=1)
    is_score = call_op("greater", sorted_scores, const(float("-inf"), "float32"))
    sorted_scores = call_op("where", is_score, sorted_scores, const(0, "float32"))
    return Tuple((rows, sorted_scores, _count(flat, 1, dtype=_INT)))


def _regular(given: Given) -> Any:
    """Of each class the best boxes, of these the best of an image: boxes, classes, scores, how many."""
    boxes, scores = given["boxes"], given["scores"]
    batches, size, columns = dims_of(scores)
    classes, most = int(given["num_classes"]), int(given["max_detections"])
    known = whole(columns)
    if known is None or known < classes:
        raise IRTypeError(R0203, f"regular_non_max_suppression: {classes} classes of {columns} columns")
    scores = call_op("strided_slice", scores, axes=[2], begin=[known - classes], end=[known])
    scores = call_op("permute_dims", scores, axes=[0, 2, 1])
    per_class = const(int(given["max_detections_per_class"]), _INT)
    limits = [const(float(given[name]), "float32") for name in ("iou_threshold", "score_threshold")]
    chosen = call_op("vision.nms_boxes", boxes, scores, per_class, *limits)
    is_kept = call_op("greater_equal", chosen, const(0, _INT))
    places = call_op("maximum", chosen, const(0, _INT))
    own = _or_no_score(is_kept, call_op("gather_elements", scores, places, axis=2))
    total = classes * size
    width = [0, 0, 0, most]
    flat = call_op(
        "nn.pad", call_op("reshape", own, [batches, total]), pad_width=width, pad_value=float("-inf")
    )
    order = call_op("strided_slice", _best_first(flat), axes=[1], begin=[0], end=[most])
    best = call_op("gather_elements", flat, order, axis=1)
    is_in = call_op("greater", best, const(float("-inf"), "float32"))
    zero = const(0, "float32")
    kinds = call_op("broadcast_to", along(classes, 1, 3), [batches, classes, size])

    def sorted_part(part: Any) -> Any:
        wide = call_op("nn.pad", call_op("reshape", part, [batches, total]), pad_width=width)
        return call_op("gather_elements", wide, order, axis=1)

    rows = _picked(boxes, sorted_part(places))
    return Tuple(
        (
            call_op("where", call_op("expand_dims", is_in, axis=[2]), rows, zero),
            call_op("where", is_in, call_op("astype", sorted_part(kinds), dtype="float32"), zero),
            call_op("where", is_in, best, zero),
            _count(is_in, 1, dtype="float32"),
        )
    )


def _float(value: Any) -> Any:
    return value if isinstance(value, Expr) else const(float(value), "float32")


def _integer(value: Any) -> Any:
    return value if isinstance(value, Expr) else const(int(value), "int32")


def _get_valid_counts(data: Any, score_threshold: Any, id_index: int = 0, score_index: int = 1) -> Given:
    return {
        "data": data,
        "score_threshold": _float(score_threshold),
        "id_index": id_index,
        "score_index": score_index,
    }


def _non_max_suppression(
    data: Any,
    valid_count: Any,
    indices: Any,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Given:
    return {
        "data": data,
        "valid_count": valid_count,
        "indices": indices,
        "max_output_size": _integer(max_output_size),
        "iou_threshold": _float(iou_threshold),
        "force_suppress": force_suppress,
        "top_k": top_k,
        "coord_start": coord_start,
        "score_index": score_index,
        "id_index": id_index,
        "return_indices": return_indices,
        "invalid_to_bottom": invalid_to_bottom,
    }


def _all_class(
    boxes: Any,
    scores: Any,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> Given:
    return {
        "boxes": boxes,
        "scores": scores,
        "max_output_boxes_per_class": _integer(max_output_boxes_per_class),
        "iou_threshold": _float(iou_threshold),
        "score_threshold": _float(score_threshold),
        "output_format": output_format,
    }


def aliases() -> Rows:
    """The names of this file."""
    record = "vision.nms_boxes"
    yield (
        record,
        alias(
            "vision.get_valid_counts",
            (*DATA, Input("score_threshold")),
            (attr("id_index", "int", 0), attr("score_index", "int", 1)),
            expression=_valid_boxes,
            results=fixed(3),
            function=_get_valid_counts,
        ),
    )
    names = ("data", "valid_count", "indices", "max_output_size", "iou_threshold")
    yield (
        record,
        alias(
            "vision.non_max_suppression",
            tuple(Input(name) for name in names),
            (
                attr("force_suppress", "bool", False),
                attr("top_k", "int", -1),
                attr("coord_start", "int", 2),
                attr("score_index", "int", 1),
                attr("id_index", "int", 0),
                attr("return_indices", "bool", True),
                attr("invalid_to_bottom", "bool", False),
            ),
            expression=_suppressed,
            results=lambda call: 2 if call.attrs["return_indices"] else None,
            function=_non_max_suppression,
        ),
    )
    names = ("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold")
    yield (
        record,
        alias(
            "vision.all_class_non_max_suppression",
            tuple(Input(name) for name in names),
            (attr("output_format", "str", "onnx"),),
            expression=_of_all_classes,
            results=lambda call: 2 if call.attrs["output_format"] == "onnx" else 3,
            function=_all_class,
        ),
    )
    yield (
        record,
        alias(
            "vision.regular_non_max_suppression",
            (Input("boxes"), Input("scores")),
            (
                attr("max_detections_per_class", "int"),
                attr("max_detections", "int"),
                attr("num_classes", "int"),
                attr("iou_threshold", "float"),
                attr("score_threshold", "float"),
            ),
            expression=_regular,
            results=fixed(4),
        ),
    )
