"""Forks under load: `python -m tests.fuzz.forks --count 2000`.

Threads run machines in both modes, parallel kernels among them, take and return memory, and compile; the main
thread forks. Each child calls a machine of its own, one that was made before the fork, takes memory, and now
and then compiles. A child that is not done when its alarm rings hung, and one that gives a wrong answer or an
exception fails, one that Python only reports ("Exception ignored in ...") too.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import heddle
from heddle.codegen.cache import KernelCache
from heddle.driver.compile import build
from heddle.runtime import allocator_for, cpu
from heddle.script import from_source
from heddle.vm.relax import VirtualMachine, VMExecutable

NUM_THREADS = 4
ALARM_S = 900
"""When a child counts as hung: far more than it needs, on any machine."""
COMPILES_EVERY = 25
MOST_ADDENDS = 500
"""What programs differ in; a large one would take bits from what it is added to."""

_SOURCE = """
@R.function
def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32")):
    with R.dataflow():
        y = R.nn.relu(R.matmul(x, w))
        z = R.nn.softmax(R.add(y, R.const({addend}, "float32")), axis=-1)
        R.output(z)
    return z
"""


@dataclass
class Outcome:
    """Children by how they ended."""

    done: int = 0
    hung: int = 0
    faults: list[str] = field(default_factory=list)

    def note(self, number: int, pid: int) -> None:
        """Wait for a child's end."""
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            self.hung += 1
        elif status:
            self.faults.append(f"child {number}: status {status}")
        else:
            self.done += 1


def _compiled(addend: float, exec_mode: str = "compiled") -> VMExecutable:
    mod = heddle.IRModule({"main": from_source(_SOURCE.format(addend=addend))})
    return build(mod, "llvm", exec_mode=exec_mode, cache=KernelCache(None))


def _expected(x: Any, w: Any) -> Any:
    """What is added to all elements of a row does not change its softmax."""
    y = np.maximum(x.astype(np.float64) @ w.astype(np.float64), 0)
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class _Case:
    """Arguments, and what a program without its addend's effect gives: numpy's products take locks of their
    own, so they are all done before anything forks."""

    x: Any
    w: Any
    expected: Any


def _cases() -> list[_Case]:
    rng, made = np.random.default_rng(0), []
    for _ in range(16):
        x = rng.standard_normal((int(rng.integers(1, 600)), 64)).astype(np.float32)
        w = rng.standard_normal((64, 64)).astype(np.float32) / 8
        made.append(_Case(x, w, _expected(x, w)))
    return made


_CASES = _cases()


def _check(call: Callable[..., Any], rng: np.random.Generator) -> None:
    case = _CASES[int(rng.integers(len(_CASES)))]
    assert_allclose(call(case.x, case.w).numpy(), case.expected, rtol=1e-3, atol=1e-6)


class _Ignored:
    """Exceptions that nobody can catch, of finalisers and of callbacks at a fork: Python reports and forgets
    them."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def __enter__(self) -> _Ignored:
        self._before, sys.unraisablehook = sys.unraisablehook, self._note
        return self

    def __exit__(self, *_exc: object) -> None:
        gc.collect()
        sys.unraisablehook = self._before

    def _note(self, ignored: Any) -> None:
        what = f"{ignored.err_msg or 'Exception ignored in'}: {ignored.object!r}: {ignored.exc_value!r}"
        self.faults.append(what)
        sys.__unraisablehook__(ignored)


class _Load:
    """Threads that work until they are told to stop."""

    def __init__(self, executables: list[VMExecutable], compiles: bool) -> None:
        self._executables = executables
        self._stop = threading.Event()
        self.faults: list[str] = []
        targets = [lambda number=number: self._run(number) for number in range(NUM_THREADS)]
        if compiles:
            targets[-1] = self._compile
        self._threads = [threading.Thread(target=self._guarded, args=(target,)) for target in targets]

    def __enter__(self) -> _Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, target: Callable[[], None]) -> None:
        try:
            target()
        except Exception:
            self.faults.append(traceback.format_exc())

    def _run(self, number: int) -> None:
        rng = np.random.default_rng(number)
        calls = [VirtualMachine(executable, cpu())["main"] for executable in self._executables]
        while not self._stop.is_set():
            _check(calls[int(rng.integers(len(calls)))], rng)
            held = [allocator_for().alloc(int(size)) for size in rng.integers(1, 1 << 16, 20)]
            del held

    def _compile(self) -> None:
        number = 2
        while not self._stop.is_set():
            rng = np.random.default_rng(number)
            _check(VirtualMachine(_compiled(float(number % MOST_ADDENDS)), cpu())["main"], rng)
            number += 1


def _child(number: int, executables: list[VMExecutable], before: Callable[..., Any]) -> int:
    """What a child does; its exit status."""
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(ALARM_S)
    try:
        rng = np.random.default_rng(number)
        for executable in executables:
            _check(VirtualMachine(executable, cpu())["main"], rng)
        _check(before, rng)
        held = [allocator_for().alloc(int(size)) for size in rng.integers(1, 1 << 22, 20)]
        del held
        if number % COMPILES_EVERY == 0:
            addend = float(number % MOST_ADDENDS + 3)
            _check(VirtualMachine(_compiled(addend), cpu())["main"], rng)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run_forks(
    count: int, compiles: bool = True, minutes: float = math.inf, at_once: int = 1, seed: int = 0
) -> Outcome:
    """Fork `count` children, from the number `seed` on, or as many as some minutes allow; `at_once` of them
    live at the same time."""
    end = time.monotonic() + 60 * minutes
    executables = [_compiled(1.0, mode) for mode in ("compiled", "bytecode")]
    before = VirtualMachine(executables[0], cpu())["main"]
    outcome = Outcome()
    living: deque[tuple[int, int]] = deque()
    with _Ignored() as ignored, _Load(executables, compiles) as load:
        for number in range(seed, seed + count):
            if time.monotonic() > end:
                break
            if len(living) == at_once:
                outcome.note(*living.popleft())
            known = len(ignored.faults)
            pid = os.fork()
            if pid == 0:
                status = _child(number, executables, before)
                gc.collect()
                os._exit(status or int(len(ignored.faults) > known))
            living.append((number, pid))
        for each in living:
            outcome.note(*each)
    outcome.faults += [*load.faults, *ignored.faults]
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first child")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after that time")
    parser.add_argument("--at-once", type=int, default=4, help="children that live at the same time")
    args = parser.parse_args()
    outcome = run_forks(args.count, minutes=args.minutes, at_once=args.at_once, seed=args.seed)
    print(f"{outcome.done} of {args.count} children done, {outcome.hung} hung, {len(outcome.faults)} faults")
    print("\n".join(outcome.faults[:10]))
    return int(outcome.hung > 0 or bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
