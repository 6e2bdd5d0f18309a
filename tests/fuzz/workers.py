"""Numbered mutations in several processes, and what became of them.

Workers are processes. Each writes the number of its mutation before it begins, so that a crash or a hang
names the one that did it; another worker goes on behind it.
"""

from __future__ import annotations

import collections
import mmap
import multiprocessing
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.fuzz.graphs.farm import processor_seconds


@dataclass
class Count:
    """What became of the mutations."""

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[str, str] = field(default_factory=dict)
    num_faults: int = 0

    def add(self, other: Count) -> None:
        self.outcomes += other.outcomes
        self.calls += other.calls
        self.faults = {**other.faults, **self.faults}
        self.num_faults += other.num_faults

    def fault(self, place: str, text: str) -> None:
        """Keep the first fault of a place."""
        self.faults.setdefault(place, text)
        self.num_faults += 1


class Fuzzer(Protocol):
    """Runs a mutation, and counts."""

    count: Count

    def one(self, number: int) -> None: ...


@dataclass(frozen=True)
class Watch:
    """How workers are watched. `prepare` is called in each of them. A mutation that takes more than `seconds`
    of processor time is a hang; without that nothing ends one. `told_each`: after so many of its mutations a
    worker prints a line.
    """

    prepare: Callable[[], None]
    seconds: float | None = None
    told_each: int = 20000


class _Worker:
    """A worker, the number it was seen at last, and the processor time it had used then."""

    def __init__(self, process: Any, place: mmap.mmap, slot: int) -> None:
        self.process, self._place, self._slot = process, place, slot
        self._seen, self._spent = -1, 0.0

    def number(self) -> int:
        return int(struct.unpack_from("<q", self._place, 8 * self._slot)[0])

    def is_late(self, seconds: float | None) -> bool:
        if seconds is None or self.process.exitcode is not None:
            return False
        spent = processor_seconds(self.process.pid)
        if self.number() != self._seen:
            self._seen, self._spent = self.number(), spent
        return spent - self._spent > seconds


def _work(numbers: range, fuzzer: Fuzzer, watch: Watch, place: mmap.mmap, slot: int, results: Any) -> None:
    watch.prepare()
    for number in numbers:
        struct.pack_into("<q", place, 8 * slot, number)
        fuzzer.one(number)
        if number // numbers.step % watch.told_each == 0:
            common = dict(fuzzer.count.outcomes.most_common(4))
            print(f"  {number} of {numbers.stop}: {fuzzer.count.num_faults} faults, {common}", flush=True)
    results.put(fuzzer.count)


def run_numbers(fuzzer: Fuzzer, numbers: range, jobs: int, watch: Watch) -> Count:
    """Run mutations in `jobs` processes, each every `jobs`-th of them; the counts of all together."""
    context = multiprocessing.get_context("fork")
    place, results = mmap.mmap(-1, 8 * jobs), context.Queue()
    total, pending = Count(), dict[int, _Worker]()

    def start(slot: int, begin: int) -> None:
        args = (range(begin, numbers.stop, jobs), fuzzer, watch, place, slot, results)
        struct.pack_into("<q", place, 8 * slot, begin)
        pending[slot] = _Worker(context.Process(target=_work, args=args), place, slot)
        pending[slot].process.start()

    for slot in range(jobs):
        start(slot, numbers.start + slot)
    while pending:
        while not results.empty():
            total.add(results.get())
        for slot, worker in list(pending.items()):
            worker.process.join(0.2)
            is_late = worker.is_late(watch.seconds)
            if is_late:
                worker.process.kill()
                worker.process.join()
            if worker.process.exitcode is None:
                continue
            del pending[slot]
            if worker.process.exitcode:
                ended = f"hangs ({watch.seconds:g} s)" if is_late else f"ends with {worker.process.exitcode}"
                text = f"mutation {worker.number()}: the process {ended}"
                print(f"FAULT {text}", flush=True)
                total.fault(text, text)
                start(slot, worker.number() + jobs)
    while not results.empty():
        total.add(results.get())
    return total
