"""What an instruction costs on Relay's machine, and the same work on Relax's in both modes: processor time.

Each program does a thing a thousand times in a loop of tail calls; the loop alone is taken off. A cost is the
difference of two times, so programs take turns and the least time of each counts: a machine whose clock moves
in between would give costs below zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import heddle
from heddle import relay
from heddle.relax import VirtualMachine

LOOP_TURNS = 1000
ROUNDS = 40
SHORTEST_S = 0.005
"""A time that counts is of so many calls that it takes this long at least."""
LOOP = """#[version = "0.0.5"]
type Pair {{ One(float32, float32), Two(float32) }}
def @same(%x: float32) -> float32 {{ %x }}
def @loop(%n: int32, %p: Pair, %f: fn (float32) -> float32, %x: float32) -> float32 {{
  if (%n == 0) {{ %x }} else {{ {turn} }}
}}
def @main(%n: int32, %x: float32) {{
  @loop(%n, One(%x, %x), fn (%y: float32) -> float32 {{ %y + %x }}, %x)
}}
"""
ALONE = "loop alone"
TURNS_OF = {
    ALONE: "@loop(%n - 1, %p, %f, %x)",
    "a field (GetField)": "match? (%p) { One(%a, _) => @loop(%n - 1, %p, %f, %a) }",
    "a value of a data type (AllocADT)": "@loop(%n - 1, One(%x, %x), %f, %x)",
    "a closure (AllocClosure)": "@loop(%n - 1, %p, fn (%y: float32) -> float32 { %y + %x }, %x)",
    "a kernel (InvokePacked)": "@loop(%n - 1, %p, %f, %x + 1f)",
    "a closure's call (InvokeClosure)": "@loop(%n - 1, %p, %f, %f(%x))",
}


def _mains(mod: Any) -> Iterator[Any]:
    """`main` on Relay's machine, on Relax's in bytecode, and compiled."""
    yield relay.vm.VirtualMachine(relay.vm.compile(mod, target="llvm"), heddle.cpu())["main"]
    for mode in ("bytecode", "compiled"):
        yield VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"]


def _least_seconds(calls: list[Callable[[], Any]]) -> list[float]:
    """The least processor time of each call, in turn."""
    counts = []
    for call in calls:
        call()
        start = time.process_time()
        call()
        counts.append(1 + int(SHORTEST_S / max(time.process_time() - start, 1e-5)))
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for k, (call, count) in enumerate(zip(calls, counts, strict=True)):
            start = time.process_time()
            for _ in range(count):
                call()
            least[k] = min(least[k], (time.process_time() - start) / count)
    return least


def rows(_threads: int) -> Iterator[str]:
    """A line for each kind of work: ns on Relay's machine, Relax bytecode, Relax compiled."""
    args = heddle.tensor(np.int32(LOOP_TURNS)), heddle.tensor(np.float32(1))
    programs = [list(_mains(relay.parse(LOOP.format(turn=turn)))) for turn in TURNS_OF.values()]
    by_machine = [
        _least_seconds([lambda main=main: main(*args) for main in mains])  # type: ignore[misc]
        for mains in zip(*programs, strict=True)
    ]
    for name, *seconds in zip(TURNS_OF, *by_machine, strict=True):
        loops = [0.0 if name == ALONE else times[0] for times in by_machine]
        own, bytecode, compiled = (
            1e9 * (time - loop) / LOOP_TURNS for time, loop in zip(seconds, loops, strict=True)
        )
        yield f"{name:36} {own:7.0f} {bytecode:7.0f} {compiled:7.0f} ns: Relay, Relax bytecode, compiled"
