"""Resize and Upsample: images at another size, by sizes or scales."""

from __future__ import annotations

from fractions import Fraction

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, is_const_int
from heddle.relax.types import ShapeExpr
from heddle.runtime.dtype import DataType

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


@converts("Upsample", since=7)
def upsample_7(ctx: NodeContext) -> Result:
    return _scaled(ctx, list(ctx.attr("scales")), "asymmetric", "floor")


@converts("Upsample", since=9)
def upsample(ctx: NodeContext) -> Result:
    return _scaled(ctx, ctx.constant(1, "the scales").tolist(), "asymmetric", "floor")


@converts("Resize", since=10)
def resize_10(ctx: NodeContext) -> Result:
    return _scaled(ctx, ctx.constant(1, "the scales").tolist(), "asymmetric", "floor")


@converts("Resize", since=11)
def resize(ctx: NodeContext) -> Result:
    """Inputs: data, region of interest, scales, sizes."""
    mode, rounding = (
        ctx.attr("coordinate_transformation_mode", "half_pixel"),
        ctx.attr("nearest_mode", "round_prefer_floor"),
    )
    if ctx.flag("antialias"):
        ctx.unsupported("antialiasing")
    rank = ctx.ndim(0)
    axes = ctx.axes(ctx.attr("axes", None) or range(rank), rank)
    if ctx.has(3):
        sizes = ctx.shape_values(3)
        if ctx.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            return _aspect(ctx, axes, sizes, mode, rounding)
        if len(sizes) != len(axes):
            ctx.malformed(f"{len(sizes)} sizes for {len(axes)} axes")
        return _to_sizes(ctx, dict(zip(axes, sizes, strict=True)), mode, rounding)
    if not ctx.has(2):
        ctx.malformed("neither scales nor sizes are given")
    scales = ctx.constant(2, "the scales").tolist()
    if len(scales) != len(axes):
        ctx.malformed(f"{len(scales)} scales for {len(axes)} axes")
    by_axis = dict(zip(axes, scales, strict=True))
    return _scaled(ctx, [by_axis.get(axis, 1.0) for axis in range(rank)], mode, rounding)


def _scaled(ctx: NodeContext, scales: list[float], mode: str, rounding: str) -> Expr:
    dims = ctx.dims(0)
    if len(scales) != len(dims) or any(scale <= 0 for scale in scales):
        ctx.malformed(f"expected {len(dims)} positive scales, got {scales}")
    sizes = {
        axis: _grown(ctx, dim, scale) for axis, (dim, scale) in enumerate(zip(dims, scales, strict=True))
    }
    for dim, scale in zip(dims, scales, strict=True):
        exact = isinstance(dim, IntImm) and int(dim) * scale == int(int(dim) * scale)
        if not exact and scale != int(scale) and mode != "tf_crop_and_resize":
            ctx.unsupported(
                f"scale {scale} of a dimension of {dim}, which it does not bring to a whole number"
            )
    return _to_sizes(ctx, sizes, mode, rounding)


def _grown(ctx: NodeContext, dim: PrimExpr, scale: float) -> PrimExpr:
    """floor(dim * scale)."""
    if isinstance(dim, IntImm):
        return IntImm(dim.dtype, int(int(dim) * scale + 1e-6))
    part = Fraction(scale).limit_denominator(1 << 20)
    return ctx.importer.simplify(ops.floordiv(ops.multiply(dim, part.numerator), part.denominator))


def _aspect(ctx: NodeContext, axes: list[int], sizes: tuple[PrimExpr, ...], mode: str, rounding: str) -> Expr:
    """One scale for all axes: the least or greatest that the sizes ask for."""
    dims = ctx.dims(0)
    if not all(isinstance(item, IntImm) for item in (*sizes, *(dims[axis] for axis in axes))):
        ctx.unsupported("keep_aspect_ratio_policy with symbolic sizes")
    ratios = [Fraction(int(size), int(dims[axis])) for size, axis in zip(sizes, axes, strict=True)]  # type: ignore[call-overload]
    scale = min(ratios) if ctx.attr("keep_aspect_ratio_policy") == "not_larger" else max(ratios)
    grown = {axis: IntImm(dims[axis].dtype, int(scale * int(dims[axis]) + Fraction(1, 2))) for axis in axes}  # type: ignore[call-overload]
    return _to_sizes(ctx, dict(grown), mode, rounding)


def _to_sizes(ctx: NodeContext, sizes: dict[int, PrimExpr], mode: str, rounding: str) -> Expr:
    """Resize the axes whose size changes; leading axes that stay are batch and channel."""
    dims = ctx.dims(0)
    rank = len(dims)
    method = _METHODS.get(ctx.attr("mode", "nearest"))
    if method is None:
        ctx.malformed(f"unknown mode {ctx.attr('mode')!r}")
    whole = mode == "tf_crop_and_resize"
    moved = [
        axis
        for axis, size in sorted(sizes.items())
        if not ctx.importer.simplify.equal(size, dims[axis]) or (whole and axis > 1)
    ]
    if not moved:
        return ctx.tensor(0)
    spatial = list(range(min(2, moved[0]), rank)) if rank <= 5 else moved
    spatial = spatial if len(spatial) <= 3 else moved
    if len(spatial) not in _LAYOUTS:
        ctx.unsupported(f"a resize along {len(spatial)} axes")
    kept = [axis for axis in range(rank) if axis not in spatial]
    x = _arranged(ctx, ctx.tensor(0), kept, spatial)
    target = tuple(sizes.get(axis, dims[axis]) for axis in spatial)
    made = ctx.call(
        f"image.resize{len(spatial)}d",
        x,
        ShapeExpr(target),
        layout=_LAYOUTS[len(spatial)],
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding if method == "nearest_neighbor" else "",
        cubic_alpha=ctx.attr("cubic_coeff_a", -0.75),
        cubic_exclude=ctx.attr("exclude_outside", 0),
        extrapolation_value=ctx.attr("extrapolation_value", 0.0),
        roi=_region(ctx, spatial) if whole else None,
    )
    return _restored(ctx, made, kept, spatial, target)


def _region(ctx: NodeContext, spatial: list[int]) -> tuple[float, ...]:
    if not ctx.has(1):
        ctx.malformed("tf_crop_and_resize needs a region of interest")
    values = [float(item) for item in ctx.constant(1, "the region of interest").reshape(-1)]
    axes = ctx.axes(ctx.attr("axes", None) or range(ctx.ndim(0)), ctx.ndim(0))
    begin = dict(zip(axes, values, strict=False))
    end = dict(zip(axes, values[len(axes) :], strict=False))
    return (*(begin.get(axis, 0.0) for axis in spatial), *(end.get(axis, 1.0) for axis in spatial))


def _arranged(ctx: NodeContext, x: Expr, kept: list[int], spatial: list[int]) -> Expr:
    """The kept axes first, brought to exactly two."""
    dims = ctx.dims_of(x)
    order = (*kept, *spatial)
    if order != tuple(range(len(dims))):
        x = ctx.call("permute_dims", x, axes=order)
    lead: list[PrimExpr] = [dims[axis] for axis in kept]
    while len(lead) < 2:
        lead.insert(0, IntImm(DataType("int64"), 1))
    if len(lead) > 2:
        lead = [ctx.importer.simplify(_product(lead[:-1])), lead[-1]]
    return ctx.reshape(x, (*lead, *(dims[axis] for axis in spatial)))


def _restored(
    ctx: NodeContext, x: Expr, kept: list[int], spatial: list[int], target: tuple[PrimExpr, ...]
) -> Expr:
    dims = ctx.dims(0)
    order = (*kept, *spatial)
    x = ctx.reshape(x, (*(dims[axis] for axis in kept), *target))
    if order == tuple(range(len(dims))):
        return x
    return ctx.call("permute_dims", x, axes=tuple(order.index(axis) for axis in range(len(dims))))


def _product(dims: list[PrimExpr]) -> PrimExpr:
    total = dims[0]
    for dim in dims[1:]:
        total = dim if is_const_int(total, 1) else ops.multiply(total, dim)
    return total
