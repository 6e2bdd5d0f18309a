"""Layers: convolutions, pools, normalisations, recurrences, quantised layers, training steps."""

from __future__ import annotations

from heddle.frontend.onnx.ops.nn import (
    activation,
    conv,
    detection,
    norm,
    pool,
    quantize,
    recurrent,
    resize,
    spatial,
    training,
)

__all__ = [
    "activation",
    "conv",
    "detection",
    "norm",
    "pool",
    "quantize",
    "recurrent",
    "resize",
    "spatial",
    "training",
]
