"""Resizing of images."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.nn.window import checked_positions, numpy_layout
from heddle.ops.rules import NO_PIXELS, require_ndim, unknown_dims
from heddle.prim.values import convert
from heddle.runtime.dtype import DataType, dtype_of
from heddle.topi import image as topi
from heddle.topi.dims import static
from heddle.topi.nn.window import spatial_letters


def _rule(ndim: int) -> Callable[[Inference], Type]:
    def infer(ctx: Inference) -> Type:
        x, attrs = ctx.tensor(0), ctx.attrs
        at = checked_positions(ctx, str(attrs.layout), "NC" + spatial_letters(ndim))[2:]
        for name, value, known in (
            ("method", attrs.method, topi.METHODS),
            ("coordinate_transformation_mode", attrs.coordinate_transformation_mode, topi.COORDINATES),
            ("rounding_method", attrs.rounding_method, topi.ROUNDINGS),
        ):
            if value not in known:
                ctx.attr_error(f"{name} must be one of {', '.join(known)}, got {value!r}")
        require_ndim(ctx, x, ndim + 2, "data")
        dtype = DataType(attrs.out_dtype) if attrs.out_dtype else x.dtype
        size = target_shape(ctx, 1)
        if len(ctx.args) > 2:
            geometry = ctx.tensor(2)
            require_ndim(ctx, geometry, 2, "the geometry")
            if geometry.dims is not None:
                found = tuple(static(dim, "a size of the geometry") for dim in geometry.dims)
                if found != (3, ndim):
                    ctx.shape_error(f"the geometry must be (3, {ndim}), got {found}")
        if size is not None and len(size) != ndim:
            ctx.shape_error(f"the size must have {ndim} numbers, got {len(size)}")
        if x.dims is None or size is None:
            return unknown_dims(dtype, ndim + 2)
        dims = list(x.dims)
        for axis, dim in zip(at, size, strict=True):
            dims[axis] = dim
        for axis in at:
            ctx.require_elements(x.dims[axis], dims, "resized", NO_PIXELS)
        return TensorType(tuple(dims), dtype)

    return infer


def _np_source(
    attrs: Any, outputs: int, size: int, roi: tuple[float, float], scale: float | None = None
) -> Any:
    """Positions in the image, in float32 as the operator states, since rounding picks a neighbour."""
    x, n, m = np.arange(outputs, dtype=np.float32), np.float32(size), np.float32(outputs)
    mode, half, one = attrs.coordinate_transformation_mode, np.float32(0.5), np.float32(1)
    is_nearest = attrs.method == "nearest_neighbor"

    def scaled(at: Any) -> Any:
        if scale is not None:
            return at / np.float32(scale)
        return at / (m / n) if is_nearest else at * n / m

    if mode == "asymmetric":
        return scaled(x)
    if mode == "tf_half_pixel_for_nn":
        return scaled(x + half)
    if mode == "align_corners":
        steps = max(m - one, one)
        if scale is not None and outputs > 1:
            steps = np.float32(scale) * n - one
        return x * (n - one) / steps
    if mode == "tf_crop_and_resize":
        low, high = np.float32(roi[0]), np.float32(roi[1])
        if outputs == 1:
            return np.array([(low + high) * half * (n - one)], np.float32)
        return low * (n - one) + x * (high - low) * (n - one) / (m - one)
    centred = scaled(x + half) - half
    if mode == "half_pixel_symmetric" and scale is not None:
        return centred + n * half * (one - m / (np.float32(scale) * n))
    return np.zeros(1, np.float32) if mode == "pytorch_half_pixel" and outputs == 1 else centred


def _np_taps(attrs: Any, x: float) -> list[tuple[int, float]]:
    if attrs.method == "nearest_neighbor":
        mode = attrs.rounding_method or (
            "floor" if attrs.coordinate_transformation_mode == "asymmetric" else "round_prefer_floor"
        )
        rounding: dict[str, Callable[[Any], Any]] = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_ceil": lambda v: np.floor(v) + (v - np.floor(v) > np.float32(0.5 - topi.NEAR_HALF)),
        }
        whole = rounding.get(
            mode, lambda v: np.floor(v) + (v - np.floor(v) >= np.float32(0.5 + topi.NEAR_HALF))
        )
        return [(int(whole(x)), 1.0)]
    base = int(np.floor(x))
    t = float(x) - base
    if attrs.method == "linear":
        return [(base, 1 - t), (base + 1, t)]
    a = attrs.cubic_alpha
    taps = []
    for k in (-1, 0, 1, 2):
        d = abs(t - k)
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        taps.append((base + k, near if d <= 1 else far))
    return taps


def _reference(attrs: Any, data: Any, size: Any, geometry: Any = None) -> Any:
    ndim = data.ndim - 2
    letters = "NC" + spatial_letters(ndim)
    x: Any = numpy_layout(data, attrs.layout, letters)
    dtype = DataType(attrs.out_dtype).numpy() if attrs.out_dtype else data.dtype
    is_copy = attrs.method == "nearest_neighbor"
    result: Any = np.zeros((*x.shape[:2], *size), x.dtype if is_copy else np.float64)
    if not result.size:
        return numpy_layout(result, letters, attrs.layout).astype(dtype)
    if 0 in x.shape[2:]:
        raise ValueError(NO_PIXELS.format("resized"))
    roi = attrs.roi or (0.0,) * ndim + (1.0,) * ndim
    scales = [None] * ndim if geometry is None else geometry[0]
    if geometry is not None:
        roi = (*geometry[1], *geometry[2])
    sources = [
        _np_source(attrs, m, n, (roi[k], roi[k + ndim]), scales[k])
        for k, (m, n) in enumerate(zip(size, x.shape[2:], strict=True))
    ]
    for at in itertools.product(*(range(m) for m in size)):
        here = [sources[k][i] for k, i in enumerate(at)]
        outside = any(h < 0 or h > n - 1 for h, n in zip(here, x.shape[2:], strict=True))
        if attrs.coordinate_transformation_mode == "tf_crop_and_resize" and outside:
            result[(..., *at)] = attrs.extrapolation_value
            continue
        taps = [_np_taps(attrs, h) for h in here]
        if attrs.cubic_exclude and attrs.method == "cubic":
            inside = [
                [(p, w if 0 <= p < n else 0.0) for p, w in axis]
                for axis, n in zip(taps, x.shape[2:], strict=True)
            ]
            taps = [[(p, w / sum(v for _, v in axis)) for p, w in axis] for axis in inside]
        for combination in itertools.product(*taps):
            place = tuple(min(max(p, 0), n - 1) for (p, _), n in zip(combination, x.shape[2:], strict=True))
            value = x[(..., *place)]
            result[(..., *at)] += value if is_copy else value * np.prod([w for _, w in combination])
    return numpy_layout(convert(result, dtype_of(dtype)), letters, attrs.layout)


def _how(attrs: Any, ndim: int) -> topi.Resize:
    return topi.Resize(
        str(attrs.method),
        str(attrs.coordinate_transformation_mode),
        str(attrs.rounding_method),
        float(attrs.cubic_alpha),
        bool(attrs.cubic_exclude),
        float(attrs.extrapolation_value),
        tuple(attrs.roi or (0.0,) * ndim + (1.0,) * ndim),
    )


def _samples_2d() -> tuple[Sample, ...]:
    shape, up, down = (1, 2, 5, 7), (8, 9), (3, 4)
    rows: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        (shape, up if k % 2 else down, {"method": method, "coordinate_transformation_mode": mode})
        for k, (method, mode) in enumerate(
            itertools.product(
                topi.METHODS, ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
            )
        )
    ]
    nearest = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}
    rows += [
        (shape, up, {**nearest, "rounding_method": mode})
        for mode in ("floor", "ceil", "round_prefer_ceil", "")
    ]
    rows += [
        (shape, down, {"method": "cubic", "cubic_exclude": 1}),
        ((1, 3, 4, 2), (6, 2), {"layout": "NHWC"}),
        (shape, (1, 1), {"coordinate_transformation_mode": "pytorch_half_pixel"}),
        (
            shape,
            up,
            {
                "coordinate_transformation_mode": "tf_crop_and_resize",
                "roi": [0.1, -0.2, 0.8, 1.3],
                "extrapolation_value": 2.0,
            },
        ),
        (
            shape,
            up,
            {
                "method": "nearest_neighbor",
                "coordinate_transformation_mode": "tf_half_pixel_for_nn",
                "rounding_method": "floor",
            },
        ),
    ]
    return (*(Sample((s, size), attrs) for s, size, attrs in rows), *_geometry_samples())


def _geometry_samples() -> tuple[Sample, ...]:
    """Scales that are not the quotient of the sizes; regions that are data."""
    shape, size = (1, 2, 5, 7), (4, 9)
    geometry = np.array([[0.9, 1.37], [0.1, -0.2], [0.8, 1.3]], "float32")
    return tuple(
        Sample(
            (shape, size, (3, 2)),
            {"method": method, "coordinate_transformation_mode": mode},
            make=lambda rng, dtype: (rng.standard_normal(shape).astype(dtype), size, geometry),
        )
        for method, mode in (
            ("linear", "half_pixel"),
            ("nearest_neighbor", "asymmetric"),
            ("cubic", "half_pixel_symmetric"),
            ("linear", "tf_crop_and_resize"),
        )
    )


def _declare(ndim: int, samples: tuple[Sample, ...]) -> None:
    letters = "NC" + spatial_letters(ndim)
    shape = (1, 1, *(4,) * ndim)
    declare_op(
        OpDef(
            name=f"image.resize{ndim}d",
            inputs=(
                Input("data", meaning="(n, channels, spatial...) in the layout"),
                Input("size", "shape", "sizes of the spatial axes"),
                Input(
                    "geometry",
                    meaning=(
                        f"(3, {ndim}) float32: scales, and begins and ends of the region, in place of the "
                        "quotient of the sizes and of `roi`"
                    ),
                    optional=True,
                ),
            ),
            attrs=(
                AttrSpec("roi", "floats", None, "begins, then ends, in [0, 1], of tf_crop_and_resize"),
                AttrSpec("layout", "str", letters),
                AttrSpec("method", "str", "linear", ", ".join(topi.METHODS)),
                AttrSpec("coordinate_transformation_mode", "str", "half_pixel", ", ".join(topi.COORDINATES)),
                AttrSpec("rounding_method", "str", "round", "of nearest_neighbor"),
                AttrSpec("cubic_alpha", "float", -0.75),
                AttrSpec("cubic_exclude", "int", 0, "give places outside no weight"),
                AttrSpec("extrapolation_value", "float", 0.0),
                AttrSpec("out_dtype", "dtype", None, "default: the data's"),
            ),
            doc=(
                f"Images at another size along {ndim} spatial axes. Modes are those of ONNX's Resize;"
                f" positions are float32."
            ),
            infer=_rule(ndim),
            reference=_reference,
            lower=lambda attrs, x, size, geometry=None: topi.resize(
                x, size, str(attrs.layout), _how(attrs, ndim), attrs.out_dtype, geometry
            ),
            layout=Without("the layout is an attribute"),
            samples=samples,
            errors=(
                ErrorSample((shape, (3,) * (ndim + 1)), {}, "R0203", f"the size must have {ndim} numbers"),
                ErrorSample((shape, (3,) * ndim, (2, ndim)), {}, "R0203", "the geometry must be"),
                ErrorSample((shape, (3,) * ndim), {"method": "area"}, "R0205", "method must be one of"),
                ErrorSample((shape[1:], (3,) * ndim), {}, "R0203", f"data must have {ndim + 2} dimensions"),
            ),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    volume = (1, 1, 2, 3, 4)
    line = (2, 1, 7)
    _declare(1, (Sample((line, (4,))), Sample((line, (9,)), {"method": "cubic"})))
    _declare(2, _samples_2d())
    _declare(3, (Sample((volume, (3, 3, 2))), Sample((volume, (4, 2, 5)), {"method": "nearest_neighbor"})))
