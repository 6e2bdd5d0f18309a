"""Shapes, arrays and maps as runtime values: subclasses of Python's containers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from operator import index
from typing import Any


class Shape(tuple[int, ...]):
    """The sizes of a tensor: a tuple of ints. It equals the plain tuple and has the same hash."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Shape:
        return tuple.__new__(cls, map(index, sizes))

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self))})"


class Array(tuple[Any, ...]):
    """An immutable sequence of runtime values. Tuples and lists become Arrays when they are passed to a
    program. As a value of a data type, an Array has tag 0.
    """

    __slots__ = ()
    tag = 0

    @property
    def fields(self) -> tuple[Any, ...]:
        """The elements, as the fields of a value of a data type."""
        return tuple(self)

    def __repr__(self) -> str:
        return f"Array({list(self)!r})"

    def release_item(self, position: int) -> None:
        """Replace an element with None for all holders of this array, so that its memory is freed at once.

        Programs use this to drop weights after their last use. Tuples have no method for it, so the object's
        slot is written directly; reference counts stay correct. Raises: IndexError.
        """
        old = self[position]
        place = id(self) + tuple.__basicsize__ + ctypes.sizeof(ctypes.c_void_p) * position
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))
        ctypes.c_void_p.from_address(place).value = id(None)
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))


class Texts(Array):
    """The strings of a string tensor in row-major order. Machine code passes them on as one object, so their
    number does not matter to it.
    """

    __slots__ = ()


class TextTensor(Array):
    """A tensor of strings: a Shape and the Texts. Machine code passes it on as one object."""

    __slots__ = ()


class Map(dict[Any, Any]):
    """A mapping of runtime values."""

    __slots__ = ()
