"""Shapes and arrays as values of a running program: tuples with a name of their own."""

from __future__ import annotations

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
    """An immutable sequence of runtime values: what a tuple or list becomes when it is passed to a program."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Array({list(self)!r})"


class Map(dict[Any, Any]):
    """A mapping of runtime values."""

    __slots__ = ()
