"""Resize and Upsample: images at another size, by sizes or scales, known or read when the model runs."""

from __future__ import annotations

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.float_dims import as_float, float_constant, float_product, whole_dim
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import tensor_value
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.prim import ops
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


@frozen
class Target:
    """What an axis becomes. `scale`: (1,) float32 that maps positions, where the quotient of the sizes does
    not; `region`: begin and end, (1,) float32 each."""

    size: PrimExpr
    scale: Expr | None = None
    region: tuple[Expr, Expr] | None = None


@converts("Upsample", since=7)
def upsample_7(ctx: NodeContext) -> Result:
    """Upsample of version 7: scales are an attribute."""
    return _resized(ctx, _by_scales(ctx, np.asarray(ctx.attr("scales"), np.float32)), "asymmetric", "floor")


@converts("Upsample", since=9)
@converts("Resize", since=10)
def resize_10(ctx: NodeContext) -> Result:
    """Resize of version 10 and Upsample of version 9: scales are an input, pixels map asymmetrically."""
    return _resized(ctx, _by_scales(ctx, 1), "asymmetric", "floor")


@converts("Resize", since=11)
def resize(ctx: NodeContext) -> Result:
    """Inputs: data, region of interest, scales, sizes."""
    mode = ctx.attr("coordinate_transformation_mode", "half_pixel")
    if ctx.has(3):
        policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
        targets = _by_sizes(ctx) if policy == "stretch" else _of_one_scale(ctx, policy == "not_larger")
    elif ctx.has(2):
        targets = _by_scales(ctx, 2)
    else:
        ctx.malformed("neither scales nor sizes are given")
    if mode == "tf_crop_and_resize":
        targets = _in_regions(ctx, targets)
    if ctx.flag("antialias"):
        return _antialiased(ctx, targets, mode)
    return _resized(ctx, targets, mode, ctx.attr("nearest_mode", "round_prefer_floor"))


def _all_axes(ctx: NodeContext) -> list[int]:
    rank = ctx.ndim(0)
    return ctx.axes(ctx.attr("axes", None) or range(rank), rank)


def _axes(ctx: NodeContext, count: int, what: str) -> list[int]:
    axes = _all_axes(ctx)
    if len(axes) != count:
        ctx.malformed(f"{count} {what} for {len(axes)} axes")
    return axes


# ---- what the axes become


def _by_scales(ctx: NodeContext, given: int | np.ndarray) -> dict[int, Target]:
    """floor(dim * scale), in float32. `given` is the input's number, or the scales."""
    known = ctx.array(given) if isinstance(given, int) else given
    if known is None:
        return _by_run_time_scales(ctx, given)  # type: ignore[arg-type]
    scales = [float(scale) for scale in known.reshape(-1)]
    if any(scale <= 0 for scale in scales):
        ctx.malformed(f"scales must be positive, got {scales}")
    dims, targets = ctx.dims(0), {}
    for axis, scale in zip(_axes(ctx, len(scales), "scales"), scales, strict=True):
        if scale == 1:
            continue
        size = _grown(ctx, dims[axis], scale)
        exact = scale == int(scale) or (
            isinstance(dims[axis], IntImm) and int(dims[axis]) * scale == int(int(dims[axis]) * scale)  # type: ignore[call-overload]
        )
        targets[axis] = Target(size, None if exact else ctx.const([scale], "float32"))
    return targets


def _grown(ctx: NodeContext, dim: PrimExpr, scale: float) -> PrimExpr:
    grown = float_product(as_float(dim, "float32"), float_constant(scale, "float32"), "float32")
    return whole_dim(ctx.importer, grown, "float32", "floor")


def _by_run_time_scales(ctx: NodeContext, index: int) -> dict[int, Target]:
    dims = ctx.dims(0)
    axes = _all_axes(ctx)
    ctx.require_rank(index, 0, 1)
    given = ctx.of_length(index, len(axes)) if ctx.ndim(index) else ctx.reshape(ctx.tensor(index), (1,))
    _axes(ctx, int(ctx.dims_of(given)[0]), "scales")  # type: ignore[call-overload]
    scales = ctx.astype(given, "float32")
    own = [ctx.astype(ctx.size(dims[axis]), "float32") for axis in axes]
    sizes = ctx.call("floor", ctx.call("multiply", _stacked(ctx, own), scales))
    found = ctx.importer.elements_of(tensor_value(ctx.astype(sizes, "int64"), "size"))
    return {axis: Target(found[k], _element(ctx, scales, k)) for k, axis in enumerate(axes)}


def _by_sizes(ctx: NodeContext) -> dict[int, Target]:
    sizes, dims = ctx.shape_values(3, count=len(_all_axes(ctx))), ctx.dims(0)
    axes = _axes(ctx, len(sizes), "sizes")
    moved = {axis: Target(size) for axis, size in zip(axes, sizes, strict=True)}
    return {axis: t for axis, t in moved.items() if not ctx.importer.simplify.equal(t.size, dims[axis])}


def _of_one_scale(ctx: NodeContext, is_least: bool) -> dict[int, Target]:
    """One scale for all axes: the least or greatest that the sizes ask for, as a fraction size / dim. A
    dimension becomes dim * scale, halves rounded up."""
    sizes, dims = ctx.shape_values(3, count=len(_all_axes(ctx))), ctx.dims(0)
    axes = _axes(ctx, len(sizes), "sizes")
    above, below = sizes[0], dims[axes[0]]
    for size, axis in zip(sizes[1:], axes[1:], strict=True):
        left, right = size * below, above * dims[axis]
        better = ops.less(left, right) if is_least else ops.greater(left, right)
        above, below = ops.select(better, size, above), ops.select(better, dims[axis], below)
    scaled = [ops.floordiv(above * 2 * dims[axis] + below, below * 2) for axis in axes]
    ends = ctx.importer.named_dims([*scaled, above, below], "size")
    parts = [ctx.astype(ctx.size(end), "float32") for end in ends[-2:]]
    scale = ctx.call("divide", *parts)
    return {axis: Target(size, scale) for axis, size in zip(axes, ends, strict=False)}


def _in_regions(ctx: NodeContext, targets: dict[int, Target]) -> dict[int, Target]:
    """The region that is scaled to the whole, of axes that it names."""
    if not ctx.has(1):
        ctx.malformed("tf_crop_and_resize needs a region of interest")
    count = ctx.static_dim(1, 0, "the size of the region of interest") // 2
    axes = _axes(ctx, count, "begins of regions")
    values, dims = ctx.astype(ctx.tensor(1), "float32"), ctx.dims(0)
    made = dict(targets)
    for k, axis in enumerate(axes):
        known = ctx.array(1)
        if known is not None and [*known.reshape(-1)[[k, k + count]]] == [0, 1] and axis not in targets:
            continue
        old = targets.get(axis, Target(dims[axis]))
        made[axis] = Target(old.size, None, (_element(ctx, values, k), _element(ctx, values, k + count)))
    return made


def _element(ctx: NodeContext, vector: Expr, index: int) -> Expr:
    return ctx.call("take", vector, ctx.const([index], "int64"), axis=0)


def _stacked(ctx: NodeContext, parts: list[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else ctx.call("concat", tuple(parts), axis=0)


# ---- the images


def _resized(ctx: NodeContext, targets: dict[int, Target], mode: str, rounding: str) -> Expr:
    """Axes that change, at most three at a time: the interpolations of axes do not depend on each other."""
    method = _METHODS.get(ctx.attr("mode", "nearest"))
    if method is None:
        ctx.malformed(f"unknown mode {ctx.attr('mode')!r}")
    rank, x = ctx.ndim(0), ctx.tensor(0)
    moved = sorted(targets)
    if not moved:
        return x
    spatial = list(range(min(2, moved[0]), rank)) if rank <= 5 else moved
    if len(spatial) <= 3:
        return _resized_along(ctx, x, spatial, targets, mode, rounding)
    pairs = [moved[max(0, end - 2) : end] for end in range(len(moved), 0, -2)]
    for axes in pairs:  # the last axes first
        x = _resized_along(ctx, x, axes, targets, mode, rounding)
    return x


def _resized_along(
    ctx: NodeContext, x: Expr, spatial: list[int], targets: dict[int, Target], mode: str, rounding: str
) -> Expr:
    dims = ctx.dims_of(x)
    method = _METHODS[ctx.attr("mode", "nearest")]
    kept = [axis for axis in range(len(dims)) if axis not in spatial]
    own = [targets.get(axis, Target(dims[axis])) for axis in spatial]
    sizes = tuple(target.size for target in own)
    given = [target.scale is not None or target.region is not None for target in own]
    made = ctx.call(
        f"image.resize{len(spatial)}d",
        _arranged(ctx, x, kept, spatial),
        ShapeExpr(sizes),
        *([_geometry(ctx, own, [dims[axis] for axis in spatial])] if any(given) else []),
        layout=_LAYOUTS[len(spatial)],
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding if method == "nearest_neighbor" else "",
        cubic_alpha=ctx.attr("cubic_coeff_a", -0.75),
        cubic_exclude=ctx.attr("exclude_outside", 0),
        extrapolation_value=ctx.attr("extrapolation_value", 0.0),
        roi=None,
    )
    return _restored(ctx, made, kept, spatial, dims, sizes)


def _geometry(ctx: NodeContext, targets: list[Target], dims: list[PrimExpr]) -> Expr:
    """(3, axes): scales, begins and ends."""
    zero, one = ctx.const([0], "float32"), ctx.const([1], "float32")
    scales = [_scale(ctx, target, dim) for target, dim in zip(targets, dims, strict=True)]
    regions = [target.region or (zero, one) for target in targets]
    rows = [*scales, *(low for low, _ in regions), *(high for _, high in regions)]
    return ctx.reshape(_stacked(ctx, rows), (3, len(targets)))


def _scale(ctx: NodeContext, target: Target, dim: PrimExpr) -> Expr:
    if target.scale is not None:
        return target.scale
    parts = [ctx.astype(ctx.size(size), "float32") for size in (target.size, dim)]
    return ctx.call("divide", *parts)


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
    ctx: NodeContext,
    x: Expr,
    kept: list[int],
    spatial: list[int],
    dims: tuple[PrimExpr, ...],
    target: tuple[PrimExpr, ...],
) -> Expr:
    order = (*kept, *spatial)
    x = ctx.reshape(x, (*(dims[axis] for axis in kept), *target))
    if order == tuple(range(len(dims))):
        return x
    return ctx.call("permute_dims", x, axes=tuple(order.index(axis) for axis in range(len(dims))))


def _product(dims: list[PrimExpr]) -> PrimExpr:
    total = dims[0]
    for dim in dims[1:]:
        total = ops.multiply(total, dim)
    return total


# ---- antialiasing


def _antialiased(ctx: NodeContext, targets: dict[int, Target], mode: str) -> Expr:
    """Axis by axis the product with a matrix of weights: the filter is as wide as 1 / scale. Integers are
    rounded once, halves away from zero."""
    if ctx.attr("mode", "nearest") == "nearest" or mode not in _POSITIONS:
        ctx.unsupported(f"antialiasing of mode {ctx.attr('mode', 'nearest')} at {mode} positions")
    dtype, x = ctx.dtype(0), ctx.tensor(0)
    if not targets:
        return x
    is_wide = dtype == "float64" or (DataType(dtype).is_int and DataType(dtype).bits >= 32)
    x = ctx.astype(x, "float64" if is_wide else "float32")
    for axis, target in targets.items():
        x = _filtered(ctx, x, axis, target, mode)
    if not DataType(dtype).is_float:
        half = ctx.const(0.5, str(ctx.type_of(x).dtype))
        x = ctx.call(
            "multiply", ctx.call("sign", x), ctx.call("floor", ctx.call("add", ctx.call("abs", x), half))
        )
    return ctx.astype(x, dtype)


_POSITIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric")


def _filtered(ctx: NodeContext, x: Expr, axis: int, target: Target, mode: str) -> Expr:
    dims, dtype = ctx.dims_of(x), str(ctx.type_of(x).dtype)
    scale = _scale(ctx, target, dims[axis])
    shrink = ctx.call("minimum", scale, ctx.const([1], "float32"))
    if ctx.attr("mode", "nearest") not in _REACH:
        ctx.malformed(f"mode must be one of {', '.join(_REACH)} with antialiasing, got {mode!r}")
    reach = ctx.call("ceil", ctx.call("divide", ctx.const([_REACH[ctx.attr("mode")]], "float32"), shrink))
    (extra,) = ctx.importer.elements_of(tensor_value(ctx.astype(reach, "int64"), "reach"))
    size = dims[axis]
    taps = ctx.call("arange", constant(0, "int64") - extra, size + extra, 1, dtype="int64")
    outputs = ctx.astype(ctx.call("arange", 0, target.size, 1, dtype="int64"), "float32")
    half = ctx.const([0 if mode == "asymmetric" else 0.5], "float32")
    at = ctx.call("subtract", ctx.call("divide", ctx.call("add", outputs, half), scale), half)
    distance = ctx.call("subtract", ctx.astype(taps, "float32"), ctx.call("expand_dims", at, axis=1))
    weights = _weights(ctx, ctx.call("abs", ctx.call("multiply", distance, shrink)))
    zero, last = ctx.const([0], "int64"), ctx.call("subtract", ctx.size(size), ctx.const([1], "int64"))
    inner = ctx.call("minimum", ctx.call("maximum", taps, zero), last)
    if ctx.flag("exclude_outside"):
        inside = ctx.astype(ctx.call("equal", inner, taps), "float32")
        weights = ctx.call("multiply", weights, inside)
    weights = ctx.call("divide", weights, ctx.call("sum", weights, axis=(1,), keepdims=True))
    rows = ctx.call("take", x, inner, axis=axis)
    order = tuple(k for k in range(len(dims)) if k != axis)
    lines = ctx.call("permute_dims", rows, axes=(*order, axis))
    made = ctx.call("matmul", lines, ctx.astype(ctx.call("permute_dims", weights, axes=(1, 0)), dtype))
    back = (*order, axis)
    return ctx.call("permute_dims", made, axes=tuple(back.index(k) for k in range(len(dims))))


_REACH = {"linear": 1, "cubic": 2}
"""How far from its place a value has weight."""


def _weights(ctx: NodeContext, distance: Expr) -> Expr:
    """Weights at distances that are not negative: a triangle, or Keys' cubic with parameter a."""

    def number(value: float) -> Expr:
        return ctx.const(value, "float32")

    def polynomial(*factors: float) -> Expr:
        made = number(factors[0])
        for factor in factors[1:]:
            made = ctx.call("add", ctx.call("multiply", made, distance), number(factor))
        return made

    if ctx.attr("mode") == "linear":
        return ctx.call("maximum", polynomial(-1, 1), number(0))
    a = ctx.attr("cubic_coeff_a", -0.75)
    near, far = polynomial(a + 2, -(a + 3), 0, 1), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = ctx.call("where", ctx.call("less", distance, number(2)), far, number(0))
    return ctx.call("where", ctx.call("less_equal", distance, number(1)), near, outer)
