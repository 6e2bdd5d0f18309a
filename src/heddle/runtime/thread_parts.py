"""Record which thread ran which part of a parallel loop, and when, for profiles.

The native pool writes parts into memory of a fixed size (`native/source/part_log.py`). Its times are cycles.
Both clocks are read at the start and at the end of a recording to convert cycles to nanoseconds. Loops that
are too small for several threads have no parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter_ns
from typing import Any

from heddle.runtime.native.library import native_library
from heddle.runtime.native.part_layout import Part, PartLog
from heddle.support.frozen import frozen
from heddle.systems.types import ctype_of

MAX_PARTS = 1 << 16
"""The maximum number of recorded parts. Further parts are only counted."""


@frozen
class ThreadPart:
    """A part of a parallel loop: `size` iterations from index `begin` on. Thread 0 called the loop; other
    threads are numbered in order of appearance. `start_ns` is a time of `time.perf_counter_ns`.
    """

    thread: int
    begin: int
    size: int
    start_ns: int
    duration_ns: int


@dataclass(slots=True)
class PartRecord:
    """A finished recording. `num_dropped` counts the parts that did not fit, including those of other
    callers.
    """

    parts: list[ThreadPart] = field(default_factory=list)
    num_dropped: int = 0


class _Log:
    """The process's memory for recorded parts. It is never freed, because the pool may write into it whenever
    a loop ends.
    """

    def __init__(self, capacity: int) -> None:
        self.parts = (ctype_of(Part) * capacity)()
        self.head = ctype_of(PartLog)(ctypes.addressof(self.parts), capacity, 0)
        switch = native_library().addresses["heddle_log_parts"]
        self._switch = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(switch)

    def switch(self, is_on: bool) -> tuple[int, int]:
        """Turn recording on or off. Return the time in cycles and in nanoseconds."""
        before = perf_counter_ns()
        cycles = self._switch(ctypes.addressof(self.head) if is_on else None)
        return cycles, (before + perf_counter_ns()) // 2

    def clear(self) -> None:
        """Delete the recorded parts."""
        used = min(self.head.count, self.head.capacity)
        ctypes.memset(self.parts, 0, used * Part.layout.size_bytes)
        self.head.count = 0


_lock = Lock()
_logs: list[_Log] = []


@contextmanager
def recorded_parts() -> Iterator[PartRecord]:
    """Record the parts of loops that this thread calls in the `with` block. Only one recording runs at a
    time: a second one that starts in the meantime stays empty.
    """
    record = PartRecord()
    if not _lock.acquire(blocking=False):
        yield record
        return
    try:
        if not _logs:
            _logs.append(_Log(MAX_PARTS))
        log = _logs[0]
        log.clear()
        start = log.switch(True)
        try:
            yield record
        finally:
            end = log.switch(False)
        _read(log, record, start, end)
    finally:
        _lock.release()


def _read(log: _Log, record: PartRecord, start: tuple[int, int], end: tuple[int, int]) -> None:
    count, capacity = log.head.count, log.head.capacity
    record.num_dropped = max(count - capacity, 0)
    cycles = end[0] - start[0]
    if cycles <= 0:  # a processor whose cycles nobody can read
        return
    ns_per_cycle = (end[1] - start[1]) / cycles

    def moment(value: int) -> int:
        return start[1] + round((value - start[0]) * ns_per_cycle)

    owner = native_library().thread()
    mine: list[Any] = [part for part in log.parts[: min(count, capacity)] if part.owner == owner]
    mine.sort(key=lambda part: part.start)
    numbers: dict[int, int] = {owner: 0}
    for part in mine:
        number = numbers.setdefault(part.thread, len(numbers))
        begin_ns = moment(part.start)
        record.parts.append(ThreadPart(number, part.begin, part.size, begin_ns, moment(part.end) - begin_ns))
