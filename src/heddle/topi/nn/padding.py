"""Padding with a constant or with elements of the tensor; moving channels to space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, simplified
from heddle.prim.nodes import PrimExpr, as_expr, constant, is_const_int
from heddle.prim.ops import (
    cast,
    floormod,
    greater_equal,
    if_then_else,
    less,
    logical_and,
    maximum,
    minimum,
    select,
)
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0104
from heddle.topi.nn.convolution import pad_axes

MODES = ("constant", "reflect", "replicate", "edge", "circular", "wrap", "symmetric")


def pad(x: te.Tensor, pad_width: Sequence[Any], mode: str = "constant", value: Any = 0) -> te.Tensor:
    """Pad a tensor. `pad_width` is a flat list of (before, after) for every axis; a negative width crops.
    Widths and `value` may be scalar expressions.

    `mode`: "constant"; "reflect" (mirror without the border element), "symmetric" (mirror with it),
    "replicate" or "edge" (repeat the border), "circular" or "wrap" (continue at the other end).
    """
    before, after = tuple(pad_width[0::2]), tuple(pad_width[1::2])
    if mode == "constant":
        return _pad_constant(x, before, after, value)
    if mode not in MODES:
        raise IRTypeError(E0104, f"pad mode {mode!r} is none of {list(MODES)}")
    shape = [simplified(dim + (b + a)) for dim, b, a in zip(x.shape, before, after, strict=True)]

    def element(*index: PrimExpr) -> PrimExpr:
        source = []
        for k, position in enumerate(index):
            moved = (
                position
                if is_const_int(as_dim(before[k]), 0) and is_const_int(as_dim(after[k]), 0)
                else _inside(position - before[k], x.shape[k], mode)
            )
            source.append(moved)
        result: PrimExpr = x[tuple(source)]
        return result

    result: te.Tensor = te.compute(shape, element, name="pad")
    return result


def _pad_constant(x: te.Tensor, before: Sequence[Any], after: Sequence[Any], value: Any) -> te.Tensor:
    axes = [
        k
        for k in range(x.ndim)
        if not (is_const_int(as_dim(before[k]), 0) and is_const_int(as_dim(after[k]), 0))
    ]
    fill = cast(x.dtype, value() if isinstance(value, te.Tensor) else as_expr(value))
    return pad_axes(x, axes, [before[k] for k in axes], [after[k] for k in axes], fill)


def _inside(position: PrimExpr, size: PrimExpr, mode: str) -> PrimExpr:
    """The position within [0, size) that a position stands for: itself where it is inside."""
    if mode in ("replicate", "edge"):
        return maximum(minimum(position, size - 1), 0)
    inside = logical_and(greater_equal(position, 0), less(position, size))
    return select(inside, position, _folded(position, size, mode))


def _folded(position: PrimExpr, size: PrimExpr, mode: str) -> PrimExpr:
    """The position within [0, size) of one that may be any number of sizes outside."""
    if mode in ("circular", "wrap"):
        return floormod(position, size)
    if mode == "symmetric":
        folded = floormod(position, size * 2)
        return minimum(folded, size * 2 - 1 - folded)
    period = maximum((size - 1) * 2, 1)
    folded = floormod(position, period)
    return select(folded < size, folded, period - folded)


def pixel_shuffle(x: te.Tensor, factor: int, blocks_first: bool = False) -> te.Tensor:
    """Depth to space: (..., c * r * r, h, w) → (..., c, h * r, w * r). With `blocks_first`, the input
    channels are ordered (row, column, c), else (c, row, column)."""
    lead, (channels, height, width) = x.shape[:-3], x.shape[-3:]
    shape = (
        *lead,
        simplified(channels // (factor * factor)),
        simplified(height * factor),
        simplified(width * factor),
    )

    def element(*index: PrimExpr) -> PrimExpr:
        c, h, w = index[-3:]
        row, column = h % factor, w % factor
        within = row * factor + column
        channel = within * shape[-3] + c if blocks_first else c * (factor * factor) + within
        result: PrimExpr = x[(*index[:-3], channel, h // factor, w // factor)]
        return result

    result: te.Tensor = te.compute(shape, element, name="pixel_shuffle")
    return result


def alternate_pixels(
    *images: te.Tensor,
    parts: Sequence[Sequence[tuple[int, int]]],
    begins: Sequence[int],
    cuts: Sequence[int],
    images_first: bool = False,
) -> te.Tensor:
    """Images whose pixels alternate: element p along an axis of stride s comes from place (p + begin) // s of
    the image of remainder (p + begin) % s.

    `parts` are, along each axis, the (first, count) of remainders whose images are channels of one tensor;
    there is a tensor for each combination, the last axis first. Each channel's images lie side by side, or,
    with `images_first`, each image's channels do. `cuts` are the pixels that the result lacks.
    Shapes: (n, c * counts, h, w) each → (n, c, h * s - cut, w * s - cut).
    """
    strides = [sum(count for _, count in axis) for axis in parts]
    counts = [[count for _, count in axis] for axis in parts]
    sizes = zip(images[0].shape[2:], strides, cuts, strict=True)
    channels = simplified(images[0].shape[1] // prod(count[0] for count in counts))
    shape = (images[0].shape[0], channels, *(simplified(size * s - cut) for size, s, cut in sizes))

    def element(n: PrimExpr, c: PrimExpr, *index: PrimExpr) -> PrimExpr:
        places = [position + begin for position, begin in zip(index, begins, strict=True)]
        pixel = [place // stride for place, stride in zip(places, strides, strict=True)]
        remainders = [place % stride for place, stride in zip(places, strides, strict=True)]
        rest = iter(images)

        def chosen(image: Any, count_so_far: int, axis: int) -> PrimExpr:
            if axis == len(parts):
                channel = image * channels + c if images_first else c * count_so_far + image
                return next(rest)[(n, channel, *pixel)]  # type: ignore[no-any-return]
            values = [
                (
                    first + count,
                    chosen(image * count + (remainders[axis] - first), count_so_far * count, axis + 1),
                )
                for first, count in parts[axis]
            ]
            value = values[-1][1]
            for end, other in reversed(values[:-1]):
                value = if_then_else(remainders[axis] < end, other, value)
            return value

        return chosen(constant(0, c.dtype), 1, 0)

    result: te.Tensor = te.compute(shape, element, name="alternate_pixels")
    return result


def pixel_unshuffle(x: te.Tensor, factor: int, blocks_first: bool = False) -> te.Tensor:
    """(..., c, h * r, w * r) → (..., c * r * r, h, w), the reverse of pixel_shuffle."""
    lead, (channels, height, width) = x.shape[:-3], x.shape[-3:]
    shape = (
        *lead,
        simplified(channels * (factor * factor)),
        simplified(height // factor),
        simplified(width // factor),
    )

    def element(*index: PrimExpr) -> PrimExpr:
        c, h, w = index[-3:]
        channel, within = c // (factor * factor), c % (factor * factor)
        if blocks_first and not is_const_int(channels, 0):
            channel, within = c % channels, c // channels
        row, column = within // factor, within % factor
        result: PrimExpr = x[(*index[:-3], channel, h * factor + row, w * factor + column)]
        return result

    result: te.Tensor = te.compute(shape, element, name="pixel_unshuffle")
    return result
