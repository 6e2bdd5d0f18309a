"""What an Analyzer knows: ranges of variables, constraints in force, and everything derived from them
in caches.

A constraint scope replaces the caches and copies the knowledge; leaving it puts the old ones back. The
term table is shared by all scopes, since structure does not depend on knowledge.
"""

from __future__ import annotations

from typing import Any

from heddle.arith.linear import LinearForm, Mono
from heddle.arith.terms import TermTable

INF = 1 << 200
"""Stands for infinity in bounds. Whatever is beyond LIMIT is infinite, so that sums and products stay
infinite."""
LIMIT = 1 << 100

Bound = tuple[int, int]
Signature = frozenset[tuple[Mono, int]]
EVERYTHING: Bound = (-INF, INF)


class Facts:
    """Knowledge of one scope.

    bounds: constant bounds of variables and other atoms, by key. ranges: symbolic inclusive bounds of
    variables. sums: constant bounds of sums, by signature. linear: forms that are not negative. truths:
    conditions by key. told: what `bind` was told, to notice contradictions.
    """

    def __init__(self) -> None:
        self.bounds: dict[int, Bound] = {}
        self.moduli: dict[int, tuple[int, int]] = {}
        self.ranges: dict[int, tuple[Any, LinearForm | None, LinearForm | None]] = {}
        self.values: dict[int, Any] = {}
        self.sums: dict[Signature, Bound] = {}
        self.linear: list[LinearForm] = []
        self.truths: dict[int, bool] = {}
        self.told: dict[int, tuple[Any, ...]] = {}

    def copy(self) -> Facts:
        """The same facts in containers of their own: what is added to one is not in the other."""
        made = Facts()
        made.bounds, made.moduli, made.ranges = dict(self.bounds), dict(self.moduli), dict(self.ranges)
        made.values, made.sums = dict(self.values), dict(self.sums)
        made.linear, made.truths, made.told = list(self.linear), dict(self.truths), dict(self.told)
        return made


class Caches:
    """Results that hold as long as the facts do."""

    def __init__(self) -> None:
        self.bounds: dict[int, Bound] = {}
        self.moduli: dict[int, tuple[int, int]] = {}
        self.normal: dict[int, Any] = {}
        self.rewritten: dict[int, Any] = {}
        self.proofs: dict[tuple[Any, ...], bool] = {}
        self.points: list[Any] = []


class Knowledge:
    """The state that all analyses of one Analyzer share."""

    def __init__(self) -> None:
        self.terms = TermTable()
        self.facts = Facts()
        self.caches = Caches()
        self.work_left: int | None = None
        """How many terms the proof under way may still look at; None between proofs."""

    def forget(self) -> None:
        """Drop the caches because facts were added."""
        self.caches = Caches()

    def learnt_of(self, is_new: bool) -> None:
        """Drop the caches because something was told of a variable, unless it is new: in no term yet, so
        that nothing in them speaks of it."""
        if not is_new:
            self.forget()

    def enter(self) -> tuple[Facts, Caches]:
        """Open a scope; the returned state is for `leave`."""
        saved = (self.facts, self.caches)
        self.facts, self.caches = self.facts.copy(), Caches()
        return saved

    def leave(self, saved: tuple[Facts, Caches]) -> None:
        """Close a scope: put back the facts and the caches that `enter` returned."""
        self.facts, self.caches = saved


def clamp(low: int, high: int) -> Bound:
    """A bound with everything beyond LIMIT made infinite."""
    return (-INF if low < -LIMIT else low, INF if high > LIMIT else high)


def intersect(a: Bound, b: Bound) -> Bound:
    """The bound of what lies within both; low > high where nothing does."""
    return (a[0] if a[0] > b[0] else b[0], a[1] if a[1] < b[1] else b[1])
