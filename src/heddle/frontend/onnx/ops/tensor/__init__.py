"""What makes, moves and selects elements, and shapes."""

from __future__ import annotations

from heddle.frontend.onnx.ops.tensor import (
    axes,
    create,
    image,
    index,
    rearrange,
    select,
    shape,
    shape_math,
    slicing,
    squeeze,
)

__all__ = [
    "axes",
    "create",
    "image",
    "index",
    "rearrange",
    "select",
    "shape",
    "shape_math",
    "slicing",
    "squeeze",
]
