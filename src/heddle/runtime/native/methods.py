"""Functions of Python whose body is emitted code: METH_FASTCALL methods, no ctypes on their path."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

_METH_FASTCALL = 0x80
CONTENT_OFFSET = bytes.__basicsize__ - 1
"""Where the contents of a bytes object start."""

_new_function: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def slot_offset(cls: Any, name: str) -> int:
    """Where in its objects a class keeps a slot: slots follow the head in the order of their names."""
    return object.__basicsize__ + 8 * sorted(set(cls.__slots__) - {"__weakref__"}).index(name)


def make_fast_method(name: str, body: int, record: bytes, owner: object) -> Callable[..., Any]:
    """A builtin function with the METH_FASTCALL body at address `body`, whose self is `(record, owner)`. It
    keeps both alive."""
    name_bytes = name.encode()
    # The interpreter reads the definition until the function is gone. Bytes stay as they are while cycles are
    # collected; a structure of ctypes is emptied then, in any order.
    definition = struct.pack("=qqqq", _address_of(name_bytes), body, _METH_FASTCALL, 0)
    made: Callable[..., Any] = _new_function(
        _address_of(definition), (record, owner, definition, name_bytes), "heddle.native"
    )
    return made


def _address_of(content: bytes) -> int:
    return id(content) + CONTENT_OFFSET
