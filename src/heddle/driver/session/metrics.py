"""Metrics of a session: counters and latency histograms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from heddle.support.frozen import frozen

_CLASSES_OF_A_DOUBLING = 16


@frozen
class LatencySummary:
    """Seconds from the arrival of a request to its result. Percentiles are accurate to about 4 percent."""

    p50_s: float = 0.0
    p90_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


@frozen
class SessionMetrics:
    """Counters since the session began. `num_failed` counts requests that ended with an error,
    `num_timed_out` requests whose callers stopped waiting. `num_calls` counts calls of the program; with
    batching there are fewer of them than requests. `num_running` and `num_waiting` are current values."""

    num_requests: int
    num_failed: int
    num_timed_out: int
    num_calls: int
    num_running: int
    num_waiting: int
    num_machines: int
    latency: LatencySummary

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


class Counters:
    """What is counted while requests come and go. Latencies are counted in 16 classes to a doubling."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latencies: Counter[int] = Counter()
        self._max_s = 0.0
        self._counts = Counter[str]()
        self.num_running = 0

    def begin(self) -> None:
        """A request came."""
        with self._lock:
            self._counts["requests"] += 1
            self.num_running += 1

    def end(self, seconds: float, failed: bool = False) -> None:
        """A request has its result, or an error."""
        with self._lock:
            self.num_running -= 1
            self._counts["failed"] += failed
            if not failed:
                self._latencies[_class_of(seconds)] += 1
                self._max_s = max(self._max_s, seconds)

    def time_out(self) -> None:
        """A caller waits no longer; the request itself ends later."""
        with self._lock:
            self._counts["timed_out"] += 1

    def call(self) -> None:
        """The program is called."""
        with self._lock:
            self._counts["calls"] += 1

    def snapshot(self, num_waiting: int, num_machines: int) -> SessionMetrics:
        """The figures of this moment."""
        with self._lock:
            counts, latencies = Counter(self._counts), Counter(self._latencies)
            max_s, running = self._max_s, self.num_running
        return SessionMetrics(
            num_requests=counts["requests"],
            num_failed=counts["failed"],
            num_timed_out=counts["timed_out"],
            num_calls=counts["calls"],
            num_running=max(0, running - num_waiting),
            num_waiting=num_waiting,
            num_machines=num_machines,
            latency=_summary(latencies, max_s),
        )


def _class_of(seconds: float) -> int:
    """Nanoseconds, in classes of equal ratio."""
    nanoseconds = max(int(seconds * 1e9), _CLASSES_OF_A_DOUBLING)
    doublings = nanoseconds.bit_length() - _CLASSES_OF_A_DOUBLING.bit_length()
    return doublings * _CLASSES_OF_A_DOUBLING + (nanoseconds >> doublings)


def _seconds_of(number: int) -> float:
    """The middle of a class."""
    doublings, rest = divmod(number, _CLASSES_OF_A_DOUBLING)
    return (rest + _CLASSES_OF_A_DOUBLING + 0.5) * 2.0 ** (doublings - 1) * 1e-9


def _summary(latencies: Mapping[int, int], max_s: float) -> LatencySummary:
    total = sum(latencies.values())
    if not total:
        return LatencySummary()

    def percentile(share: float) -> float:
        left = share * total
        for number in sorted(latencies):
            left -= latencies[number]
            if left <= 0:
                return min(_seconds_of(number), max_s)
        return max_s

    return LatencySummary(percentile(0.5), percentile(0.9), percentile(0.99), max_s)
