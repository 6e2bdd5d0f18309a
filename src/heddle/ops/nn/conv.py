"""Convolutions and transposed convolutions of 1, 2 and 3 spatial axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.arith.sizes import simplified
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.nn.window import checked_positions, layout_attrs, numpy_layout, per_axis, window_attrs
from heddle.ops.rules import computed_in, convolution_work, require_ndim, unknown_dims
from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType
from heddle.topi.nn import convolution as topi
from heddle.topi.nn.window import output_size, pads, permuted, spatial_letters, spread, transposed_size

_LAYOUT = Without("data_layout and kernel_layout are attributes")


def _rule(ndim: int, transposed: bool) -> Callable[[Inference], Type]:
    spatial = spatial_letters(ndim)

    def infer(ctx: Inference) -> Type:
        data, weight, attrs = ctx.tensor(0), ctx.tensor(1), ctx.attrs
        at = checked_positions(ctx, str(attrs.data_layout), "NC" + spatial)
        weight_at = checked_positions(ctx, str(attrs.kernel_layout), ("IO" if transposed else "OI") + spatial)
        out_layout = str(attrs.out_layout or attrs.data_layout)
        checked_positions(ctx, out_layout, "NC" + spatial)
        window = window_attrs(ctx, ndim)
        require_ndim(ctx, data, ndim + 2, "data")
        require_ndim(ctx, weight, ndim + 2, "weight")
        dtype = DataType(attrs.out_dtype) if attrs.out_dtype else ctx.same_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return unknown_dims(dtype, ndim + 2)
        x, w = [data.dims[axis] for axis in at], [weight.dims[axis] for axis in weight_at]
        channels = _check_channels(ctx, x[1], w, int(attrs.groups), transposed)
        if transposed:
            extra = _output_padding(ctx, ndim)
            sizes = [transposed_size(x[2 + k], w[2 + k], *per_axis(window, k), extra[k]) for k in range(ndim)]
        else:
            sizes = [output_size(x[2 + k], w[2 + k], *per_axis(window, k)) for k in range(ndim)]
        for k, size in enumerate(sizes):
            ctx.require_at_least(
                size, 1, f"the kernel of size {w[2 + k]} does not fit into the padded data of size {x[2 + k]}"
            )
        return TensorType(permuted((x[0], channels, *sizes), "NC" + spatial, out_layout), dtype)

    return infer


def _output_padding(ctx: Inference, ndim: int) -> tuple[int, ...]:
    extra = spread(ctx.attrs.output_padding, ndim)
    strides = spread(ctx.attrs.strides, ndim)
    if any(e < 0 or e >= max(s, 2) for e, s in zip(extra, strides, strict=True)):
        ctx.attr_error(
            f"output_padding {list(extra)} must be at least 0 and less than the strides {list(strides)}"
        )
    return extra


def _check_channels(
    ctx: Inference, channels: PrimExpr, weight: list[PrimExpr], groups: int, transposed: bool
) -> PrimExpr:
    """The number of output channels."""
    if groups < 1:
        ctx.attr_error(f"groups must be at least 1, got {groups}")
    for what, size in (("input channels", channels), ("output channels", weight[0])):
        if not (transposed and what == "output channels"):
            ctx.require_multiple(size, groups, f"{size} {what} cannot be split into {groups} groups")
    if transposed:
        ctx.require_equal(channels, weight[0], "input channels of data and weight")
        return simplified(weight[1] * groups)
    ctx.require_equal(
        simplified(channels // groups), weight[1], "input channels of a group of data and weight"
    )
    return weight[0]


def _reference(attrs: Any, data: Any, weight: Any) -> Any:
    """Windows by strided views, then a contraction a group, in float64."""
    ndim = data.ndim - 2
    spatial = spatial_letters(ndim)
    dtype = np.dtype(DataType(attrs.out_dtype).numpy()) if attrs.out_dtype else data.dtype
    wide = computed_in(dtype)
    x = numpy_layout(data, attrs.data_layout, "NC" + spatial).astype(wide)
    w = numpy_layout(weight, attrs.kernel_layout, "OI" + spatial).astype(wide)
    before, after = pads(attrs.padding, ndim)
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    result = correlate(x, w, spread(attrs.strides, ndim), spread(attrs.dilation, ndim), int(attrs.groups))
    return numpy_layout(result, "NC" + spatial, attrs.out_layout or attrs.data_layout).astype(dtype)


def correlate(x: Any, w: Any, strides: tuple[int, ...], dilation: tuple[int, ...], groups: int) -> Any:
    """Cross-correlation of (n, c, ...) with (o, c / groups, ...), one kernel tap at a time."""
    ndim = x.ndim - 2
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError("channels cannot be split into groups")
    sizes = [(x.shape[2 + k] - (w.shape[2 + k] - 1) * dilation[k] - 1) // strides[k] + 1 for k in range(ndim)]
    if min(sizes) < 1:
        raise ValueError("the kernel does not fit into the data")
    result = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    ins, outs = x.shape[1] // groups, w.shape[0] // groups
    for tap in itertools.product(*(range(size) for size in w.shape[2:])):
        at = tuple(
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, s, size in zip(tap, dilation, strides, sizes, strict=True)
        )
        window = x[(slice(None), slice(None), *at)]
        for g in range(groups):
            own, made = slice(g * ins, (g + 1) * ins), slice(g * outs, (g + 1) * outs)
            result[:, made] += np.einsum("nc...,oc->no...", window[:, own], w[(made, slice(None), *tap)])
    return result


def _reference_transposed(attrs: Any, data: Any, weight: Any) -> Any:
    """Every input element adds its multiple of the kernel to the output, which is then cut."""
    ndim = data.ndim - 2
    spatial = spatial_letters(ndim)
    dtype = np.dtype(DataType(attrs.out_dtype).numpy()) if attrs.out_dtype else data.dtype
    x = numpy_layout(data, attrs.data_layout, "NC" + spatial).astype(computed_in(dtype))
    w = numpy_layout(weight, attrs.kernel_layout, "IO" + spatial).astype(x.dtype)
    (before, after), groups = pads(attrs.padding, ndim), int(attrs.groups)
    strides, dilation, extra = (
        spread(v, ndim) for v in (attrs.strides, attrs.dilation, attrs.output_padding)
    )
    whole = [
        (x.shape[2 + k] - 1) * strides[k] + (w.shape[2 + k] - 1) * dilation[k] + 1 + extra[k]
        for k in range(ndim)
    ]
    if x.shape[1] % groups or any(s - b - a < 1 for s, b, a in zip(whole, before, after, strict=True)):
        raise ValueError("channels cannot be split into groups, or nothing is left of the result")
    result = np.zeros((x.shape[0], w.shape[1] * groups, *whole), x.dtype)
    ins, outs = x.shape[1] // groups, w.shape[1]
    for tap in itertools.product(*(range(size) for size in w.shape[2:])):
        at = tuple(
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, s, size in zip(tap, dilation, strides, x.shape[2:], strict=True)
        )
        for g in range(groups):
            own = slice(g * ins, (g + 1) * ins)
            part = np.einsum("nc...,co->no...", x[:, own], w[(own, slice(None), *tap)])
            result[(slice(None), slice(g * outs, (g + 1) * outs), *at)] += part
    cut = tuple(slice(b, size - a) for b, a, size in zip(before, after, whole, strict=True))
    return numpy_layout(
        result[(slice(None), slice(None), *cut)], "NC" + spatial, attrs.out_layout or attrs.data_layout
    ).astype(dtype)


def _attrs(ndim: int, transposed: bool) -> tuple[AttrSpec, ...]:
    spatial = spatial_letters(ndim)
    extra = (
        (AttrSpec("output_padding", "ints", (0,) * ndim, "added to the output's end"),) if transposed else ()
    )
    return (
        AttrSpec("strides", "ints", (1,) * ndim),
        AttrSpec("padding", "ints", (0,) * ndim, "before, or before and after"),
        *extra,
        AttrSpec("dilation", "ints", (1,) * ndim),
        AttrSpec("groups", "int", 1),
        *layout_attrs("data_layout", "NC" + spatial),
        *layout_attrs("kernel_layout", ("IO" if transposed else "OI") + spatial),
        AttrSpec("out_layout", "str", None, "default: data_layout"),
        AttrSpec("out_dtype", "dtype", None, "default: the data's"),
    )


_SAMPLES: dict[int, tuple[tuple[Any, dict[str, Any]], ...]] = {
    1: (
        (((2, 3, 7), (4, 3, 3)), {"padding": 1}),
        (((1, 4, 8), (6, 2, 2)), {"groups": 2, "strides": 2}),
        (((1, 3, 9), (3, 1, 3)), {"groups": 3, "dilation": 2, "padding": [2, 1]}),
        (((1, 1, 3), (1, 1, 3)), {}),
    ),
    2: (
        (((1, 3, 5, 7), (4, 3, 3, 3)), {"padding": [1, 1]}),
        (((2, 3, 5, 4), (2, 3, 1, 1)), {}),
        (((1, 4, 6, 5), (4, 1, 3, 3)), {"groups": 4, "strides": [2, 1], "padding": 1}),
        (((1, 4, 5, 5), (6, 2, 2, 3)), {"groups": 2, "dilation": [2, 1], "padding": [1, 0, 2, 1]}),
        (((1, 5, 4, 3), (3, 3, 3, 2)), {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": 1}),
        (((1, 5, 4, 3), (2, 3, 2, 2)), {"data_layout": "NHWC", "out_layout": "NCHW"}),
        (((0, 2, 3, 3), (2, 2, 3, 3)), {}),
    ),
    3: (
        (((1, 2, 3, 4, 3), (2, 2, 2, 3, 1)), {"padding": [1, 1, 0]}),
        (((1, 2, 4, 4, 3), (2, 1, 2, 2, 2)), {"groups": 2, "strides": [2, 1, 1]}),
    ),
}
_TRANSPOSED_SAMPLES: dict[int, tuple[tuple[Any, dict[str, Any]], ...]] = {
    1: (
        (((2, 3, 5), (3, 2, 3)), {}),
        (((1, 4, 4), (4, 3, 3)), {"groups": 2, "strides": 2, "padding": 1, "output_padding": 1}),
        (((1, 2, 5), (2, 2, 1)), {"padding": 1}),
        (((1, 2, 4), (2, 1, 3)), {"dilation": 2, "strides": 3, "padding": [1, 2]}),
    ),
    2: (
        (((1, 2, 3, 4), (2, 3, 3, 2)), {"strides": [2, 2], "padding": [1, 0], "output_padding": [1, 0]}),
        (((1, 4, 3, 3), (4, 1, 2, 2)), {"groups": 4, "strides": 2}),
        (((1, 2, 3, 4), (2, 3, 1, 3)), {"padding": [0, 1, 0, 2]}),
        (((1, 3, 3, 2), (2, 2, 3, 2)), {"data_layout": "NHWC", "kernel_layout": "HWOI", "strides": 2}),
    ),
    3: ((((1, 2, 2, 3, 2), (2, 2, 2, 2, 3)), {"strides": [1, 2, 1], "padding": [0, 1, 0]}),),
}


def _errors(ndim: int, transposed: bool) -> tuple[ErrorSample, ...]:
    tail = (5,) * ndim
    small = (3,) * ndim
    name = "input channels"
    extra = (
        (ErrorSample(((1, 3, *tail), (3, 2, *small)), {"output_padding": 3}, "R0205", "output_padding"),)
        if transposed
        else (
            ErrorSample(((1, 3, *tail), (2, 3, *(8,) * ndim)), {}, "R0203", "does not fit"),
            ErrorSample(
                ((1, 3, *tail), (3, 1, *small)), {"groups": 2}, "R0203", "cannot be split into 2 groups"
            ),
        )
    )
    return (
        ErrorSample(((1, 3, *tail), (4, 5, *small)), {}, "R0203", name),
        ErrorSample(((1, 3, *tail), (3, 3, *small)), {"strides": [1] * (ndim + 1)}, "R0205", "strides"),
        ErrorSample(
            ((1, 3, *tail), (3, 3, *small)),
            {"data_layout": "NC" + spatial_letters(ndim) + "4c"},
            "R0205",
            "layout",
        ),
        ErrorSample(((3, *tail), (3, 3, *small)), {}, "R0203", f"data must have {ndim + 2} dimensions"),
        *extra,
    )


def _declare(ndim: int, transposed: bool) -> None:
    def lower(attrs: Any, data: Any, weight: Any) -> Any:
        layouts = (str(attrs.data_layout), str(attrs.kernel_layout), attrs.out_layout, attrs.out_dtype)
        if transposed:
            return topi.conv_transpose(
                data,
                weight,
                attrs.strides,
                attrs.padding,
                attrs.output_padding,
                attrs.dilation,
                int(attrs.groups),
                *layouts,
            )
        return topi.conv(
            data, weight, attrs.strides, attrs.padding, attrs.dilation, int(attrs.groups), *layouts
        )

    kernel = (
        "(in channels, out channels of a group, kernel...)"
        if transposed
        else "(out channels, in channels of a group, kernel...)"
    )
    rows = (_TRANSPOSED_SAMPLES if transposed else _SAMPLES)[ndim]
    declare_op(
        OpDef(
            name=f"nn.conv{ndim}d_transpose" if transposed else f"nn.conv{ndim}d",
            inputs=(
                Input("data", meaning="(n, channels, spatial...) in data_layout"),
                Input("weight", meaning=f"{kernel} in kernel_layout"),
            ),
            attrs=_attrs(ndim, transposed),
            doc=(
                f"The transpose (gradient) of a convolution over {ndim} spatial axes."
                if transposed
                else f"Cross-correlation over {ndim} spatial axes; `groups` splits the channels apart."
            ),
            infer=_rule(ndim, transposed),
            reference=_reference_transposed if transposed else _reference,
            lower=lower,
            work=convolution_work,
            layout=_LAYOUT,
            samples=tuple(
                Sample(shapes, attrs, ("float32",) if k or ndim == 3 else ("float32", "float16", "bfloat16"))
                for k, (shapes, attrs) in enumerate(rows)
            ),
            errors=_errors(ndim, transposed),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    for ndim in (1, 2, 3):
        _declare(ndim, False)
        _declare(ndim, True)
