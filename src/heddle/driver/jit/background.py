"""The process that compiles, from the program's side: a thread that asks, waits and loads.

Another process, because Python compiles with the interpreter's lock held, which calls of the program need.
Loading needs it too, for some milliseconds altogether; so that no call waits long, threads take shorter turns
meanwhile.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from heddle.driver.jit.request import Request, Setup, read_executable, write_program
from heddle.ir.module import IRModule
from heddle.support.collection import collection_paused
from heddle.support.forks import ForkLock, Rank
from heddle.support.frozen import frozen
from heddle.support.settings import can_start_python, environment_of_python
from heddle.vm.executable import Executable

TURN_S = 1e-4
"""How long a thread keeps the interpreter's lock from another one while a program is loaded."""
MAX_STARTS = 3


@frozen
class Answer:
    """What became of a request: a program, or what failed. `compile_s`: seconds in the other process;
    `begin_s`: when loading began, by `time.perf_counter`."""

    request: Request
    made: Executable | None
    compile_s: float
    begin_s: float
    error: str | None = None


class BackgroundCompiler:
    """Compiles programs of one graph, in the order in which they are asked for.

    `done` is called in a thread of its own; where it cannot use a program, it is called again with why. A
    process that cannot be started, or a folder that cannot be written, is why as well. In a forked child
    there is no compiler: nothing is asked for, and nothing comes. `close` ends the thread and the process,
    also while something is compiled; `end` lets them end, and waits for neither.
    """

    def __init__(self, setup: Setup, graph: IRModule, done: Callable[[Answer], None]) -> None:
        self._setup, self._graph, self._done = setup, graph, done
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._folder = _new_folder()
        self._process: subprocess.Popen[str] | None = None
        self._starts, self._owner, self._closed = 0, os.getpid(), False
        self._base: Executable | None = None
        self._thread = threading.Thread(target=self._serve, name="heddle-jit", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # as many threads as there may be
            self._closed = True
            self._remove_folder()
            raise
        _compilers.add(self)

    @property
    def is_here(self) -> bool:
        """Whether requests are answered: not after `close`, nor in a forked child."""
        return not self._closed and os.getpid() == self._owner

    def ask(self, request: Request) -> None:
        """Have a program compiled."""
        self._requests.put(request)

    def end(self) -> None:
        """Let the process and the thread end. Requests that wait are dropped.

        Waits for nothing, and takes no lock: memory is collected wherever a thread happens to be.
        """
        if not self.is_here:
            return
        self._closed = True
        self._requests.put(None)
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """As `end`, and wait for them."""
        self.end()
        if os.getpid() == self._owner and threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        with suppress(Exception):  # an interpreter that ends takes parts away
            problem = self._prepare()
            while (request := self._requests.get()) is not None and not self._closed:
                self._answer(request, problem)
        self._end()
        self._remove_folder()

    def _prepare(self) -> str | None:
        """Write down what the process needs; why that cannot be done."""
        if not can_start_python():
            return "this process knows no Python that it could start"
        if self._folder is None:
            return f"no folder can be made in {tempfile.tempdir or 'any folder for temporary files'}"
        try:
            write_program(self._folder, self._setup, self._graph)
        except Exception as failure:  # the disk is full, or the module holds what has no text
            return f"{type(failure).__name__}: {failure}"
        return None

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self, request: Request, problem: str | None) -> None:
        reply = self._reply_to(request) if problem is None else {"error": problem}
        answer = Answer(
            request, None, float(reply.get("compile_s", 0.0)), time.perf_counter(), reply.get("error")
        )
        if answer.error is None:
            try:
                with short_turns(), collection_paused():
                    self._done(replace(answer, made=self._loaded(request)))
                return
            except Exception as failure:  # the code that runs stays
                answer = replace(answer, error=f"{type(failure).__name__}: {failure}")
        if not self._closed:
            self._done(answer)

    def _loaded(self, request: Request) -> Executable:
        assert self._folder is not None
        path = self._folder / request.file_name
        made = read_executable(path, self._base)
        if not request.sizes:
            self._base = made
        path.unlink(missing_ok=True)  # it stays mapped
        return made

    def _reply_to(self, request: Request) -> dict[str, Any]:
        """What the process answers. One that ended, which a compiler's fault or lack of memory can do, is
        started again: for the full program at once, else for the next request."""
        reply = self._first_reply(request)
        while reply.get("ended") and not request.sizes and self._starts < MAX_STARTS and not self._closed:
            reply = self._first_reply(request)
        return reply

    def _first_reply(self, request: Request) -> dict[str, Any]:
        """What one process answers; `ended` where it did instead."""
        try:
            process = self._running()
        except OSError as failure:
            return {"error": f"the compiling process cannot be started: {failure}"}
        if process is None:
            return {"error": f"the compiling process ended {MAX_STARTS} times"}
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(request)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            found: dict[str, Any] = json.loads(line) if line else {}
        except (OSError, ValueError):
            found = {}
        if found.get("number") == request.number:
            return found
        self._end()
        return {"error": f"the compiling process ended with status {process.returncode}", "ended": True}

    def _running(self) -> subprocess.Popen[str] | None:
        if self._process is None and self._starts < MAX_STARTS:
            self._starts += 1
            self._base = None  # the new process knows nothing of it
            self._process = subprocess.Popen(
                [sys.executable, "-m", "heddle.driver.jit.worker", str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment_of_python(),
                text=True,
                process_group=0 if os.name == "posix" else None,  # an interrupt is for the program
            )
            if self._closed:  # `end` may have come before there was a process
                self._process.kill()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # before it sees the end of its input, behind which it clears the folder away
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _new_folder() -> Path | None:
    try:
        return Path(tempfile.mkdtemp(prefix="heddle-jit-"))
    except OSError:
        return None


_compilers: weakref.WeakSet[BackgroundCompiler] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Python ends: nothing stays behind."""
    for compiler in list(_compilers):
        compiler.close()


_turns_lock = ForkLock(Rank.LEAF)
_loading = [0]
_interval_s = [0.0]


@contextmanager
def short_turns() -> Iterator[None]:
    """Inside, in any thread, Python's threads take turns of TURN_S at most."""
    with _turns_lock:
        if _loading[0] == 0:
            _interval_s[0] = sys.getswitchinterval()
            sys.setswitchinterval(min(TURN_S, _interval_s[0]))
        _loading[0] += 1
    try:
        time.sleep(10 * TURN_S)  # threads that wait already do so for a turn of the old length
        yield
    finally:
        with _turns_lock:
            _loading[0] -= 1
            if _loading[0] == 0:
                sys.setswitchinterval(_interval_s[0])
