"""Convolutions and transposed convolutions of 1, 2 or 3 spatial axes.

A convolution is a `pad` stage, where there is padding, and one reduction named conv1d, conv2d or conv3d with
the axes
(n, oc, spatial...; ic, kernel...) for the layout NCHW. A transposed one spreads the data out first (stage
`dilate`), so that the same reduction over the mirrored kernel follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, simplified
from heddle.prim.nodes import PrimExpr, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, if_then_else
from heddle.runtime.dtype import DataType
from heddle.topi.nn.window import output_size, pads, permuted, positions, spatial_letters, spread
from heddle.topi.reduce import accumulator, convert


def conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Cross-correlation with 1, 2 or 3 spatial axes. `groups` divides the channels into independent
    groups.
    """
    ndim = data.ndim - 2
    spatial = spatial_letters(ndim)
    at, weight_at = positions(data_layout, "NC" + spatial), positions(kernel_layout, "OI" + spatial)
    before, after = pads(padding, ndim)
    dilation, strides = spread(dilation, ndim), spread(strides, ndim)
    sizes = [
        output_size(
            data.shape[at[2 + k]],
            weight.shape[weight_at[2 + k]],
            strides[k],
            before[k],
            after[k],
            dilation[k],
        )
        for k in range(ndim)
    ]
    is_padded, out_dtype = any((*before, *after)), out_dtype or data.dtype
    if groups == 1 or is_padded:
        data = _widened(data)
    padded = pad_axes(data, at[2:], before, after) if is_padded else data
    out_layout = out_layout or data_layout
    channels = weight.shape[weight_at[0]]
    shape = permuted((data.shape[at[0]], channels, *sizes), "NC" + spatial, out_layout)
    return _correlate(
        padded,
        weight,
        shape,
        (strides, dilation),
        groups,
        (at, weight_at, positions(out_layout, "NC" + spatial)),
        False,
        out_dtype,
    )


def _widened(data: te.Tensor) -> te.Tensor:
    """Convert float16 images to float32 once, instead of for every product."""
    if data.dtype != "float16":
        return data
    result: te.Tensor = te.compute(data.shape, lambda *i: cast("float32", data[i]), name="widened")
    return result


def _correlate(
    data: te.Tensor,
    weight: te.Tensor,
    shape: Sequence[PrimExpr],
    steps: tuple[Sequence[int], Sequence[int]],
    groups: int,
    places: tuple[tuple[int, ...], ...],
    transposed: bool,
    out_dtype: str | None,
) -> te.Tensor:
    """The reduction. `transposed` kernels are (in, out of one group) and read from their ends."""
    at, weight_at, out_at = places
    ndim, (strides, dilation) = data.ndim - 2, steps
    dtype = DataType(out_dtype or data.dtype)
    wide = accumulator(dtype)
    kernel = [weight.shape[axis] for axis in weight_at[2:]]
    in_channels = simplified(data.shape[at[1]] // groups)
    out_channels = simplified(shape[out_at[1]] // groups)
    ic = te.reduce_axis((0, in_channels), name="ic")
    taps = [
        te.reduce_axis((0, size), name=f"k{letter.lower()}")
        for size, letter in zip(kernel, spatial_letters(ndim), strict=True)
    ]

    def element(*index: PrimExpr) -> Any:
        n, oc = index[out_at[0]], index[out_at[1]]
        channel: PrimExpr = ic.var if groups == 1 else (oc // out_channels) * in_channels + ic.var
        window = [index[out_at[2 + k]] * strides[k] + taps[k].var * dilation[k] for k in range(ndim)]
        source = data[_placed((n, channel, *window), at)]
        if transposed:
            mirrored = [size - 1 - tap.var for size, tap in zip(kernel, taps, strict=True)]
            own = oc if groups == 1 else oc % out_channels
            factor = weight[_placed((channel, own, *mirrored), weight_at)]
        else:
            factor = weight[_placed((oc, ic.var, *(tap.var for tap in taps)), weight_at)]
        return te.sum(cast(wide, source) * cast(wide, factor), axis=[ic, *taps])

    names = permuted(("n", "oc", *(f"o{s.lower()}" for s in spatial_letters(ndim))), *_letters(ndim, out_at))
    suffix = "_transpose" if transposed else ""
    result: te.Tensor = te.compute(shape, element, name=f"conv{ndim}d{suffix}", varargs_names=names)
    return convert(result, dtype)


def _letters(ndim: int, out_at: tuple[int, ...]) -> tuple[str, str]:
    letters = "NC" + spatial_letters(ndim)
    return letters, "".join(letters[out_at.index(k)] for k in range(ndim + 2))


def _placed(index: Sequence[PrimExpr], at: Sequence[int]) -> tuple[PrimExpr, ...]:
    """An index given in canonical order, in the order of a layout."""
    made: list[PrimExpr] = list(index)
    for position, axis in zip(index, at, strict=True):
        made[axis] = position
    return tuple(made)


def pad_axes(
    x: te.Tensor,
    axes: Sequence[int],
    before: Sequence[Any],
    after: Sequence[Any],
    value: PrimExpr | None = None,
) -> te.Tensor:
    """Pad some axes with `value` (default 0): `before` and `after` elements."""
    low, high = dict(zip(axes, before, strict=True)), dict(zip(axes, after, strict=True))
    fill = constant(0, x.dtype) if value is None else value
    shape = [simplified(dim + (low.get(k, 0) + high.get(k, 0))) for k, dim in enumerate(x.shape)]

    def element(*index: PrimExpr) -> PrimExpr:
        inside = []
        for k in axes:
            if not is_const_int(as_dim(low[k]), 0):
                inside.append(index[k] >= low[k])
            if not is_const_int(as_dim(high[k]), 0):
                inside.append(index[k] < x.shape[k] + low[k])
        source = x[tuple(position - low.get(k, 0) for k, position in enumerate(index))]
        return if_then_else(all_of(*inside), source, fill)

    result: te.Tensor = te.compute(shape, element, name="pad")
    return result


def conv_transpose(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Transposed convolution: the gradient of a convolution with respect to its data. The kernel layout is
    (in, out of one group, spatial...)."""
    ndim = data.ndim - 2
    spatial = spatial_letters(ndim)
    at, weight_at = positions(data_layout, "NC" + spatial), positions(kernel_layout, "IO" + spatial)
    before, after = pads(padding, ndim)
    extra, dilation, strides = (spread(value, ndim) for value in (output_padding, dilation, strides))
    reach = [(weight.shape[weight_at[2 + k]] - 1) * dilation[k] for k in range(ndim)]
    low = [simplified(reach[k] - before[k]) for k in range(ndim)]
    high = [simplified(reach[k] - after[k] + extra[k]) for k in range(ndim)]
    spread_out = dilate_and_pad(data, at[2:], strides, low, high)
    sizes = [simplified(spread_out.shape[at[2 + k]] - reach[k]) for k in range(ndim)]
    out_layout = out_layout or data_layout
    channels = simplified(weight.shape[weight_at[1]] * groups)
    shape = permuted((data.shape[at[0]], channels, *sizes), "NC" + spatial, out_layout)
    places = (at, weight_at, positions(out_layout, "NC" + spatial))
    return _correlate(spread_out, weight, shape, ((1,) * ndim, dilation), groups, places, True, out_dtype)


def dilate_and_pad(
    x: te.Tensor, axes: Sequence[int], strides: Sequence[int], low: Sequence[Any], high: Sequence[Any]
) -> te.Tensor:
    """Insert zeros between elements, so that they are `strides` apart along the axes, and pad the ends with
    `low` and `high` zeros (negative numbers remove elements)."""
    before = {k: as_dim(value) for k, value in zip(axes, low, strict=True)}
    after = {k: as_dim(value) for k, value in zip(axes, high, strict=True)}
    step = dict(zip(axes, strides, strict=True))
    shape = [
        simplified((dim - 1) * step[k] + 1 + before[k] + after[k]) if k in step else dim
        for k, dim in enumerate(x.shape)
    ]

    def element(*index: PrimExpr) -> PrimExpr:
        source, inside = list(index), []
        for k in axes:
            distance = index[k] - before[k]
            if not is_const_int(before[k], 0):
                inside.append(distance >= 0)
            inside.append(distance < (x.shape[k] - 1) * step[k] + 1)
            if step[k] > 1:
                inside.append((distance % step[k]).equal(0))
            source[k] = distance // step[k]
        return if_then_else(all_of(*inside), x[tuple(source)], constant(0, x.dtype))

    result: te.Tensor = te.compute(shape, element, name="dilate")
    return result


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of 2 spatial axes."""
    return conv(data, weight, strides, padding, dilation, 1, data_layout, kernel_layout, None, out_dtype)


def depthwise_conv2d_nchw(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution: every channel has its own kernels. `weight` is (channels, multiplier, kh,
    kw).
    """
    group_count = data.shape[1]
    ndim, kernel = 2, weight.shape[2:]
    before, after = pads(padding, ndim)
    steps, spaces = spread(strides, ndim), spread(dilation, ndim)
    sizes = [
        output_size(data.shape[2 + k], kernel[k], steps[k], before[k], after[k], spaces[k])
        for k in range(ndim)
    ]
    padded = pad_axes(data, (2, 3), before, after) if any((*before, *after)) else data
    dtype = DataType(out_dtype or data.dtype)
    wide = accumulator(dtype)
    kh, kw = te.reduce_axis((0, kernel[0]), name="kh"), te.reduce_axis((0, kernel[1]), name="kw")
    multiplier = weight.shape[1]

    def element(n: PrimExpr, oc: PrimExpr, oh: PrimExpr, ow: PrimExpr) -> Any:
        source = padded[
            n, oc // multiplier, oh * steps[0] + kh.var * spaces[0], ow * steps[1] + kw.var * spaces[1]
        ]
        factor = weight[oc // multiplier, oc % multiplier, kh.var, kw.var]
        return te.sum(cast(wide, source) * cast(wide, factor), axis=[kh, kw])

    shape = (data.shape[0], simplified(group_count * multiplier), *sizes)
    result: te.Tensor = te.compute(shape, element, name="depthwise_conv2d")
    return convert(result, dtype)
