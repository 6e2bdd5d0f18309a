"""Time function calls: one warm-up call, then `repeat` measurements of `number` calls each."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np

from heddle.runtime.codes import U0801
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class BenchmarkResult:
    """The result of a measurement: `results` are seconds per call, one value per repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the repeats, in seconds."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median of the repeats, in seconds."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """The quickest repeat, in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repeat, in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repeats, in seconds."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        values = (self.mean, self.median, self.max, self.min, self.std)
        head = "".join(f"{name + ' (ms)':^14}" for name in names)
        return f"Execution time summary:\n{head}\n" + "".join(f"{value * 1000:^14.4f}" for value in values)


@frozen
class TimingPlan:
    """How to measure: `repeat` measurements of `number` calls each.

    If `min_repeat_ms` is positive, `number` grows until one measurement takes at least that long. After each
    `repeats_to_cooldown` measurements, sleep for `cooldown_interval_ms`.

    Raises: UsageError U0801 for counts below 1 or negative times.
    """

    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0
    cooldown_interval_ms: float = 0
    repeats_to_cooldown: int = 1

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.repeats_to_cooldown < 1:
            raise UsageError(
                U0801,
                f"number, repeat and repeats_to_cooldown must be at least 1, got "
                f"{self.number}, {self.repeat}, {self.repeats_to_cooldown}",
            )
        if self.min_repeat_ms < 0 or self.cooldown_interval_ms < 0:
            raise UsageError(U0801, "min_repeat_ms and cooldown_interval_ms must not be negative")


def measure(
    call: Callable[[], Any],
    plan: TimingPlan,
    before_repeat: Callable[[], Any] | None = None,
    wait: Callable[[], Any] | None = None,
) -> BenchmarkResult:
    """Time `call` according to the plan. `before_repeat` runs before each measurement and is not timed.
    `wait` waits for work that the calls left pending on devices; it is timed, once per measurement.
    """
    call()
    if wait is not None:
        wait()
    number = plan.number
    results = []
    for index in range(plan.repeat):
        if before_repeat is not None:
            before_repeat()
        seconds = _seconds(call, number, wait)
        while seconds * 1000 < plan.min_repeat_ms:
            growth = plan.min_repeat_ms / max(seconds * 1000, 1e-6)
            number = int(min(number * max(growth * 1.1, 1.5), number * 1e4)) + 1
            seconds = _seconds(call, number, wait)
        results.append(seconds / number)
        if plan.cooldown_interval_ms and (index + 1) % plan.repeats_to_cooldown == 0:
            time.sleep(plan.cooldown_interval_ms / 1000)
    return BenchmarkResult(tuple(results))


def _seconds(call: Callable[[], Any], number: int, wait: Callable[[], Any] | None) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    if wait is not None:
        wait()
    return time.perf_counter() - start


class Benchmarked:
    """Base class of machines and modules that have `benchmark`."""

    @abstractmethod
    def timed_call(
        self, func_name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], end_to_end: bool
    ) -> Callable[[], Any]:
        """Return the call to measure, with its arguments bound. `func_name` is None if the user gave none."""

    def wait(self) -> None:
        """Wait for work that calls left pending on devices. Calls on the host leave none."""

    def benchmark(
        self,
        device: Any = None,
        *args: Any,
        func_name: str | None = None,
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Time calls of a function with the arguments `args` and `kwargs`. Results are in seconds per call.

        With `end_to_end`, each call also converts its arguments. `device` and `limit_zero_time_iterations`
        exist for TVM compatibility and are ignored.

        Raises: UsageError U0801 for invalid options; the errors of the call.
        """
        plan = TimingPlan(number, repeat, min_repeat_ms or 0, cooldown_interval_ms, repeats_to_cooldown)
        return measure(self.timed_call(func_name, args, kwargs, end_to_end), plan, wait=self.wait)


BENCHMARK_OPTIONS = tuple(
    name
    for name, parameter in signature(Benchmarked.benchmark).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
)
"""The keyword options of `benchmark`, in TVM's order."""
