"""Tensors of strings, and n-grams."""

from __future__ import annotations

from heddle.frontend.onnx.ops.text import (
    ngram,
    strings,
)

__all__ = [
    "ngram",
    "strings",
]
