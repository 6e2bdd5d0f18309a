"""Admission control of a session: requests enter in order of arrival, as machines and memory become free.

Requests wait in one queue. The first one enters as soon as there is both a machine and enough memory for it.
No request overtakes another, so a large request waits only for the requests before it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from heddle.driver.codes import D0802
from heddle.driver.session.errors import SessionTimeoutError

Machine = TypeVar("Machine")


class _Turn(Generic[Machine]):
    """A place in the line. `ready` is taken until it is this request's turn."""

    __slots__ = ("machine", "need_bytes", "ready")

    def __init__(self, need_bytes: int) -> None:
        self.need_bytes = need_bytes
        self.ready = threading.Lock()
        self.ready.acquire()
        self.machine: Machine | None = None


class Gate(Generic[Machine]):
    """At most `count` machines, made by `make` when they are first needed, and at most `limit_bytes` of
    memory (None: any) for those inside together.
    """

    def __init__(self, make: Callable[[], Machine], count: int, limit_bytes: int | None = None) -> None:
        self._make = make
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._idle: list[Machine] = []
        self._unmade = count
        self._bytes = 0
        self.num_inside = 0
        self._line: deque[_Turn[Machine]] = deque()

    # `num_inside`: how many requests have a machine.

    @property
    def num_waiting(self) -> int:
        """How many requests stand in the line."""
        return len(self._line)

    def enter_now(self, need_bytes: int = 0) -> Machine | None:
        """A machine, if nobody waits and there is room. Raises: what making a machine raises."""
        with self._lock:
            if self._line or not self._has_room(need_bytes):
                return None
            machine = self._take(need_bytes)
        return self._made(need_bytes) if machine is None else machine

    def enter(self, need_bytes: int = 0, timeout_s: float | None = None) -> Machine:
        """A machine, when it is this request's turn. `leave` gives it back.

        Raises: SessionTimeoutError D0802 after `timeout_s`; what making a machine raises.
        """
        start = time.monotonic()
        with self._lock:
            if not self._line and self._has_room(need_bytes):
                machine = self._take(need_bytes)
                turn = None
            else:
                turn = _Turn[Machine](need_bytes)
                self._line.append(turn)
        if turn is not None:
            machine = self._wait(turn, timeout_s, start)
        return self._made(need_bytes) if machine is None else machine

    def _made(self, need_bytes: int) -> Machine:
        """A new machine. Where it cannot be made its place is free again."""
        machine = None
        try:
            machine = self._make()
            return machine
        finally:
            if machine is None:
                with self._lock:
                    self._unmade += 1
                    self._give_back(need_bytes)

    def leave(self, machine: Machine, need_bytes: int = 0) -> None:
        """Give a machine back, and the memory that was asked for with it."""
        with self._lock:
            self._idle.append(machine)
            self._give_back(need_bytes)

    def _has_room(self, need_bytes: int) -> bool:
        if not self._idle and not self._unmade:
            return False
        return self._limit_bytes is None or self._bytes + need_bytes <= self._limit_bytes

    def _take(self, need_bytes: int) -> Machine | None:
        """A machine that is free, or None for the right to make one. The warmest is taken."""
        self._bytes += need_bytes
        self.num_inside += 1
        if self._idle:
            return self._idle.pop()
        self._unmade -= 1
        return None

    def _give_back(self, need_bytes: int) -> None:
        self._bytes -= need_bytes
        self.num_inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self._has_room(self._line[0].need_bytes):
            turn = self._line.popleft()
            turn.machine = self._take(turn.need_bytes)
            turn.ready.release()

    def _wait(self, turn: _Turn[Machine], timeout_s: float | None, start: float) -> Machine | None:
        is_taken = False
        try:
            left = -1.0 if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - start))
            is_taken = turn.ready.acquire(timeout=left)
        finally:  # also after an interrupt
            if not is_taken:
                self._abandon(turn)
        if is_taken:
            return turn.machine
        raise SessionTimeoutError(
            D0802,
            f"no machine was free for {timeout_s} s, which is the request's timeout",
            help="more machines or a longer timeout; `metrics()` tells how many requests wait",
        )

    def _abandon(self, turn: _Turn[Machine]) -> None:
        """Leave the line, or give back what the turn has got meanwhile."""
        with self._lock:
            if turn in self._line:
                self._line.remove(turn)
                self._let_in()
                return
            if turn.machine is None:
                self._unmade += 1
            else:
                self._idle.append(turn.machine)
            self._give_back(turn.need_bytes)
