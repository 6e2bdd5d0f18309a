"""Integers of four bits: casts, quantised values, what moves them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import FLOAT32, ONNX_TYPES, Value

INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)


@recipe(2)
def four_bits(b: Builder) -> object:
    """Whole numbers within the range, as four bits, moved, and back."""
    if b.opset < 21:
        raise Unfit("too old")
    kind = b.rng.choice((INT4, UINT4))
    low, high = (-8, 7) if kind == INT4 else (0, 15)
    x = b.pick(lambda v: v.dtype.name in ("float32", "int32", "int8") and v.rank < 5)
    bounds = [b.given([np.asarray(end).astype(x.dtype)] * b.num_samples, True) for end in (low, high)]
    inside = b.node("Clip", [x, *bounds])
    if x.is_float:
        inside = b.node("Floor", [inside])
    made = _moved(b, b.node("Cast", [inside], to=ONNX_TYPES[kind]))
    return made if b.flag(0.2) else b.node("Cast", [made], to=ONNX_TYPES[np.dtype("float32")])


@recipe(2)
def four_bits_quantised(b: Builder) -> object:
    """Weights of four bits with a scale, as they are stored; or a value there and back."""
    if b.opset < 21:
        raise Unfit("too old")
    kind = b.rng.choice((INT4, UINT4))
    scale = b.fresh(FLOAT32, [], 0.11, 0.43, constant=True)
    zero = b.given([np.asarray(b.integer(0, 3)).astype(kind)] * b.num_samples, True)
    if b.flag():
        shape = [b.rng.choice((1, 2, 3, 5, 8)) for _ in range(b.integer(1, 3))]
        numbers = b.root.noise.integers(-8 if kind == INT4 else 0, 8, shape).astype(kind)
        return b.node("DequantizeLinear", [b.given([numbers] * b.num_samples, True), scale, zero])
    x = b.pick(lambda v: v.dtype == FLOAT32 and v.rank > 0)
    made = b.node("QuantizeLinear", [x, scale, zero])
    return b.node("DequantizeLinear", [_moved(b, made), scale, zero])


def _moved(b: Builder, x: Value) -> Value:
    kind = b.rng.choice(("none", "transpose", "identity", "flatten"))
    if kind == "transpose" and x.rank > 1:
        return b.node("Transpose", [x])
    if kind == "flatten" and x.rank:
        return b.node("Flatten", [x], axis=b.integer(0, x.rank))
    return b.node("Identity", [x]) if kind == "identity" else x
