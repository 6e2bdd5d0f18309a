"""Softmax, the normalisations and dropout.

Over 450 lines: a table of records, one an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import TupleType, Type
from heddle.ops.rules import axes_of, require_float, require_ndim
from heddle.prim.nodes import constant
from heddle.topi.nn import norm as topi

_LAYOUT = Without("axes are attributes")
_DATA = Input("data", meaning="a float tensor")
_GAMMA, _BETA = Input("gamma", meaning="the scale"), Input("beta", meaning="the offset")
_EPSILON = AttrSpec("epsilon", "float", 1e-5, "added to the variance")
_CENTER_SCALE = (
    AttrSpec("center", "bool", True, "add beta"),
    AttrSpec("scale", "bool", True, "multiply by gamma"),
)


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes in float64 and gives the first argument's dtype."""

    def reference(attrs: Any, *arrays: Any) -> Any:
        dtype = np.asarray(arrays[0]).dtype
        with np.errstate(all="ignore"):
            result = function(attrs, *(np.asarray(a, np.float64) for a in arrays))
        if isinstance(result, tuple):
            return tuple(
                np.asarray(r).astype(np.asarray(a).dtype)
                for r, a in zip(result, (arrays[0], *arrays[3:]), strict=True)
            )
        return np.asarray(result).astype(dtype)

    return reference


def _infer_softmax(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    require_float(ctx, ty)
    if ty.ndim >= 0:
        ctx.axis(int(ctx.attrs.axis), ty.ndim)
    return ty


def _np_softmax(attrs: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=attrs.axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=attrs.axis, keepdims=True)


def _np_log_softmax(attrs: Any, x: Any) -> Any:
    """The logarithm of a softmax, which may be too small for a number, is not."""
    below = x - np.max(x, axis=attrs.axis, keepdims=True, initial=-np.inf)
    return below - np.log(np.sum(np.exp(below), axis=attrs.axis, keepdims=True))


def _declare_softmax() -> None:
    rows = (
        ("softmax", topi.softmax, _np_softmax, "e ** x over the sum of e ** x along an axis"),
        ("log_softmax", topi.log_softmax, _np_log_softmax, "x - log(the sum of e ** x) along an axis"),
    )
    for name, function, reference, meaning in rows:
        declare_op(
            OpDef(
                name=f"nn.{name}",
                inputs=(_DATA,),
                attrs=(AttrSpec("axis", "int", -1, "the axis"),),
                doc=f"{meaning}; the greatest x is subtracted first.".capitalize(),
                infer=_infer_softmax,
                reference=in_float64(reference),
                lower=lambda attrs, x, function=function: function(x, int(attrs.axis)),
                layout=_LAYOUT,
                samples=(
                    Sample(((3, 7),), dtypes=("float32", "float16", "float64", "bfloat16")),
                    Sample(((2, 3, 5),), {"axis": 1}),
                    Sample(((1,),)),
                    Sample(((0, 4),)),
                    Sample(((2, 1),)),
                ),
                errors=(
                    ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range"),
                    ErrorSample(((2, 3),), {}, "R0204", "float", "int32"),
                ),
            )
        )


def _check_factors(ctx: Inference, data: TensorType, axes: tuple[int, ...], names: tuple[str, ...]) -> None:
    """Arguments from 1 on must have the shape of `axes` of the data."""
    for k, name in enumerate(names, start=1):
        factor = ctx.tensor(k)
        require_ndim(ctx, factor, len(axes), name)
        if data.dims is not None and factor.dims is not None:
            for axis, dim in zip(axes, factor.dims, strict=True):
                ctx.require_equal(data.dims[axis], dim, f"sizes of data and {name} on axis {axis}")


def _infer_layer_norm(*names: str) -> Callable[[Inference], Type]:
    def infer(ctx: Inference) -> Type:
        data = ctx.tensor(0)
        require_float(ctx, data)
        if data.ndim >= 0:
            _check_factors(ctx, data, axes_of(ctx, ctx.attrs.axes, data.ndim), names)
        return data

    return infer


def _infer_channel_norm(ctx: Inference) -> Type:
    data = ctx.tensor(0)
    require_float(ctx, data)
    if data.ndim < 0:
        return data
    channel = ctx.axis(int(ctx.attrs.channel_axis), data.ndim)
    if channel in axes_of(ctx, ctx.attrs.axes, data.ndim):
        ctx.attr_error(f"the channel axis {channel} is among the axes to normalise over")
    _check_factors(ctx, data, (channel,), ("gamma", "beta"))
    if "num_groups" in ctx.attrs and data.dims is not None:
        size, groups = data.dims[channel], int(ctx.attrs.num_groups)
        if groups < 1:
            ctx.attr_error(f"num_groups must be at least 1, got {groups}")
        ctx.require_multiple(size, groups, f"num_groups {groups} does not divide {size} channels")
    return data


def _np_normalise(x: Any, axes: Any, epsilon: float) -> Any:
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)


def _spread(factor: Any, ndim: int, axes: Any) -> Any:
    """A factor with the axes `axes` of a tensor of `ndim` dimensions."""
    axes = sorted(a % ndim for a in (axes if isinstance(axes, (tuple, list)) else (axes,)))
    shape = [1] * ndim
    for axis, size in zip(axes, factor.shape, strict=True):
        shape[axis] = size
    return factor.reshape(shape)


def _np_affine(attrs: Any, x: Any, gamma: Any, beta: Any, axes: Any) -> Any:
    if attrs.get("scale", True):
        x = x * _spread(gamma, x.ndim, axes)
    return x + _spread(beta, x.ndim, axes) if attrs.get("center", True) else x


def _np_group_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    channel = attrs.channel_axis % x.ndim
    shape = (
        *x.shape[:channel],
        attrs.num_groups,
        x.shape[channel] // attrs.num_groups,
        *x.shape[channel + 1 :],
    )
    axes = tuple(a % x.ndim + (a % x.ndim > channel) for a in attrs.axes) + (channel + 1,)
    return _np_affine(
        attrs, _np_normalise(x.reshape(shape), axes, attrs.epsilon).reshape(x.shape), gamma, beta, channel
    )


def _given(attrs: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
    return gamma if attrs.scale else None, beta if attrs.center else None


def _declare_layer_norm() -> None:
    declare_op(
        OpDef(
            name="nn.layer_norm",
            inputs=(_DATA, _GAMMA, _BETA),
            attrs=(AttrSpec("axes", "ints", -1, "the axes to normalise over"), _EPSILON, *_CENTER_SCALE),
            doc=(
                "(x - mean) / sqrt(variance + epsilon) * gamma + beta over axes; gamma and beta have"
                " the shape of the axes."
            ),
            infer=_infer_layer_norm("gamma", "beta"),
            reference=in_float64(
                lambda a, x, g, b: _np_affine(a, _np_normalise(x, a.axes, a.epsilon), g, b, a.axes)
            ),
            lower=lambda attrs, x, g, b: topi.layer_norm(x, *_given(attrs, g, b), attrs.axes, attrs.epsilon),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 7), (7,), (7,)), {"axes": [-1]}, ("float32", "float16", "bfloat16")),
                Sample(((2, 3, 5), (3, 5), (3, 5)), {"axes": [1, 2], "epsilon": 1e-3}),
                Sample(((2, 5), (5,), (5,)), {"axes": -1, "center": False, "scale": False}),
                Sample(((0, 5), (5,), (5,)), {"axes": -1}),
            ),
            errors=(
                ErrorSample(
                    ((2, 3), (4,), (3,)), {"axes": -1}, "R0203", "sizes of data and gamma on axis 1 differ"
                ),
                ErrorSample(((2, 3), (3,), (3,)), {"axes": 5}, "R0205", "axis 5 is out of range"),
                ErrorSample(((2, 3), (3, 1), (3,)), {"axes": -1}, "R0203", "gamma must have 1 dimensions"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="nn.rms_norm",
            inputs=(_DATA, Input("weight", meaning="the scale")),
            attrs=(AttrSpec("axes", "ints", -1, "the axes to normalise over"), _EPSILON),
            doc="x / sqrt(mean(x ** 2) + epsilon) * weight over axes; the weight has the shape of the axes.",
            infer=_infer_layer_norm("weight"),
            reference=in_float64(
                lambda a, x, w: (
                    x
                    / np.sqrt(
                        np.mean(
                            x * x, axis=tuple(a.axes) if isinstance(a.axes, tuple) else a.axes, keepdims=True
                        )
                        + a.epsilon
                    )
                    * _spread(w, x.ndim, a.axes)
                )
            ),
            lower=lambda attrs, x, w: topi.rms_norm(x, w, attrs.axes, attrs.epsilon),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 7), (7,)), {"axes": [-1]}, ("float32", "float16", "bfloat16")),
                Sample(((2, 3, 5), (3, 5)), {"axes": [1, 2]}),
                Sample(((2, 1), (1,))),
            ),
            errors=(ErrorSample(((2, 3), (4,)), {}, "R0203", "sizes of data and weight on axis 1 differ"),),
        )
    )


def _declare_channel_norms() -> None:
    axes = AttrSpec("axes", "ints", meaning="the axes to normalise over, without the channel axis")
    channel = AttrSpec("channel_axis", "int", 1, "the axis of channels")
    declare_op(
        OpDef(
            name="nn.group_norm",
            inputs=(_DATA, _GAMMA, _BETA),
            attrs=(AttrSpec("num_groups", "int"), channel, axes, _EPSILON, *_CENTER_SCALE),
            doc=(
                "Normalise over axes and groups of neighbouring channels; gamma and beta have one "
                "value a channel."
            ),
            infer=_infer_channel_norm,
            reference=in_float64(_np_group_norm),
            lower=lambda a, x, g, b: topi.group_norm(
                x, *_given(a, g, b), int(a.num_groups), int(a.channel_axis), a.axes, a.epsilon
            ),
            layout=_LAYOUT,
            samples=(
                Sample(
                    ((2, 6, 5), (6,), (6,)),
                    {"num_groups": 3, "channel_axis": 1, "axes": [2]},
                    ("float32", "float16", "bfloat16"),
                ),
                Sample(((2, 3, 2, 4), (4,), (4,)), {"num_groups": 2, "channel_axis": -1, "axes": [1, 2]}),
                Sample(
                    ((2, 4, 3), (4,), (4,)),
                    {"num_groups": 1, "channel_axis": 1, "axes": [2], "scale": False, "center": False},
                ),
            ),
            errors=(
                ErrorSample(
                    ((2, 5, 3), (5,), (5,)),
                    {"num_groups": 2, "axes": [2]},
                    "R0203",
                    "num_groups 2 does not divide 5",
                ),
                ErrorSample(
                    ((2, 4, 3), (4,), (3,)), {"num_groups": 2, "axes": [2]}, "R0203", "sizes of data and beta"
                ),
                ErrorSample(
                    ((2, 4, 3), (4,), (4,)),
                    {"num_groups": 2, "axes": [1, 2]},
                    "R0205",
                    "the channel axis 1 is among",
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="nn.instance_norm",
            inputs=(_DATA, _GAMMA, _BETA),
            attrs=(channel, axes, _EPSILON, *_CENTER_SCALE),
            doc="Normalise over axes for each channel; gamma and beta have one value a channel.",
            infer=_infer_channel_norm,
            reference=in_float64(
                lambda a, x, g, b: _np_affine(a, _np_normalise(x, a.axes, a.epsilon), g, b, a.channel_axis)
            ),
            lower=lambda a, x, g, b: topi.instance_norm(
                x, *_given(a, g, b), int(a.channel_axis), a.axes, a.epsilon
            ),
            layout=_LAYOUT,
            samples=(
                Sample(
                    ((2, 3, 5), (3,), (3,)),
                    {"channel_axis": 1, "axes": [2]},
                    ("float32", "float16", "bfloat16"),
                ),
                Sample(((2, 3, 4, 5), (3,), (3,)), {"channel_axis": 1, "axes": [2, 3], "epsilon": 1e-2}),
            ),
            errors=(ErrorSample(((2, 4, 3), (3,), (4,)), {"axes": [2]}, "R0203", "sizes of data and gamma"),),
        )
    )


def _infer_batch_norm(ctx: Inference) -> Type:
    data = ctx.tensor(0)
    require_float(ctx, data)
    if data.ndim >= 0:
        axis = ctx.axis(int(ctx.attrs.axis), data.ndim)
        _check_factors(ctx, data, (axis,), ("gamma", "beta", "moving_mean", "moving_var"))
    return TupleType((data, ctx.tensor(3), ctx.tensor(4)))


def _np_batch_norm(attrs: Any, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    if not attrs.training:
        inverse = 1 / np.sqrt(var + attrs.epsilon)
        result = (x - _spread(mean, x.ndim, attrs.axis)) * _spread(inverse, x.ndim, attrs.axis)
        return _np_affine(attrs, result, gamma, beta, attrs.axis), mean, var
    axes = tuple(k for k in range(x.ndim) if k != attrs.axis % x.ndim)
    result = _np_affine(attrs, _np_normalise(x, axes, attrs.epsilon), gamma, beta, attrs.axis)
    keep = 1 - attrs.momentum
    return (
        result,
        mean * keep + x.mean(axis=axes) * attrs.momentum,
        var * keep + x.var(axis=axes) * attrs.momentum,
    )


def _batch_norm_sample(
    shape: tuple[int, ...], attrs: dict[str, Any], dtypes: tuple[str, ...] = ("float32",)
) -> Sample:
    size = (shape[attrs.get("axis", 1)],)

    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        values = [rng.standard_normal(s) for s in (shape, size, size, size)]
        return (*(v.astype(dtype) for v in values), rng.uniform(0.5, 2, size).astype(dtype))

    return Sample((shape, size, size, size, size), attrs, dtypes, make)


def _declare_batch_norm() -> None:
    factors = (_GAMMA, _BETA, Input("moving_mean", meaning="(c,)"), Input("moving_var", meaning="(c,)"))
    declare_op(
        OpDef(
            name="nn.batch_norm",
            inputs=(_DATA, *factors),
            attrs=(
                AttrSpec("axis", "int", meaning="the axis of channels"),
                _EPSILON,
                *_CENTER_SCALE,
                AttrSpec("momentum", "float", 0.1, "the share of the batch in new moving statistics"),
                AttrSpec(
                    "training", "bool", True, "normalise by the batch's statistics and move the moving ones"
                ),
            ),
            doc=(
                "Normalise each channel by moving statistics; gives the result, the moving mean and "
                "the moving variance."
            ),
            infer=_infer_batch_norm,
            reference=in_float64(_np_batch_norm),
            lower=lambda a, x, gamma, beta, mean, var: topi.batch_norm(
                x,
                gamma,
                beta,
                mean,
                var,
                int(a.axis),
                a.epsilon,
                bool(a.center),
                bool(a.scale),
                bool(a.training),
                a.momentum,
            ),
            layout=_LAYOUT,
            samples=(
                _batch_norm_sample(
                    (2, 3, 5), {"axis": 1, "training": False}, ("float32", "float16", "bfloat16")
                ),
                _batch_norm_sample(
                    (2, 3, 2, 4), {"axis": -1, "scale": False, "center": False, "training": False}
                ),
                _batch_norm_sample((4, 3, 5), {"axis": 1, "training": True, "momentum": 0.2}),
            ),
            errors=(
                ErrorSample(
                    ((2, 3), (3,), (3,), (3,), (2,)), {"axis": 1}, "R0203", "sizes of data and moving_var"
                ),
                ErrorSample(((2, 3), (3,), (3,), (3,), (3,)), {"axis": 3}, "R0205", "axis 3 is out of range"),
            ),
        )
    )


def _np_lrn(attrs: Any, x: Any) -> Any:
    axis, before = attrs.axis % x.ndim, (attrs.size - 1) // 2
    widths = [(0, 0)] * x.ndim
    widths[axis] = (before, attrs.size - 1 - before)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, widths), attrs.size, axis)
    return x / (attrs.bias + attrs.alpha / attrs.size * windows.sum(axis=-1)) ** attrs.beta


def _declare_others() -> None:
    declare_op(
        OpDef(
            name="nn.lrn",
            inputs=(_DATA,),
            attrs=(
                AttrSpec("size", "int", 5),
                AttrSpec("axis", "int", 1),
                AttrSpec("bias", "float", 2.0),
                AttrSpec("alpha", "float", 1e-5),
                AttrSpec("beta", "float", 0.75),
            ),
            doc="x / (bias + alpha / size * the sum of squares of `size` neighbours along an axis) ** beta.",
            infer=_infer_softmax,
            reference=in_float64(_np_lrn),
            lower=lambda a, x: topi.lrn(x, int(a.size), int(a.axis), a.alpha, a.beta, a.bias),
            layout=_LAYOUT,
            samples=(
                Sample(((2, 7, 3),), {"size": 3, "alpha": 0.1}),
                Sample(((2, 5),), {"size": 4, "alpha": 0.5, "bias": 1.0}),
                Sample(((2, 13),), {"size": 11, "alpha": 0.5, "beta": 0.5}),
                Sample(((1, 4, 5, 3),), {"size": 5, "alpha": 0.5, "beta": 0.6}),
            ),
            errors=(ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range"),),
        )
    )
    declare_op(
        OpDef(
            name="nn.l2_normalize",
            inputs=(_DATA,),
            attrs=(
                AttrSpec("eps", "float", 1e-12, "the least sum of squares"),
                AttrSpec("axis", "ints", None, "None means all"),
            ),
            doc="x / sqrt(max(sum(x ** 2), eps)) over axes.",
            infer=lambda ctx: _infer_over_axes(ctx),
            reference=in_float64(
                lambda a, x: (
                    x
                    / np.sqrt(
                        np.maximum(
                            np.sum(
                                x * x,
                                axis=tuple(a.axis) if isinstance(a.axis, tuple) else a.axis,
                                keepdims=True,
                            ),
                            a.eps,
                        )
                    )
                )
            ),
            lower=lambda a, x: topi.l2_normalize(x, a.eps, a.axis),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5),), {"axis": 1}),
                Sample(((2, 3, 4),), {"axis": [0, -1], "eps": 1e-3}),
                Sample(((3,),)),
            ),
            errors=(ErrorSample(((2, 3),), {"axis": 2}, "R0205", "axis 2 is out of range"),),
        )
    )
    declare_op(
        OpDef(
            name="nn.dropout",
            inputs=(_DATA,),
            attrs=(AttrSpec("rate", "float", 0.5, "the share dropped in training"),),
            doc="The data and a mask of ones: inference drops nothing.",
            infer=lambda ctx: TupleType((ctx.tensor(0), ctx.tensor(0))),
            reference=lambda attrs, x: (x, np.ones_like(x)),
            lower=_lower_dropout,
            layout=Without("elementwise: it works in any layout"),
            samples=(Sample(((3, 5),)), Sample(((0,),))),
        )
    )


def _infer_over_axes(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    require_float(ctx, ty)
    if ty.ndim >= 0:
        axes_of(ctx, ctx.attrs.axis, ty.ndim)
    return ty


def _lower_dropout(_attrs: Any, x: Any) -> Any:
    result = te.compute(x.shape, lambda *i: x[i], name="dropout")
    return result, te.compute(x.shape, lambda *i: constant(1, x.dtype), name="dropout_mask")


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_softmax()
    _declare_layer_norm()
    _declare_channel_norms()
    _declare_batch_norm()
    _declare_others()
