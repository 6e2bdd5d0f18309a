"""Boxes: choosing those that do not overlap, and pooling what lies in them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import NO_PIXELS, require_float, require_int, require_ndim, unknown_dims
from heddle.prim.nodes import constant
from heddle.runtime.dtype import DataType
from heddle.topi import detection as topi
from heddle.topi import nms
from heddle.topi.dims import static

_LAYOUT = Without("axes have fixed places")
_INT64, _MODES = DataType("int64"), ("avg", "max")


def _require_dtype(ctx: Inference, index: int, dtype: str, what: str) -> None:
    found = ctx.tensor(index).dtype
    if found is not None and found != dtype:
        ctx.fail(R0204, f"{what} must be {dtype}, got {found}")


def _infer_nms(ctx: Inference) -> Type:
    boxes, scores = ctx.tensor(0), ctx.tensor(1)
    for index, what in ((0, "boxes"), (1, "scores")):
        require_ndim(ctx, ctx.tensor(index), 3, what)
        _require_dtype(ctx, index, "float32", what)
    for index, dtype, what in ((2, "int64", "the limit"), (3, "float32", "overlap"), (4, "float32", "score")):
        require_ndim(ctx, ctx.tensor(index), 0, what)
        _require_dtype(ctx, index, dtype, what)
    if len(ctx.args) > 5:
        require_ndim(ctx, ctx.tensor(5), 2, "groups")
        _require_dtype(ctx, 5, "float32", "groups")
    if boxes.dims is None or scores.dims is None:
        return unknown_dims(_INT64, 3)
    if len(ctx.args) > 5 and ctx.tensor(5).dims is not None:
        for own, dim in zip(ctx.tensor(5).dims or (), boxes.dims[:2], strict=True):
            ctx.require_equal(own, dim, "groups and boxes")
    if static(boxes.dims[2], "the number of coordinates") != 4:
        ctx.shape_error(f"a box must have 4 coordinates, got {boxes.dims[2]}")
    for own, dim in zip((scores.dims[0], scores.dims[2]), boxes.dims[:2], strict=True):
        ctx.require_equal(own, dim, "batches and boxes")
    return TensorType(scores.dims, _INT64)


def _np_overlap(a: Any, b: Any) -> Any:
    low, high = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    lows, highs = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    shared = np.prod(np.maximum(np.minimum(high, highs) - np.maximum(low, lows), 0), dtype=np.float32)
    union = np.prod(high - low, dtype=np.float32) + np.prod(highs - lows, dtype=np.float32) - shared
    return shared / union if shared > 0 and union > 0 else np.float32(0)


def _np_nms(
    _attrs: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, groups: Any = None
) -> Any:
    made = np.full(scores.shape, -1, np.int64)
    for batch, kind in np.ndindex(*scores.shape[:2]):
        chosen: list[tuple[Any, Any]] = []
        numbers = np.zeros(boxes.shape[1]) if groups is None else groups[batch]
        own = scores[batch, kind]
        for box in np.argsort(-own, kind="stable"):
            corners = boxes[batch, box]
            if len(chosen) >= int(most) or not own[box] > least:
                continue
            near = [other for other, number in chosen if number == numbers[box]]
            if all(_np_overlap(corners, other) <= overlap for other in near):
                made[batch, kind, len(chosen)] = box
                chosen.append((corners, numbers[box]))
    return made


def _nms_sample(
    shape: tuple[int, int, int], most: int, overlap: float, least: float, num_groups: int = 0
) -> Sample:
    """Scores of few values, so that there are equal ones, and some that are no number."""
    batches, _, size = shape

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        scores = (rng.integers(0, 20, shape) / 20).astype(dtype)
        scores[rng.random(shape) < 0.05] = np.nan
        return (
            rng.integers(0, 12, size=(batches, size, 4)).astype(dtype),
            scores,
            np.asarray(most, "int64"),
            np.asarray(overlap, "float32"),
            np.asarray(least, "float32"),
            *([rng.integers(0, num_groups, (batches, size)).astype(dtype)] if num_groups else []),
        )

    groups = ((batches, size),) if num_groups else ()
    return Sample(((batches, size, 4), shape, (), (), (), *groups), {}, ("float32",), make)


def _infer_roi_align(ctx: Inference) -> Type:
    x, rois, images = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    for ty, ndim, what in ((x, 4, "data"), (rois, 2, "rois"), (images, 1, "batch_indices")):
        require_ndim(ctx, ty, ndim, what)
    require_float(ctx, x, rois)
    require_int(ctx, images, "batch_indices")
    if ctx.attrs.mode not in _MODES:
        ctx.attr_error(f"mode must be one of {', '.join(_MODES)}, got {ctx.attrs.mode!r}")
    _require_pooled_size(ctx)
    if x.dims is None or rois.dims is None or images.dims is None:
        return unknown_dims(x.dtype, 4)
    if static(rois.dims[1], "the number of coordinates") != 4:
        ctx.shape_error(f"a region must have 4 coordinates, got {rois.dims[1]}")
    ctx.require_equal(rois.dims[0], images.dims[0], "the numbers of rois and batch_indices")
    dims = (rois.dims[0], x.dims[1], *(constant(size, "int64") for size in ctx.attrs.pooled_size))
    for dim in x.dims[2:]:
        ctx.require_elements(dim, dims, "sampled", NO_PIXELS)
    return TensorType(dims, x.dtype)


def _np_roi_align(attrs: Any, x: Any, rois: Any, images: Any) -> Any:
    one = np.float32(1)
    height, width = attrs.pooled_size
    result = np.zeros((len(rois), x.shape[1], height, width), np.float32)
    offset = np.float32(0.5 if attrs.aligned else 0)
    for k, (roi, image) in enumerate(zip(rois.astype(np.float32), images, strict=True)):
        if not 0 <= image < x.shape[0]:
            raise IndexError("batch_indices is out of range")
        scaled = roi * np.float32(attrs.spatial_scale) - offset
        begin, size = scaled[1::-1], scaled[3:1:-1] - scaled[1::-1]
        size = size if attrs.aligned else np.maximum(size, one)
        bins = size / np.array([height, width], np.float32)
        counts = [attrs.sample_ratio if attrs.sample_ratio > 0 else int(np.ceil(b)) for b in bins]
        for at in np.ndindex(height, width):
            values = [
                _np_sample(
                    x[image],
                    [
                        begin[a] + at[a] * bins[a] + np.float32(step[a] + 0.5) * bins[a] / counts[a]
                        for a in (0, 1)
                    ],
                )
                for step in np.ndindex(*(max(count, 0) for count in counts))
            ]
            if values:
                made = np.stack(values)
                result[(k, slice(None), *at)] = (
                    made.sum((0, 1)) / len(values) if attrs.mode == "avg" else made.max((0, 1))
                )
    return result.astype(x.dtype)


def _np_sample(image: Any, at: Any) -> Any:
    """(4, channels): the neighbours times their weights."""
    if any(p < -1 or p > n for p, n in zip(at, image.shape[1:], strict=True)):
        return np.zeros((4, image.shape[0]), np.float32)
    parts = []
    for p, n in zip(at, image.shape[1:], strict=True):
        inner = np.float32(min(max(p, 0), n - 1))
        low = int(inner)
        parts.append(((low, 1 - (inner - low)), (min(low + 1, n - 1), inner - low)))
    return np.stack([image[:, r, c].astype(np.float32) * wr * wc for r, wr in parts[0] for c, wc in parts[1]])


def _roi_sample(**attrs: Any) -> Sample:
    shape, count = (2, 3, 6, 7), 5

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        corners = rng.uniform(-2, 9, size=(count, 2))
        rois = np.concatenate([corners, corners + rng.uniform(0.3, 8, size=(count, 2))], axis=1)
        return (
            rng.standard_normal(shape).astype(dtype),
            rois.astype("float32"),
            np.asarray(rng.integers(0, 2, size=count), "int64"),
        )

    return Sample((shape, (count, 4), (count,)), {"pooled_size": (2, 3), **attrs}, ("float32",), make)


def _infer_roi_pool(ctx: Inference) -> Type:
    x, rois = ctx.tensor(0), ctx.tensor(1)
    require_ndim(ctx, x, 4, "data")
    require_ndim(ctx, rois, 2, "rois")
    require_float(ctx, x, rois)
    _require_pooled_size(ctx)
    if x.dims is None or rois.dims is None:
        return unknown_dims(x.dtype, 4)
    if static(rois.dims[1], "the numbers of a region") != 5:
        ctx.shape_error(f"a region must have an image and 4 coordinates, got {rois.dims[1]} numbers")
    return TensorType((rois.dims[0], x.dims[1], *ctx.attrs.pooled_size), x.dtype)


def _require_pooled_size(ctx: Inference) -> None:
    if len(ctx.attrs.pooled_size) != 2 or min(ctx.attrs.pooled_size) < 1:
        ctx.attr_error(f"pooled_size must be two positive numbers, got {tuple(ctx.attrs.pooled_size)}")


def _np_roi_pool(attrs: Any, x: Any, rois: Any) -> Any:
    wide = np.float64 if rois.dtype == np.float64 else np.float32
    made = np.zeros((len(rois), x.shape[1], *attrs.pooled_size), x.dtype)
    for k, (number, corners) in enumerate(zip(rois[:, 0], rois[:, 1:].astype(wide), strict=True)):
        if not 0 <= int(number) < x.shape[0]:
            raise IndexError("the number of an image is out of range")
        scaled = (corners * wide(attrs.spatial_scale)).astype(wide)
        at = np.sign(scaled) * np.floor(np.abs(scaled) + wide(0.5))
        bins = [
            _np_bins(at[1 - axis], at[3 - axis], count, x.shape[2 + axis], wide)
            for axis, count in enumerate(attrs.pooled_size)
        ]
        for (i, rows), (j, columns) in itertools.product(enumerate(bins[0]), enumerate(bins[1])):
            part = x[int(number), :, rows, columns]
            if part.size:
                made[k, :, i, j] = part.max((1, 2))
    return made


def _np_bins(first: Any, last: Any, count: int, size: int, wide: Any) -> list[slice]:
    share = wide(max(last - first + 1, 1)) / wide(count)
    ends = [(np.floor(wide(k) * share) + first, np.ceil(wide(k + 1) * share) + first) for k in range(count)]
    return [slice(*(int(np.clip(end, 0, size)) for end in pair)) for pair in ends]


def _roi_pool_sample(count: int, dtype: str = "float32", **attrs: Any) -> Sample:
    """Also regions outside of the image, upside down, and with corners between two pixels."""
    shape = (2, 3, 6, 7)

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        corners = rng.integers(-8, 24, size=(count, 4)) / 2
        rois = np.concatenate([rng.integers(0, 2, size=(count, 1)), corners], axis=1)
        return rng.standard_normal(shape).astype(dtype), rois.astype(dtype)

    return Sample((shape, (count, 5)), {"pooled_size": (2, 3), "spatial_scale": 1.0, **attrs}, (dtype,), make)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="vision.nms_boxes",
            inputs=(
                Input("boxes", meaning="(batches, boxes, 4): two corners"),
                Input("scores", meaning="(batches, classes, boxes)"),
                Input("max_boxes", meaning="int64 of rank 0: how many of a class are chosen at most"),
                Input("iou_threshold", meaning="of rank 0: the largest intersection over union"),
                Input("score_threshold", meaning="of rank 0: what scores must exceed"),
                Input(
                    "groups",
                    meaning="(batches, boxes): boxes with different numbers do not count as overlapping",
                    optional=True,
                ),
            ),
            attrs=(),
            doc=(
                "The chosen boxes of each class by falling score, int64, then -1: boxes that overlap one "
                "that is chosen already, are not. Of equal scores the first box comes first."
            ),
            infer=_infer_nms,
            reference=_np_nms,
            lower=lambda attrs, *tensors: nms.nms_boxes(*tensors),
            layout=_LAYOUT,
            samples=(
                _nms_sample((2, 3, 13), 4, 0.2, 0.1),
                _nms_sample((1, 1, 7), 0, 0.5, 0.0),
                _nms_sample((1, 2, 9), 9, 0.0, 0.6),
                _nms_sample((1, 1, 0), 3, 0.5, 0.0),
                _nms_sample((2, 0, 3), 3, 0.5, 0.0),
                _nms_sample((1, 1, 211), 150, 0.9, -1.0),
                _nms_sample((2, 2, 40), 30, 0.1, -1.0, num_groups=3),
            ),
            errors=(
                ErrorSample(((1, 5), (1, 1, 5), (), (), ()), {}, "R0203", "boxes must have 3 dimensions"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="vision.roi_align",
            inputs=(
                Input("data", meaning="(n, channels, height, width)"),
                Input("rois", meaning="(regions, 4): x1, y1, x2, y2"),
                Input("batch_indices", meaning="(regions,): the image of each"),
            ),
            attrs=(
                AttrSpec("pooled_size", "list", meaning="height and width of the bins"),
                AttrSpec("spatial_scale", "float", 1.0, "from coordinates to elements"),
                AttrSpec("sample_ratio", "int", 0, "samples of a bin each way; 0: one an element"),
                AttrSpec("aligned", "bool", False, "elements have their middles at halves"),
                AttrSpec("mode", "str", "avg", ", ".join(_MODES)),
            ),
            doc=(
                "(regions, channels, height, width): the mean or maximum of samples between four neighbours; "
                "of the maximum each neighbour counts apart, times its weight, as in ONNX."
            ),
            infer=_infer_roi_align,
            reference=_np_roi_align,
            lower=lambda a, x, rois, images: topi.roi_align(
                x,
                rois,
                images,
                tuple(a.pooled_size),
                float(a.spatial_scale),
                int(a.sample_ratio),
                bool(a.aligned),
                str(a.mode),
            ),
            layout=_LAYOUT,
            samples=(
                _roi_sample(),
                _roi_sample(aligned=True, sample_ratio=2, spatial_scale=0.5),
                _roi_sample(mode="max"),
                _roi_sample(mode="max", aligned=True, sample_ratio=3),
            ),
            errors=(
                ErrorSample(
                    ((1, 1, 4, 4), (2, 4), (2,)),
                    {"pooled_size": (2,)},
                    "R0205",
                    "two positive numbers",
                    "float32,float32,int64",
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="vision.roi_pool",
            inputs=(
                Input("data", meaning="(n, channels, height, width)"),
                Input("rois", meaning="(regions, 5): the number of the image, x1, y1, x2, y2"),
            ),
            attrs=(
                AttrSpec("pooled_size", "list", meaning="height and width of the bins"),
                AttrSpec("spatial_scale", "float", 1.0, "from coordinates to elements"),
            ),
            doc=(
                "(regions, channels, height, width): the largest element of each bin of a region, whose "
                "corners are rounded to elements; 0 where a bin has none in the image."
            ),
            infer=_infer_roi_pool,
            reference=_np_roi_pool,
            lower=lambda a, x, rois: topi.roi_pool(x, rois, tuple(a.pooled_size), float(a.spatial_scale)),
            layout=_LAYOUT,
            samples=(
                _roi_pool_sample(7),
                _roi_pool_sample(5, "float64", pooled_size=(7, 5)),
                _roi_pool_sample(5, "float16", spatial_scale=0.5),
                _roi_pool_sample(0),
            ),
            errors=(
                ErrorSample(((1, 1, 4, 4), (2, 4)), {"pooled_size": (2, 2)}, "R0203", "an image and 4"),
                ErrorSample(((1, 1, 4, 4), (2, 5)), {"pooled_size": (2,)}, "R0205", "two positive numbers"),
            ),
        )
    )
