"""Which code a call takes: of the free sizes that its arguments have, and of what is in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.driver.jit.log import JitStatistics
from heddle.driver.signature import Signature
from heddle.runtime.function import Function
from heddle.vm.callables import ProgramFunction

Key = tuple[int, ...]
MOST_COUNTED = 1024
"""Sizes whose calls are counted at the same time."""


class Code:
    """Code of a function, and how often it was called. `calls_seen`: when code was last put in place."""

    __slots__ = ("calls", "calls_seen", "run")

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run, self.calls, self.calls_seen = run, 0, 0

    @property
    def recent_calls(self) -> int:
        """Calls since code was last put in place."""
        return self.calls - self.calls_seen


class Guard:
    """The free dimensions of a function, each where an argument has it alone. Those that stand in formulas
    only stay free."""

    def __init__(self, signature: Signature) -> None:
        places: dict[str, tuple[int, int]] = {}
        again: list[tuple[int, int, int]] = []
        for number, spec in enumerate(signature.inputs):
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str) and dim.isidentifier():
                    if dim in places:
                        again.append((list(places).index(dim), number, axis))
                    else:
                        places[dim] = (number, axis)
        self.names = tuple(places)
        self._places = tuple(places.values())
        self._again = tuple(again)

    def key(self, args: Sequence[Any]) -> Key | None:
        """The sizes that arguments have. None where some have none, which the program will refuse, and where
        a name has two sizes: then it is of two dimensions, or the program will refuse that as well."""
        try:
            key = tuple([args[number].shape[axis] for number, axis in self._places])
            for at, number, axis in self._again:
                if args[number].shape[axis] != key[at]:
                    return None
            hash(key)
        except (IndexError, AttributeError, TypeError):
            return None
        return key

    def sizes(self, key: Key) -> dict[str, int]:
        """Sizes by name."""
        return {name: int(size) for name, size in zip(self.names, key, strict=True)}


class Dispatch:
    """A function of a program with JIT: the code for every size, and codes for some sizes.

    `is_hot` is asked for sizes that were called often enough: whether code for them will come.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        quick: Code,
        hot_calls: int,
        is_hot: Callable[[str, dict[str, int], int], bool],
    ) -> None:
        self.name, self.signature, self.guard = name, signature, Guard(signature)
        self.quick = self.full = quick
        self.sized: dict[Key | None, Code] = {}
        self.function: Function = ProgramFunction(self.call, name)
        self._hot_calls, self._is_hot = hot_calls, is_hot
        self._missed: dict[Key, int] = {}
        self._asked: set[Key] = set()
        self._dropped_calls = 0

    def call(self, *args: Any) -> Any:
        """Call the code for the sizes of the arguments, or that for every size."""
        key = self.guard.key(args)
        code = None if key is None else self.sized.get(key)
        if code is None:
            code = self.full
            if key and key not in self._asked:
                self._count(key)
        code.calls += 1
        return code.run(*args)

    def _count(self, key: Key) -> None:
        calls = self._missed[key] = self._missed.get(key, 0) + 1
        if calls >= self._hot_calls and calls % self._hot_calls == 0:
            if self._is_hot(self.name, self.guard.sizes(key), calls):
                self._asked.add(key)
                self._missed.pop(key, None)
        elif len(self._missed) > MOST_COUNTED:
            self._missed.clear()

    def put(self, sizes: dict[str, int], code: Code) -> None:
        """Code for some sizes comes in."""
        self.sized[tuple(sizes[name] for name in self.guard.names)] = code

    def drop(self, key: Key | None) -> None:
        """Code for some sizes goes. It may come again."""
        self._dropped_calls += self.sized.pop(key).calls
        self._asked.discard(key or ())

    def add_to(self, found: JitStatistics) -> None:
        """Add this function's calls to counts."""
        found.quick_calls += self.quick.calls
        found.full_calls += self.full.calls if self.full is not self.quick else 0
        found.sized_calls += self._dropped_calls + sum(code.calls for code in list(self.sized.values()))
