"""Read and write structures of the native interface (`abi`) from Python."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from heddle.systems.types import Struct, ctype_of

_ctypes: dict[type[Struct], Any] = {}


def record_of(kind: type[Struct], *fields: int) -> bytes:
    """Return the bytes of a structure. Values are given in the order of its fields."""
    if kind not in _ctypes:
        _ctypes[kind] = ctype_of(kind)
    return bytes(_ctypes[kind](*fields))


def words_at(at: int, count: int) -> tuple[int, ...]:
    """Read signed 64-bit words at an address."""
    return struct.unpack(f"<{count}q", ctypes.string_at(at, 8 * count))


_HEAD_BYTES = object.__basicsize__
_word_in = ctypes.c_size_t.from_address


def array_address(array: np.ndarray[Any, Any]) -> int:
    """Return the address of a numpy array's data: the word after the object's head, as numpy's C API defines
    it. The dictionary of `__array_interface__` takes seven times as long."""
    return _word_in(id(array) + _HEAD_BYTES).value


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


_probe = np.empty((2, 3), np.float32)
if array_address(_probe) != _interface_address(_probe):
    array_address = _interface_address
