"""A table of named things in which a name is declared once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from heddle.support.codes import S0201, S0202
from heddle.support.diagnostics import MissingNameError, UsageError, did_you_mean
from heddle.support.forks import ForkLock, Rank

V = TypeVar("V")


def caller_place(level: int = 1) -> str:
    """`file:line` of the function `level` calls above the one that asks."""
    frame = sys._getframe(level + 1)  # inspect.stack() would read every source file on the stack
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Registry(Generic[V]):
    """Insertion-ordered names of one kind of thing (`what` is used in messages: "operator", "pass")."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, V] = {}
        self._places: dict[str, str] = {}
        self._source: Callable[[], object] | None = None
        self._filling = ForkLock(Rank.IMPORTING)
        self._is_filling = False

    def fill_from(self, source: Callable[[], object]) -> None:
        """Call `source`, once, before a look-up fails or the table is listed: it declares what is still
        missing.
        """
        self._source = source

    def fill(self) -> None:
        """Call the source, if it was not called yet. Other threads wait until all is declared; the source
        itself sees what it declared so far.

        The source may import modules, so a module's import must not look anything up: two threads could wait
        for each other then.
        """
        if self._source is None:
            return
        with self._filling:
            if self._source is None or self._is_filling:
                return
            self._is_filling = True
            try:
                self._source()
            finally:
                self._is_filling = False
            self._source = None

    def add(self, name: str, value: V, *, override: bool = False, place: str | None = None) -> V:
        """Declare `name`. `place` (file:line) is the caller's unless given. Raises: UsageError S0201."""
        here = place or caller_place()
        if name in self._entries and not override:
            raise UsageError(
                S0201, f"{self.what} {name!r} is declared twice: {self._places[name]} and {here}"
            )
        self._entries[name] = value
        self._places[name] = here
        return value

    def get(self, name: str) -> V | None:
        if name not in self._entries:
            self.fill()
        return self._entries.get(name)

    def remove(self, name: str) -> None:
        self._entries.pop(name, None)
        self._places.pop(name, None)

    def place(self, name: str) -> str:
        return self._places[name]

    def __getitem__(self, name: str) -> V:
        if name not in self:
            raise MissingNameError(
                S0202, f"no {self.what} is called {name!r}", help=did_you_mean(name, self._entries)
            )
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        if name not in self._entries:
            self.fill()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self.fill()
        return iter(self._entries)

    def __len__(self) -> int:
        self.fill()
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, V]]:
        self.fill()
        return iter(list(self._entries.items()))
