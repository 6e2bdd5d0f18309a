"""Padding, and moving channels to space and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.arith.sizes import simplified
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import require_ndim, unknown_dims
from heddle.prim.nodes import IntImm
from heddle.prim.ops import maximum, minimum
from heddle.prim.values import convert
from heddle.runtime.dtype import dtype_of
from heddle.topi.nn import padding as topi

_DATA = Input("data", meaning="a tensor")
_LAYOUT = Without("axes have fixed places")
_NUMPY_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "edge": "edge",
    "circular": "wrap",
    "wrap": "wrap",
    "symmetric": "symmetric",
}


def _infer_pad(ctx: Inference) -> Type:
    ty, widths, mode = ctx.tensor(0), ctx.attrs.pad_width, ctx.attrs.pad_mode
    if mode not in topi.MODES:
        ctx.attr_error(f"pad_mode must be one of {', '.join(topi.MODES)}, got {mode!r}")
    if ty.ndim >= 0 and len(widths) != 2 * ty.ndim:
        ctx.attr_error(f"pad_width must have {2 * ty.ndim} numbers, got {len(widths)}")
    if ty.dims is None:
        return ty
    dims = []
    for k, dim in enumerate(ty.dims):
        before, after = int(widths[2 * k]), int(widths[2 * k + 1])
        _check_border(ctx, mode, dim, max(before, after), k)
        _check_crop(ctx, dim, -(before + after), k)
        dims.append(simplified(dim + (before + after)))
    return TensorType(tuple(dims), ty.dtype)


def _least_size(mode: str, width: int) -> int:
    """How many elements an axis must have, to be padded with by `width`."""
    if mode == "constant" or width <= 0:
        return 0
    return width + 1 if mode == "reflect" else 1


def _check_border(ctx: Inference, mode: str, dim: Any, width: int, axis: int) -> None:
    """Elements to pad with must exist."""
    least = _least_size(mode, width)
    if least:
        ctx.require_at_least(dim, least, f"{mode} padding of {width} does not fit axis {axis} of size {dim}")


def _check_crop(ctx: Inference, dim: Any, cut: int, axis: int) -> None:
    """More elements than there are cannot be cut off."""
    if cut > 0:
        ctx.require_at_least(dim, cut, f"axis {axis} of size {dim} cannot be cropped by {cut}")


def _check_elements(mode: str, width: int, size: int) -> None:
    """Raises: ValueError where an axis has no elements to pad with by so much."""
    if size < _least_size(mode, width):
        raise ValueError("an axis has too few elements to pad with")


def _np_pad(attrs: Any, x: Any) -> Any:
    return _padded(x, attrs.pad_width, attrs.pad_mode, convert(attrs.pad_value, dtype_of(x)))


def _padded(x: Any, flat_widths: Sequence[int], mode: str, value: Any) -> Any:
    """Pad with elements, or crop where a width is negative."""
    widths = list(zip(flat_widths[::2], flat_widths[1::2], strict=True))
    if any(n + b + a < 0 for (b, a), n in zip(widths, x.shape, strict=True)):
        raise ValueError("an axis is cropped by more than its size")
    for width, size in zip(map(max, widths), x.shape, strict=True):
        _check_elements(mode, width, size)
    grown = [(max(0, b), max(0, a)) for b, a in widths]
    options = {"constant_values": value} if mode == "constant" else {}
    padded = np.pad(x, grown, _NUMPY_MODES[mode], **options).astype(x.dtype)  # type: ignore[call-overload]
    return padded[
        tuple(slice(max(0, -b), n - max(0, -a)) for (b, a), n in zip(widths, padded.shape, strict=True))
    ]


def _infer_dynamic_pad(ctx: Inference) -> Type:
    ty, value, widths = ctx.tensor(0), ctx.tensor(1), target_shape(ctx, 2)
    if ctx.attrs.pad_mode not in topi.MODES:
        ctx.attr_error(f"pad_mode must be one of {', '.join(topi.MODES)}, got {ctx.attrs.pad_mode!r}")
    require_ndim(ctx, value, 0, "the value")
    ctx.same_dtype(ty, value)
    if widths is not None and ty.ndim >= 0 and len(widths) != 2 * ty.ndim:
        ctx.shape_error(f"the widths must be {2 * ty.ndim} numbers, got {len(widths)}")
    if ty.dims is None or widths is None:
        return unknown_dims(ty.dtype, ty.ndim)
    dims = []
    for k, (dim, before, after) in enumerate(zip(ty.dims, widths[::2], widths[1::2], strict=True)):
        added = simplified(before + after)
        if isinstance(added, IntImm):
            _check_crop(ctx, dim, -added.value, k)
        dims.append(simplified(dim + added))
        if ctx.attrs.pad_mode != "constant":
            most = maximum(before, after)
            least = minimum(most, 1) + (most if ctx.attrs.pad_mode == "reflect" else 0)
            ctx.require_equal(maximum(dim, least), dim, f"{ctx.attrs.pad_mode} padding and the axis")
    return TensorType(tuple(dims), ty.dtype)


def _np_dynamic_pad(attrs: Any, x: Any, value: Any, widths: Any) -> Any:
    return _padded(x, widths, attrs.pad_mode, value)


def _declare_dynamic_pad() -> None:
    def sample(shape: tuple[int, ...], widths: tuple[int, ...], mode: str, dtype: str = "float32") -> Sample:
        return Sample(
            (shape, (), widths),
            {"pad_mode": mode},
            (dtype,),
            lambda rng, dtype: (
                np.asarray(rng.integers(-8, 9, size=shape)).astype(dtype),
                np.asarray(3).astype(dtype),
                widths,
            ),
        )

    declare_op(
        OpDef(
            name="dynamic_pad",
            inputs=(
                _DATA,
                Input("pad_value", meaning="of rank 0, of mode constant"),
                Input("pad_width", "shape", "before and after each axis, flat; a negative one crops"),
            ),
            attrs=(AttrSpec("pad_mode", "str", "constant", ", ".join(topi.MODES)),),
            doc="As `nn.pad`, with widths and a value that are known when it runs.",
            infer=_infer_dynamic_pad,
            reference=_np_dynamic_pad,
            lower=lambda attrs, x, value, widths: topi.pad(x, widths, str(attrs.pad_mode), value),
            layout=_LAYOUT,
            samples=(
                sample((3, 5), (1, 2, 0, 3), "constant"),
                sample((3, 5), (0, 0, 0, 0), "constant", "int8"),
                sample((0, 2), (1, 0, 0, 0), "constant"),
                sample((3, 5), (2, 1, 0, 4), "reflect"),
                sample((3, 5), (2, 7, 1, 0), "edge", "bool"),
                sample((3, 5), (2, 3, 1, 9), "circular", "float16"),
                sample((0, 2), (0, 0, 2, 0), "edge"),
                sample((3, 4), (3, 1, 0, 2), "symmetric"),
                *(sample((4, 5), (-1, 0, 2, -3), mode) for mode in topi.MODES),
                sample((4, 5), (-1, -3, 0, 0), "constant", "int8"),
            ),
            errors=(
                ErrorSample(((2, 3), (), (1, 1)), {}, "R0203", "the widths must be 4 numbers"),
                ErrorSample(((2, 3), (1,), (1, 1, 0, 0)), {}, "R0203", "the value must have 0 dimensions"),
                ErrorSample(((2,), (), (2, 0)), {"pad_mode": "reflect"}, "R0203", "reflect padding"),
                ErrorSample(((2,), (), (-3, 0)), {}, "R0203", "cannot be cropped by 3"),
                ErrorSample(((2,), (), (0, 0)), {"pad_mode": "mirror"}, "R0205", "pad_mode must be one of"),
            ),
        )
    )


def _infer_shuffle(ctx: Inference) -> Type:
    ty, r = ctx.tensor(0), int(ctx.attrs.upscale_factor)
    _check_shuffle(ctx, ty, r)
    if ty.dims is None:
        return ty
    c, h, w = ty.dims[-3:]
    ctx.require_multiple(c, r * r, f"{c} channels are no multiple of {r * r}")
    return TensorType(
        (*ty.dims[:-3], simplified(c // (r * r)), simplified(h * r), simplified(w * r)), ty.dtype
    )


def _infer_unshuffle(ctx: Inference) -> Type:
    ty, r = ctx.tensor(0), int(ctx.attrs.downscale_factor)
    _check_shuffle(ctx, ty, r)
    if ty.dims is None:
        return ty
    c, h, w = ty.dims[-3:]
    for what, size in (("height", h), ("width", w)):
        ctx.require_multiple(size, r, f"the {what} {size} is no multiple of {r}")
    return TensorType(
        (*ty.dims[:-3], simplified(c * (r * r)), simplified(h // r), simplified(w // r)), ty.dtype
    )


def _check_shuffle(ctx: Inference, ty: TensorType, factor: int) -> None:
    if factor < 1:
        ctx.attr_error(f"the factor must be at least 1, got {factor}")
    if 0 <= ty.ndim < 3:
        ctx.shape_error(f"data must have at least 3 dimensions, got {ty.ndim}")


def _np_shuffle(attrs: Any, x: Any) -> Any:
    r = int(attrs.upscale_factor)
    *lead, c, h, w = x.shape
    images, depth = math.prod(lead), c // (r * r)
    if attrs.blocks_first:
        parts = x.reshape(images, r, r, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(images, depth, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(*lead, c // (r * r), h * r, w * r)


def _np_unshuffle(attrs: Any, x: Any) -> Any:
    r = int(attrs.downscale_factor)
    *lead, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if attrs.blocks_first else (0, 1, 3, 5, 2, 4)
    parts = x.reshape(math.prod(lead), c, h // r, r, w // r, r).transpose(order)
    return parts.reshape(*lead, c * r * r, h // r, w // r)


_BLOCKS_FIRST = AttrSpec(
    "blocks_first", "bool", False, "whether deep channels are (row, column, c), not (c, row, column)"
)


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_dynamic_pad()
    declare_op(
        OpDef(
            name="nn.pad",
            inputs=(_DATA,),
            attrs=(
                AttrSpec(
                    "pad_width", "list", meaning="before and after each axis, flat; negative widths crop"
                ),
                AttrSpec("pad_mode", "str", "constant", ", ".join(topi.MODES)),
                AttrSpec("pad_value", "float", 0.0, "of mode constant"),
            ),
            doc=(
                "The tensor with more elements around it: a constant, or elements of its own as "
                "`pad_mode` says."
            ),
            infer=_infer_pad,
            reference=_np_pad,
            lower=lambda attrs, x: topi.pad(
                x, [int(w) for w in attrs.pad_width], str(attrs.pad_mode), attrs.pad_value
            ),
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5),), {"pad_width": [1, 2, 0, 3]}, ("float32", "int32")),
                Sample(((3, 5),), {"pad_width": [0, 0, 1, 0], "pad_value": 2.5}),
                Sample(((3, 5),), {"pad_width": [2, 1, 0, 4], "pad_mode": "reflect"}),
                Sample(((3, 5),), {"pad_width": [2, 4, 1, 0], "pad_mode": "replicate"}),
                Sample(((3, 5),), {"pad_width": [2, 3, 1, 0], "pad_mode": "circular"}),
                Sample(((3, 4),), {"pad_width": [3, 1, 0, 2], "pad_mode": "symmetric"}),
                Sample(((5, 7),), {"pad_width": [-1, 2, 1, -3]}),
                Sample(((0, 2),), {"pad_width": [1, 0, 0, 0]}),
                Sample(((2,),), {"pad_width": [0, 0]}),
            ),
            errors=(
                ErrorSample(((2, 3),), {"pad_width": [1, 1]}, "R0205", "pad_width must have 4 numbers"),
                ErrorSample(
                    ((2, 3),),
                    {"pad_width": [2, 0, 0, 0], "pad_mode": "reflect"},
                    "R0203",
                    "reflect padding of 2 does not fit",
                ),
                ErrorSample(
                    ((2,),), {"pad_width": [0, 0], "pad_mode": "mirror"}, "R0205", "pad_mode must be one of"
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="nn.pixel_shuffle",
            inputs=(_DATA,),
            attrs=(AttrSpec("upscale_factor", "int"), _BLOCKS_FIRST),
            doc="(..., c * r * r, h, w) → (..., c, h * r, w * r).",
            infer=_infer_shuffle,
            reference=_np_shuffle,
            lower=lambda attrs, x: topi.pixel_shuffle(x, int(attrs.upscale_factor), bool(attrs.blocks_first)),
            layout=_LAYOUT,
            samples=(
                Sample(((2, 8, 3, 2),), {"upscale_factor": 2}),
                Sample(((9, 1, 2),), {"upscale_factor": 3}),
                Sample(((2, 8, 3, 2),), {"upscale_factor": 2, "blocks_first": True}),
                Sample(((18, 1, 2),), {"upscale_factor": 3, "blocks_first": True}),
            ),
            errors=(
                ErrorSample(
                    ((1, 5, 2, 2),), {"upscale_factor": 2}, "R0203", "5 channels are no multiple of 4"
                ),
            ),
        )
    )
    declare_op(
        OpDef(
            name="nn.pixel_unshuffle",
            inputs=(_DATA,),
            attrs=(AttrSpec("downscale_factor", "int"), _BLOCKS_FIRST),
            doc="(..., c, h * r, w * r) → (..., c * r * r, h, w).",
            infer=_infer_unshuffle,
            reference=_np_unshuffle,
            lower=lambda attrs, x: topi.pixel_unshuffle(
                x, int(attrs.downscale_factor), bool(attrs.blocks_first)
            ),
            layout=_LAYOUT,
            samples=(
                Sample(((1, 2, 6, 4),), {"downscale_factor": 2}),
                Sample(((1, 3, 6),), {"downscale_factor": 3}),
                Sample(((1, 2, 6, 4),), {"downscale_factor": 2, "blocks_first": True}),
                Sample(((3, 3, 6),), {"downscale_factor": 3, "blocks_first": True}),
            ),
            errors=(
                ErrorSample(((1, 5, 3, 2),), {"downscale_factor": 2}, "R0203", "height 3 is no multiple"),
            ),
        )
    )
