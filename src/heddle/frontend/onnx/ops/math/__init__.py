"""Elementwise functions, products, reductions, spectra, random numbers."""

from __future__ import annotations

from heddle.frontend.onnx.ops.math import (
    elementwise,
    linear,
    random,
    reduce,
    signal,
)

__all__ = [
    "elementwise",
    "linear",
    "random",
    "reduce",
    "signal",
]
