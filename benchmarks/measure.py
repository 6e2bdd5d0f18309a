"""One workload on all engines: outputs are compared first, then passes are timed in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

import numpy as np

from benchmarks.engines import Engine, Session, Unavailable
from benchmarks.engines.engine import Arrays, Model
from benchmarks.workloads import Workload

IDLE_PASSES, COUNTED_PASSES = 2, 3
IDLE_MS = 100.0
"""Idle passes of a turn take so long at least: threads of other engines spin on after their last call, up to
60 ms."""
LONG_MS = 1000.0
"""A pass that takes longer is preceded by one idle pass and counted once a turn."""
MEMORY_BOUND = 0.9
"""The part of the roofline that is up to memory, from which on a workload is said to be bound by it."""
OURS = "heddle"
OURS_REDUCED = "heddle-bf16"


@dataclass(slots=True)
class Figure:
    """One engine on one workload. Either `skipped` tells why there is no time, or the rest is set."""

    engine: str
    version: str = ""
    median_ms: float = 0.0
    quartiles_ms: tuple[float, float] = (0.0, 0.0)
    repeats: int = 0
    error: float = 0.0
    is_reduced: bool = False
    skipped: str = ""


@dataclass(slots=True)
class Result:
    """A workload's figures. `roofline_ms` is the sum over our kernels of what the machine allows at best;
    `memory_ms` and `memory_bytes` are those of the kernels whose bytes take longer than their arithmetic.
    """

    workload: str
    mode: str
    threads: int | None
    figures: list[Figure] = field(default_factory=list)
    compile_cold_s: float = 0.0
    compile_warm_s: float = 0.0
    roofline_ms: float = 0.0
    memory_ms: float = 0.0
    memory_bytes: int = 0

    def figure(self, engine: str) -> Figure | None:
        return next((item for item in self.figures if item.engine == engine and not item.skipped), None)

    @property
    def best_peer(self) -> Figure | None:
        """The fastest peer that computes in float32."""
        peers = [f for f in self.figures if f.engine != OURS and not f.skipped and not f.is_reduced]
        return min(peers, key=lambda item: item.median_ms, default=None)

    @property
    def best_reduced_peer(self) -> Figure | None:
        """The fastest peer that computes in less than float32."""
        peers = [f for f in self.figures if f.engine != OURS_REDUCED and not f.skipped and f.is_reduced]
        return min(peers, key=lambda item: item.median_ms, default=None)

    @property
    def reduced_ratio(self) -> float | None:
        """Our time in less than float32 over the best such peer's."""
        ours, best = self.figure(OURS_REDUCED), self.best_reduced_peer
        return None if ours is None or best is None else ours.median_ms / best.median_ms

    @property
    def ratio(self) -> float | None:
        """Our time over the best peer's: below 1 we are faster."""
        ours, best = self.figure(OURS), self.best_peer
        return None if ours is None or best is None else ours.median_ms / best.median_ms

    @property
    def over_roofline(self) -> float | None:
        ours = self.figure(OURS)
        return None if ours is None or not self.roofline_ms else ours.median_ms / self.roofline_ms

    @property
    def bandwidth(self) -> float | None:
        """Where memory bounds nearly all of our kernels' time: what part is reached of the bandwidth that was
        measured for working sets of their size.
        """
        ours = self.figure(OURS)
        if ours is None or not self.memory_ms or self.memory_ms < MEMORY_BOUND * self.roofline_ms:
            return None
        return self.memory_ms / ours.median_ms

    def as_dict(self) -> dict[str, Any]:
        best, reduced = self.best_peer, self.best_reduced_peer
        derived = {
            "ratio": self.ratio,
            "best_peer": None if best is None else best.engine,
            "reduced_ratio": self.reduced_ratio,
            "best_reduced_peer": None if reduced is None else reduced.engine,
            "over_roofline": self.over_roofline,
            "bandwidth": self.bandwidth,
        }
        return {**asdict(self), **derived}


def relative_error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest expected value of its output; infinite where shapes or
    texts differ, or only one of two values is finite."""
    if len(got) != len(expected):
        return float("inf")
    return max((_error_of_one(mine, theirs) for mine, theirs in zip(got, expected, strict=True)), default=0.0)


def _error_of_one(mine: np.ndarray, theirs: np.ndarray) -> float:
    if mine.shape != theirs.shape:
        return float("inf")
    if theirs.dtype.kind in "OUT":
        return 0.0 if (mine == theirs).all() else float("inf")
    mine, theirs = (part.astype("float64") for part in (mine, theirs))
    differ = ~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
    if not differ.any():
        return 0.0
    difference = np.abs(mine[differ] - theirs[differ])
    scale = max(float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)), 1e-30)
    return float("inf") if not np.isfinite(difference).all() else float(difference.max()) / scale


@dataclass(slots=True)
class _Entry:
    figure: Figure
    session: Session
    requests: list[Any]
    times: list[float] = field(default_factory=list)


def run_workload(
    workload: Workload,
    engines: dict[str, Engine | Unavailable],
    mode: str,
    threads: int | None,
    repeat: int,
) -> tuple[Result, dict[str, Session]]:
    """Measure one workload. The first engine that works, in float32 if one does, gives the outputs that the
    others are held to.

    Gives the sessions too, which the caller closes by dropping them.
    """
    model = Model(workload.path(), workload.torch_key, threads, workload.varies)
    arrays = workload.requests()
    result = Result(workload.name, mode, threads)
    entries: list[_Entry] = []
    expected: list[Arrays] | None = None
    for name, engine in sorted(engines.items(), key=lambda item: getattr(item[1], "is_reduced", False)):
        figure = Figure(name)
        result.figures.append(figure)
        try:
            if isinstance(engine, Unavailable):
                raise engine
            figure.version, figure.is_reduced = engine.version(), engine.is_reduced
            session = engine.load(model)
            requests = [session.prepare(request) for request in arrays]
            outputs = [session.arrays(session.call(request)) for request in requests]
        except Unavailable as error:
            figure.skipped = str(error)
            continue
        except Exception as error:  # a peer may fail in any way: that is its result
            if name == OURS:
                raise
            figure.skipped = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            continue
        expected = outputs if expected is None and not engine.is_reduced else expected
        figure.error = max(
            relative_error(mine, theirs) for mine, theirs in zip(outputs, expected or outputs, strict=True)
        )
        if not figure.error <= engine.tolerance:
            figure.skipped = f"outputs differ by {figure.error:.1e} of their scale: no time counts"
            continue
        entries.append(_Entry(figure, session, requests))
    _time_in_turn(entries, repeat)
    for entry in entries:
        entry.figure.median_ms = statistics.median(entry.times)
        entry.figure.quartiles_ms = _quartiles(entry.times)
        entry.figure.repeats = len(entry.times)
    return result, {entry.figure.engine: entry.session for entry in entries}


def _time_in_turn(entries: Sequence[_Entry], repeat: int) -> None:
    """Each engine in its turn, until all have `repeat` times. A turn begins with passes that do not count."""
    while any(len(entry.times) < repeat for entry in entries):
        for entry in entries:
            last = entry.times[-1] if entry.times else entry.session.turn(entry.requests, 1, 1)[0]
            idle = max(1 if last > LONG_MS else IDLE_PASSES, ceil(IDLE_MS / max(last, 1e-3)))
            count = 1 if last > LONG_MS else COUNTED_PASSES
            wanted = min(count, repeat - len(entry.times))
            if wanted > 0:
                entry.times += entry.session.turn(entry.requests, idle, wanted)


def _quartiles(times: Sequence[float]) -> tuple[float, float]:
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = statistics.quantiles(times, n=4)
    return low, high


def least_in_turn(
    first: Callable[[], Any],
    second: Callable[[], Any],
    turns: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """The least seconds of two calls, taken in turn, five calls each a turn, behind some that do not count:
    threads of the other one still spin."""
    found: list[list[float]] = [[], []]
    for _ in range(turns):
        for call, times in zip((first, second), found, strict=True):
            begin = time.perf_counter()
            while time.perf_counter() - begin < IDLE_MS * 1e-3:
                call()
            for _ in range(5):
                start = clock()
                call()
                times.append(clock() - start)
    return min(found[0]), min(found[1])
