"""What an instruction costs on Relay's machine, and the same work on Relax's in both modes: processor time.

Each program does a thing a thousand times in a loop of tail calls; the loop alone is taken off.
"""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from typing import Any

import numpy as np

import heddle
from heddle import relay
from heddle.relax import VirtualMachine

TURNS = 1000
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
TURNS_OF = {
    "loop alone": "@loop(%n - 1, %p, %f, %x)",
    "a field (GetField)": "match? (%p) { One(%a, _) => @loop(%n - 1, %p, %f, %a) }",
    "a value of a data type (AllocADT)": "@loop(%n - 1, One(%x, %x), %f, %x)",
    "a closure (AllocClosure)": "@loop(%n - 1, %p, fn (%y: float32) -> float32 { %y + %x }, %x)",
    "a kernel (InvokePacked)": "@loop(%n - 1, %p, %f, %x + 1f)",
    "a closure's call (InvokeClosure)": "@loop(%n - 1, %p, %f, %f(%x))",
}


def _seconds(main: Any) -> float:
    n, x = heddle.tensor(np.int32(TURNS)), heddle.tensor(np.float32(1))
    main(n, x)
    return min(timeit.repeat(lambda: main(n, x), number=3, repeat=7)) / 3


def rows(_threads: int) -> Iterator[str]:
    """A line for each kind of work: ns on Relay's machine, Relax bytecode, Relax compiled."""
    base: list[float] = []
    for name, turn in TURNS_OF.items():
        mod = relay.parse(LOOP.format(turn=turn))
        own = relay.vm.VirtualMachine(relay.vm.compile(mod, target="llvm"), heddle.cpu())["main"]
        mains = [own]
        for mode in ("bytecode", "compiled"):
            mains.append(VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"])
        times = [1e9 * _seconds(main) / TURNS for main in mains]
        base = base or [0.0] * len(times)
        shown = [time - other for time, other in zip(times, base, strict=True)]
        if name == "loop alone":
            base = times
        yield f"{name:36} {shown[0]:7.0f} {shown[1]:7.0f} {shown[2]:7.0f} ns: Relay, Relax bytecode, compiled"
