"""Relay's convolution whose taps have offsets of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0203
from heddle.graph.op_builder import call_op, const
from heddle.ir.op_def import Input
from heddle.ops.relay_names.pixels import known_sizes, laid_out, pair, sides
from heddle.ops.relay_names.rules import DATA, Given, Rows, alias, attr, dims_of, dtype_of, whole
from heddle.support.diagnostics import IRTypeError

_FLOAT = "float32"


def _deformed(given: Given) -> Any:
    """The image read at the places of the taps, between its pixels, and what is read times the weights. A
    place outside of the image is 0."""
    layout = str(given["data_layout"])
    data, offset = (laid_out(given[name], layout, "NCHW") for name in ("data", "offset"))
    weight = laid_out(given["weight"], str(given["kernel_layout"]), "OIHW")
    sizes = [whole(dim) for dim in dims_of(weight)]
    channels, *image = known_sizes(data, "nn.deformable_conv2d")
    groups, parts, batch = int(given["groups"]), int(given["deformable_groups"]), dims_of(data)[0]
    outputs, inner, *kernel = (size if size is not None else -1 for size in sizes)
    taps, (rows, columns) = kernel[0] * kernel[1], dims_of(offset)[2:]
    if min(outputs, inner, *kernel) < 0 or inner * groups != channels or channels % parts or outputs % groups:
        raise IRTypeError(R0203, f"a weight of {sizes} does not fit {channels} channels in {groups} groups")
    if whole(dims_of(offset)[1]) != 2 * parts * taps:
        raise IRTypeError(
            R0203, f"the offset has {dims_of(offset)[1]} numbers a place, not {2 * parts * taps}"
        )
    number, pixels = batch * parts, rows * columns
    moved = call_op("astype", offset, dtype=_FLOAT)
    moved = call_op("reshape", moved, shape=[number, taps, 2, rows, columns])
    places = [_places(given, moved, axis, kernel) for axis in (0, 1)]
    scaled = [_scaled(at, size) for at, size in zip(places, image, strict=True)]
    grid = call_op("stack", scaled[::-1], axis=4)
    grid = call_op("reshape", grid, shape=[number, taps * rows, columns, 2])
    source = call_op("reshape", data, shape=[number, channels // parts, *image])
    read = call_op(
        "image.grid_sample", source, grid, method="linear", padding_mode="border", align_corners=False
    )
    read = call_op("reshape", read, shape=[number, channels // parts, taps, pixels])
    seen = call_op("reshape", _is_inside(places, image), shape=[number, 1, taps, pixels])
    read = call_op("where", seen, read, const(0, dtype_of("data")(given)))
    made = call_op(
        "matmul",
        call_op("reshape", weight, shape=[groups, outputs // groups, inner * taps]),
        call_op("reshape", read, shape=[batch, groups, inner * taps, pixels]),
    )
    made = call_op("reshape", made, shape=[batch, outputs, rows, columns])
    made = call_op("astype", made, dtype=str(given["out_dtype"] or dtype_of("data")(given)))
    return laid_out(made, "NCHW", str(given["out_layout"] or layout))


def _places(given: Given, moved: Any, axis: int, kernel: list[int]) -> Any:
    """(n, taps, rows, columns): the row, or column, that each tap reads."""
    extent, stride, gap = (
        dims_of(moved)[3 + axis],
        pair(given["strides"])[axis],
        pair(given["dilation"])[axis],
    )
    tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * gap - sides(given["padding"])[axis]
    line = call_op("astype", call_op("arange", 0, extent, 1, dtype="int64"), dtype=_FLOAT)
    line = call_op("reshape", line, shape=[extent, 1] if axis == 0 else [1, extent])
    start = call_op("add", const(tap.astype(_FLOAT)), call_op("multiply", line, const(stride, _FLOAT)))
    return call_op("add", call_op("take", moved, const(axis, "int64"), axis=2), start)


def _scaled(at: Any, size: int) -> Any:
    """Places in the form of `grid_sample`: (2 p + 1) / size - 1."""
    double = call_op("multiply", at, const(2, _FLOAT))
    return call_op("divide", call_op("add", double, const(1 - size, _FLOAT)), const(size, _FLOAT))


def _is_inside(places: list[Any], image: list[int]) -> Any:
    found = None
    for at, size in zip(places, image, strict=True):
        low, high = call_op("greater_equal", at, const(0, _FLOAT)), call_op("less", at, const(size, _FLOAT))
        both = call_op("logical_and", low, high)
        found = both if found is None else call_op("logical_and", found, both)
    return found


def aliases() -> Rows:
    """The names of this file."""
    yield (
        "image.grid_sample",
        alias(
            "nn.deformable_conv2d",
            (*DATA, Input("offset"), Input("weight")),
            (
                *(
                    attr(name, "ints", default)
                    for name, default in (("strides", (1, 1)), ("padding", (0, 0)))
                ),
                attr("dilation", "ints", (1, 1)),
                *(attr(name, "int", 1) for name in ("deformable_groups", "groups")),
                attr("channels", "int", None),
                attr("kernel_size", "ints", None),
                attr("data_layout", "str", "NCHW"),
                attr("kernel_layout", "str", "OIHW"),
                attr("out_layout", "str", ""),
                attr("out_dtype", "dtype", ""),
            ),
            expression=_deformed,
        ),
    )
