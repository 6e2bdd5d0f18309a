"""Functions of Python whose body is emitted code: METH_FASTCALL methods, no ctypes on their path."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_METH_FASTCALL = 0x80
CONTENT_OFFSET = bytes.__basicsize__ - 1
"""Where the contents of a bytes object start."""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("meth", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def slot_offset(cls: Any, name: str) -> int:
    """Where in its objects a class keeps a slot: slots follow the head in the order of their names."""
    return object.__basicsize__ + 8 * sorted(set(cls.__slots__) - {"__weakref__"}).index(name)


def make_fast_method(name: str, body: int, record: bytes, owner: object) -> Callable[..., Any]:
    """A builtin function with the METH_FASTCALL body at address `body`, whose self is `(record, owner)`. It
    keeps both alive."""
    method = _MethodDef(name.encode(), body, _METH_FASTCALL, None)
    made: Callable[..., Any] = _new_function(
        ctypes.addressof(method), (record, owner, method), "heddle.native"
    )
    return made
