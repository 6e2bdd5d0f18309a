"""Points that refute: a form that is negative for values that fit all that is known has no proof.

    0 <= i < m:   m - i - 2 >= 0 ?      m = 5, i = 4 gives -1: no search has to fail at it

A few points are kept for each state of knowledge. A point refutes only where it fits all that proofs use:
ranges, bounds, residues, and inequalities that were assumed.
"""

from __future__ import annotations

from typing import Any

from heddle.arith.const_int_bound import bound_of
from heddle.arith.facts import EVERYTHING, LIMIT, Knowledge, intersect
from heddle.arith.linear import LinearForm
from heddle.prim.nodes import Add, Call, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var

_STEPS = (5, 11, 2, 0)
"""One for each point: how far the values of variables lie apart."""
_FAR = 40
"""How far from the end of its range a variable lies at most."""


class NoValueError(Exception):
    """An expression that has no value at a point, or none that is known here."""


class Point:
    """Values of variables, chosen when they are asked for, and of the expressions over them. Knowledge keeps
    its points, so they are told of it, and do not hold it: a cycle would outlive every proof."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._values: dict[int, int | None] = {}
        self._count = 0
        self._fits: bool | None = None

    def fits(self, know: Knowledge) -> bool:
        """Whether the inequalities that were assumed hold here."""
        if self._fits is None:
            try:
                self._fits = all(self.form(know, fact) >= 0 for fact in know.facts.linear)
            except NoValueError:
                self._fits = False
        return self._fits

    def form(self, know: Knowledge, form: LinearForm) -> int:
        """The value of a linear form. Raises: NoValueError."""
        total = form.const
        for coef, factors in form.terms.values():
            for factor in factors:
                coef *= self.value(know, factor)
            total += coef
        return total

    def value(self, know: Knowledge, node: Any) -> int:
        """The value of a stored expression. Raises: NoValueError."""
        key = id(node)
        if key not in self._values:
            self._values[key] = None  # while it is computed, and where it cannot be
            made = self._compute(know, node)
            self._values[key] = made if self._is_known_to_take(know, node, made) else None
        found = self._values[key]
        if found is None:
            raise NoValueError
        return found

    def _is_known_to_take(self, know: Knowledge, node: Any, value: int) -> bool:
        """Whether bounds and residues that were told of an expression admit a value."""
        facts = know.facts
        if not facts.bounds and not facts.moduli:
            return True
        key = know.terms.key(node)
        low, high = facts.bounds.get(key, EVERYTHING)
        coeff, base = facts.moduli.get(key, (1, 0))
        return low <= value <= high and (value == base if coeff == 0 else (value - base) % coeff == 0)

    def _compute(self, know: Knowledge, node: Any) -> int:
        cls = type(node)
        if cls is IntImm:
            return int(node.value)
        if cls is Var:
            return self._chosen(know, node)
        if cls is Cast and node.dtype.is_int and node.value.dtype.is_int and node.dtype.bits >= 32:
            return self.value(know, node.value)
        if cls in (Cast, Call):  # of these the prover knows bounds alone, so any value within them will do
            return self._within(*bound_of(know, node))
        if cls not in _RULES:
            raise NoValueError
        a, b = self.value(know, node.a), self.value(know, node.b)
        if cls in (FloorDiv, FloorMod) and b == 0:
            raise NoValueError
        found: int = _RULES[cls](a, b)
        return found

    def _chosen(self, know: Knowledge, var: Var) -> int:
        """A value within the range of a variable: each gets another place in it."""
        if id(var) in know.facts.values:
            return self.value(know, know.facts.values[id(var)])
        from_range = know.facts.ranges.get(id(var))
        low, high = know.facts.bounds.get(know.terms.key(var), (0 if var.is_size else -LIMIT, LIMIT))
        if from_range is not None and from_range[1] is not None and from_range[2] is not None:
            low, high = intersect(
                (low, high), (self.form(know, from_range[1]), self.form(know, from_range[2]))
            )
        return self._within(low, high)

    def _within(self, low: int, high: int) -> int:
        """The next value between two bounds, near the lower one."""
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
    points = know.caches.points
    if not points:
        points.extend(Point(number) for number in range(len(_STEPS)))
    for point in points:
        try:
            if point.fits(know) and point.form(know, form) < 0:
                return True
        except NoValueError:
            continue
    return False
