"""Relay's operators on pixels and their neighbours: correlation, crops, gradients of weights, bits."""

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
    attr,
    check_constant,
    dims_of,
    kernel_window,
    known_places,
    size_vector,
    tensor_type,
    whole,
    whole_within,
)
from heddle.support.diagnostics import IRTypeError

_INT = "int64"


def known_sizes(tensor: Any, what: str) -> list[int]:
    """All sizes but the first. Raises: IRTypeError R0203 for free ones."""
    sizes = [whole(dim) for dim in dims_of(tensor)[1:]]
    if None in sizes:
        raise IRTypeError(R0203, f"{what} needs sizes that are known, but for the batch")
    return [size for size in sizes if size is not None]


def _dtype(tensor: Any) -> str:
    return str(tensor_type(tensor).dtype)


def pair(value: Any) -> list[int]:
    """One number for both axes, or two."""
    items = [int(item) for item in (value if isinstance(value, (tuple, list)) else [value])]
    return items * 2 if len(items) == 1 else items


def sides(padding: Any) -> tuple[int, int, int, int]:
    """Top, left, bottom, right. Raises: IRTypeError R0205 for another number of widths."""
    items = [int(item) for item in (padding if isinstance(padding, (tuple, list)) else [padding])]
    top, left, bottom, right = items * (4 // len(items)) if len(items) in (1, 2, 4) else (0, 0, 0, -1)
    if right < 0:
        raise IRTypeError(R0205, f"padding is of 1, 2 or 4 numbers, got {padding}")
    return top, left, bottom, right


def laid_out(tensor: Any, source: str, target: str) -> Any:
    """A tensor that is in one layout, in another."""
    if source == target:
        return tensor
    return build_call_in("relay", "layout_transform", (tensor,), {"src_layout": source, "dst_layout": target})


# ---- windows


def _correlated(given: Given) -> Any:
    """Windows of the first image times those of the second around: (n, displacements, height, width)."""
    one, two = (laid_out(given[name], str(given["layout"]), "NCHW") for name in ("data1", "data2"))
    size, reach, step, move = (
        int(given[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")
    )
    _, height, width = known_sizes(one, "nn.correlation")
    if size % 2 == 0:
        raise IRTypeError(R0205, f"nn.correlation: kernel_size is odd, got {size}")
    top, left, bottom, right = sides(given["padding"])
    pads = [0, 0, 0, 0, top, bottom, left, right]
    one, two = (call_op("nn.pad", image, pad_width=pads) for image in (one, two))
    border = reach + (size - 1) // 2
    counts = [-(-(n - 2 * border) // step) for n in (height + top + bottom, width + left + right)]
    if min(counts) < 1:
        raise IRTypeError(
            R0203, f"nn.correlation: an image of {height} x {width} has no place for the windows"
        )
    radius = reach // move
    moves = (known_places(2 * radius + 1, "nn.correlation") - radius) * move
    rows, columns = (reach + known_places((count - 1) * step + size, "nn.correlation") for count in counts)
    check_constant(len(moves) * max(len(rows), len(columns)), "nn.correlation")
    across = len(moves)
    first = call_op("take", one, const(rows, _INT), axis=2)
    first = call_op("take", first, const(columns, _INT), axis=3)
    first = call_op("expand_dims", first, axis=[2, 4])
    second = call_op("take", two, const((moves[:, None] + rows).reshape(-1), _INT), axis=2)
    second = call_op("take", second, const((moves[:, None] + columns).reshape(-1), _INT), axis=3)
    batch, channels = dims_of(one)[:2]
    second = call_op("reshape", second, [batch, channels, across, len(rows), across, len(columns)])
    if given["is_multiply"]:
        found = call_op("multiply", first, second)
    else:
        found = call_op("abs", call_op("subtract", first, second))
    found = call_op("permute_dims", call_op("mean", found, axis=[1]), axes=[0, 1, 3, 2, 4])
    found = call_op("reshape", found, [batch, across * across, len(rows), len(columns)])
    made = call_op("nn.avg_pool2d", found, pool_size=[size, size], strides=[step, step])
    return laid_out(made, "NCHW", str(given["layout"]))


def _weight_gradient(given: Given) -> Any:
    """Data and gradient with batch and channels exchanged, convolved; strides and dilations change places."""
    grad = laid_out(given["grad"], str(given["grad_layout"] or "NCHW"), "NCHW")
    data = laid_out(given["data"], str(given["data_layout"]), "NCHW")
    groups, strides, dilation = int(given["groups"]), pair(given["strides"]), pair(given["dilation"])
    batch, channels, height, width = dims_of(data)
    outputs, kernel = dims_of(grad)[1], given["kernel_size"]
    if kernel is None:
        raise IRTypeError(R0205, "nn.conv2d_backward_weight needs kernel_size")
    own = channels // groups
    data = call_op("reshape", data, [batch, groups, own, height, width])
    data = call_op("permute_dims", data, axes=[2, 1, 0, 3, 4])
    data = call_op("reshape", data, [own, groups * batch, height, width])
    turned = call_op("permute_dims", grad, axes=[1, 0, 2, 3])
    made = call_op(
        "nn.conv2d",
        data,
        turned,
        strides=dilation,
        dilation=strides,
        padding=list(sides(given["padding"])),
        groups=groups,
        out_dtype=str(given["out_dtype"]) or None,
    )
    ends = pair(kernel)
    made = call_op("strided_slice", made, axes=[2, 3], begin=[0, 0], end=ends)
    made = call_op("reshape", made, [own, outputs, *ends])
    return laid_out(call_op("permute_dims", made, axes=[1, 0, 2, 3]), "OIHW", str(given["kernel_layout"]))


def _windows() -> Rows:
    yield (
        "nn.avg_pool2d",
        alias(
            "nn.correlation",
            (Input("data1"), Input("data2")),
            (
                attr("kernel_size", "int", 1),
                attr("max_displacement", "int", 1),
                attr("stride1", "int", 1),
                attr("stride2", "int", 1),
                attr("padding", "ints", (0, 0)),
                attr("is_multiply", "bool", True),
                attr("layout", "str", "NCHW"),
            ),
            expression=_correlated,
        ),
    )
    yield (
        "nn.conv2d",
        alias(
            "nn.conv2d_backward_weight",
            (Input("grad"), Input("data")),
            (
                *kernel_window(2),
                attr("grad_layout", "str", "NCHW"),
                attr("data_layout", "str", "NCHW"),
                attr("kernel_layout", "str", "OIHW"),
                attr("out_dtype", "dtype", ""),
            ),
            expression=_weight_gradient,
        ),
    )


# ---- bits


def _in_bits(given: Given) -> Any:
    """Each bit of the elements, those of neighbours along an axis in one number, the first one highest."""
    data, kind = given["data"], str(given["pack_type"])
    axis, width = int(given["pack_axis"]), int(kind.removeprefix("uint"))
    dims = dims_of(data)
    size = whole(dims[axis])
    if size is None or size % width:
        raise IRTypeError(
            R0203, f"nn.bitpack: a size of {dims[axis]} along axis {axis} is no multiple of {width}"
        )
    apart = [*dims[:axis], size // width, width, *dims[axis + 1 :]]
    factors = np.array([1 << (width - 1 - k) for k in range(width)], "uint64")
    shape = [width if place == axis + 1 else 1 for place in range(len(apart))]
    wide = call_op("reshape", call_op("astype", data, dtype="uint64"), apart)
    planes = []
    for bit in range(whole_within(given, "bits", 1, 64)):
        one = call_op("bitwise_and", call_op("right_shift", wide, const(bit, "uint64")), const(1, "uint64"))
        parts = call_op("multiply", one, const(factors.reshape(shape), "uint64"))
        planes.append(call_op("astype", call_op("sum", parts, axis=[axis + 1]), dtype=kind))
    return call_op("stack", tuple(planes), axis=int(given["bit_axis"]))


def _of_bits(given: Given, name: str, data_bits: str, attrs: Given) -> Any:
    """A product of the numbers that the lowest bits are; in the unipolar form a bit 0 of a weight is -1."""
    data = call_op("astype", given["data"], dtype="int32")
    data = call_op("bitwise_and", data, const((1 << whole_within(given, data_bits, 1, 31)) - 1, "int32"))
    most = (1 << whole_within(given, "weight_bits", 1, 31)) - 1
    weight = call_op("bitwise_and", call_op("astype", given["weight"], dtype="int32"), const(most, "int32"))
    if given["unipolar"]:
        double = call_op("multiply", weight, const(2, "int32"))
        weight = call_op("subtract", double, const(most, "int32"))
    made = build_call_in("relay", name, (data, weight), attrs)
    return call_op("astype", made, dtype=str(given["out_dtype"] or "int16"))


def _bits() -> Rows:
    yield (
        "stack",
        alias(
            "nn.bitpack",
            DATA,
            (
                attr("bits", "int", 1),
                attr("pack_axis", "int", 1),
                attr("bit_axis", "int", 2),
                attr("pack_type", "dtype", "uint32"),
                attr("name", "str", "BitPack"),
            ),
            expression=_in_bits,
        ),
    )
    ends = (attr("pack_dtype", "dtype", "uint32"), attr("out_dtype", "dtype", "int16"))
    unipolar = attr("unipolar", "bool", True)
    weight = (*DATA, Input("weight"))
    conv = ("strides", "padding", "channels", "kernel_size", "data_layout", "kernel_layout")
    yield (
        "nn.conv2d",
        alias(
            "nn.bitserial_conv2d",
            weight,
            (
                attr("strides", "ints", (1, 1)),
                attr("padding", "ints", (0, 0)),
                attr("channels", "int", None),
                attr("kernel_size", "ints", (3, 3)),
                attr("activation_bits", "int", 1),
                attr("weight_bits", "int", 1),
                attr("data_layout", "str", "NCHW"),
                attr("kernel_layout", "str", "OIHW"),
                *ends,
                unipolar,
            ),
            expression=lambda given: _of_bits(
                given, "nn.conv2d", "activation_bits", {name: given[name] for name in conv}
            ),
        ),
    )
    yield (
        "matmul",
        alias(
            "nn.bitserial_dense",
            weight,
            (
                attr("units", "int", None),
                attr("data_bits", "int", 1),
                attr("weight_bits", "int", 1),
                *ends,
                unipolar,
            ),
            expression=lambda given: _of_bits(given, "nn.dense", "data_bits", {"units": given["units"]}),
        ),
    )


# ---- crops and blocks


def _crops(given: Given) -> Any:
    """A region of an image for each box, whose corners are parts of the image's size."""
    layout, method = str(given["layout"]), str(given["method"])
    ways = {"bilinear": "linear", "nearest_neighbor": "nearest_neighbor"}
    if method not in ways:
        raise IRTypeError(R0205, f"method is one of {', '.join(ways)}, got {method!r}")
    data = laid_out(given["data"], layout, "NCHW")
    images = call_op("take", data, call_op("astype", given["box_indices"], dtype=_INT), axis=0)
    sizes, ends = dims_of(data)[2:], [int(size) for size in given["crop_size"]]
    places, inside = [], None
    for axis, (size, count) in enumerate(zip(sizes, ends, strict=True)):
        last = call_op(
            "astype",
            call_op("subtract", size_vector([size]), const([1], _INT)),
            dtype="float32",
        )
        low, high = (call_op("take", given["boxes"], const([axis + k], _INT), axis=1) for k in (0, 2))
        if count > 1:
            steps = const((known_places(count, "crop_size") / (count - 1)).reshape(1, -1), "float32")
            at = call_op("add", low, call_op("multiply", call_op("subtract", high, low), steps))
        else:
            at = call_op("multiply", call_op("add", low, high), const(0.5, "float32"))
        at = call_op("multiply", at, last)
        zero = const(0, "float32")
        here = call_op("logical_and", call_op("greater_equal", at, zero), call_op("less_equal", at, last))
        if method == "nearest_neighbor":
            at = call_op("floor", call_op("add", at, const(0.5, "float32")))
        double = call_op(
            "divide",
            call_op("multiply", at, const(2, "float32")),
            call_op("maximum", last, const(1, "float32")),
        )
        other = 2 - axis
        places.append(call_op("expand_dims", call_op("subtract", double, const(1, "float32")), axis=[other]))
        here = call_op("expand_dims", here, axis=[other])
        inside = here if inside is None else call_op("logical_and", inside, here)
    shape = [dims_of(given["boxes"])[0], *ends]
    grid = call_op("stack", tuple(call_op("broadcast_to", part, shape) for part in reversed(places)), axis=3)
    read = call_op(
        "image.grid_sample", images, grid, method=ways[method], padding_mode="border", align_corners=True
    )
    beyond = const(float(given["extrapolation_value"]), _dtype(data))
    made = call_op("where", call_op("expand_dims", inside, axis=[1]), read, beyond)
    made = call_op("astype", made, dtype=str(given["out_dtype"])) if given["out_dtype"] else made
    return laid_out(made, "NCHW", layout)


def _reorganised(given: Given) -> Any:
    """Blocks of pixels as channels, in the order of Darknet's layer."""
    data, stride = given["data"], int(given["stride"])
    channels, height, width = known_sizes(data, "vision.yolo_reorg")
    if stride < 1 or channels % stride**2 or height % stride or width % stride:
        raise IRTypeError(
            R0203, f"vision.yolo_reorg: {channels} x {height} x {width} with the stride {stride}"
        )
    own = channels // stride**2
    k, j, i = np.indices((channels, height, width))
    inner, offset = k % own, k // own
    row, column = j * stride + offset // stride, i * stride + offset % stride
    places = column + width * stride * (row + height * stride * inner)
    batch = dims_of(data)[0]
    flat = call_op("reshape", data, [batch, channels * height * width])
    found = call_op("take", flat, const(places.reshape(-1), _INT), axis=1)
    return call_op("reshape", found, [batch, channels * stride**2, height // stride, width // stride])


def _blocks() -> Rows:
    yield (
        "image.grid_sample",
        alias(
            "image.crop_and_resize",
            (*DATA, Input("boxes"), Input("box_indices")),
            (
                attr("crop_size", "list"),
                attr("layout", "str", "NCHW"),
                attr("method", "str", "bilinear"),
                attr("extrapolation_value", "float", 0.0),
                attr("out_dtype", "dtype", None),
            ),
            expression=_crops,
        ),
    )
    yield "take", alias("vision.yolo_reorg", DATA, (attr("stride", "int", 1),), expression=_reorganised)


def aliases() -> Rows:
    """The names of this file."""
    yield from _windows()
    yield from _bits()
    yield from _blocks()
