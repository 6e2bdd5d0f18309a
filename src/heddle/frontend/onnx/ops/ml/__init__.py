"""Operators of ai.onnx.ml: features, linear models, trees."""

from __future__ import annotations

from heddle.frontend.onnx.ops.ml import (
    features,
    label_encoder,
    linear,
    scores,
    svm,
    trees,
)

__all__ = [
    "features",
    "label_encoder",
    "linear",
    "scores",
    "svm",
    "trees",
]
