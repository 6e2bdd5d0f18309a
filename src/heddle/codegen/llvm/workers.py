"""LLVM in processes of its own, beside the Python that makes the texts.

llvmlite holds one lock around every call, so threads gain nothing. Texts go to workers as they are made; who
wants a result works too, on texts that no worker has begun. Every text is compiled alone, by the same code
here and there, so the result does not depend on the number of workers.

A worker that dies while it starts, or that somebody ends, costs nothing but time: its text is compiled here.
Where LLVM itself crashed, that is an error, as it would be the end of this process. Workers are in a session
of their own: Ctrl-C reaches this process alone, which ends them. They also end when this process does, even
where it is killed while LLVM works (`object_code`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO

from heddle.codegen.codes import G0104
from heddle.codegen.llvm import object_code
from heddle.codegen.llvm.machine import compile_text, machine_options, refused
from heddle.codegen.llvm.object_code import ANSWER_HEAD, REFUSED, request_bytes
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.support.settings import can_start_python, environment_of_python
from heddle.target import Target

_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")
_LEAVING_S = 5.0
"""How long a worker that has nothing to do may take to end."""


@dataclass(slots=True, eq=False)
class Job:
    """A text on its way to object code; `code` or `error` is there when it has arrived. `seconds` is how long
    LLVM took, questions and answers included."""

    name: str
    text: str
    code: bytes | None = None
    error: HeddleError | None = None
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        """Whether code or an error has arrived."""
        return self.code is not None or self.error is not None


class Workers:
    """At most `count` processes for one target, started when there is work for them. A context manager."""

    def __init__(self, target: Target, count: int) -> None:
        self._target = target
        self._most = count if can_start_python() else 0
        self._waiting: deque[Job] = deque()
        self._change = threading.Condition()
        self._is_open = True
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._processes: set[subprocess.Popen[bytes]] = set()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: Any, __: TracebackType | None) -> None:
        with self._change:
            self._is_open = False
            self._waiting.clear()
            self._change.notify_all()
            if kind is not None:
                for process in self._processes:
                    process.kill()
        for thread in self._threads:
            thread.join()

    def submit(self, name: str, text: str) -> Job:
        """Have a text compiled. `name` is what an error calls it."""
        job = Job(name, text)
        with self._change:
            self._waiting.append(job)
            self._change.notify()
            if self._idle < len(self._waiting) and len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name="heddle-llvm", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads; the work is done here
                    self._most = 0
                else:
                    self._threads.append(thread)
        return job

    def result(self, job: Job) -> bytes:
        """The object code of a job; until it is there, other jobs are done here.

        Raises: InternalError G0102 for a text that LLVM rejects, G0104 where LLVM crashed.
        """
        while not job.is_done:
            with self._change:
                own = self._waiting.popleft() if self._waiting else None
                if own is None and not job.is_done:
                    self._change.wait()
            if own is not None:
                self._compile_here(own)
        if job.error is not None:
            raise job.error
        assert job.code is not None
        return job.code

    def _compile_here(self, job: Job) -> None:
        start = time.perf_counter()
        try:
            job.code = compile_text(job.text, self._target).object_code
        except HeddleError as error:
            job.error = error
        job.seconds = time.perf_counter() - start

    # ---- one thread for each process, which waits for its answers

    def _run(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        try:
            while (job := self._next()) is not None:
                try:
                    process = process or self._started()
                    self._ask(process, job)
                except OSError:  # the worker is gone, or none could be started
                    return
                finally:
                    self._settle(job, process)
        finally:
            if process is not None:
                self._end(process)

    def _next(self) -> Job | None:
        """The next job for a worker; None when there will be none."""
        with self._change:
            self._idle += 1
            while self._is_open and not self._waiting:
                self._change.wait()
            self._idle -= 1
            return self._waiting.popleft() if self._is_open else None

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, object_code.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment_of_python(),
        )
        with self._change:
            self._processes.add(process)
            if not self._is_open:
                process.kill()
        return process

    def _ask(self, process: subprocess.Popen[bytes], job: Job) -> None:
        """Raises: OSError where the worker dies."""
        assert process.stdin is not None and process.stdout is not None
        start = time.perf_counter()
        process.stdin.write(request_bytes(job.text, machine_options(self._target)))
        process.stdin.flush()
        status, size = ANSWER_HEAD.unpack(_read(process.stdout, ANSWER_HEAD.size))
        content = _read(process.stdout, size)
        job.seconds = time.perf_counter() - start
        if status == REFUSED:
            job.error = refused(content.decode())
        else:
            job.code = content

    def _settle(self, job: Job, process: subprocess.Popen[bytes] | None) -> None:
        """A job that has no result goes back, or gets an error where LLVM crashed."""
        crash = None if job.is_done or process is None else _crash(process)
        with self._change:
            if crash is not None:
                job.error = InternalError(
                    G0104,
                    f"LLVM crashed ({crash}) while it compiled {job.name!r}",
                    help="this is a fault of LLVM or of Heddle; with HEDDLE_NUM_THREADS=1, LLVM's own "
                    "message is shown",
                )
            elif not job.is_done and self._is_open:
                self._waiting.appendleft(job)
            self._change.notify_all()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(_LEAVING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        with self._change:
            self._processes.discard(process)


def _read(stream: BinaryIO | Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise OSError("the worker ended")
    return data


def _crash(process: subprocess.Popen[bytes]) -> str | None:
    """The signal by which a worker's own code ended it; None for any other end."""
    try:
        status = process.wait(_LEAVING_S)
    except subprocess.TimeoutExpired:
        return None
    name = signal.Signals(-status).name if -status in list(signal.Signals) else ""
    return name if name in _CRASHES else None
