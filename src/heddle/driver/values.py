"""What a caller has, and what a machine takes and gives: arrays, arrays of texts, lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from heddle.driver.codes import D0204
from heddle.runtime.shape import Array, Shape, Texts, TextTensor
from heddle.runtime.tensor import Tensor, refuse_masked, tensor
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.strings import texts_of


def as_argument(value: Any) -> Any:
    """What a machine takes for an array, for a list of arrays, or for an array of texts.

    Raises: IRTypeError U0302 for an element type that has no equivalent, and for a masked array.
    """
    if isinstance(value, (list, tuple)):
        return Array(as_argument(item) for item in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUT":
        refuse_masked(value)
        return TextTensor((Shape(value.shape), Texts(map(str, value.reshape(-1).tolist()))))
    return value if value is None else tensor(value)


def as_array(value: Any) -> Any:
    """An array, or a list of arrays, of what a machine gives. A tensor of texts becomes an array of objects,
    a shape and a number arrays of integers or floats; None, the missing optional value, stays."""
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
    """What a machine gives as arrays, in order, however deep they lie in tuples.

    Raises: UsageError D0204 for a value that is no array: a closure, say.
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
