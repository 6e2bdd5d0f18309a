"""Full matches by a lazily built deterministic automaton.

A pattern is compiled to a program of at most `MAX_STEPS` steps, as in Thompson's construction: character
sets, forks and anchors. The position in the program is the set of steps that wait for a character. Each such
set is a state of the automaton. Its transition on a class of characters is computed once and cached.
Characters that no set of the pattern distinguishes form one class.

One character costs a table lookup or at most one visit of each step. If there are too many states, the cache
is cleared. So time is linear in the text and memory is bounded, for every pattern and text.

**Source**: Thompson, Regular Expression Search Algorithm, CACM 11(6), 1968; Cox, Regular Expression Matching
in the Wild, 2010.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache

from heddle.vm.builtins.regex import charsets
from heddle.vm.builtins.regex.charsets import Ranges
from heddle.vm.builtins.regex.parse import (
    At,
    Chars,
    Choice,
    Node,
    PatternError,
    Place,
    Repeat,
    Sequence,
    parse,
)

MAX_STEPS = 10_000
MAX_KEPT = 1_000_000
"""The limit on the steps in all cached states, and on the characters whose class is cached."""


@dataclass
class _Program:
    """A compiled pattern. Each step is a set of characters, an anchor, or a fork (the steps that it goes to).
    The last step is the match."""

    steps: list[Ranges | Place | list[int]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, kind: str, what: Ranges | Place | list[int]) -> int:
        if len(self.steps) >= MAX_STEPS:
            raise PatternError(f"the pattern is too large: it has more than {MAX_STEPS} steps")
        self.steps.append(what)
        self.kinds.append(kind)
        return len(self.steps) - 1

    def emit(self, node: Node) -> None:
        """Emit the steps of a node. After a match of the node, execution continues behind them."""
        if isinstance(node, Chars):
            self.add("chars", node.ranges)
        elif isinstance(node, At):
            self.add("place", node.place)
        elif isinstance(node, Sequence):
            for item in node.items:
                self.emit(item)
        elif isinstance(node, Choice):
            self._emit_choice(node)
        else:
            self._emit_repeat(node)

    def _emit_choice(self, node: Choice) -> None:
        fork: list[int] = []
        self.add("fork", fork)
        ends: list[list[int]] = []
        for item in node.items:
            fork.append(len(self.steps))
            self.emit(item)
            ends.append([])
            self.add("fork", ends[-1])
        for end in ends:
            end.append(len(self.steps))

    def _emit_repeat(self, node: Repeat) -> None:
        """Emit a repetition: x{2,4} is x x (x (x)?)?, and x{2,} is x x x*."""
        for _ in range(node.least):
            self.add(
                "fork", [len(self.steps) + 1]
            )  # empty items count too, because the program's size bounds the work
            self.emit(node.item)
        if node.most is None:
            begin, fork = len(self.steps), [len(self.steps) + 1]
            self.add("fork", fork)
            self.emit(node.item)
            self.add("fork", [begin])
            fork.append(len(self.steps))
            return
        forks: list[list[int]] = []
        for _ in range(node.most - node.least):
            forks.append([len(self.steps) + 1])
            self.add("fork", forks[-1])
            self.emit(node.item)
        for fork in forks:
            fork.append(len(self.steps))


class _State:
    """A state: the waiting steps, the kind of the previous character, and the transitions by character
    class.
    """

    __slots__ = ("before", "follows", "is_end", "waiting")

    def __init__(self, waiting: frozenset[int], before: str) -> None:
        self.waiting, self.before = waiting, before
        self.follows: dict[int, _State] = {}
        self.is_end: bool | None = None


class Matcher:
    """A compiled pattern with the method `fullmatch(text)`. Threads may share it."""

    def __init__(self, pattern: str) -> None:
        program = _Program()
        program.emit(parse(pattern))
        self._match = program.add("match", [])
        self._kinds, self._steps = program.kinds, program.steps
        self._has_places = "place" in program.kinds
        self._borders, self._classes_of_steps = _classes(program, self._has_places)
        self._classes: dict[str, int] = {}
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._kept = 0
        self._start = _State(frozenset((0,)), "begin" if self._has_places else "")

    def fullmatch(self, text: str) -> bool:
        """Whether the whole text matches."""
        state, classes = self._start, self._classes
        for char in text:
            number = classes.get(char)
            if number is None:
                number = self._class_of(char)
            following = state.follows.get(number)
            state = self._step(state, number) if following is None else following
            if not state.waiting:
                return False
        if state.is_end is None:
            state.is_end = self._match in self._closure(state, "end")
        return state.is_end

    def _class_of(self, char: str) -> int:
        if len(self._classes) >= MAX_KEPT:
            self._classes.clear()
        number = self._classes[char] = bisect_right(self._borders, ord(char))
        return number

    def _kind_of_class(self, number: int) -> str:
        """Return what anchors need to know about a character: newline, word or other."""
        code = self._borders[number - 1] if number else 0
        if code == 10:
            return "newline"
        return "word" if any(first <= code <= last for first, last in charsets.WORDS) else "other"

    def _step(self, state: _State, number: int) -> _State:
        """Return the successor of a state on a class of characters."""
        kind = self._kind_of_class(number) if self._has_places else ""
        reached = self._closure(state, kind)
        waiting = frozenset(
            step + 1
            for step in reached
            if self._kinds[step] == "chars" and number in self._classes_of_steps[step]
        )
        found = self._states.get((waiting, kind))
        if found is None:
            if self._kept > MAX_KEPT:
                self._states, self._kept = {}, 0
                self._start = _State(self._start.waiting, self._start.before)
                state = _State(state.waiting, state.before)
            found = _State(waiting, kind)
            self._states[waiting, kind] = found
            self._kept += len(waiting) + 16
        state.follows[number] = found
        return found

    def _closure(self, state: _State, after: str) -> set[int]:
        """Return all steps that are reachable without a character, if the next character is of kind
        `after`.
        """
        seen, pending = set(state.waiting), list(state.waiting)
        while pending:
            step = pending.pop()
            what = self._steps[step]
            if isinstance(what, Place):
                onward = [step + 1] if _holds(what, state.before, after) else []
            else:
                onward = what if self._kinds[step] == "fork" else []  # type: ignore[assignment]
            for other in onward:
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return seen


def _holds(place: Place, before: str, after: str) -> bool:
    if place is Place.TEXT_BEGIN:
        return before == "begin"
    if place is Place.TEXT_END:
        return after == "end"
    if place is Place.LINE_BEGIN:
        return before in ("begin", "newline")
    if place is Place.LINE_END:
        return after in ("end", "newline")
    return ((before == "word") != (after == "word")) == (place is Place.WORD_EDGE)


def _classes(program: _Program, has_places: bool) -> tuple[list[int], dict[int, frozenset[int]]]:
    """Return the first code points of the character classes, from the second class on, and the classes of
    each step with characters."""
    sets = {step: what for step, what in enumerate(program.steps) if program.kinds[step] == "chars"}
    distinct = {*sets.values(), *((charsets.WORDS, charsets.NEWLINE) if has_places else ())}
    edges = {edge for ranges in distinct for first, last in ranges for edge in (first, last + 1)}
    borders = sorted(edges - {0, charsets.LAST + 1})
    numbers = {
        ranges: frozenset(
            number
            for first, last in ranges
            for number in range(bisect_right(borders, first), bisect_right(borders, last) + 1)
        )
        for ranges in distinct
    }
    return borders, {step: numbers[ranges] for step, ranges in sets.items()}


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Matcher:
    """Compile a pattern. Raises: PatternError if it is malformed or too large."""
    return Matcher(pattern)
