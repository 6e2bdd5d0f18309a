"""Threads of the interpreter: one runs at a time, and a generator of random numbers says which."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from heddle.support.diagnostics import HeddleError, InternalError, Trap
from heddle.systems.codes import Y0406, Y0407
from heddle.systems.nodes import FunctionTree


class Halt(BaseException):
    """Ends a thread of the simulation."""


@dataclass(eq=False)
class Frame:
    """A call under way. `rooms` are the addresses of its memory."""

    tree: FunctionTree
    locals: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    rooms: list[int] = field(default_factory=list)
    line: int = 0

    def place(self) -> str:
        """The file and the line that it is at, for a message."""
        return f"{self.tree.file}:{self.line or self.tree.line}"


@dataclass(eq=False)
class SimulatedThread:
    """`waits_for` says whether it can go on; None if it can."""

    number: int
    frames: list[Frame] = field(default_factory=list)
    waits_for: Callable[[], bool] | None = None
    is_done: bool = False
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    host: threading.Thread | None = None


class Scheduler:
    """Thread 0 is the caller's."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.threads = [SimulatedThread(0)]
        self.current = self.threads[0]
        self._failure: HeddleError | None = None
        self._is_closing = False

    def spawn(self, work: Callable[[], object]) -> SimulatedThread:
        """Start a thread; it runs when it is chosen."""
        thread = SimulatedThread(len(self.threads))
        self.threads.append(thread)
        thread.host = threading.Thread(target=self._run, args=(thread, work), daemon=True)
        thread.host.start()
        return thread

    def _run(self, thread: SimulatedThread, work: Callable[[], object]) -> None:
        thread.gate.acquire()
        is_good = False
        try:
            if not self._is_closing:
                work()
            is_good = True
        except Halt:
            is_good = True
        except HeddleError as error:
            self._failure = error
        finally:
            if not is_good and self._failure is None:
                self._failure = InternalError(Y0407, "a thread of the interpreter has failed")
            thread.is_done = True
            if not self._is_closing:
                self._wake(self._choose())

    def switch(self, waits_for: Callable[[], bool] | None = None) -> None:
        """Let another thread run, or this one again. It comes back when `waits_for` holds."""
        me = self.current
        me.waits_for = waits_for
        chosen = self._choose()
        if chosen is not me:
            self._wake(chosen)
            me.gate.acquire()
            if self._is_closing:
                raise Halt
        me.waits_for = None
        if me.number == 0 and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def settle(self, max_switches: int) -> None:
        """Let the other threads run until each of them waits or has ended, or for so many turns."""
        for _ in range(max_switches):
            if not any(thread is not self.current for thread in self._ready()):
                return
            self.switch()

    def _ready(self) -> list[SimulatedThread]:
        return [t for t in self.threads if not t.is_done and (t.waits_for is None or t.waits_for())]

    def _choose(self) -> SimulatedThread:
        if self._failure is None:
            ready = self._ready()
            if ready:
                return self.random.choice(ready)
            waiting = [t.frames[-1].place() for t in self.threads if not t.is_done and t.frames]
            self._failure = Trap(Y0406, "no thread can go on", notes=[f"one waits at {w}" for w in waiting])
        return self.threads[0]

    def _wake(self, thread: SimulatedThread) -> None:
        self.current = thread
        thread.gate.release()

    def close(self) -> None:
        """End all threads but the caller's."""
        self._is_closing = True
        for thread in self.threads[1:]:
            thread.gate.release()
            if thread.host is not None:
                thread.host.join()
