"""Converters of ONNX operators, a folder for each kind and a module for each family. Importing them puts them
into the registry."""

from __future__ import annotations

from heddle.frontend.onnx.ops import (
    contrib,
    control,
    math,
    missing,
    ml,
    nn,
    tensor,
    text,
)

__all__ = [
    "contrib",
    "control",
    "math",
    "missing",
    "ml",
    "nn",
    "tensor",
    "text",
]
