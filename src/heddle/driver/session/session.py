"""A model behind one thread-safe call.

Over 450 lines: one class, whose methods keep one lock.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from heddle.driver.codes import D0203, D0801, D0802, D0803
from heddle.driver.inputs import Array, check_arrays, make_arguments
from heddle.driver.machines import machine_for
from heddle.driver.models import find_model
from heddle.driver.run import CompileOptions, load_or_compile, signature_of
from heddle.driver.session.batching import Batcher, Batching, check_batching
from heddle.driver.session.errors import SessionClosedError, SessionMemoryError, SessionTimeoutError
from heddle.driver.session.gate import Gate
from heddle.driver.session.metrics import Counters, SessionMetrics
from heddle.driver.session.report import SessionReport
from heddle.driver.signature import TensorSpec
from heddle.driver.values import as_argument, as_array
from heddle.runtime.dtype import DataType
from heddle.runtime.module import Module
from heddle.runtime.native.library import loops_on_this_thread, native_library
from heddle.runtime.variants import VariantsModule
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.support.settings import settings
from heddle.vm.executable import Executable
from heddle.vm.insight.peak_memory import peak_memory_bytes, peak_memory_text
from heddle.vm.machine import Machine

Inputs = Mapping[str, Any]


class Session:
    """A thread-safe model: any number of threads may call `run` at the same time.

    `model` is a path in a form that `heddle run` accepts (ONNX, script text, a compiled model), an IRModule,
    or the result of `heddle.compile`. It is compiled once, for all sizes. Requests run on at most
    `num_machines` machines (default: the number of threads of parallel loops), in order of arrival.

    `memory_limit_bytes` limits the memory of all running requests together, without weights, inputs and
    results. A request waits until there is enough memory. This requires a program with a memory bound.
    `batching` joins waiting requests; see `Batching`. `target`, `exec_mode`, `precision`, `trust` and
    `public_key` are those of `heddle run`.

    A session is a context manager; `close` ends it. In a forked child process it starts again with its own
    machines.

    Raises: the errors of compiling or loading; UsageError D0102 for an unknown function, D0801 for a limit
    that cannot be guaranteed, D0804 for batching that the program does not support.
    """

    def __init__(
        self,
        model: str | Path | Module | Any,
        *,
        function: str = "main",
        num_machines: int | None = None,
        memory_limit_bytes: int | None = None,
        batching: Batching | None = None,
        target: str | None = None,
        exec_mode: str = "compiled",
        precision: str = "fp32",
        trust: bool = False,
        public_key: Path | None = None,
    ) -> None:
        options = CompileOptions(
            target, exec_mode=exec_mode, precision=precision, trust=trust, public_key=public_key
        )
        self.executable = _executable_of(model, options)
        self.function = function
        self.signature = signature_of(self.executable, function)
        self.num_machines = settings().num_threads if num_machines is None else num_machines
        self._memory_limit_bytes, self._batching = memory_limit_bytes, batching
        self._check_limits()
        if batching is not None:
            check_batching(batching, self.signature)
        self._closed = False
        self._begin()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, element types and shapes of the inputs, in order. Free dimensions are names."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, element types and shapes of the outputs, in order."""
        return self.signature.outputs

    def run(
        self, *arrays: Any, inputs: Inputs | None = None, timeout_s: float | None = None
    ) -> dict[str, Array]:
        """Run the model and return the outputs by name, as new arrays.

        Inputs are given in order, or by name: as one dictionary, `run({"x": x})`, or as `inputs`. Numbers and
        lists are converted to the input's dtype; arrays must have it already. Texts are arrays of strings,
        sequences are lists of arrays.

        `timeout_s` limits the whole request, in seconds. A running call is not interrupted: it ends in a
        thread of the session, and its result is dropped. A callback of a request, which runs in a thread of
        the session, may call the session too; that call runs in the same thread and ignores the timeout.

        Do not change the input arrays before the result is ready: the result may then be wrong (but not that
        of other requests).

        Raises: UsageError D0202, D0203 for invalid inputs; SessionTimeoutError D0802; SessionMemoryError
        D0801 for a request above the limit; SessionClosedError D0803; Trap for errors while the program runs.
        """
        if self._is_own_thread():
            return self._run_here(self._bound(arrays, inputs))
        if timeout_s is None and self._batching is None:
            bound = self._bound(arrays, inputs)
            self._here()
            need = self._need_bytes(bound)
            machine = None if self._num_queued else self._gate.enter_now(need)
            if machine is not None:
                return self._finished(lambda: self._run_on(machine, bound, need), self._arrived())
            return self._submitted(bound).result()
        future = self.run_async(*arrays, inputs=inputs)
        try:
            return future.result(timeout_s)
        except FutureTimeoutError as error:
            if isinstance(error, HeddleError):
                raise
            future.cancel()
            self._counters.time_out()
            raise SessionTimeoutError(
                D0802,
                f"no result after {timeout_s} s, which is the request's timeout",
                help="more machines or a longer timeout; `metrics()` tells how many requests wait",
            ) from None

    def run_async(self, *arrays: Any, inputs: Inputs | None = None) -> Future[dict[str, Array]]:
        """Start a request and return a future of the outputs. `asyncio.wrap_future` makes it awaitable. In
        callbacks use `run` instead: a callback that waits for such a future may wait for its own thread.

        Raises: immediately the errors of `run` for invalid inputs; other errors are stored in the future.
        """
        bound = self._bound(arrays, inputs)
        self._here()
        if self._batching is None:
            return self._submitted(bound)
        check_arrays(self.signature, dict(zip((spec.name for spec in self.inputs), bound, strict=True)))
        start = self._arrived()
        answer: Future[dict[str, Array]] = Future()
        waiting: Future[list[Array]] = Future()

        def done(_: Future[list[Array]]) -> None:
            error = CancelledError() if waiting.cancelled() else waiting.exception()
            self._counters.end(time.perf_counter() - start, failed=error is not None)
            if not answer.set_running_or_notify_cancel():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(self._named(waiting.result()))

        waiting.add_done_callback(done)
        # A request whose caller has given up takes no place in a batch.
        answer.add_done_callback(lambda _: waiting.cancel())
        try:
            self._batcher().submit(bound, waiting)
        except SessionClosedError:
            waiting.cancel()
            raise
        return answer

    def warm_up(self, dims: Mapping[str, int] | None = None, seed: int = 0) -> None:
        """Run every machine once on random inputs of these sizes (1 for dimensions that are not given), so
        that memory and code are ready for requests of such sizes.

        Raises: UsageError D0201 to D0204 if such inputs cannot be made.
        """
        arguments = list(make_arguments(self.signature, {}, dict(dims or {}), seed).arrays.values())
        self._here()
        with self._warming:
            taken: list[Machine] = []
            try:
                for _ in range(self.num_machines):
                    taken.append(self._gate.enter())
                for machine in taken:
                    machine[self.function](*arguments)
            finally:
                for machine in taken:
                    self._gate.leave(machine)

    def profile(self, *arrays: Any, inputs: Inputs | None = None) -> Any:
        """Profile one call: see `docs/debugging.md`. Other requests continue meanwhile. `html()` of the
        report is a page like that of `heddle inspect --html`, which notebooks show."""
        bound = self._bound(arrays, inputs)
        report = machine_for(self.executable).profile(self.function, *bound)
        return SessionReport.of(report, self.executable)

    def metrics(self) -> SessionMetrics:
        """Return the session's counters and its current state."""
        self._here()
        waiting = (
            self._num_queued
            + self._gate.num_waiting
            + (0 if self._batches is None else self._batches.num_waiting)
        )
        return self._counters.snapshot(waiting, self.num_machines)

    def close(self) -> None:
        """Finish running requests and reject new ones. Closing again does nothing. A callback of a request
        may close the session; its own thread then ends after the callback."""
        if self._closed:
            return
        self._closed = True
        self._here()
        if self._batches is not None:
            self._batches.close()
        if self._threads is not None:
            self._threads.shutdown(wait=not self._is_own_thread())

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{spec.name}: {spec.text()}" for spec in self.inputs)
        outputs = ", ".join(f"{spec.name}: {spec.text()}" for spec in self.outputs)
        return f"Session({self.function}({inputs}) -> {outputs})"

    # Beginning

    def _check_limits(self) -> None:
        if self.num_machines < 1:
            raise UsageError(D0801, f"a session needs a machine, got num_machines={self.num_machines}")
        if self._memory_limit_bytes is None:
            return
        text = peak_memory_text(self.executable.metadata, self.function)
        if text is None or text.startswith("unbounded"):
            raise UsageError(
                D0801,
                f"the memory of {self.function!r} has no bound, so no limit can be kept: {text or 'unknown'}",
            )

    def _begin(self) -> None:
        """The parts that live in one process."""
        self._process = os.getpid()
        self._gate: Gate[Machine] = Gate(
            lambda: machine_for(self.executable),
            self.num_machines,
            self._memory_limit_bytes,
        )
        self._counters = Counters()
        self._starting, self._warming = threading.Lock(), threading.Lock()
        self._num_queued = 0
        self._own = threading.local()
        self._threads: ThreadPoolExecutor | None = None
        self._batches: Batcher | None = None

    def _here(self) -> None:
        """Begin anew in a child process."""
        if self._process != os.getpid():
            self._begin()

    def _executor(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self.num_machines, "heddle-session", partial(_mark, self._own)
                )
            return self._threads

    def _batcher(self) -> Batcher:
        assert self._batching is not None
        with self._starting:
            if self._batches is None:
                self._batches = Batcher(_weak_call(self), self._batching, self.num_machines)
                weakref.finalize(self, self._batches.end)
            return self._batches

    # Requests

    def _bound(self, arrays: tuple[Any, ...], inputs: Inputs | None) -> list[Array]:
        """The arrays of a request, in the order of the inputs."""
        if self._closed:
            raise SessionClosedError(D0803, "the session is closed")
        if inputs is None and len(arrays) == 1 and isinstance(arrays[0], Mapping):
            inputs, arrays = arrays[0], ()
        specs = self.signature.inputs
        if inputs is not None:
            names = [spec.name for spec in specs]
            wrong = sorted(set(inputs).symmetric_difference(names))
            if arrays or wrong:
                raise UsageError(
                    D0203,
                    f"expected the inputs {', '.join(names) or 'none'}, got {', '.join(inputs) or 'none'}"
                    + (f" and {len(arrays)} without a name" if arrays else ""),
                )
            arrays = tuple(inputs[name] for name in names)
        elif len(arrays) != len(specs):
            names = [spec.name for spec in specs]
            raise UsageError(D0203, f"expected {len(names)} inputs ({', '.join(names)}), got {len(arrays)}")
        return [_as_input(spec, value) for spec, value in zip(specs, arrays, strict=True)]

    def _submitted(self, arrays: list[Array]) -> Future[dict[str, Array]]:
        """A request for the session's own threads. They go from one request to the next; threads that hand a
        machine to each other would leave it idle until the other one is awake."""
        start = self._arrived()
        with self._starting:
            self._num_queued += 1

        def serve() -> dict[str, Array]:
            self._leave_queue()
            return self._finished(lambda: self._call(arrays), start)

        def check(future: Future[dict[str, Array]]) -> None:
            if future.cancelled():
                self._leave_queue()
                self._counters.end(time.perf_counter() - start, failed=True)

        try:
            future = self._executor().submit(serve)
        except RuntimeError:  # closed since `_bound`
            self._leave_queue()
            self._counters.end(time.perf_counter() - start, failed=True)
            raise SessionClosedError(D0803, "the session is closed") from None
        future.add_done_callback(check)
        return future

    def _is_own_thread(self) -> bool:
        """Whether a thread of the session calls, in a callback of a request."""
        if self._process != os.getpid():
            return False
        batches = self._batches
        return getattr(self._own, "serves", False) or (batches is not None and batches.is_own_thread())

    def _run_here(self, arrays: list[Array]) -> dict[str, Array]:
        """A call in this thread, which others would wait for in vain."""
        if self._batching is not None:
            names = (spec.name for spec in self.inputs)
            check_arrays(self.signature, dict(zip(names, arrays, strict=True)))
        return self._finished(lambda: self._call(arrays), self._arrived())

    def _leave_queue(self) -> None:
        with self._starting:
            self._num_queued -= 1

    def _arrived(self) -> float:
        self._counters.begin()
        return time.perf_counter()

    def _finished(self, call: Callable[[], list[Array]], start: float) -> dict[str, Array]:
        """What a request gives, counted, whether it fails or not."""
        failed = True
        try:
            results = call()
            failed = False
        finally:
            self._counters.end(time.perf_counter() - start, failed)
        return self._named(results)

    def _call(self, arrays: list[Array]) -> list[Array]:
        """One call of the program, when a machine and memory are free."""
        need = self._need_bytes(arrays)
        return self._run_on(self._gate.enter(need), arrays, need)

    def _run_on(self, machine: Machine, arrays: list[Array], need_bytes: int) -> list[Array]:
        """One call on a machine, which is given back."""
        try:
            self._counters.call()
            with self._threads_of_a_call():
                return self._results(machine[self.function](*arrays))
        finally:
            self._gate.leave(machine, need_bytes)

    def _results(self, value: Any) -> list[Any]:
        """The outputs, of what the program returned."""
        return [as_array(output) for output in self.signature.values(value)]

    def _threads_of_a_call(self) -> AbstractContextManager[None]:
        """Loops are shared among threads, unless requests keep all of them busy."""
        is_crowded = self._gate.num_inside >= native_library().num_threads
        return loops_on_this_thread() if is_crowded else nullcontext()

    def _need_bytes(self, arrays: list[Array]) -> int:
        """What a request may need, where a limit is kept."""
        limit_bytes = self._memory_limit_bytes
        if limit_bytes is None:
            return 0
        named = dict(zip((spec.name for spec in self.inputs), arrays, strict=True))
        dims = check_arrays(self.signature, named)
        need = peak_memory_bytes(self.executable.metadata, self.function, dims)
        if need is None:
            raise SessionMemoryError(D0801, f"the memory of a call has no bound with the sizes {dims}")
        if need > limit_bytes:
            raise SessionMemoryError(
                D0801,
                f"the request needs up to {need} bytes, and the session may take {limit_bytes}",
                help="a smaller request, or a session with a higher memory_limit_bytes",
            )
        return need

    def _named(self, results: list[Array]) -> dict[str, Array]:
        return dict(zip((spec.name for spec in self.outputs), results, strict=True))


def _mark(own: threading.local) -> None:
    """A thread of a session begins."""
    own.serves = True


def _weak_call(session: Session) -> Callable[[list[Array]], list[Array]]:
    """A session's calls, for threads that shall not keep it. A request that waits does."""
    found = weakref.ref(session)

    def call(arrays: list[Array]) -> list[Array]:
        kept = found()
        if kept is None:
            raise SessionClosedError(D0803, "the session is gone")
        return kept._call(arrays)

    return call


def _executable_of(model: Any, options: CompileOptions) -> Executable:
    if isinstance(model, str | Path):
        return load_or_compile(find_model(str(model)), options).executable
    if isinstance(model, VariantsModule):
        model = model.select()
    if isinstance(model, Executable):
        return model
    if isinstance(model, Module):
        raise UsageError(
            D0203, f"a session needs a program of the machine, got a module of kind {model.kind!r}"
        )
    from heddle.driver.compile import (
        compile as compile_module,  # a session of a compiled file loads no compiler
    )

    return _executable_of(
        compile_module(model, options.target, exec_mode=options.exec_mode, precision=options.precision),
        options,
    )


def _as_input(spec: TensorSpec, value: Any) -> Any:
    """Arrays and tensors as they are; numbers and lists in the input's element type; texts, and lists of
    arrays for sequences, as machines take them."""
    is_list = isinstance(value, list | tuple)
    if spec.kind != "tensor":
        if is_list and value and all(isinstance(item, str) for item in value):
            value = np.asarray(value)
        is_text = isinstance(value, np.ndarray) and value.dtype.kind in "OUT"
        return as_argument(value) if is_list or is_text else value
    if spec.dtype is None or not (is_list or isinstance(value, int | float)):
        return value
    return np.asarray(value, DataType(spec.dtype).numpy())
