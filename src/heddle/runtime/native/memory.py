"""Structures of the native interface (`abi`) as Python reads and writes them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

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
