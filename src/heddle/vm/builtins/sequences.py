"""Builtins for sequences of tensors whose length is known only at run time. Sequences are immutable Arrays.

Positions are int64 tensors of one element; negative positions count from the end. Sequences share their
elements. Only builtins that join or split tensors copy data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.runtime.layout import layout_of
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor, allocated
from heddle.support.diagnostics import TrapIndexError, TrapTypeError, TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403, V0404
from heddle.vm.placement import NO_MEMORY, MachineMemory


def _items(sequence: Any) -> tuple[Any, ...]:
    if not isinstance(sequence, tuple):
        raise TrapTypeError(V0402, f"expected a sequence, got {type(sequence).__name__}")
    return sequence


def _place(at: Tensor, length: int) -> int:
    """Return a position in [0, length). Raises: TrapIndexError V0404."""
    found = int(at.item())
    if not -length <= found < length:
        raise TrapIndexError(V0404, f"position {found} is out of range: the sequence has {length} elements")
    return found + length if found < 0 else found


@builtin("sequence_at")
def sequence_at(sequence: Any, at: Tensor) -> Any:
    """Return the element at a position. Raises: TrapTypeError V0402, TrapIndexError V0404."""
    items = _items(sequence)
    return items[_place(at, len(items))]


@builtin("sequence_length", allocates=True)
def sequence_length(sequence: Any, *, memory: MachineMemory = NO_MEMORY) -> Tensor:
    """Return the number of elements: int64 of rank 0."""
    return memory.tensor_of(np.asarray(len(_items(sequence)), np.int64))


@builtin("sequence_insert")
def sequence_insert(sequence: Any, item: Any, at: Tensor) -> Array:
    """Return the sequence with one more element, inserted before a position or, without a position, at the
    end."""
    items = _items(sequence)
    place = len(items) if int(at.item()) == len(items) else _place(at, len(items))
    return Array((*items[:place], item, *items[place:]))


@builtin("sequence_append")
def sequence_append(sequence: Any, item: Any) -> Array:
    """Return the sequence with one more element at the end. Raises: TrapTypeError V0402 if it is not a
    sequence."""
    return Array((*_items(sequence), item))


@builtin("sequence_erase")
def sequence_erase(sequence: Any, at: Tensor) -> Array:
    """Return the sequence without the element at a position. Raises: TrapTypeError V0402, TrapIndexError
    V0404."""
    items = _items(sequence)
    place = _place(at, len(items))
    return Array((*items[:place], *items[place + 1 :]))


@builtin("sequence_concat", allocates=True)
def sequence_concat(
    sequence: Any, axis: int, is_new_axis: int, *, memory: MachineMemory = NO_MEMORY
) -> Tensor:
    """Concatenate the elements along an existing axis, or stack them along a new one.

    Raises: TrapValueError V0403 for an empty sequence or elements whose shapes or dtypes do not match.
    """
    items: Sequence[Tensor] = _items(sequence)
    if not items:
        raise TrapValueError(V0403, "an empty sequence cannot be joined")
    rank = items[0].ndim + is_new_axis
    place = axis + rank if axis < 0 else axis
    arrays = [np.expand_dims(item.numpy(), place) if is_new_axis else item.numpy() for item in items]
    outer = [array.shape[:place] + array.shape[place + 1 :] for array in arrays]
    if not 0 <= place < rank or any(
        one != outer[0] or item.dtype != items[0].dtype for one, item in zip(outer, items, strict=True)
    ):
        raise TrapValueError(V0403, f"the elements cannot be joined along axis {axis}")
    total = sum(array.shape[place] for array in arrays)
    layout = layout_of((*outer[0][:place], total, *outer[0][place:]))
    made = allocated(memory.allocator_of(items[0].device), layout, items[0].dtype)
    np.concatenate(arrays, place, out=made.numpy())
    return made


@builtin("sequence_split", allocates=True)
def sequence_split(
    x: Tensor, sizes: Tensor, axis: int, keeps_axis: int, *, memory: MachineMemory = NO_MEMORY
) -> Array:
    """Split a tensor along an axis. `sizes` is a vector with the size of each part, or a single number, the
    size of all parts (the last part may be smaller).

    Raises: TrapValueError V0403 for sizes that do not add up.
    """
    values, given = x.numpy(), sizes.numpy().astype(np.int64)
    total = values.shape[axis]
    parts = [int(size) for size in given] if given.ndim else _equal_parts(total, int(given))
    if min(parts, default=0) < 0 or sum(parts) != total:
        raise TrapValueError(V0403, f"parts of {parts} do not make an axis of {total}")
    made, begin = [], 0
    for size in parts:
        window = values[(slice(None),) * axis + (slice(begin, begin + size),)]
        part = window if keeps_axis else np.squeeze(window, axis)
        own = allocated(memory.allocator_of(x.device), layout_of(part.shape), x.dtype)
        own.numpy()[...] = part
        made.append(own)
        begin += size
    return Array(made)


def _equal_parts(total: int, size: int) -> list[int]:
    if size < 1:
        raise TrapValueError(V0403, f"parts of {size} elements")
    return [min(size, total - begin) for begin in range(0, total, size)]


@builtin("has_value", allocates=True)
def has_value(value: Any, *, memory: MachineMemory = NO_MEMORY) -> Tensor:
    """Whether an optional has a value: bool of rank 0."""
    return memory.tensor_of(np.asarray(value is not None))


@builtin("value_of_optional")
def value_of_optional(value: Any) -> Any:
    """Return the value of an optional. Raises: TrapValueError V0403 if it has none."""
    if value is None:
        raise TrapValueError(V0403, "the optional value is empty")
    return value
