"""Rows of operators on quantised values."""

from __future__ import annotations

import numpy as np

from benchmarks.onnx_ops.case import (
    LARGE_IMAGE,
    LARGE_TOKENS,
    SMALL_IMAGE,
    SMALL_TOKENS,
    Case,
    Sizes,
    Weight,
    on_images,
    scalar,
)

_SCALE = scalar(0.02)
_POINT = scalar(7, "int8")
_BYTE_POINT = scalar(128, "uint8")


def _seven_bits(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """ONNX Runtime adds two products in 16 bits where the processor has no dot products of bytes: of larger
    weights its sums saturate there."""
    return rng.integers(-64, 64, shape)


_ONE_STEP = 1.5e-2
"""Values between two steps may be rounded to either."""

QUANTISED: tuple[Case, ...] = (
    on_images(
        "QuantizeLinear",
        "QuantizeLinear(x, scale, point)",
        weights={"scale": _SCALE, "point": _POINT},
        tolerance=_ONE_STEP,
        opset=27,
    ),
    Case(
        "DequantizeLinear",
        "int8[n,c,h,w] x",
        "y = DequantizeLinear(x, scale, point)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        weights={"scale": _SCALE, "point": _POINT},
        opset=27,
    ),
    Case(
        "DynamicQuantizeLinear",
        "float[n,c,h,w] x",
        "y, scale, point = DynamicQuantizeLinear(x)",
        SMALL_IMAGE,
        LARGE_IMAGE,
        outputs="y, scale, point",
        tolerance=_ONE_STEP,
    ),
    Case(
        "MatMulInteger",
        "uint8[b,s,d] x",
        "y = MatMulInteger(x, w, point)",
        SMALL_TOKENS,
        LARGE_TOKENS,
        weights={"w": Weight(("d", 256), "int8", fill=_seven_bits), "point": _BYTE_POINT},
    ),
    Case(
        "QLinearMatMul",
        "uint8[b,s,d] x",
        "y = QLinearMatMul(x, scale, point, w, scale_w, point_w, scale_y, point_y)",
        SMALL_TOKENS,
        LARGE_TOKENS,
        weights={
            "w": Weight(("d", 256), "int8", fill=_seven_bits),
            "scale": _SCALE,
            "point": _BYTE_POINT,
            "scale_w": _SCALE,
            "point_w": scalar(0, "int8"),
            "scale_y": scalar(4.0),
            "point_y": _BYTE_POINT,
        },
        tolerance=_ONE_STEP,
    ),
    Case(
        "ConvInteger",
        "uint8[n,64,h,w] x",
        "y = ConvInteger<pads=[1,1,1,1]>(x, w, point)",
        {"n": 1, "h": 7, "w": 7},
        {"n": 1, "h": 56, "w": 56},
        weights={"w": Weight((64, 64, 3, 3), "int8", fill=_seven_bits), "point": _BYTE_POINT},
    ),
    Case(
        "QLinearConv",
        "uint8[n,64,h,w] x",
        "y = QLinearConv<pads=[1,1,1,1]>(x, scale, point, w, scale_w, point_w, scale_y, point_y)",
        {"n": 1, "h": 7, "w": 7},
        {"n": 1, "h": 56, "w": 56},
        weights={
            "w": Weight((64, 64, 3, 3), "int8", fill=_seven_bits),
            "scale": _SCALE,
            "point": _BYTE_POINT,
            "scale_w": _SCALE,
            "point_w": scalar(0, "int8"),
            "scale_y": scalar(4.0),
            "point_y": _BYTE_POINT,
        },
        tolerance=_ONE_STEP,
    ),
)
