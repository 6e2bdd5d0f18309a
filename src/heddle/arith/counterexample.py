"""Points that refute: a form that is negative for values that fit all that is known has no proof.

    0 <= i < m:   m - i - 2 >= 0 ?      m = 5, i = 4 gives -1: no search has to fail at it

A few points are kept for each state of knowledge. Only ranges and bounds of variables are known to fit; where
conditions were assumed too, nothing is refuted.
"""

from __future__ import annotations

from typing import Any

from heddle.arith.facts import LIMIT, Knowledge
from heddle.arith.linear import LinearForm
from heddle.prim.nodes import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var

NUM_POINTS = 3
_STEPS = (5, 11, 2)
_FAR = 40
"""How far from the end of its range a variable lies at most."""


class NoValueError(Exception):
    """An expression that has no value at a point, or none that is known here."""


class Point:
    """Values of variables, chosen when they are asked for, and of the expressions over them."""

    def __init__(self, know: Knowledge, number: int) -> None:
        self._know = know
        self._number = number
        self._values: dict[int, int | None] = {}
        self._count = 0

    def form(self, form: LinearForm) -> int:
        """The value of a linear form. Raises: NoValueError."""
        total = form.const
        for coef, factors in form.terms.values():
            for factor in factors:
                coef *= self.value(factor)
            total += coef
        return total

    def value(self, node: Any) -> int:
        """The value of a stored expression. Raises: NoValueError."""
        key = id(node)
        if key not in self._values:
            self._values[key] = None  # while it is computed, and where it cannot be
            self._values[key] = self._compute(node)
        found = self._values[key]
        if found is None:
            raise NoValueError
        return found

    def _compute(self, node: Any) -> int:
        cls = type(node)
        if cls is IntImm:
            return int(node.value)
        if cls is Var:
            return self._chosen(node)
        if cls is Cast and node.dtype.is_int and node.value.dtype.is_int and node.dtype.bits >= 32:
            return self.value(node.value)
        if cls not in _RULES:
            raise NoValueError
        a, b = self.value(node.a), self.value(node.b)
        if cls in (FloorDiv, FloorMod) and b == 0:
            raise NoValueError
        found: int = _RULES[cls](a, b)
        return found

    def _chosen(self, var: Var) -> int:
        """A value within the range of a variable: each gets another place in it."""
        know = self._know
        if id(var) in know.facts.values:
            return self.value(know.facts.values[id(var)])
        from_range = know.facts.ranges.get(id(var))
        low, high = know.facts.bounds.get(know.terms.key(var), (0 if var.is_size else -LIMIT, LIMIT))
        if from_range is not None and from_range[1] is not None and from_range[2] is not None:
            low, high = self.form(from_range[1]), self.form(from_range[2])
        if low > high:
            raise NoValueError
        self._count += 1
        step = self._count * _STEPS[self._number] % _FAR
        if low <= -LIMIT:
            return high if high < LIMIT and high < step else step
        return low + step % (min(high - low, _FAR) + 1)


_RULES: dict[type, Any] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}


def is_refuted(know: Knowledge, form: LinearForm) -> bool:
    """Whether the form is negative at one of the points; False says nothing."""
    facts = know.facts
    if facts.truths or facts.linear or facts.moduli or facts.sums:
        return False
    points = know.caches.points
    if not points:
        points.extend(Point(know, number) for number in range(NUM_POINTS))
    for point in points:
        try:
            if point.form(form) < 0:
                return True
        except NoValueError:
            continue
    return False
