"""Operators of com.microsoft: what ONNX Runtime's exporters, optimisers and quantisers emit."""

from __future__ import annotations

from heddle.frontend.onnx.ops.contrib import (
    activation,
    attention,
    conv,
    few_bits,
    grouped,
    linear,
    norm,
    quantized,
    quantized_linear,
    recurrent,
    rotary,
    scores,
    standard,
)

__all__ = [
    "activation",
    "attention",
    "conv",
    "few_bits",
    "grouped",
    "linear",
    "norm",
    "quantized",
    "quantized_linear",
    "recurrent",
    "rotary",
    "scores",
    "standard",
]
