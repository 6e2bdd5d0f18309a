"""What the harness asks of an engine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Arrays = list[np.ndarray]
IDLE_S = 5e-3


class Unavailable(Exception):
    """The engine is not installed, or cannot take a workload; the text says why."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a workload gives to an engine: an ONNX file and, for PyTorch, the key of its module.

    `threads` is None where an engine is to go by its environment. `varies` tells that shapes differ from call
    to call.
    """

    path: Path
    torch_key: str = ""
    threads: int | None = None
    varies: bool = False


def flat_arrays(outputs: Any) -> Arrays:
    """The arrays of outputs, those of a sequence one after the other. An absent optional value has none."""
    if isinstance(outputs, (list, tuple)):
        return [array for output in outputs for array in flat_arrays(output)]
    return [] if outputs is None else [np.asarray(outputs)]


class Session(ABC):
    """A loaded model. `prepare` gives what `call` takes: conversions that users do once are not timed."""

    def prepare(self, arrays: Arrays) -> Any:
        return arrays

    @abstractmethod
    def call(self, prepared: Any) -> Any:
        """One inference, to its end."""

    @abstractmethod
    def arrays(self, result: Any) -> Arrays:
        """The outputs of `call`."""

    def turn(self, requests: Sequence[Any], idle: int, count: int) -> list[float]:
        """Milliseconds of `count` passes over all requests. Before them come `idle` passes, or 5 ms of them,
        that do not count: threads of the engine before may still spin, and the caches are its own.
        """
        begin = time.perf_counter()
        while idle > 0 or time.perf_counter() - begin < IDLE_S:
            for request in requests:
                self.call(request)
            idle -= 1
        times = []
        for _ in range(count):
            start = time.perf_counter()
            for request in requests:
                self.call(request)
            times.append((time.perf_counter() - start) * 1e3)
        return times

    def close(self) -> None:
        """Free what is held."""
        return


class Engine(ABC):
    """A way to run ONNX models. `tolerance` bounds the error of an output relative to its scale.

    An engine whose `is_reduced` computes in less than float32 and does not count as the best peer.
    """

    tolerance: ClassVar[float] = 1e-3
    is_reduced: ClassVar[bool] = False

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def load(self, model: Model) -> Session:
        """Raises: Unavailable where the engine has no form of the model."""
