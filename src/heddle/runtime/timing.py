"""Timing calls: warm up once, then `repeat` measurements of `number` calls each."""

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
    """Seconds per call, one figure a repeat."""

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
    """How to measure. `min_repeat_ms`: `number` grows until one repeat lasts as long. After each
    `repeats_to_cooldown` repeats sleep `cooldown_interval_ms`.

    Raises: UsageError U0801 for numbers that make no sense.
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
    """Time `call` by the plan; `before_repeat` runs untimed before each repeat. `wait` is for work that calls
    leave to devices: it is part of what is timed, once after the calls that are timed together.
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
    """What `benchmark` times: machines and modules that run a function on arguments by place or by name."""

    @abstractmethod
    def timed_call(
        self, func_name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], end_to_end: bool
    ) -> Callable[[], Any]:
        """The call that is measured, with its arguments bound. `func_name` is None where none was given."""

    def wait(self) -> None:
        """Wait for work that calls have left to devices. The host's is done when a call returns."""

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
        """Time calls of a function; `end_to_end` binds the arguments for each of them. `args` and `kwargs`
        are its arguments. Units: seconds. `device` and `limit_zero_time_iterations` are TVM's: the program
        has its device, and no call takes zero time.

        Raises: UsageError U0801 for numbers that make no sense; what a call raises.
        """
        plan = TimingPlan(number, repeat, min_repeat_ms or 0, cooldown_interval_ms, repeats_to_cooldown)
        return measure(self.timed_call(func_name, args, kwargs, end_to_end), plan, wait=self.wait)


BENCHMARK_OPTIONS = tuple(
    name
    for name, parameter in signature(Benchmarked.benchmark).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
)
"""The options of `benchmark` in TVM's order."""
