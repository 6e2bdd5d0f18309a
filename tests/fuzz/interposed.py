"""Processes whose calls of the C library go wrong where they are told to: `interpose.c`, compiled and
preloaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("interpose.c")
ROOT = Path(__file__).parents[2]
ALARM_S = 300
"""When a child counts as hung: far more than it needs, on any machine."""
_NOT_REACHED = 64


class Calls(IntFlag):
    """Kinds of calls, as `interpose.c` has them."""

    WRITES = 1
    NAMES = 2
    READS = 4
    PYTHON = 8
    NATIVE = 16
    REMOVALS = 32


class Action(IntEnum):
    """What befalls the n-th call; FAIL_ON befalls all from it on."""

    KILL = 1
    FAIL = 2
    FAIL_ON = 3
    SHORT = 4
    END = 5


@dataclass(frozen=True)
class Fault:
    """`error` is the number that a call fails with."""

    calls: Calls
    action: Action
    error: int = 0


@dataclass(frozen=True)
class Ended:
    """How a child ended. `code`: its exit status, negative for a signal. `is_struck`: whether the fault was
    reached."""

    code: int
    err: str
    is_struck: bool


def why_not_here() -> str | None:
    """What is missing on this machine, if anything is."""
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return "calls are interposed on Linux"
    return None if shutil.which("cc") else "a C compiler (cc) is missing"


def start(module: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a module of ours with the library preloaded, its standard error with its output."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "interpose.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        surroundings = {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": str(library), **env}
        return subprocess.run(
            [sys.executable, "-m", module, *args],
            env=surroundings,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def is_interposed() -> bool:
    return hasattr(ctypes.CDLL(None), "faults_arm")


class Interposer:
    """The preloaded library. Programs that children start are spared: they do not inherit it."""

    def __init__(self) -> None:
        self._library = ctypes.PyDLL(None)
        os.environ.pop("LD_PRELOAD", None)

    def arm(self, fault: Fault, number: int) -> None:
        self._library.faults_arm(int(fault.calls), ctypes.c_long(number), int(fault.action), fault.error)

    def disarm(self) -> None:
        """No more faults; what was counted stays."""
        self._library.faults_disarm()

    def seen(self) -> int:
        return int(self._library.faults_seen())

    def went_through(self, function: str) -> bool:
        """Whether a function, by its name in a library, was asking for memory that was refused last."""
        return bool(self._library.faults_went_through(function.encode()))

    def count(self, calls: Calls, act: Callable[[], object]) -> int:
        """How many calls an action makes."""
        self.met(Fault(calls, Action.FAIL), -1, act)
        return self.seen()

    def met(self, fault: Fault, number: int, act: Callable[[], object]) -> int:
        """Do something whose `number`-th call meets the fault; 0, as the exit code."""
        try:
            self.arm(fault, number)
            act()
        finally:
            self.disarm()
        return 0

    def fork(self, number: int, act: Callable[[], int]) -> Ended:
        """Run an action that meets a fault in a child; `act` gives the exit code, below 64."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os._exit(self._child(writing, number, act))
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            err = stream.read().decode(errors="replace")
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return Ended(code, err, True)
        return Ended(code & ~_NOT_REACHED, err, not code & _NOT_REACHED)

    def _child(self, writing: int, number: int, act: Callable[[], int]) -> int:
        os.dup2(writing, 2)
        os.close(writing)
        signal.alarm(ALARM_S)
        code = 9
        try:
            code = act()
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        return code | (0 if self.seen() >= number else _NOT_REACHED)


def numbers(total: int, most: int) -> list[int]:
    """At most `most` of 1 .. total: the first ones, and then ever fewer."""
    chosen, at = [], 1.0
    step = 1.0 if total <= most else total ** (1 / most)
    while int(at) <= total:
        chosen.append(int(at))
        at = max(int(at) + 1, at * step)
    return chosen
