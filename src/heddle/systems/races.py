"""Data races, by vector clocks.

A clock counts each thread's releases. What a thread does happens before what another one does if the other's
clock has come to know of it: by a lock, by a thread's start, or by an atomic read that acquires what an
atomic write released. Two accesses of a byte race if neither happens before the other, one of them writes,
and not both are atomic. A run finds the races of the order it took; other seeds take other orders.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

Clock = dict[int, int]


@dataclass(slots=True)
class _Shadow:
    """The last accesses of a byte: thread → its time and the place."""

    writes: dict[int, tuple[int, str]] = field(default_factory=dict)
    reads: dict[int, tuple[int, str]] = field(default_factory=dict)
    atomic_writes: dict[int, tuple[int, str]] = field(default_factory=dict)
    atomic_reads: dict[int, tuple[int, str]] = field(default_factory=dict)


class Races:
    """Clocks of threads and of what they synchronise by. Thread 0 is there from the start."""

    def __init__(self) -> None:
        self._clocks: dict[int, Clock] = {0: {0: 1}}
        self._released: dict[Hashable, Clock] = {}
        self._shadows: dict[int, _Shadow] = {}

    def start(self, parent: int, child: int) -> None:
        """A thread starts another: all it did so far happens before."""
        self._clocks[child] = {**self._clocks[parent], child: 1}
        self._tick(parent)

    def join(self, thread: int, ended: int) -> None:
        """A thread waits for the end of another: all that did happens before."""
        self._learn(thread, self._clocks[ended])

    def acquire(self, thread: int, key: Hashable) -> None:
        """A thread reads what was released under a key: all that the releasing thread did happens before."""
        self._learn(thread, self._released.get(key, {}))

    def _learn(self, thread: int, news: Clock) -> None:
        clock = self._clocks[thread]
        for other, time in news.items():
            clock[other] = max(clock.get(other, 0), time)

    def release(self, thread: int, key: Hashable, keeps: bool = False) -> None:
        """`keeps` for a read-modify-write, which goes on with what was released before."""
        before = self._released.get(key, {}) if keeps else {}
        clock = self._clocks[thread]
        self._released[key] = {
            other: max(clock.get(other, 0), before.get(other, 0)) for other in {*clock, *before}
        }
        self._tick(thread)

    def forget(self, key: Hashable) -> None:
        """A write that releases nothing."""
        self._released.pop(key, None)

    def _tick(self, thread: int) -> None:
        self._clocks[thread][thread] += 1

    def access(
        self, thread: int, start: int, size_bytes: int, place: str, *, writes: bool, is_atomic: bool
    ) -> str | None:
        """Note an access; gives the place of an earlier one that it races with."""
        if len(self._clocks) == 1:
            return None
        clock = self._clocks[thread]
        now = (clock[thread], place)
        for address in range(start, start + size_bytes):
            shadow = self._shadows.get(address)
            if shadow is None:
                shadow = self._shadows[address] = _Shadow()
            rivals = [shadow.writes]
            if writes:
                rivals.append(shadow.reads)
            if not is_atomic:
                rivals += [shadow.atomic_writes, shadow.atomic_reads] if writes else [shadow.atomic_writes]
            for rival in rivals:
                for other, (time, where) in rival.items():
                    if other != thread and clock.get(other, 0) < time:
                        return where
            if is_atomic:
                (shadow.atomic_writes if writes else shadow.atomic_reads)[thread] = now
            else:
                (shadow.writes if writes else shadow.reads)[thread] = now
        return None
