"""Images read at positions that a tensor gives, and images put together of their blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from heddle.arith.sizes import product, simplified
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import NO_PIXELS, computed_in, require_float, require_ndim, unknown_dims
from heddle.prim.nodes import constant
from heddle.topi import grid as topi
from heddle.topi.dims import static
from heddle.topi.image import METHODS

_LAYOUT = Without("axes have fixed places")


# ---- grid_sample


def _infer_grid_sample(ctx: Inference) -> Type:
    x, grid, attrs = ctx.tensor(0), ctx.tensor(1), ctx.attrs
    for name, value, known in (
        ("method", attrs.method, METHODS),
        ("padding_mode", attrs.padding_mode, topi.PADDINGS),
    ):
        if value not in known:
            ctx.attr_error(f"{name} must be one of {', '.join(known)}, got {value!r}")
    require_float(ctx, grid)
    if x.ndim < 0 or grid.ndim < 0:
        return unknown_dims(x.dtype, max(x.ndim, grid.ndim))
    if x.ndim < 3:
        ctx.shape_error(f"data must have at least 3 dimensions, got {x.ndim}")
    require_ndim(ctx, grid, x.ndim, "the grid")
    if x.dims is None or grid.dims is None:
        return unknown_dims(x.dtype, x.ndim)
    if static(grid.dims[-1], "the last dimension of the grid") != x.ndim - 2:
        ctx.shape_error(f"the grid must have {x.ndim - 2} coordinates, got {grid.dims[-1]}")
    ctx.require_equal(x.dims[0], grid.dims[0], "batches of data and grid")
    dims = (x.dims[0], x.dims[1], *grid.dims[1:-1])
    for dim in x.dims[2:]:
        ctx.require_elements(dim, dims, "sampled", NO_PIXELS)
    return TensorType(dims, x.dtype)


def _reflected(at: Any, low: float, high: float) -> Any:
    """Mirrored at both ends; the float32 formula of the operator."""
    width = np.float32(max(high - low, 1e-6))
    below = at < low
    distance = np.where(below, low - at, at - high).astype(np.float32)
    turns = np.trunc(distance / width)
    rest = distance - turns * width
    even = turns % 2 == 0
    return np.where(below | (at > high), np.where(even == below, low + rest, high - rest), at)


def _np_taps(attrs: Any, at: Any, size: int) -> list[tuple[Any, Any, Any]]:
    """Places, weights and whether there is an element, for all positions of an axis."""
    corners, one = bool(attrs.align_corners), np.float32(1)
    half = np.float32(0.5)
    at = (at + one) * half * (size - one) if corners else ((at + one) * size - one) * half
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if attrs.method == "nearest_neighbor":
        at = np.rint(at)
    outside = (at < low) | (at > high)
    if attrs.padding_mode == "border":
        at = np.where(outside, np.clip(at, 0, size - 1), at)
    if attrs.padding_mode == "reflection":
        at = _reflected(at, low, high)
    base = np.floor(at)
    t = (at - base).astype(np.float64)
    if attrs.method == "nearest_neighbor":
        pairs = [(at, np.ones_like(t))]
    elif attrs.method == "linear":
        pairs = [(base, 1 - t), (base + 1, t)]
    else:
        a = -0.75
        pairs = []
        for k in (-1, 0, 1, 2):
            d = np.abs(t - k)
            near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            pairs.append((base + k, np.where(d <= 1, near, far)))
    made = []
    for place, weight in pairs:
        inside = (place >= 0) & (place < size) if attrs.padding_mode == "zeros" else np.ones_like(t, bool)
        if attrs.padding_mode == "reflection":
            place = _reflected(place, low, high)
        made.append((np.clip(place, 0, size - 1).astype(np.int64), weight, inside))
    return made


def _np_grid_sample(attrs: Any, x: Any, grid: Any) -> Any:
    ndim = x.ndim - 2
    if 0 in (*x.shape, *grid.shape[1:-1]):
        if 0 not in (*x.shape[:2], *grid.shape[1:-1]):
            raise ValueError(NO_PIXELS.format("sampled"))
        return np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    positions = grid.astype(np.float32)
    axes = [_np_taps(attrs, positions[..., ndim - 1 - k], x.shape[2 + k]) for k in range(ndim)]
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * ndim)
    total: Any = 0
    for taps in itertools.product(*axes):
        values = np.moveaxis(x[(batch, slice(None), *(place for place, _, _ in taps))], -1, 1)
        weight = np.prod([w for _, w, _ in taps], axis=0)
        inside = np.all([i for _, _, i in taps], axis=0)
        total = total + np.where(inside, weight, 0)[:, None] * values
    return np.asarray(total).astype(x.dtype)


def _grid_samples() -> tuple[Sample, ...]:
    rows: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 3, 5, 7), (2, 4, 6, 2), {"method": method, "padding_mode": padding, "align_corners": corners})
        for method, padding, corners in itertools.product(METHODS, topi.PADDINGS, (False, True))
    ]
    rows += [
        ((1, 2, 3, 4, 5), (1, 2, 3, 2, 3), {"method": "linear", "padding_mode": "reflection"}),
        ((2, 1, 7), (2, 5, 1), {"method": "cubic"}),
        ((1, 1, 1, 1), (1, 3, 3, 2), {"padding_mode": "reflection", "align_corners": True}),
        ((0, 1, 2, 2), (0, 3, 3, 2), {}),
    ]

    def make(shape: tuple[int, ...], grid: tuple[int, ...]) -> Any:
        return lambda rng, dtype: (
            rng.standard_normal(shape).astype(dtype),
            np.asarray(rng.uniform(-2.5, 2.5, size=grid)).astype("float32"),
        )

    return tuple(Sample((s, g), attrs, ("float32",), make(s, g)) for s, g, attrs in rows)


# ---- affine_grid


def _infer_affine_grid(ctx: Inference) -> Type:
    matrices, size = ctx.tensor(0), target_shape(ctx, 1)
    require_ndim(ctx, matrices, 3, "the matrices")
    require_float(ctx, matrices)
    if size is None:
        return unknown_dims(matrices.dtype)
    if not size:
        ctx.shape_error("the size must have at least one dimension")
    if matrices.dims is None:
        return unknown_dims(matrices.dtype, len(size) + 2)
    ctx.require_equal(matrices.dims[1], constant(len(size), "int64"), "rows of a matrix and dimensions")
    ctx.require_equal(matrices.dims[2], constant(len(size) + 1, "int64"), "columns and dimensions plus one")
    return TensorType((matrices.dims[0], matrices.dims[1], *size), matrices.dtype)


def _np_affine_grid(attrs: Any, matrices: Any, size: Any) -> Any:
    if matrices.shape[1:] != (len(size), len(size) + 1):
        raise ValueError("the matrices do not fit the dimensions")
    wide = np.promote_types(matrices.dtype, np.float32).type
    points = []
    for axis in reversed(range(len(size))):
        at, count = np.arange(size[axis]).astype(wide), wide(size[axis])
        own = at * 2 / max(count - 1, wide(1)) - 1 if attrs.align_corners else (at * 2 + 1) / count - 1
        points.append(np.broadcast_to(own.reshape(-1, *[1] * (len(size) - 1 - axis)), size))
    points.append(np.ones(size, wide))
    return np.tensordot(matrices.astype(wide), np.stack(points), 1).astype(matrices.dtype)


def _affine_sample(count: int, size: tuple[int, ...], **attrs: bool) -> Sample:
    shape = (count, len(size), len(size) + 1)
    return Sample(
        (shape, size),
        attrs,
        ("float32", "float64", "float16"),
        lambda rng, dtype: (rng.standard_normal(shape).astype(dtype), size),
    )


# ---- col2im


def _infer_col2im(ctx: Inference) -> Type:
    x, image, block = ctx.tensor(0), target_shape(ctx, 1), target_shape(ctx, 2)
    require_ndim(ctx, x, 3, "data")
    if image is None or block is None:
        return unknown_dims(x.dtype)
    ndim, attrs = len(image), ctx.attrs
    for name, given, count in (
        ("the block", block, ndim),
        ("strides", attrs.strides, ndim),
        ("dilation", attrs.dilation, ndim),
        ("padding", attrs.padding, 2 * ndim),
    ):
        if len(given) != count:
            ctx.shape_error(f"{name} must have {count} numbers, got {len(given)}")
    if min(*attrs.strides, *attrs.dilation) < 1 or min(attrs.padding) < 0:
        ctx.attr_error("strides and dilation must be positive, and padding not negative")
    if x.dims is None:
        return unknown_dims(x.dtype, ndim + 2)
    elements = product(block)
    channels = simplified(x.dims[1] // elements)
    counts = product(
        (image[k] + attrs.padding[k] + attrs.padding[k + ndim] - (block[k] - 1) * attrs.dilation[k] - 1)
        // attrs.strides[k]
        + 1
        for k in range(ndim)
    )
    ctx.require_equal(channels * elements, x.dims[1], "channels times elements of a block, and rows,")
    ctx.require_equal(counts, x.dims[2], "the number of blocks")
    return TensorType((x.dims[0], channels, *image), x.dtype)


def _np_col2im(attrs: Any, x: Any, image: Any, block: Any) -> Any:
    ndim = len(image)
    padded = [n + attrs.padding[k] + attrs.padding[k + ndim] for k, n in enumerate(image)]
    counts = [
        (n - (b - 1) * d - 1) // s + 1
        for n, b, d, s in zip(padded, block, attrs.dilation, attrs.strides, strict=True)
    ]
    channels = x.shape[1] // int(np.prod(block))
    if x.shape[2] != int(np.prod(counts)) or x.shape[1] != channels * int(np.prod(block)):
        raise ValueError("the blocks do not fit the image")
    parts = x.reshape(x.shape[0], channels, *block, *counts).astype(computed_in(x.dtype))
    made = np.zeros((x.shape[0], channels, *padded), parts.dtype)
    for tap in itertools.product(*(range(b) for b in block)):
        at = tuple(
            slice(t * d, t * d + (c - 1) * s + 1, s)
            for t, d, c, s in zip(tap, attrs.dilation, counts, attrs.strides, strict=True)
        )
        made[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *tap)]
    inner = tuple(slice(attrs.padding[k], attrs.padding[k] + n) for k, n in enumerate(image))
    return made[(slice(None), slice(None), *inner)].astype(x.dtype)


def _col2im_sample(
    image: tuple[int, ...], block: tuple[int, ...], n: int, c: int, **attrs: tuple[int, ...]
) -> Sample:
    ndim = len(image)
    full = {"strides": (1,) * ndim, "dilation": (1,) * ndim, "padding": (0,) * (2 * ndim), **attrs}
    counts = [
        (image[k] + full["padding"][k] + full["padding"][k + ndim] - (block[k] - 1) * full["dilation"][k] - 1)
        // full["strides"][k]
        + 1
        for k in range(ndim)
    ]
    shape = (n, c * int(np.prod(block)), int(np.prod(counts)))
    return Sample(
        (shape, image, block),
        full,
        ("float32", "float16") if not attrs else ("float32",),
        lambda rng, dtype: (np.asarray(rng.integers(-8, 9, size=shape)).astype(dtype), image, block),
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="image.grid_sample",
            inputs=(
                Input("data", meaning="(n, channels, spatial...)"),
                Input("grid", meaning="(n, out..., ndim) floats, the last axis of the data first"),
            ),
            attrs=(
                AttrSpec("method", "str", "linear", ", ".join(METHODS)),
                AttrSpec("padding_mode", "str", "zeros", ", ".join(topi.PADDINGS)),
                AttrSpec("align_corners", "bool", False, "-1 and 1 are the middles of the border elements"),
            ),
            doc=(
                "The image at positions from -1 to 1 that the grid gives, (n, channels, out...). Modes are "
                "those of ONNX's GridSample; positions are float32."
            ),
            infer=_infer_grid_sample,
            reference=_np_grid_sample,
            lower=lambda attrs, x, grid: topi.grid_sample(
                x, grid, str(attrs.method), str(attrs.padding_mode), bool(attrs.align_corners)
            ),
            layout=_LAYOUT,
            samples=_grid_samples(),
            errors=(
                ErrorSample(((1, 1, 2, 2), (1, 3, 3, 3)), {}, "R0203", "the grid must have 2 coordinates"),
                ErrorSample(((1, 1, 2, 2), (2, 3, 3, 2)), {}, "R0203", "batches of data and grid"),
                ErrorSample(((1, 1, 0, 2), (1, 3, 3, 2)), {}, "R0203", "without elements"),
                ErrorSample(((1, 1, 2), (1, 3, 1)), {"method": "area"}, "R0205", "method must be one of"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="image.affine_grid",
            inputs=(
                Input("data", meaning="(n, ndim, ndim + 1): a matrix for each image"),
                Input("size", "shape", "sizes of the positions' axes"),
            ),
            attrs=(
                AttrSpec("align_corners", "bool", True, "-1 and 1 are the middles of the border elements"),
            ),
            doc=(
                "(n, ndim, size...): coordinates from -1 to 1 of every place, the last axis first, and a "
                "one, times the matrix of the image."
            ),
            infer=_infer_affine_grid,
            reference=_np_affine_grid,
            lower=lambda attrs, x, size: topi.affine_grid(x, size, bool(attrs.align_corners)),
            layout=_LAYOUT,
            samples=(
                _affine_sample(2, (5, 7)),
                _affine_sample(2, (1, 17), align_corners=False),
                _affine_sample(3, (4, 1, 6)),
                _affine_sample(1, (9,), align_corners=False),
                _affine_sample(1, (0, 3)),
            ),
            errors=(
                ErrorSample(((1, 2, 3), (4, 4, 4)), {}, "R0203", "rows of a matrix and dimensions"),
                ErrorSample(((2, 3), (4, 4)), {}, "R0203", "the matrices must have 3 dimensions"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="image.col2im",
            inputs=(
                Input("data", meaning="(n, channels * elements of a block, blocks)"),
                Input("image_shape", "shape", "sizes of the image"),
                Input("block_shape", "shape", "sizes of a block"),
            ),
            attrs=(
                AttrSpec("strides", "list"),
                AttrSpec("padding", "list", meaning="before all axes, then after all axes"),
                AttrSpec("dilation", "list"),
            ),
            doc="(n, channels, image...): every element the sum of what the blocks that cover it hold of it.",
            infer=_infer_col2im,
            reference=_np_col2im,
            lower=lambda attrs, x, image, block: topi.col2im(
                x, image, block, list(attrs.strides), list(attrs.padding), list(attrs.dilation)
            ),
            layout=_LAYOUT,
            samples=(
                _col2im_sample((5, 6), (2, 3), 2, 3),
                _col2im_sample((5, 6), (2, 3), 1, 2, strides=(2, 1), padding=(1, 0, 2, 1)),
                _col2im_sample((7, 7), (2, 3), 1, 1, dilation=(2, 3)),
                _col2im_sample((4, 3, 5), (1, 2, 2), 1, 2),
                _col2im_sample((9,), (3,), 2, 2, strides=(3,)),
            ),
            errors=(
                ErrorSample(
                    ((1, 5, 4), (4, 4), (2, 2)),
                    {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1)},
                    "R0203",
                    "channels times elements",
                ),
            ),
        )
    )
