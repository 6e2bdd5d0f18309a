"""Shapes and arrays as values of a running program: tuples with a name of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from operator import index
from typing import Any


class Shape(tuple[int, ...]):
    """The sizes of a tensor: a tuple of ints, equal to and hashed as the plain tuple."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Shape:
        return tuple.__new__(cls, map(index, sizes))

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self))})"


class Array(tuple[Any, ...]):
    """An immutable sequence of runtime values: what a tuple or list becomes when it is passed to a
    program. Among values of data types it is the one with tag 0.
    """

    __slots__ = ()
    tag = 0

    @property
    def fields(self) -> tuple[Any, ...]:
        """Its elements."""
        return tuple(self)

    def __repr__(self) -> str:
        return f"Array({list(self)!r})"

    def release_item(self, position: int) -> None:
        """Put None in place of an element, for everybody who holds this array, so that its memory is freed at
        once.

        Programs drop weights that they have consumed this way. A tuple has no method for it; the object's
        slot is written directly, with the reference counts kept right. Raises: IndexError.
        """
        old = self[position]
        place = id(self) + tuple.__basicsize__ + ctypes.sizeof(ctypes.c_void_p) * position
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))
        ctypes.c_void_p.from_address(place).value = id(None)
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))


class Texts(Array):
    """The strings of a tensor in row-major order. Machine code passes them on as one object: their number
    does not matter to it."""

    __slots__ = ()


class TextTensor(Array):
    """A tensor of strings: its Shape and its Texts. Machine code passes it on as one object, too."""

    __slots__ = ()


class Map(dict[Any, Any]):
    """A mapping of runtime values."""

    __slots__ = ()
