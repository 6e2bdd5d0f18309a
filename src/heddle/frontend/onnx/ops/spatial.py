"""Images read at given positions, and put together of parts."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import PrimExpr, constant
from heddle.relax.types import ShapeExpr

_METHODS = {
    "nearest": "nearest_neighbor",
    "bilinear": "linear",
    "linear": "linear",
    "bicubic": "cubic",
    "cubic": "cubic",
}


@converts("GridSample", since=16)
def grid_sample(ctx: NodeContext) -> Result:
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
    image, block = ctx.shape_values(1), ctx.shape_values(2)
    ndim = len(image)
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
    flat = ctx.call("zeros", (_product(shape),), dtype=ctx.dtype(0))
    count = _product(dims)
    placed = ctx.call(
        "scatter_elements",
        flat,
        ctx.reshape(ctx.tensor(1), (count,)),
        ctx.reshape(ctx.tensor(0), (count,)),
        axis=0,
        reduction="update",
    )
    made = ctx.reshape(placed, shape)
    return _grown(ctx, made, shape, ctx.shape_values(2)) if ctx.has(2) else made


def _grown(ctx: NodeContext, x: Expr, shape: tuple[PrimExpr, ...], target: tuple[PrimExpr, ...]) -> Expr:
    if len(target) != len(shape):
        ctx.malformed(f"an output shape of {len(target)} dimensions for data of {len(shape)}")
    behind = ctx.importer.named_dims([want - have for want, have in zip(target, shape, strict=True)], "pad")
    widths = tuple(width for after in behind for width in (constant(0, "int64"), after))
    return ctx.call("dynamic_pad", x, ctx.const(0, ctx.dtype(0)), ShapeExpr(widths))


def _product(dims: tuple[PrimExpr, ...]) -> PrimExpr:
    total = dims[0]
    for dim in dims[1:]:
        total = total * dim
    return total
