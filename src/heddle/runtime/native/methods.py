"""Python functions whose body is compiled code: METH_FASTCALL methods without ctypes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

_METH_FASTCALL = 0x80
CONTENT_OFFSET = bytes.__basicsize__ - 1
"""The offset of the contents in a bytes object."""

_new_function: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def slot_offset(cls: Any, name: str) -> int:
    """Return the byte offset of a slot in the objects of a class. Slots follow the head, sorted by name."""
    return object.__basicsize__ + 8 * sorted(set(cls.__slots__) - {"__weakref__"}).index(name)


def make_fast_method(name: str, body: int, record: bytes, owner: object) -> Callable[..., Any]:
    """Return a builtin function whose METH_FASTCALL body is at address `body` and whose self is `(record,
    owner)`. The function keeps both alive."""
    name_bytes = name.encode()
    # The interpreter reads the method definition as long as the function lives. A bytes object stays intact
    # while the
    # garbage collector breaks cycles; a ctypes structure would be cleared, in any order.
    definition = struct.pack("=qqqq", _address_of(name_bytes), body, _METH_FASTCALL, 0)
    made: Callable[..., Any] = _new_function(
        _address_of(definition), (record, owner, definition, name_bytes), "heddle.native"
    )
    return made


def _address_of(content: bytes) -> int:
    return id(content) + CONTENT_OFFSET
