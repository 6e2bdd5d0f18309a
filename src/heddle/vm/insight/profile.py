"""Profile a run of bytecode: every call is timed.

The clock is read before a call, after it, and after the profiler's bookkeeping. Bookkeeping is excluded: a
run's duration is its wall time without it. The part of the duration outside all calls is the machine's
dispatch: fetching operands, storing results and entering functions (decoding happens at load time). The cost
of reading the clock is measured beforehand and subtracted.

A call that submits work to a device ends when that work is done, so no two calls overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from heddle.runtime.native.library import native_library
from heddle.runtime.profiling import CallRow, PartEvent, Report, TraceEvent
from heddle.runtime.shape import Shape
from heddle.runtime.storage import Allocator, Storage
from heddle.runtime.tensor import Tensor
from heddle.runtime.thread_parts import PartRecord, recorded_parts
from heddle.vm.frames import new_frame
from heddle.vm.insight.kernel_cost import KernelCosts
from heddle.vm.insight.loop import WatchedFrame, WatchedLoop
from heddle.vm.insight.sites import Site, Sites
from heddle.vm.steps import LinkedFunction

MAX_EVENTS = 200_000
"""The maximum number of calls on the time line. Later calls are only in the table."""

_RowKey = tuple[str, tuple[Any, ...], tuple[int, ...]]
_Key = tuple[LinkedFunction, int, tuple[Any, ...]]


@dataclass(slots=True)
class _Frame(WatchedFrame):
    since: int = 0


class Profiler(WatchedLoop[_Frame]):
    """Collects one profiled run. `report` returns the report."""

    def __init__(self, machine: Any, max_events: int = MAX_EVENTS) -> None:
        super().__init__(machine)
        self._max_events = max_events
        self._thread = get_ident()
        self._has_far_devices = not all(device.is_host for device in machine.devices)
        self._clock_ns = _clock_cost_ns()
        self._tallies: dict[_Key, list[int]] = {}
        self._arguments: dict[_Key, tuple[str, ...]] = {}
        self._events: list[tuple[LinkedFunction, int, int, int, int]] = []
        self._num_events = 0
        self._started_ns = 0
        self._bookkeeping_ns = 0
        self._inner_ns = 0
        self._num_instructions = 0
        self._depth = 0
        self._allocated = [0, 0]
        self._fresh_before = 0
        self._peak_bytes = 0
        self._in_use: list[tuple[int, int]] = []
        self._parts = PartRecord()

    def profile(self, name: str, args: Sequence[Any]) -> Report:
        """Call a function of the machine and time it."""
        allocators = list(dict.fromkeys(self.machine.allocators))
        call = self.machine[name]
        with ExitStack() as stack:
            for allocator in allocators:
                stack.enter_context(allocator.watched(self._note_allocation))
            stack.enter_context(self.machine.running_with(self._run))
            self._fresh_before = sum(allocator.books.num_fresh_blocks for allocator in allocators)
            self.machine.wait()
            self._parts = stack.enter_context(recorded_parts())
            self._started_ns = perf_counter_ns()
            call(*args)
        fresh = sum(allocator.books.num_fresh_blocks for allocator in allocators) - self._fresh_before
        return self._report(name, fresh)

    # While it runs

    def _note_allocation(self, allocator: Allocator, storage: Storage) -> None:
        if get_ident() != self._thread:
            return
        self._allocated[0] += 1
        self._allocated[1] += storage.size_bytes
        in_use = allocator.books.bytes_in_use
        self._peak_bytes = max(self._peak_bytes, in_use)
        if len(self._in_use) < self._max_events:
            self._in_use.append((perf_counter_ns() - self._started_ns, in_use))

    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """Run a function with timing. If a callee runs the machine again, this method is called recursively,
        and that time is not attributed to the callee."""
        clock = perf_counter_ns
        entered, booked, inner = clock(), self._bookkeeping_ns, self._inner_ns
        self._depth += 1
        try:
            return self.run(self.entered(function, args))
        finally:
            self._depth -= 1
            own_bookkeeping = self._bookkeeping_ns - booked
            self._inner_ns = inner + clock() - entered - own_bookkeeping

    def entered(self, function: LinkedFunction, args: Sequence[Any]) -> _Frame:
        return _Frame(function, new_frame(function, args), since=perf_counter_ns())

    def before(self, frame: _Frame) -> None:
        self._num_instructions += 1

    def left(self, frame: _Frame, value: Any, depth: int) -> None:
        self._note_function(frame.function, frame.since, depth)

    def call(self, frame: _Frame, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        entry = perf_counter_ns()
        inner, booked = self._inner_ns, self._bookkeeping_ns
        count, size_bytes = self._allocated
        start = perf_counter_ns()
        value = function(*operands)
        if self._has_far_devices:
            self.machine.wait()
        end = perf_counter_ns()
        key = (frame.function, frame.pc, _shapes(operands))
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = [0, 0, 0, 0]
            self._arguments[key] = tuple(_argument_text(operand) for operand in operands)
        elapsed = end - start - (self._bookkeeping_ns - booked) - (self._inner_ns - inner) - self._clock_ns
        tally[0] += 1
        tally[1] += max(elapsed, 0)
        tally[2] += self._allocated[0] - count
        tally[3] += self._allocated[1] - size_bytes
        self._num_events += 1
        if self._num_events <= self._max_events:
            self._events.append((frame.function, frame.pc, start, end, self._depth))
        self._bookkeeping_ns += start - entry + perf_counter_ns() - end + 2 * self._clock_ns
        return value

    def _note_function(self, function: LinkedFunction, since: int, depth: int) -> None:
        start = perf_counter_ns()
        self._num_events += 1
        if self._num_events <= self._max_events:
            self._events.append((function, -1, since, start, self._depth + depth))
        self._bookkeeping_ns += perf_counter_ns() - start

    # Afterwards

    def _report(self, name: str, num_fresh_blocks: int) -> Report:
        executable = self.machine.executable
        sites, costs = Sites(executable), KernelCosts(executable.metadata)
        rows: dict[_RowKey, CallRow] = {}
        for key, tally in self._tallies.items():
            function, pc, operands = key
            site = sites.at(function, pc)
            _add(rows, site, operands, self._arguments[key], tally, costs)
        devices = ", ".join(str(device) for device in self.machine.devices)
        return Report(
            list(rows.values()),
            self._inner_ns,
            {"function": name, "devices": devices},
            self._num_instructions,
            num_fresh_blocks,
            self._peak_bytes,
            [self._event(sites, *event) for event in self._events],
            max(self._num_events - self._max_events, 0),
            self._in_use,
            list(self._part_events(sites)),
            self._parts.num_dropped,
            native_library().num_threads,
        )

    def _part_events(self, sites: Sites) -> Iterator[PartEvent]:
        """Yield the parts of parallel loops, each with the call that contains it: the calling thread waits
        there for the loop."""
        calls = sorted((event for event in self._events if event[1] >= 0), key=lambda event: event[2])
        starts = [start for _, _, start, _, _ in calls]
        for part in self._parts.parts:
            since = part.start_ns - self._started_ns
            event = PartEvent(part.thread, "", since, part.duration_ns, part.begin, part.size)
            middle = part.start_ns + part.duration_ns // 2
            number = bisect_right(starts, middle) - 1
            if number >= 0 and middle <= calls[number][3]:
                site = sites.at(*calls[number][:2])
                name = site.callee or site.mnemonic
                event = replace(event, name=name, place=site.place, source=site.source)
            yield event

    def _event(
        self, sites: Sites, function: LinkedFunction, pc: int, start: int, end: int, depth: int
    ) -> TraceEvent:
        since = start - self._started_ns
        if pc < 0:
            source = sites.at(function, len(function.code) - 1).source
            return TraceEvent(function.name, True, since, end - start, depth, f"{function.name}:0", source)
        site = sites.at(function, pc)
        return TraceEvent(
            site.callee or site.mnemonic, False, since, end - start, depth, site.place, site.source
        )


def _clock_cost_ns() -> int:
    """Return the minimum time of one clock reading."""
    readings = [perf_counter_ns() for _ in range(200)]
    return min(b - a for a, b in pairwise(readings))


def _shapes(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key that groups calls of one instruction: the shapes of tensors, and shapes that are
    values.
    """
    return tuple(
        [
            operand.layout.shape if type(operand) is Tensor else operand if type(operand) is Shape else None
            for operand in operands
        ]
    )


def _argument_text(operand: Any) -> str:
    if type(operand) is Tensor:
        return f"{operand.dtype}[{', '.join(map(str, operand.layout.shape))}]"
    return ""


def _add(
    rows: dict[_RowKey, CallRow],
    site: Site,
    operands: tuple[Any, ...],
    arguments: tuple[str, ...],
    tally: list[int],
    costs: KernelCosts,
) -> None:
    """Put an instruction's tally into the row of its callee and shapes."""
    own = operands[site.first_argument :]
    is_tensor = [bool(text) for text in arguments[site.first_argument :]]
    shapes = tuple(tuple(shape) for shape, keep in zip(own, is_tensor, strict=True) if keep)
    name = site.callee or site.mnemonic
    takes_sizes = site.first_argument or costs.of(name) is not None
    has_shape = takes_sizes and own and own[-1] is not None and not is_tensor[-1]
    scalars: Sequence[int] = own[-1] if has_shape else site.integers
    key = (name, shapes, tuple(scalars))
    row = rows.get(key)
    if row is None:
        texts = [text for text in arguments if text]
        texts += [str(size) for size in scalars]
        row = rows[key] = CallRow(name, shapes, ", ".join(texts))
    row.count += tally[0]
    row.duration_ns += tally[1]
    row.num_allocations += tally[2]
    row.allocated_bytes += tally[3]
    if site.place not in row.places:
        row.places.append(site.place)
    if site.source is not None and site.source not in row.sources:
        row.sources.append(site.source)
    _add_work(row, shapes, scalars, tally[0], costs)


def _add_work(
    row: CallRow, shapes: tuple[Any, ...], scalars: Sequence[int], count: int, costs: KernelCosts
) -> None:
    cost = costs.of(row.name)
    if cost is None:
        return
    row.operators = cost.operators
    sizes = cost.sizes(shapes, scalars)
    flops, moved = cost.flops_of(sizes), cost.bytes_of(sizes)
    row.flops = None if flops is None else (row.flops or 0) + flops * count
    row.moved_bytes = None if moved is None else (row.moved_bytes or 0) + moved * count
