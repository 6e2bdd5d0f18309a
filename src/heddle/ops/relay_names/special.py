"""Relay's rarer operators: expressions of several records, with tables where sizes are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0203, R0205
from heddle.graph.op_builder import build_call_in, call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import (
    DATA,
    Given,
    Rows,
    alias,
    as_is,
    attr,
    axis_from,
    dims_of,
    dtype_of,
    kernel_window,
    rank,
    whole,
)
from heddle.support.diagnostics import IRTypeError, UsageError


def _sizes(tensor: Any, what: str) -> list[int]:
    """All sizes of a tensor. Raises: IRTypeError R0203 for free ones."""
    sizes = [whole(dim) for dim in dims_of(tensor)]
    if None in sizes:
        raise IRTypeError(R0203, f"{what} needs sizes that are known")
    return [size for size in sizes if size is not None]


# ---- buffers and diagonals


def _fifo(given: Given) -> Any:
    """The last elements of buffer and data, as many as the buffer has."""
    buffer, data = given["buffer"], given["data"]
    axis = axis_from(int(given["axis"]), rank(buffer))
    joined = call_op("concat", [buffer, data], axis=axis)
    length, more = dims_of(buffer)[axis], dims_of(data)[axis]
    return call_op("strided_slice", joined, [axis], [more], [more + length], [1])


def _with_diagonals(given: Given) -> Any:
    """The data with diagonals k1 to k2 of its matrices replaced; the first row of `diagonal` is k2."""
    data, diagonal = given["data"], given["diagonal"]
    first, last = int(given["k1"]), int(given["k2"])
    rows, columns = _sizes(data, "matrix_set_diag")[-2:]
    if first > last or (not (-rows < first and last < columns) and (first, last) != (0, 0)):
        raise IRTypeError(R0205, f"matrix_set_diag: no diagonals {first} to {last} in {rows} x {columns}")
    row, column = np.indices((rows, columns))
    place = column - row
    is_inside = (place >= first) & (place <= last)
    longest = max((_length(rows, columns, k) for k in range(first, last + 1)), default=0)
    is_right = np.where(
        place >= 0, bool(given["super_diag_right_align"]), bool(given["sub_diag_right_align"])
    )
    lengths = np.minimum(rows + np.minimum(place, 0), columns - np.maximum(place, 0))
    step = np.minimum(row, column) + np.where(is_right, longest - lengths, 0)
    source = np.where(is_inside, (last - place) * longest + step, 0)
    outer = dims_of(data)[:-2]
    flat = call_op("reshape", diagonal, [*outer, (last - first + 1) * longest])
    spread = call_op("take", flat, const(source.reshape(-1), "int64"), axis=len(outer))
    return call_op("where", const(is_inside, "bool"), call_op("reshape", spread, dims_of(data)), data)


def _length(rows: int, columns: int, k: int) -> int:
    return min(rows + min(k, 0), columns - max(k, 0))


def _diagonals() -> Rows:
    yield as_is(
        "nn.fifo_buffer", (Input("data"), Input("buffer")), (attr("axis", "int"),), _fifo, dtype_of("data")
    )
    attrs = (
        attr("k1", "int", 0),
        attr("k2", "int", 0),
        attr("super_diag_right_align", "bool", True),
        attr("sub_diag_right_align", "bool", False),
    )
    inputs = (Input("data"), Input("diagonal"))
    yield as_is(
        "matrix_set_diag", inputs, attrs, _with_diagonals, dtype_of("data"), function=_matrix_set_diag
    )


def _matrix_set_diag(data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Given:
    first, last = k if isinstance(k, (tuple, list)) else (k, k)
    above, _, below = align.partition("_")
    if {above, below} - {"LEFT", "RIGHT"}:
        raise UsageError(R0205, f"matrix_set_diag: align is like RIGHT_LEFT, got {align!r}")
    sides = {"super_diag_right_align": above == "RIGHT", "sub_diag_right_align": below == "RIGHT"}
    return {"data": data, "diagonal": diagonal, "k1": first, "k2": last, **sides}


# ---- images


def _priors(given: Given) -> Any:
    """Boxes around each pixel, of sizes with the first ratio and of ratios with the first size."""
    height, width = _sizes(given["data"], "vision.multibox_prior")[2:4]
    sizes, ratios = ([float(v) for v in given[name]] for name in ("sizes", "ratios"))
    steps = [1 / n if step <= 0 else step for step, n in zip(given["steps"], (height, width), strict=True)]
    y, x = (
        (np.arange(n) + float(offset)) * step
        for n, offset, step in zip((height, width), given["offsets"], steps, strict=True)
    )
    shapes = [(size, 1.0) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    halves = [(size * height / width * r**0.5 / 2, size / r**0.5 / 2) for size, r in shapes]
    center_y, center_x = np.meshgrid(y, x, indexing="ij")
    boxes = [np.stack([center_x - w, center_y - h, center_x + w, center_y + h], -1) for w, h in halves]
    found = np.stack(boxes, 2).reshape(1, -1, 4)
    dtype = dtype_of("data")(given)
    return const((np.clip(found, 0, 1) if given["clip"] else found).astype(dtype), dtype)


def _dilated(given: Given) -> Any:
    """The greatest of data and weight over windows, channel by channel."""
    data, weight, own = given["data"], given["weight"], str(given["data_layout"])
    if own not in ("NCHW", "NHWC") or str(given["kernel_layout"]) != own[1:].replace("C", "I"):
        raise IRTypeError(R0205, f"image.dilation2d: layouts {own} and {given['kernel_layout']}")
    spatial = [own.index("H"), own.index("W")]
    padding = [int(p) for p in given["padding"]]
    top, left, bottom, right = padding * (4 // len(padding)) if len(padding) != 4 else padding
    widths = [0] * 8
    for axis, (low, high) in zip(spatial, ((top, bottom), (left, right)), strict=True):
        widths[2 * axis : 2 * axis + 2] = low, high
    padded = call_op("nn.pad", data, pad_width=widths, pad_value=float("-inf"))
    sizes = [_sizes(weight, "image.dilation2d")[axis - 1] for axis in spatial]
    strides, dilations = ([int(v) for v in given[name]] for name in ("strides", "dilations"))
    before = [
        dims_of(data)[axis] + low for axis, low in zip(spatial, (top + bottom, left + right), strict=True)
    ]
    counts = [
        (n - (size - 1) * dilation - 1) // stride + 1
        for n, size, dilation, stride in zip(before, sizes, dilations, strides, strict=True)
    ]
    found = None
    for place in np.ndindex(*sizes):
        begin = [k * dilation for k, dilation in zip(place, dilations, strict=True)]
        end = [b + (count - 1) * s + 1 for b, count, s in zip(begin, counts, strides, strict=True)]
        part = call_op("strided_slice", padded, spatial, begin, end, strides)
        one = call_op(
            "strided_slice", weight, [a - 1 for a in spatial], list(place), [k + 1 for k in place], [1, 1]
        )
        value = call_op("add", part, one)
        found = value if found is None else call_op("maximum", found, value)
    if found is None:
        raise IRTypeError(R0203, "image.dilation2d: the weight has no elements")
    return found


def _images() -> Rows:
    yield as_is(
        "vision.multibox_prior",
        DATA,
        (
            attr("sizes", "floats", (1.0,)),
            attr("ratios", "floats", (1.0,)),
            attr("steps", "floats", (-1.0, -1.0)),
            attr("offsets", "floats", (0.5, 0.5)),
            attr("clip", "bool", False),
        ),
        _priors,
        dtype_of("data"),
    )
    pair = (1, 1)
    yield as_is(
        "image.dilation2d",
        (Input("data"), Input("weight")),
        (
            attr("strides", "list", pair),
            attr("padding", "list", (0, 0)),
            attr("dilations", "list", pair),
            attr("data_layout", "str", "NCHW"),
            attr("kernel_layout", "str", "IHW"),
            attr("out_dtype", "dtype", ""),
        ),
        _dilated,
        lambda given: str(given["out_dtype"] or dtype_of("data")(given)),
    )


# ---- products


def _transformed(tensor: Any, source: str, target: str) -> Any:
    if source == target:
        return tensor
    return build_call_in("relay", "layout_transform", (tensor,), {"src_layout": source, "dst_layout": target})


def _dense_pack(given: Given) -> Any:
    weight = _transformed(given["weight"], str(given["weight_layout"]), "NC")
    attrs = {"units": given["units"], "out_dtype": given["out_dtype"]}
    return build_call_in("relay", "nn.dense", (given["data"], weight), attrs)


_CONV = ("strides", "padding", "dilation", "groups", "channels", "kernel_size")


def _conv_in_blocks(given: Given) -> Any:
    """The convolution of the plain layouts, its result in blocks as the data, or as `out_layout` says."""
    data_layout, out = str(given["data_layout"]), str(given["out_layout"] or given["data_layout"])
    data = _transformed(given["data"], data_layout, "NCHW")
    weight = _transformed(given["kernel"], str(given["kernel_layout"]), "OIHW")
    attrs = {name: given[name] for name in _CONV}
    made = build_call_in("relay", "nn.conv2d", (data, weight), {**attrs, "out_dtype": given["out_dtype"]})
    return _transformed(made, "NCHW", out)


def _products() -> Rows:
    out = attr("out_dtype", "dtype", "")
    yield as_is(
        "nn.contrib_dense_pack",
        (Input("data"), Input("weight")),
        (attr("weight_layout", "str", "NC"), attr("units", "int", None), out),
        _dense_pack,
        lambda given: str(given["out_dtype"] or dtype_of("data")(given)),
    )
    for name in ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"):
        yield as_is(
            name,
            (Input("data"), Input("kernel")),
            (
                *kernel_window(2),
                attr("data_layout", "str", "NCHW8c"),
                attr("kernel_layout", "str", "OIHW"),
                attr("out_layout", "str", ""),
                out,
            ),
            _conv_in_blocks,
            lambda given: str(given["out_dtype"] or dtype_of("data")(given)),
        )


# ---- numbers


def _fixed_per_axis(given: Given) -> Any:
    """(data << left) * multiplier >> 31 + right, halves up, each along axes of the data."""
    data = given["data"]
    wide = call_op("astype", data, dtype="int64")

    def factor(name: str) -> Any:
        value = call_op("astype", given[name], dtype="int64")
        if not rank(value):
            return value
        axes = [axis_from(int(axis), rank(data)) for axis in given["axes"]]
        dims = dims_of(data)
        return call_op("reshape", value, [dims[k] if k in axes else 1 for k in range(len(dims))])

    if given["is_lshift_required"]:
        wide = call_op("left_shift", wide, factor("left_shift"))
    product = call_op("multiply", wide, factor("fp_multiplier"))
    shift: Any = const(31, "int64")
    if given["is_rshift_required"]:
        shift = call_op("add", factor("right_shift"), shift)
    half = call_op("left_shift", const(1, "int64"), call_op("subtract", shift, const(1, "int64")))
    return call_op("right_shift", call_op("add", product, half), shift)


def _stft(given: Given) -> Any:
    """Spectra of windows of the data: (batch, frequencies, windows, 2)."""
    data, window, length = given["data"], given["window"], int(given["n_fft"])
    count = _sizes(data, "stft")[-1]
    hop = int(given["hop_length"] or length // 4)
    size = int(given["win_length"] or length)
    if not 0 < length <= count or hop < 1 or not 0 < size <= length:
        raise IRTypeError(
            R0205, f"stft: n_fft {length}, hop_length {hop}, win_length {size} for {count} values"
        )
    places = np.arange(0, count - length + 1, hop)[:, None] + np.arange(length)
    frames = call_op("take", data, const(places.reshape(-1), "int64"), axis=1)
    rows = dims_of(data)[0]
    frames = call_op("reshape", frames, [rows, *places.shape])
    dtype = dtype_of("data")(given)
    if window is None:
        window = const(np.ones(size, dtype), dtype)
    left = (length - size) // 2
    window = call_op("nn.pad", window, pad_width=[left, length - size - left])
    parts = call_op("reshape", call_op("multiply", frames, window), [rows * len(places), length, 1])
    found = call_op("signal.fft", parts, [length], onesided=bool(given["onesided"]))
    kept = length // 2 + 1 if given["onesided"] else length
    found = call_op("reshape", found, [rows, len(places), kept, 2])
    found = call_op("permute_dims", found, axes=[0, 2, 1, 3])
    return call_op("divide", found, const(length**0.5, dtype)) if given["normalized"] else found


def _dft(given: Given) -> Any:
    """The transform of the last axis: both parts behind each other along the first."""
    real, imaginary = given["re_data"], given["im_data"]
    dims = dims_of(real)
    if not dims:
        raise IRTypeError(R0203, "dft needs an axis")
    rows = call_op("stack", [real, imaginary], axis=len(dims))
    count: Any = 1
    for dim in dims[:-1]:
        count = dim * count
    rows = call_op("reshape", rows, [count, dims[-1], 2])
    found = call_op("signal.fft", rows, [dims[-1]], inverse=bool(given["inverse"]))
    parts = call_op("permute_dims", found, axes=[2, 0, 1])
    return call_op("reshape", parts, [dims[0] * 2, *dims[1:]])


def _numbers() -> Rows:
    yield (
        "split",
        alias(
            "dft",
            (Input("re_data"), Input("im_data")),
            (attr("inverse", "bool", False),),
            results=lambda call: 2,
            x=_dft,
            indices_or_sections=lambda given: 2,
            axis=lambda given: 0,
        ),
    )
    yield as_is(
        "fixed_point_multiply_per_axis",
        tuple(Input(name) for name in ("data", "fp_multiplier", "left_shift", "right_shift")),
        (
            attr("is_lshift_required", "bool", False),
            attr("is_rshift_required", "bool", False),
            attr("axes", "list"),
        ),
        _fixed_per_axis,
        dtype_of("data"),
    )
    yield as_is(
        "stft",
        (Input("data"), Input("window", optional=True)),
        (
            attr("n_fft", "int"),
            attr("hop_length", "int", None),
            attr("win_length", "int", None),
            attr("normalized", "bool", False),
            attr("onesided", "bool", True),
        ),
        _stft,
        dtype_of("data"),
        lambda data, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=True: {
            "data": data,
            "window": window,
            "n_fft": n_fft,
            "hop_length": hop_length,
            "win_length": win_length,
            "normalized": normalized,
            "onesided": onesided,
        },
    )
    yield as_is(
        "vm.shape_of",
        (Input("tensor"),),
        (attr("dtype", "dtype", "int64"),),
        lambda given: build_call_in("relay", "shape_of", (given["tensor"],), {"dtype": str(given["dtype"])}),
        lambda given: str(given["dtype"]),
    )
    yield as_is(
        "vm.reshape_tensor",
        (Input("data"), Input("shape")),
        (attr("newshape", "list"),),
        lambda given: call_op("reshape", given["data"], [int(size) for size in given["newshape"]]),
        dtype_of("data"),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _diagonals()
    yield from _images()
    yield from _products()
    yield from _numbers()
