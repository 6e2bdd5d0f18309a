"""Structures of the native interface (`abi`) as Python reads and writes them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from heddle.systems.types import Struct, ctype_of

_ctypes: dict[type[Struct], Any] = {}


def record_of(kind: type[Struct], *fields: int) -> bytes:
    """The bytes of a structure, by its fields in their order."""
    if kind not in _ctypes:
        _ctypes[kind] = ctype_of(kind)
    return bytes(_ctypes[kind](*fields))


def words_at(at: int, count: int) -> tuple[int, ...]:
    """Signed words of 64 bits at an address."""
    return struct.unpack(f"<{count}q", ctypes.string_at(at, 8 * count))


_HEAD_BYTES = object.__basicsize__
_word_in = ctypes.c_size_t.from_address


def array_address(array: np.ndarray[Any, Any]) -> int:
    """Where a numpy array's elements begin: the word behind its head, by numpy's C interface. The dictionary
    of `__array_interface__` takes seven times as long."""
    return _word_in(id(array) + _HEAD_BYTES).value


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


_probe = np.empty((2, 3), np.float32)
if array_address(_probe) != _interface_address(_probe):
    array_address = _interface_address
