"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.arith.sizes import simplified
from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import require_float, unknown_dims
from heddle.prim.nodes import IntImm, constant
from heddle.prim.ops import floordiv, maximum, minimum
from heddle.topi import signal as topi

_WIDTHS = (32, 64)


def _infer_fft(ctx: Inference) -> Type:
    x, lengths = ctx.tensor(0), target_shape(ctx, 1)
    require_float(ctx, x)
    if x.dtype is not None and x.dtype.bits not in _WIDTHS:
        ctx.fail(R0204, f"expected float32 or float64, got {x.dtype}", "convert with astype")
    if lengths is not None and len(lengths) != 1:
        ctx.shape_error(f"the length is one number, got {len(lengths)}")
    if x.ndim not in (-1, 3):
        ctx.shape_error(f"expected (rows, n, parts), got {x.ndim} dimensions")
    if x.dims is None or lengths is None:
        return unknown_dims(x.dtype, 3)
    parts = x.dims[2]
    if isinstance(parts, IntImm) and parts.value not in (1, 2):
        ctx.shape_error(f"the last dimension must be 1 (reals) or 2 (real and imaginary parts), got {parts}")
    ctx.assume_equal(minimum(maximum(parts, 1), 2), parts)
    (length,) = lengths
    if isinstance(length, IntImm) and length.value < 1:
        ctx.shape_error(f"a transform has at least 1 element, got {length}")
    inverse, onesided = bool(ctx.attrs.inverse), bool(ctx.attrs.onesided)
    outputs = simplified(floordiv(length, 2) + 1) if onesided and not inverse else length
    return TensorType((x.dims[0], outputs, constant(1 if onesided and inverse else 2, "int64")), x.dtype)


def _np_fft(attrs: Any, x: Any, lengths: Any) -> Any:
    length = int(lengths[0])
    if x.shape[2] not in (1, 2):
        raise ValueError("parts are reals, or real and imaginary parts")
    rows = np.zeros((len(x), max(length, x.shape[1])), np.complex128)
    rows.real[:, : x.shape[1]] = x[..., 0]
    if x.shape[2] > 1:
        rows.imag[:, : x.shape[1]] = x[..., 1]
    rows = rows[:, :length]
    if attrs.inverse and attrs.onesided:
        real = np.fft.irfft(rows[:, : length // 2 + 1], length, axis=1) if len(x) else rows.real
        return real[..., None].astype(x.dtype)
    made = (np.fft.ifft if attrs.inverse else np.fft.fft)(rows, axis=1) if len(x) else rows
    if attrs.onesided:
        made = made[:, : length // 2 + 1]
    return np.stack([made.real, made.imag], axis=-1).astype(x.dtype)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="signal.fft",
            inputs=(
                Input("x", meaning="(rows, n, 1) of reals or (rows, n, 2) of real and imaginary parts"),
                Input("length", "shape", "one number: the length of the transform"),
            ),
            attrs=(
                AttrSpec("inverse", "bool", False, "with the other sign, divided by the length"),
                AttrSpec("onesided", "bool", False, "only frequencies up to half of the length"),
            ),
            doc="The discrete Fourier transform over axis 1. Elements behind the length do not count, those "
            "that are missing are 0. The inverse of one side gives reals, (rows, length, 1).",
            infer=_infer_fft,
            reference=_np_fft,
            lower=lambda attrs, x, length: topi.fft(x, length[0], bool(attrs.inverse), bool(attrs.onesided)),
            layout=Without("axes have fixed places"),
            samples=(
                *(Sample(((2, n, 2), (n,)), {}, ("float32", "float64")) for n in (1, 2, 6, 8, 25)),
                *(Sample(((2, n, 1), (n,)), {"onesided": True}, ("float32",)) for n in (1, 4, 7)),
                Sample(((17, 3, 1), (3,)), {}, ("float32",)),
                *(Sample(((2, n, 2), (n,)), {"inverse": True}, ("float32",)) for n in (1, 5, 12)),
                *(
                    Sample(((2, n // 2 + 1, 2), (n,)), {"inverse": True, "onesided": True}, ("float64",))
                    for n in (1, 2, 7)
                ),
                Sample(((2, 5, 2), (8,)), {}, ("float32",)),
                Sample(((2, 9, 1), (4,)), {}, ("float32",)),
                Sample(((0, 4, 2), (4,)), {}, ("float32",)),
                Sample(((2, 0, 2), (4,)), {}, ("float32",)),
            ),
            errors=(
                ErrorSample(((2, 4, 3), (4,)), {}, "R0203", "last dimension"),
                ErrorSample(((2, 4), (4,)), {}, "R0203", "3"),
                ErrorSample(((2, 4, 2), (0,)), {}, "R0203", "at least 1"),
            ),
        )
    )
