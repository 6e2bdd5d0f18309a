"""The tables of a page: lines, texts, places and sets of places, each kept once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from heddle.driver.page.facts import Facts, Listing, Mark
from heddle.support.span import Span, leaves

_Key = TypeVar("_Key", bound=Hashable)
_Row = TypeVar("_Row")
_MAX_LINE = 4000
"""Characters of a line that a page shows; lines of names alone may have millions."""


class Tables:
    """Fills the tables of a page's facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.spans: list[Span] = []
        """What the places were made of, by their numbers."""
        self._lines: dict[str, int] = {}
        self._texts: dict[tuple[int, ...], int] = {}
        self._places: dict[str, int] = {}
        self._sets: dict[tuple[int, ...], int] = {}

    def text(self, lines: Iterable[str]) -> int:
        """The number of a text."""
        key = tuple(self._line(line) for line in lines)
        return _numbered(self._texts, key, self.facts.texts, list(key))

    def _line(self, line: str) -> int:
        if len(line) > _MAX_LINE:
            line = f"{line[:_MAX_LINE]}… ({len(line) - _MAX_LINE} characters more)"
        return _numbered(self._lines, line, self.facts.lines, line)

    def place(self, span: Span) -> int:
        """The number of one original place."""
        text = span.place()
        if len(text) > _MAX_LINE:
            text = f"{text[:_MAX_LINE]}…"
        number = _numbered(self._places, text, self.facts.places, text)
        if number == len(self.spans):
            self.spans.append(span)
        return number

    def set(self, *spans: Span | None) -> int:
        """The number of the set of all original places behind spans."""
        return self.set_of(self.place(leaf) for span in spans for leaf in leaves(span))

    def set_of(self, places: Iterable[int]) -> int:
        """The number of a set of places."""
        key = tuple(sorted(set(places)))
        return _numbered(self._sets, key, self.facts.sets, list(key))

    def union(self, sets: Iterable[int]) -> int:
        """The number of the union of sets."""
        return self.set_of(place for number in set(sets) for place in self.facts.sets[number])

    def listing(
        self,
        name: str,
        lines: Sequence[str],
        spans: Sequence[Span | None] = (),
        kernel: str = "",
        whole: int | None = None,
    ) -> Listing:
        """A function at a level. `whole` is the set of all of it, where lines do not tell."""
        marks: list[Mark] = []
        for number, span in enumerate(spans):
            if span is None:
                continue
            found = self.set(span)
            if marks and marks[-1].set == found and marks[-1].last == number - 1:
                marks[-1].last = number
            else:
                marks.append(Mark(number, number, found))
        own = self.union([mark.set for mark in marks] + ([] if whole is None else [whole]))
        return Listing(name, self.text(lines), marks, own, kernel)


def _numbered(known: dict[_Key, int], key: _Key, rows: list[_Row], row: _Row) -> int:
    number = known.get(key)
    if number is None:
        number = known[key] = len(rows)
        rows.append(row)
    return number
