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
        self._sources: list[Callable[[], object]] = []
        self._filling = ForkLock(Rank.IMPORTING)
        self._is_filling = False

    def fill_from(self, *sources: Callable[[], object]) -> None:
        """Call `sources`, each once and in order, before a look-up fails, until one declares the name; all of
        them before the table is listed. They declare what is still missing.
        """
        self._sources = list(sources)

    def fill(self) -> None:
        """Call the sources that were not called yet. Other threads wait until all is declared; a source
        itself sees what it declared so far.

        A source may import modules, so a module's import must not look anything up: two threads could wait
        for each other then.
        """
        while self._call_next_source(None):
            pass

    def _fill_for(self, name: str) -> None:
        while name not in self._entries and self._call_next_source(name):
            pass

    def _call_next_source(self, name: str | None) -> bool:
        """Call the next source, unless another thread has declared `name` meanwhile; whether to go on."""
        if not self._sources:
            return False
        with self._filling:
            if not self._sources or self._is_filling or name in self._entries:
                return False
            self._is_filling = True
            try:
                self._sources[0]()
            finally:
                self._is_filling = False
            del self._sources[0]
            return True

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
        """The entry of a name; None where there is none."""
        self._fill_for(name)
        return self._entries.get(name)

    def remove(self, name: str) -> None:
        """Forget an entry; one that is not there does not matter."""
        self._entries.pop(name, None)
        self._places.pop(name, None)

    def place(self, name: str) -> str:
        """Where an entry was added, as "file:line". Raises: KeyError where it is unknown."""
        return self._places[name]

    def __getitem__(self, name: str) -> V:
        if name not in self:
            raise MissingNameError(
                S0202, f"no {self.what} is called {name!r}", help=did_you_mean(name, self._entries)
            )
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        self._fill_for(name)
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self.fill()
        return iter(self._entries)

    def __len__(self) -> int:
        self.fill()
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, V]]:
        """Pairs of a name and its entry, in the order in which they were added. The registry may change
        meanwhile."""
        self.fill()
        return iter(list(self._entries.items()))
