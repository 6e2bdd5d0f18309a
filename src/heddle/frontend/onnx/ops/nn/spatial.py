"""Images read at given positions, and put together of parts."""

from __future__ import annotations

import math

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.shape import product
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, constant

_METHODS = {
    "nearest": "nearest_neighbor",
    "bilinear": "linear",
    "linear": "linear",
    "bicubic": "cubic",
    "cubic": "cubic",
}


@converts("GridSample", since=16)
def grid_sample(ctx: NodeContext) -> Result:
    """GridSample: the image read at the places of a grid."""
    mode = ctx.attr("mode", "linear")
    if mode not in _METHODS:
        ctx.malformed(f"unknown mode {mode!r}")
    return ctx.call(
        "image.grid_sample",
        ctx.tensor(0),
        ctx.tensor(1),
        method=_METHODS[mode],
        padding_mode=ctx.attr("padding_mode", "zeros"),
        align_corners=ctx.flag("align_corners"),
    )


@converts("Col2Im", since=18)
def col2im(ctx: NodeContext) -> Result:
    """Col2Im: overlapping blocks are added into an image."""
    image, block = ctx.shape_values(1), ctx.shape_values(2)
    ndim = len(image)
    if not ndim or len(block) != ndim:
        ctx.malformed(f"an image of {ndim} and blocks of {len(block)} dimensions")
    return ctx.call(
        "image.col2im",
        ctx.tensor(0),
        ShapeExpr(image),
        ShapeExpr(block),
        strides=tuple(ctx.attr("strides", None) or (1,) * ndim),
        padding=tuple(ctx.attr("pads", None) or (0,) * (2 * ndim)),
        dilation=tuple(ctx.attr("dilations", None) or (1,) * ndim),
    )


@converts("MaxUnpool", since=9)
def max_unpool(ctx: NodeContext) -> Result:
    """Values at their places in the tensor before pooling. A stated shape may be larger: zeros behind."""
    dims = ctx.dims(0)
    kernel = ctx.attr("kernel_shape")
    ndim = len(kernel)
    if len(dims) != ndim + 2:
        ctx.malformed(f"kernels of {ndim} dimensions for data of {len(dims)}")
    strides, pads = ctx.attr("strides", None) or (1,) * ndim, ctx.attr("pads", None) or (0,) * (2 * ndim)
    whole = [
        (dim - 1) * strides[k] - (pads[k] + pads[k + ndim]) + kernel[k] for k, dim in enumerate(dims[2:])
    ]
    shape = ctx.importer.named_dims([*dims[:2], *whole], "size")
    flat = ctx.call("zeros", (product(shape),), dtype=ctx.dtype(0))
    count = product(dims)
    placed = ctx.call(
        "scatter_elements",
        flat,
        ctx.reshape(ctx.tensor(1), (count,)),
        ctx.reshape(ctx.tensor(0), (count,)),
        axis=0,
        reduction="update",
    )
    made = ctx.reshape(placed, shape)
    return _grown(ctx, made, shape, ctx.shape_values(2, count=len(shape))) if ctx.has(2) else made


def _grown(ctx: NodeContext, x: Expr, shape: tuple[PrimExpr, ...], target: tuple[PrimExpr, ...]) -> Expr:
    if len(target) != len(shape):
        ctx.malformed(f"an output shape of {len(target)} dimensions for data of {len(shape)}")
    behind = ctx.importer.named_dims([want - have for want, have in zip(target, shape, strict=True)], "pad")
    widths = tuple(width for after in behind for width in (constant(0, "int64"), after))
    return ctx.call("dynamic_pad", x, ctx.const(0, ctx.dtype(0)), ShapeExpr(widths))


@converts("AffineGrid", since=20)
def affine_grid(ctx: NodeContext) -> Result:
    """Positions of `grid_sample` for images of a size (n, c, spatial...), each moved by its matrix."""
    size = ctx.shape_values(1)
    if len(size) not in (4, 5):
        ctx.malformed(f"the size must have 4 or 5 numbers, got {len(size)}")
    batch, _, *spatial = ctx.importer.named_dims(size, "size")
    ndim = len(spatial)
    matrices = ctx.cast_shape(ctx.tensor(0), (batch, ndim, ndim + 1))
    made = ctx.call(
        "image.affine_grid", matrices, ShapeExpr(tuple(spatial)), align_corners=ctx.flag("align_corners")
    )
    return ctx.call("permute_dims", made, axes=(0, *range(2, ndim + 2), 1))


@converts("DeformConv", since=19)
def deform_conv(ctx: NodeContext) -> Result:
    """A convolution whose every tap has an offset of its own. The image is read at the taps' positions, and
    what is read is multiplied with the weights. Inputs: data, weights, offsets, bias, mask."""
    x, weight = ctx.tensor(0), ctx.tensor(1)
    if ctx.ndim(0) < 3:
        ctx.malformed(f"data of {ctx.ndim(0)} dimensions: expected a batch, channels and an image")
    for index in (1, 2, *([4] if ctx.has(4) else [])):
        ctx.require_rank(index, ctx.ndim(0))
    batch, channels, *spatial = ctx.dims(0)
    ndim, group, parts = len(spatial), ctx.attr("group", 1), ctx.attr("offset_group", 1)
    kernel = [ctx.static_dim(1, 2 + k, "the size of the kernel") for k in range(ndim)]
    taps, outputs = math.prod(kernel), ctx.dims(2)[2:]
    rows, number = product(outputs), ctx.importer.simplify(batch * parts)
    own = ctx.importer.simplify(ops.floordiv(channels, parts))
    offsets = ctx.reshape(ctx.astype(ctx.tensor(2), "float32"), (number, taps, ndim, *outputs))
    grid = _deformed_grid(ctx, offsets, spatial, kernel)
    grid = ctx.reshape(grid, (number, taps * rows, *([1] * (ndim - 1)), ndim))
    read = ctx.call(
        "image.grid_sample",
        ctx.reshape(x, (number, own, *spatial)),
        grid,
        method="linear",
        align_corners=False,
    )
    read = ctx.reshape(read, (number, own, taps, rows))
    if ctx.has(4):
        read = ctx.call("multiply", read, ctx.reshape(ctx.tensor(4), (number, 1, taps, rows)))
    inner = ctx.importer.simplify(ops.floordiv(channels, group) * taps)
    outer = ctx.importer.simplify(ops.floordiv(ctx.dims(1)[0], group))
    made = ctx.call(
        "matmul",
        ctx.reshape(weight, (group, outer, inner)),
        ctx.reshape(read, (batch, group, inner, rows)),
    )
    made = ctx.reshape(made, (batch, ctx.dims(1)[0], *outputs))
    if not ctx.has(3):
        return made
    return ctx.call("add", made, ctx.reshape(ctx.tensor(3), (ctx.dims(1)[0], *([1] * ndim))))


def _deformed_grid(ctx: NodeContext, offsets: Expr, spatial: list[PrimExpr], kernel: list[int]) -> Expr:
    """(n, taps, out..., ndim): where each tap reads, in the form of `grid_sample`: (2 p + 1) / size - 1."""
    ndim = len(spatial)
    strides, dilations = (ctx.attr(name, None) or (1,) * ndim for name in ("strides", "dilations"))
    pads, outputs = ctx.attr("pads", None) or (0,) * (2 * ndim), ctx.dims_of(offsets)[3:]
    columns: list[Expr] = []
    for axis, size in enumerate(spatial):
        tap = np.indices(kernel)[axis].reshape(-1) * dilations[axis] - pads[axis]
        first = ctx.const(tap.reshape(-1, *([1] * ndim)), "float32")
        place = ctx.astype(ctx.call("arange", 0, outputs[axis], 1, dtype="int64"), "float32")
        place = ctx.reshape(place, [dim if k == axis else 1 for k, dim in enumerate(outputs)])
        moved = ctx.call("multiply", place, ctx.const([strides[axis]], "float32"))
        own = ctx.call("take", offsets, ctx.const(axis, "int64"), axis=2)
        at = ctx.call("add", own, ctx.call("add", first, moved))
        double = ctx.call(
            "add", ctx.call("multiply", at, ctx.const([2], "float32")), ctx.const([1], "float32")
        )
        whole = ctx.call("divide", double, ctx.astype(ctx.size(size), "float32"))
        columns.insert(0, ctx.call("subtract", whole, ctx.const([1], "float32")))
    return ctx.call(
        "concat", tuple(ctx.call("expand_dims", x, axis=(ndim + 2,)) for x in columns), axis=ndim + 2
    )
