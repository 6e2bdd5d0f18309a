"""Reports of profiled runs: which callees ran, how often, how long, and how much work they did.

A machine fills a `Report` (see `heddle.vm.insight.profile`). This file sums, sorts and formats it. Durations
are nanoseconds of wall time in the thread that ran.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from heddle.support.frozen import frozen

Shapes = tuple[tuple[int, ...], ...]
_FIRST_PARTS_TID = 2
"""The thread number of the first row of loop parts in a trace. The machine's own thread is 1."""


@dataclass(slots=True)
class CallRow:
    """All calls of one callee with one combination of argument shapes.

    `flops` and `moved_bytes` are totals over all calls; None if unknown. `places` are the calling
    instructions (`main:9`), `sources` the nodes of the user's model from which these instructions come. If a
    callee runs the machine again, durations exclude the time of that nested run.
    """

    name: str
    shapes: Shapes
    argument_text: str
    operators: tuple[str, ...] = ()
    count: int = 0
    duration_ns: int = 0
    flops: int | None = None
    moved_bytes: int | None = None
    num_allocations: int = 0
    allocated_bytes: int = 0
    places: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    @property
    def gflops(self) -> float | None:
        """Floating-point operations per second, in GFLOP/s."""
        return self.flops / self.duration_ns if self.flops and self.duration_ns else None

    @property
    def gbytes(self) -> float | None:
        """Memory traffic in GB/s (1 GB = 10**9 bytes)."""
        return self.moved_bytes / self.duration_ns if self.moved_bytes and self.duration_ns else None


@frozen
class TraceEvent:
    """A call, or the run of a whole function, on the time line. `start_ns` counts from the start of the
    profiled run.
    """

    name: str
    is_function: bool
    start_ns: int
    duration_ns: int
    depth: int
    place: str
    source: str | None
    argument_text: str = ""


@frozen
class PartEvent:
    """A part of a parallel loop on the time line of a pool thread: `size` iterations from index `begin` on.
    Thread 0 is the thread that called the loop. `name`, `place` and `source` describe the call that contains
    the loop; they are empty if it is not known.
    """

    thread: int
    name: str
    start_ns: int
    duration_ns: int
    begin: int
    size: int
    place: str = ""
    source: str | None = None


@dataclass(slots=True)
class Report:
    """A profiled run.

    `duration_ns` excludes the profiler's own bookkeeping. `dispatch_ns` is the part of it outside of all
    calls, that is, in the machine itself. `events` holds the first calls; `num_dropped_events` counts the
    calls after the limit. `parts` are the parts of parallel loops that the `num_threads` threads of the pool
    ran; `num_dropped_parts` counts the parts that were not recorded.
    `bytes_in_use` are samples (ns since the start, allocated bytes), one after each allocation.
    """

    calls: list[CallRow]
    duration_ns: int
    configuration: dict[str, Any] = field(default_factory=dict)
    num_instructions: int = 0
    num_fresh_blocks: int = 0
    peak_bytes: int = 0
    events: list[TraceEvent] = field(default_factory=list)
    num_dropped_events: int = 0
    bytes_in_use: list[tuple[int, int]] = field(default_factory=list)
    parts: list[PartEvent] = field(default_factory=list)
    num_dropped_parts: int = 0
    num_threads: int = 1

    @property
    def calls_ns(self) -> int:
        """Nanoseconds inside calls."""
        return sum(row.duration_ns for row in self.calls)

    @property
    def dispatch_ns(self) -> int:
        """Nanoseconds outside calls, in the machine itself."""
        return max(self.duration_ns - self.calls_ns, 0)

    @property
    def num_allocations(self) -> int:
        """How many storages the calls allocated."""
        return sum(row.num_allocations for row in self.calls)

    @property
    def allocated_bytes(self) -> int:
        """Total bytes of the storages that the calls allocated."""
        return sum(row.allocated_bytes for row in self.calls)

    def share(self, duration_ns: int) -> float:
        """Return the fraction of the run's duration, from 0 to 1."""
        return duration_ns / self.duration_ns if self.duration_ns else 0.0

    def ranked(self, sort: bool = True) -> list[CallRow]:
        """Return the rows sorted by falling duration; without `sort`, in order of first call."""
        return sorted(self.calls, key=lambda row: -row.duration_ns) if sort else list(self.calls)

    def part_rows(self) -> list[str]:
        """Return the names of the trace rows of the pool's threads, by thread number. Empty if no loop ran in
        parts.
        """
        if not self.parts:
            return []
        count = max(self.num_threads, 1 + max(part.thread for part in self.parts))
        return ["calling thread", *(f"worker {number}" for number in range(1, count))]

    # Text

    def table(self, sort: bool = True, max_rows: int | None = None, col_sums: bool = True) -> str:
        """Format the calls as a table, with a row for the dispatch and, with `col_sums`, the sums."""
        rows = self.ranked(sort)
        shown = rows if max_rows is None else rows[:max_rows]
        lines = [_HEAD, *(self._cells(row) for row in shown)]
        if len(shown) < len(rows):
            rest = sum(row.duration_ns for row in rows[len(shown) :])
            count = sum(row.count for row in rows[len(shown) :])
            name = f"({len(rows) - len(shown)} more rows)"
            lines.append((name, "", str(count), _ms(rest), _percent(self.share(rest)), *[""] * 5))
        if col_sums:
            lines += self._sums()
        return _aligned(lines)

    def _cells(self, row: CallRow) -> tuple[str, ...]:
        source = row.sources[0] if row.sources else ""
        more = f" (+{len(row.sources) - 1})" if len(row.sources) > 1 else ""
        return (
            _short(row.name, 48),
            _short(row.argument_text, 44),
            str(row.count),
            _ms(row.duration_ns),
            _percent(self.share(row.duration_ns)),
            _figure(row.gflops),
            _figure(row.gbytes),
            str(row.num_allocations) if row.num_allocations else "",
            _mib(row.allocated_bytes) if row.num_allocations else "",
            _short(source, 72) + more,
        )

    def _sums(self) -> list[tuple[str, ...]]:
        count = sum(row.count for row in self.calls)
        flops = sum(row.flops or 0 for row in self.calls)
        moved = sum(row.moved_bytes or 0 for row in self.calls)
        whole = self.duration_ns or 1
        memory = f"peak {_mib(self.peak_bytes)} MiB, {self.num_fresh_blocks} fresh blocks"
        return [
            (
                "(dispatch)",
                "",
                str(self.num_instructions),
                _ms(self.dispatch_ns),
                _percent(self.share(self.dispatch_ns)),
                *[""] * 5,
            ),
            (
                "total",
                "",
                str(count),
                _ms(self.duration_ns),
                _percent(1.0),
                _figure(flops / whole if flops else None),
                _figure(moved / whole if moved else None),
                str(self.num_allocations),
                _mib(self.allocated_bytes),
                memory,
            ),
        ]

    def __str__(self) -> str:
        return self.table()

    def csv(self) -> str:
        """Format the rows as comma-separated values, with a header line."""
        out = io.StringIO()
        names = list(_row_dict(self, CallRow("", (), "")))
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        for row in self.calls:
            cells = _row_dict(self, row)
            writer.writerow({key: _flat(cell) for key, cell in cells.items()})
        return out.getvalue()

    # Data

    def as_dict(self) -> dict[str, Any]:
        """Return everything except the events as a dictionary that JSON can encode. Names contain the
        units.
        """
        return {
            "configuration": self.configuration,
            "duration_us": self.duration_ns / 1e3,
            "dispatch_us": self.dispatch_ns / 1e3,
            "dispatch_share": self.share(self.dispatch_ns),
            "num_instructions": self.num_instructions,
            "allocations": {
                "count": self.num_allocations,
                "bytes": self.allocated_bytes,
                "fresh_blocks": self.num_fresh_blocks,
                "peak_bytes": self.peak_bytes,
            },
            "calls": [_row_dict(self, row) for row in self.ranked()],
        }

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict())

    def chrome_trace(self) -> dict[str, Any]:
        """Return the run in the Trace Event Format of chrome://tracing and Perfetto (write it with
        `json.dump`).

        Calls, functions and parts of parallel loops are complete events ("X"); each thread's parts have a row
        of their own. Allocated memory is a counter ("C"). Metadata events ("M") name the process and the
        threads. Times are microseconds.
        """
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "heddle"}},
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "virtual machine"}},
        ]
        events += [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": 1,
                "tid": _FIRST_PARTS_TID + thread,
                "args": {"name": name},
            }
            for thread, name in enumerate(self.part_rows())
        ]
        timed = [*_complete_events(self.events), *_part_events(self.parts)]
        events += sorted(timed, key=lambda event: float(event["ts"]))
        events += [
            {
                "name": "memory on loan",
                "ph": "C",
                "pid": 1,
                "tid": 1,
                "ts": at / 1e3,
                "args": {"bytes": num_bytes},
            }
            for at, num_bytes in self.bytes_in_use
        ]
        other = {
            **self.configuration,
            "dropped_events": self.num_dropped_events,
            "dropped_parts": self.num_dropped_parts,
        }
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def _complete_events(events: list[TraceEvent]) -> Iterator[dict[str, Any]]:
    for event in sorted(events, key=lambda event: (event.start_ns, -event.duration_ns)):
        args = {"place": event.place, "source": event.source or "", "arguments": event.argument_text}
        yield {
            "name": event.name,
            "cat": "function" if event.is_function else "call",
            "ph": "X",
            "ts": event.start_ns / 1e3,
            "dur": event.duration_ns / 1e3,
            "pid": 1,
            "tid": 1,
            "args": args,
        }


def _part_events(parts: list[PartEvent]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield {
            "name": part.name,
            "cat": "part",
            "ph": "X",
            "ts": part.start_ns / 1e3,
            "dur": part.duration_ns / 1e3,
            "pid": 1,
            "tid": _FIRST_PARTS_TID + part.thread,
            "args": {
                "place": part.place,
                "source": part.source or "",
                "begin": part.begin,
                "size": part.size,
            },
        }


def _row_dict(report: Report, row: CallRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "arguments": row.argument_text,
        "shapes": [list(shape) for shape in row.shapes],
        "operators": list(row.operators),
        "count": row.count,
        "duration_us": row.duration_ns / 1e3,
        "share": report.share(row.duration_ns),
        "flops": row.flops,
        "moved_bytes": row.moved_bytes,
        "gflop_per_s": row.gflops,
        "gbyte_per_s": row.gbytes,
        "allocations": row.num_allocations,
        "allocated_bytes": row.allocated_bytes,
        "places": list(row.places),
        "sources": list(row.sources),
    }


_HEAD = (
    "name",
    "arguments",
    "count",
    "time ms",
    "share",
    "GFLOP/s",
    "GB/s",
    "allocs",
    "MiB",
    "source",
)
_LEFT = {0, 1, 9}


def _aligned(lines: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(_HEAD))]
    text = []
    for line in lines:
        cells = [
            cell.ljust(width) if k in _LEFT else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def _flat(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, list) else cell


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.2f}"
