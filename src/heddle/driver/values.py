"""Convert between Python values and machine values: arrays, arrays of texts, and lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from heddle.driver.codes import D0204
from heddle.runtime.shape import Array, Shape, Texts
from heddle.runtime.tensor import Tensor, refuse_masked, tensor
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.strings import made_of, texts_of


def as_argument(value: Any) -> Any:
    """Convert an array, a list of arrays, or an array of texts to a machine value.

    Raises: IRTypeError U0302 for an element type without an equivalent, and for a masked array.
    """
    if isinstance(value, (list, tuple)):
        return Array(as_argument(item) for item in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUT":
        refuse_masked(value)
        return made_of(value)
    return value if value is None else tensor(value)


def as_array(value: Any) -> Any:
    """Convert a machine value to an array or a list of arrays. A tensor of texts becomes an array of objects;
    a shape and a number become arrays of integers or floats. None (a missing optional) stays."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Texts):
        return texts_of(value)
    if isinstance(value, Shape):
        return np.asarray(tuple(value), np.int64)
    if isinstance(value, (tuple, list)):
        return [as_array(item) for item in value]
    if isinstance(value, (int, float)):
        return np.asarray(value)
    return value.numpy() if isinstance(value, Tensor) else value


def as_arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """Convert a machine value to a flat list of arrays, in order; nested tuples are flattened.

    Raises: UsageError D0204 for a value that is not an array, such as a closure.
    """
    return list(_flat(as_array(value)))


def _flat(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, np.ndarray):
        yield value
    else:
        raise UsageError(D0204, f"a result of type {type(value).__name__} cannot be shown as an array")
