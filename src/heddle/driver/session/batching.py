"""Batching: waiting requests are joined along their first axis and run as one call.

A batch is taken when a machine is free, so batches grow while all machines are busy. In addition, the first
request of a batch waits for others for at most `max_delay_s`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.driver.codes import D0803, D0804
from heddle.driver.inputs import Array
from heddle.driver.session.errors import SessionClosedError
from heddle.driver.signature import Signature
from heddle.runtime.size_text import names_in
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class Batching:
    """How requests may be joined along their first axis.

    `max_rows` is the maximum number of rows of a call. `max_delay_s` is the maximum time in seconds that a
    request waits for others. `dim` is the symbolic dimension that counts rows; the default is that of the
    first axis of the first input. The user must ensure that the result of a row does not depend on other
    rows.

    Raises: UsageError D0804 for values that are not positive.
    """

    max_rows: int = 32
    max_delay_s: float = 0.002
    dim: str | None = None

    def __post_init__(self) -> None:
        if self.max_rows < 1 or not self.max_delay_s >= 0:
            raise UsageError(
                D0804,
                f"expected at least one row and a delay that is not negative, got max_rows={self.max_rows}, "
                f"max_delay_s={self.max_delay_s}",
            )


def check_batching(batching: Batching, signature: Signature) -> None:
    """Check that a program can be batched. Raises: UsageError D0804 if the first axis of an input or output
    is not the batch dimension, or if that dimension occurs elsewhere too."""
    if not signature.inputs:
        raise UsageError(D0804, "a program without inputs has no rows to join")
    first = signature.inputs[0].shape or (None,)
    dim = batching.dim or first[0]
    wanted = dim if isinstance(dim, str) else "a free dimension"
    for role, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for spec in specs:
            shape = spec.shape or (None,)
            elsewhere = any(isinstance(size, str) and str(dim) in names_in(size) for size in shape[1:])
            if spec.kind != "tensor" or not isinstance(dim, str) or shape[0] != dim or elsewhere:
                raise UsageError(
                    D0804,
                    f"requests cannot be joined: {role} {spec.name!r} is {spec.text()}, expected a tensor "
                    f"with {wanted} as its first axis, and nowhere else",
                    help="Batching(dim=...) names the dimension; without batching each request is one call",
                )


@dataclass(slots=True)
class Waiting:
    """A request that waits for a batch. `key` is equal for requests that one call can serve."""

    arrays: list[Array]
    rows: int
    key: tuple[Any, ...]
    future: Future[list[Array]]
    arrived_s: float

    @property
    def is_as_it_came(self) -> bool:
        """Whether the caller has left the arrays their forms."""
        return key_of(self.arrays) == self.key and all(len(array) == self.rows for array in self.arrays)


def key_of(arrays: Sequence[Array]) -> tuple[Any, ...]:
    """Element types and sizes beside the rows."""
    return tuple((array.dtype, array.shape[1:]) for array in arrays)


class Batcher:
    """Workers that take batches from one line and run them with `call`, arrays to arrays."""

    def __init__(
        self, call: Callable[[list[Array]], list[Array]], batching: Batching, num_workers: int
    ) -> None:
        self._call, self._batching = call, batching
        self._line: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._collecting = threading.Lock()
        self._is_closed = False
        self._workers = [
            threading.Thread(target=self._work, name=f"heddle-batch-{number}", daemon=True)
            for number in range(num_workers)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def num_waiting(self) -> int:
        """How many requests are in no batch yet."""
        return len(self._line)

    def submit(self, arrays: list[Array], future: Future[list[Array]]) -> None:
        """Put a request in the line. Its arrays have one number of rows; `future` gets the results.

        Raises: SessionClosedError D0803 after `close`.
        """
        waiting = Waiting(arrays, arrays[0].shape[0], key_of(arrays), future, time.monotonic())
        with self._changed:
            if self._is_closed:
                raise SessionClosedError(D0803, "the session is closed")
            self._line.append(waiting)
            self._changed.notify()

    def end(self) -> None:
        """Let the workers run what waits, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Run what waits, and wait for the workers to end."""
        self.end()
        for worker in self._workers:
            if worker is not threading.current_thread():  # a callback of a request closes
                worker.join()

    def is_own_thread(self) -> bool:
        """Whether a worker calls, in a callback of a request: it must not wait for workers."""
        return threading.current_thread() in self._workers

    def _work(self) -> None:
        while True:
            with self._collecting:
                batch = self._collect()
            if batch is None:
                return
            if batch:
                self._run(batch)
            del batch  # its requests keep the session

    def _collect(self) -> list[Waiting] | None:
        """The next batch: the oldest request and those that fit to it, in their order, without those that
        were cancelled. None at the end."""
        with self._changed:
            while not self._line and not self._is_closed:
                self._changed.wait()
            if not self._line:
                return None
            due = self._line[0].arrived_s + self._batching.max_delay_s
            while not self._is_closed and self._num_ready_rows() < self._batching.max_rows:
                left = due - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._take()

    def _num_ready_rows(self) -> int:
        key = self._line[0].key
        return sum(waiting.rows for waiting in self._line if waiting.key == key)

    def _take(self) -> list[Waiting]:
        first = self._line[0]
        batch: list[Waiting] = []
        kept: list[Waiting] = []
        rows, is_full = 0, False
        for waiting in self._line:
            fits = waiting.key == first.key and not is_full
            if fits and batch and rows + waiting.rows > self._batching.max_rows:
                fits, is_full = False, True  # none of its kind passes it
            if fits:
                batch.append(waiting)
                rows += waiting.rows
            else:
                kept.append(waiting)
        self._line = deque(kept)
        return [waiting for waiting in batch if waiting.future.set_running_or_notify_cancel()]

    def _run(self, batch: list[Waiting]) -> None:
        """One call for all. Where it fails each request has a call of its own, so that an error meets the
        request that it belongs to. So has one whose arrays were given another form meanwhile."""
        joined = []
        for waiting in batch:
            if len(batch) > 1 and waiting.is_as_it_came:
                joined.append(waiting)
            else:
                self._run_alone(waiting)
        if joined:
            self._run_joined(joined)

    def _run_joined(self, batch: list[Waiting]) -> None:
        made: Future[list[Array]] = Future()
        _settle(made, lambda: self._call(_joined(batch)))
        if made.exception() is not None:
            for waiting in batch:
                self._run_alone(waiting)
            return
        low = 0
        for waiting in batch:
            high = low + waiting.rows
            waiting.future.set_result([result[low:high].copy() for result in made.result()])
            low = high

    def _run_alone(self, waiting: Waiting) -> None:
        _settle(waiting.future, lambda: self._call(waiting.arrays))


def _joined(batch: Sequence[Waiting]) -> list[Array]:
    """The rows of all requests, for each input. Raises: UsageError D0804 where they are not as many as there
    were, for a caller changes an array's form at this moment."""
    made = [np.concatenate(parts) for parts in zip(*(item.arrays for item in batch), strict=True)]
    num_rows = sum(item.rows for item in batch)
    if any(len(array) != num_rows for array in made):
        raise UsageError(D0804, f"{num_rows} rows were to be joined, and there are others now")
    return made


def _settle(future: Future[list[Array]], call: Callable[[], list[Array]]) -> None:
    """Give a future what a call gives, or the error that it raises, whatever it is."""
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
