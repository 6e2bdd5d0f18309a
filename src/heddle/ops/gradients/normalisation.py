"""Gradients of norms, softmax and losses. Norms are taken for the arithmetic that they are."""

from __future__ import annotations

from typing import Any

from heddle.arith.sizes import as_dim
from heddle.graph.gradient import Cotangent, Step, Through, scalar
from heddle.graph.infer import type_of
from heddle.graph.op_builder import call_op
from heddle.ir.expr import Tuple
from heddle.ir.op_def import Without


def _softmax(step: Step) -> tuple[Cotangent, ...]:
    y, d = step.term(step.result), step.term(step.grad)
    mean = step.term(step("sum", (d * y).expr, axis=[step.axis(step.attrs.axis)], keepdims=True))
    return ((y * (d - mean)).expr,)


def _log_softmax(step: Step) -> tuple[Cotangent, ...]:
    y, d = step.term(step.result), step.term(step.grad)
    total = step.term(step("sum", step.grad, axis=[step.axis(step.attrs.axis)], keepdims=True))
    return ((d - y.op("exp") * total).expr,)


# ---- arithmetic on expressions of records


def _ndim(x: Any) -> int:
    return type_of(x).ndim  # type: ignore[attr-defined, no-any-return]


def _normalised(x: Any, axes: list[int], epsilon: float) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over axes."""
    rest = call_op("subtract", x, call_op("mean", x, axis=axes, keepdims=True))
    squares = call_op("mean", call_op("multiply", rest, rest), axis=axes, keepdims=True)
    return _scaled(rest, squares, epsilon, x)


def _scaled(rest: Any, variance: Any, epsilon: float, like: Any) -> Any:
    root = call_op("rsqrt", call_op("add", variance, scalar(epsilon, like)))
    return call_op("multiply", rest, root)


def _along(vector: Any, axis: int, ndim: int) -> Any:
    behind = ndim - 1 - axis % ndim
    return call_op("expand_dims", vector, axis=list(range(1, behind + 1))) if behind else vector


def _affine(attrs: Any, made: Any, gamma: Any, beta: Any) -> Any:
    """Times the scale and plus the offset, where they count; the others are in the expression, without
    weight, so that it has all arguments."""
    if attrs.scale:
        made = call_op("multiply", made, gamma)
    return call_op("add", made, beta) if attrs.center else made


def _axes(value: Any, ndim: int) -> list[int]:
    given = value if isinstance(value, (tuple, list)) else (value,)
    return sorted(int(axis) % ndim for axis in given)


def _layer_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    ndim = _ndim(x)
    axes = _axes(attrs.axes, ndim)
    factors = [_between(vector, axes, ndim) for vector in (gamma, beta)]
    return _affine(attrs, _normalised(x, axes, attrs.epsilon), *factors)


def _between(vector: Any, axes: list[int], ndim: int) -> Any:
    """A tensor over some axes, with axes of size 1 between them."""
    gaps = [axis - axes[0] for axis in range(axes[0], ndim) if axis not in axes]
    return call_op("expand_dims", vector, axis=gaps) if gaps else vector


def _rms_norm(attrs: Any, x: Any, weight: Any) -> Any:
    ndim = _ndim(x)
    axes = _axes(attrs.axes, ndim)
    squares = call_op("mean", call_op("multiply", x, x), axis=axes, keepdims=True)
    return call_op("multiply", _scaled(x, squares, attrs.epsilon, x), _between(weight, axes, ndim))


def _instance_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    ndim = _ndim(x)
    factors = [_along(vector, int(attrs.channel_axis), ndim) for vector in (gamma, beta)]
    return _affine(attrs, _normalised(x, _axes(attrs.axes, ndim), attrs.epsilon), *factors)


def _group_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """By a reshape that takes the channels apart; sizes must be known."""
    ty, ndim, groups = type_of(x), _ndim(x), int(attrs.num_groups)
    dims, channel = list(ty.dims), int(attrs.channel_axis) % ndim  # type: ignore[attr-defined]
    apart = [*dims[:channel], as_dim(groups), dims[channel] // groups, *dims[channel + 1 :]]
    axes = [axis + (axis > channel) for axis in _axes(attrs.axes, ndim)]
    made = _normalised(call_op("reshape", x, apart), sorted({*axes, channel + 1}), attrs.epsilon)
    factors = [_along(vector, channel, ndim) for vector in (gamma, beta)]
    return _affine(attrs, call_op("reshape", made, dims), *factors)


def _batch_norm(attrs: Any, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    ndim, axis = _ndim(x), int(attrs.axis) % _ndim(x)
    factors = [_along(vector, axis, ndim) for vector in (gamma, beta)]
    if not attrs.training:
        rest = call_op("subtract", x, _along(mean, axis, ndim))
        made = _scaled(rest, _along(variance, axis, ndim), attrs.epsilon, x)
        return Tuple((_affine(attrs, made, *factors), mean, variance))
    axes = [k for k in range(ndim) if k != axis]
    found = call_op("mean", x, axis=axes, keepdims=True)
    rest = call_op("subtract", x, found)
    spread = call_op("mean", call_op("multiply", rest, rest), axis=axes, keepdims=True)
    made = _affine(attrs, _scaled(rest, spread, attrs.epsilon, x), *factors)
    moved = [
        call_op(
            "add",
            call_op("multiply", old, scalar(1 - attrs.momentum, x)),
            call_op("multiply", call_op("squeeze", new, axis=axes), scalar(attrs.momentum, x)),
        )
        for old, new in ((mean, found), (variance, spread))
    ]
    return Tuple((made, *moved))


def _l2_normalize(attrs: Any, x: Any) -> Any:
    axes = None if attrs.axis is None else _axes(attrs.axis, _ndim(x))
    squares = call_op("sum", call_op("multiply", x, x), axis=axes, keepdims=True)
    return call_op("divide", x, call_op("sqrt", call_op("maximum", squares, scalar(attrs.eps, x))))


# ---- losses


def _cross_entropy(attrs: Any, predictions: Any, labels: Any) -> Any:
    ty = type_of(predictions)
    total = call_op("negative", call_op("sum", call_op("multiply", predictions, labels)))
    if ty.ndim < 2:  # type: ignore[attr-defined]
        return total
    sizes = call_op("sum", call_op("ones_like", predictions), axis=[0], keepdims=True)
    return call_op("divide", total, call_op("max", sizes))


def _nll_loss(step: Step) -> tuple[Cotangent, ...]:
    """The weight of each target goes, negative, to the class that it names."""
    ndim, reduction = step.ndim(0), step.attrs.reduction
    axis = 0 if ndim == 1 else 1
    targets = step.args[1]
    ignored = step("equal", targets, step.number(int(step.attrs.ignore_index), step.dtype(1)))
    safe = step("where", ignored, step("zeros_like", targets), targets)
    factor: Any
    if len(step.args) > 2:
        factor = step("take", step.args[2], safe, axis=0, mode="clip")
        factor = step("where", ignored, step.number(0), factor)
    else:
        factor = step("where", ignored, step.number(0), step.number(1))
        ones = step("astype", step("ones_like", targets), dtype=step.dtype(0))
        factor = step("multiply", factor, ones)
    share = step.term(factor) * step.term(step.grad)
    if reduction == "mean":
        share = share / step.term(step("sum", factor, axis=None))
    places = step("expand_dims", safe, axis=[axis])
    values = step("expand_dims", (-share).expr, axis=[axis])
    made = step("scatter_elements", step.zeros(0), places, values, axis=axis, reduction="add")
    if len(step.args) == 2:
        return made, None
    step_weights = _nll_weights(step, safe, ignored, factor, places, axis)
    return made, None, step_weights


def _nll_weights(step: Step, safe: Any, ignored: Any, factor: Any, places: Any, axis: int) -> Any:
    """What the classes' weights get: of a mean its denominator counts too."""
    picked = step("squeeze", step("gather_elements", step.args[0], places, axis=axis), axis=[axis])
    losses = -step.term(picked)
    share = losses * step.term(step.grad)
    if step.attrs.reduction == "mean":
        share = (losses - step.term(step.result)) * step.term(step.grad) / step("sum", factor, axis=None)
    share = step.term(step("where", ignored, step.number(0), share.expr))
    zeros = step("zeros_like", step.args[2])
    flat = step("expand_dims", safe, axis=[step.ndim(1)])
    return step("scatter_nd", zeros, flat, share.expr, reduction="add")


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    return {
        "nn.softmax": _softmax,
        "nn.log_softmax": _log_softmax,
        "nn.layer_norm": Through(_layer_norm),
        "nn.rms_norm": Through(_rms_norm),
        "nn.instance_norm": Through(_instance_norm),
        "nn.group_norm": Through(_group_norm),
        "nn.batch_norm": Through(_batch_norm),
        "nn.l2_normalize": Through(_l2_normalize),
        "nn.lrn": Without("no rule is written"),
        "nn.dropout": lambda step: (step.grad[0],),
        "nn.nll_loss": _nll_loss,
        "nn.cross_entropy_with_logits": Through(_cross_entropy),
    }
