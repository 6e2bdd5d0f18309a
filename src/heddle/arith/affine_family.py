"""Families of integers that few parameters tell: columns of numbers as sums and multiples of parameters.

    members        a    b    c                      parameter p = 8, 12, 16
    column 0       8   12   16        →             column 0 = p
    column 1      64   96  128                      column 1 = 8 * p
    column 2      24   28   32                      column 2 = p + 16
    column 3      56   56   56                      (the same in all: no column of the family)

Columns that grow together share a parameter: their differences are multiples of one vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from heddle.support.frozen import frozen

Column = tuple[int, ...]


@frozen
class Affine:
    """`scale * parameter + offset`; `param` is the parameter's position."""

    param: int
    scale: int
    offset: int


@frozen
class AffineFamily:
    """`params` are the values of each parameter, a number for each member, none negative."""

    params: tuple[Column, ...]

    def fit(self, column: Column) -> Affine | None:
        """A column as a multiple of one parameter; None where there is no such parameter."""
        for position, param in enumerate(self.params):
            found = _fit(column, param)
            if found is not None:
                return Affine(position, *found)
        return None


def affine_family(columns: Sequence[Column]) -> AffineFamily:
    """The fewest parameters of this kind for columns none of which is constant."""
    together: dict[Column, list[Column]] = {}
    for column in dict.fromkeys(columns):
        together.setdefault(_direction(column)[0], []).append(column)
    return AffineFamily(tuple(_parameter(direction, group) for direction, group in together.items()))


def _direction(column: Column) -> tuple[Column, int]:
    """The differences to the first number as a primitive vector, whose first number but zeros is positive,
    and the multiple of it that they are."""
    differences = [value - column[0] for value in column]
    scale = math.gcd(*differences)
    if next(d for d in differences if d) < 0:
        scale = -scale
    return tuple(d // scale for d in differences), scale


def _parameter(direction: Column, columns: list[Column]) -> Column:
    """A column itself where it is a parameter for all, the smallest of them; else the vector, moved."""
    unit = math.gcd(*(_direction(column)[1] for column in columns))
    fitting = [column for column in columns if abs(_direction(column)[1]) == unit and min(column) >= 0]
    if fitting:
        return min(fitting)
    return tuple(step - min(direction) for step in direction)


def _fit(column: Column, param: Column) -> tuple[int, int] | None:
    direction, scale = _direction(param)
    own, times = _direction(column)
    if own != direction or times % scale:
        return None
    return times // scale, column[0] - times // scale * param[0]
