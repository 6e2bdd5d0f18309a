"""Losses of classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.nn.norm import in_float64
from heddle.ops.rules import require_float, require_int, require_ndim, unknown_dims
from heddle.prim.checked_index import checked_positions
from heddle.topi.nn import loss as topi

_REDUCTIONS = ("none", "sum", "mean")
_LAYOUT = Without("axes have fixed places")


def _infer_nll(ctx: Inference) -> Type:
    predictions, targets = ctx.tensor(0), ctx.tensor(1)
    require_float(ctx, predictions)
    require_int(ctx, targets, "targets")
    if ctx.attrs.reduction not in _REDUCTIONS:
        ctx.attr_error(f"reduction must be none, sum or mean, got {ctx.attrs.reduction!r}")
    if predictions.ndim == 0:
        ctx.shape_error("predictions need at least 1 dimension")
    if predictions.ndim > 0:
        require_ndim(ctx, targets, predictions.ndim - 1, "targets")
    if predictions.dims is not None and targets.dims is not None:
        rest = () if predictions.ndim == 1 else (predictions.dims[0], *predictions.dims[2:])
        for k, (a, b) in enumerate(zip(rest, targets.dims, strict=True)):
            ctx.require_equal(a, b, f"sizes of predictions and targets on axis {k}")
    if len(ctx.args) > 2:
        weights = ctx.tensor(2)
        ctx.same_dtype(predictions, weights)
        require_ndim(ctx, weights, 1, "weights")
        if predictions.dims is not None and weights.dims is not None:
            ctx.require_equal(
                predictions.dims[min(1, predictions.ndim - 1)],
                weights.dims[0],
                "classes of predictions and weights",
            )
    if ctx.attrs.reduction != "none":
        return TensorType((), predictions.dtype)
    return (
        TensorType(targets.dims, predictions.dtype)
        if targets.dims is not None
        else unknown_dims(predictions.dtype, targets.ndim)
    )


def _np_nll(attrs: Any, predictions: Any, targets: Any, *weights: Any) -> Any:
    dtype = predictions.dtype
    scores = predictions.astype(np.float64)
    classes = scores.shape[0 if scores.ndim == 1 else 1]
    factor = weights[0].astype(np.float64) if weights else np.ones(classes)
    valid = targets != attrs.ignore_index
    safe = np.zeros(targets.shape, np.int64)
    safe[valid] = checked_positions(targets[valid], classes, from_end=False)
    picked = scores[safe] if scores.ndim == 1 else np.take_along_axis(scores, safe[:, None], 1)[:, 0]
    used = np.where(valid, factor[safe], 0.0)
    loss = -picked * used
    if attrs.reduction == "none":
        return np.asarray(loss).astype(dtype)
    return np.asarray(loss.sum() if attrs.reduction == "sum" else loss.sum() / used.sum()).astype(dtype)


def _nll_sample(shape: tuple[int, ...], has_weights: bool, attrs: dict[str, Any]) -> Sample:
    classes, rest = (shape[0], ()) if len(shape) == 1 else (shape[1], (shape[0], *shape[2:]))

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        scores, targets = (
            rng.standard_normal(shape).astype(dtype),
            np.asarray(rng.integers(0, classes, size=rest)),
        )
        if "ignore_index" in attrs:
            targets.reshape(-1)[0] = attrs["ignore_index"]
        extra = (rng.uniform(0.5, 2, size=classes).astype(dtype),) if has_weights else ()
        return (scores, targets, *extra)

    return Sample((shape, rest), attrs, ("float32",), make)


def _infer_cross_entropy(ctx: Inference) -> Type:
    a, b = ctx.tensor(0), ctx.tensor(1)
    require_float(ctx, a, b)
    dtype = ctx.same_dtype(a, b)
    if -1 not in (a.ndim, b.ndim) and a.ndim != b.ndim:
        ctx.shape_error(f"predictions and labels differ in rank: {a.ndim} and {b.ndim}")
    for k, (x, y) in enumerate(zip(a.dims or (), b.dims or (), strict=False)):
        ctx.require_equal(x, y, f"sizes of predictions and labels on axis {k}")
    return TensorType((), dtype)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="nn.nll_loss",
            inputs=(
                Input("predictions", meaning="(n, classes, ...) or (classes,): log-probabilities"),
                Input("targets", meaning="(n, ...) or ()"),
                Input("weights", "tensor", "(classes,)", True),
            ),
            attrs=(
                AttrSpec("reduction", "str", "mean", "none, sum or mean"),
                AttrSpec("ignore_index", "int", -100, "targets to leave out"),
            ),
            doc=(
                "The negative log-likelihood of targets: of each, their weighted sum, or their weighted mean."
            ),
            infer=_infer_nll,
            reference=_np_nll,
            lower=lambda a, p, t, w=None: topi.nll_loss(p, t, w, str(a.reduction), int(a.ignore_index)),
            layout=_LAYOUT,
            samples=(
                _nll_sample((3, 5), False, {}),
                _nll_sample((3, 5), True, {"reduction": "none"}),
                _nll_sample((2, 4, 3), True, {"ignore_index": 1}),
                _nll_sample((5,), False, {"reduction": "sum"}),
            ),
            errors=(
                ErrorSample(((3, 5), (4,)), {}, "R0203", "sizes of predictions and targets", "float32,int64"),
                ErrorSample(
                    ((3, 5), (3,), (4,)),
                    {},
                    "R0203",
                    "classes of predictions and weights",
                    "float32,int64,float32",
                ),
                ErrorSample(
                    ((3, 5), (3,)), {"reduction": "max"}, "R0205", "reduction must be", "float32,int64"
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="nn.cross_entropy_with_logits",
            inputs=(Input("predictions", meaning="a tensor"), Input("labels", meaning="of the same shape")),
            attrs=(),
            doc="The negative sum of predictions * labels, over the size of the first of several axes.",
            infer=_infer_cross_entropy,
            reference=in_float64(lambda attrs, p, t: -(p * t).sum() / (p.shape[0] if p.ndim > 1 else 1)),
            lower=lambda attrs, p, t: topi.cross_entropy_with_logits(p, t),
            layout=_LAYOUT,
            samples=(Sample(((3, 5), (3, 5))), Sample(((4,), (4,)))),
            errors=(ErrorSample(((3, 5), (3, 4)), {}, "R0203", "sizes of predictions and labels"),),
        )
    )
