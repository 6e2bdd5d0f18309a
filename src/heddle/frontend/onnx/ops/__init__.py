"""Converters of ONNX operators, a module for each family. Importing them puts them into the registry."""

from __future__ import annotations

from heddle.frontend.onnx.ops import (
    activation,
    control,
    conv,
    create,
    elementwise,
    index,
    linear,
    loop,
    norm,
    pool,
    quantize,
    rearrange,
    recurrent,
    reduce,
    resize,
    select,
    sequence,
    shape,
    shape_math,
    slicing,
)

__all__ = [
    "activation",
    "control",
    "conv",
    "create",
    "elementwise",
    "index",
    "linear",
    "loop",
    "norm",
    "pool",
    "quantize",
    "rearrange",
    "recurrent",
    "reduce",
    "resize",
    "select",
    "sequence",
    "shape",
    "shape_math",
    "slicing",
]
