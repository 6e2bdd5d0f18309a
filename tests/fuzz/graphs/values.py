"""Values of a random graph: what they are in each sample, and how far rounding could move them.

A graph is made together with a few samples: sets of inputs whose symbolic sizes differ. Each value is known
in all of them, so that a node is added only where it is legal in all of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = tuple(np.dtype(name) for name in ("float32", "float64", "float16")) + (BFLOAT16,)
SIGNED = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
UNSIGNED = tuple(np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64"))
INTS = SIGNED + UNSIGNED
BOOL = np.dtype(bool)
INT64, FLOAT32, INT32 = np.dtype("int64"), np.dtype("float32"), np.dtype("int32")
NUMBERS = FLOATS + INTS
ALL = NUMBERS + (BOOL,)
ONNX_TYPES: dict[np.dtype[Any], int] = {
    np.dtype("float32"): TensorProto.FLOAT,
    np.dtype("float64"): TensorProto.DOUBLE,
    np.dtype("float16"): TensorProto.FLOAT16,
    BFLOAT16: TensorProto.BFLOAT16,
    BOOL: TensorProto.BOOL,
    np.dtype(ml_dtypes.int4): TensorProto.INT4,
    np.dtype(ml_dtypes.uint4): TensorProto.UINT4,
    **{dtype: getattr(TensorProto, dtype.name.upper()) for dtype in INTS},
}
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LIMIT = {"float64": 1e6, "float32": 1e5, "float16": 500.0, "bfloat16": 1e4}
"""What ordinary values of a float stay below, so that rounding does not grow to overflow."""

Size = tuple[int, ...]
"""One dimension: its size in each sample."""


@dataclass(eq=False)
class Value:
    """`clean[s]` is the value in sample s, `noisy[s]` the same after errors of rounding at every operator. A
    sequence is a list of arrays."""

    name: str
    clean: list[Any]
    noisy: list[Any]
    constant: bool = False

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.clean[0], list)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.clean[0].dtype
        return found

    @property
    def rank(self) -> int:
        return int(self.clean[0].ndim)

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(zip(*(array.shape for array in self.clean), strict=True))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def has_elements(self) -> bool:
        return all(array.size for array in self.clean)


def is_fixed(size: Size) -> bool:
    return len(set(size)) == 1


def random_array(
    rng: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...], low: float = -2, high: float = 2
) -> np.ndarray[Any, Any]:
    """Numbers of ordinary size; floats have few bits in common with halves, where rounding would tie."""
    made = np.random.default_rng(rng.getrandbits(32)).uniform(low, high, shape)
    if dtype == BOOL:
        return np.asarray(made > (low + high) / 2)
    if dtype in FLOATS:
        return np.asarray(made).astype(dtype)
    bottom = max(0, low) if dtype in UNSIGNED else low
    whole = np.random.default_rng(rng.getrandbits(32)).integers(
        int(bottom), max(int(bottom) + 1, int(high) + 4), shape
    )
    return np.asarray(whole).astype(dtype)
