"""Native shapes: sizes and strides as C int64 arrays at fixed addresses, shared by all tensors of that
shape.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from heddle.runtime.native.memory import array_address
from heddle.runtime.shape import Shape

_MAX_CACHED = 8192


class Layout:
    """The sizes and strides of a tensor, and their native arrays. Strides are in elements; None means
    row-major without gaps.

    `shape_address` and `strides_address` (0 for None) are valid while the Layout lives.
    """

    __slots__ = ("_memory", "num_elements", "shape", "shape_address", "strides", "strides_address")

    def __init__(self, shape: Shape, strides: tuple[int, ...] | None) -> None:
        self.shape = shape
        self.strides = strides
        self.num_elements = prod(shape)
        self._memory: np.ndarray[Any, Any] = np.array([*shape, *(strides or ()), 0], np.int64)
        self.shape_address: int = array_address(self._memory)
        self.strides_address = self.shape_address + 8 * len(shape) if strides is not None else 0


_layouts: dict[tuple[int, ...], Layout] = {}


def layout_of(shape: tuple[int, ...]) -> Layout:
    """Return the compact layout of a shape. Layouts are cached. A full cache is emptied; tensors keep their
    own layouts alive.
    """
    found = _layouts.get(shape)
    if found is not None:
        return found
    if len(_layouts) >= _MAX_CACHED:
        _layouts.clear()
    made = Layout(shape if type(shape) is Shape else Shape(shape), None)
    _layouts[made.shape] = made
    return made


def compact_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of a shape, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def strided_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """Return the layout with these strides (in elements). Compact strides give the shared compact layout."""
    if 0 in shape or all(
        size == 1 or stride == compact
        for size, stride, compact in zip(shape, strides, compact_strides(shape), strict=True)
    ):
        return layout_of(shape)
    return Layout(Shape(shape), strides)
