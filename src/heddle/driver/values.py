"""What a caller has, and what a machine takes and gives: arrays, arrays of texts, lists of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.runtime.shape import Array, Shape
from heddle.runtime.tensor import Tensor, tensor
from heddle.vm.builtins.strings import made_of, texts_of


def as_argument(value: Any) -> Any:
    """What a machine takes for an array, for a list of arrays, or for an array of texts."""
    if isinstance(value, (list, tuple)):
        return Array(as_argument(item) for item in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUT":
        return made_of(value.astype(str).astype(object))
    return value if value is None else tensor(np.asarray(value))


def as_array(value: Any) -> Any:
    """An array, or a list of arrays, of what a machine gives."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Shape):
        return texts_of(value)
    if isinstance(value, (tuple, list, Array)):
        return [as_array(item) for item in value]
    return value.numpy() if isinstance(value, Tensor) else value
