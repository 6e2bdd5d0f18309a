"""A Relay program with recursion, data types, a closure and a reference, for runs that look for lost
memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import heddle
from heddle import relay
from heddle.ir.module import IRModule
from heddle.runtime import cpu, tensor
from heddle.vm.relax import VirtualMachine
from heddle.vm.relay import VirtualMachine as RelayMachine

WIDTH = 64
_ROWS = f"Tensor[(?, {WIDTH}), float32]"
TEXT = f"""#[version = "0.0.5"]
type List[A] {{ Cons(A, List[A]), Nil, }}
def @steps(%n: int32, %h: {_ROWS}, %w: Tensor[({WIDTH}, {WIDTH}), float32]) -> List[{_ROWS}] {{
  if (%n <= 0) {{ Nil }} else {{
    let %next = tanh(nn.dense(%h, %w, units={WIDTH}));
    Cons(%next, @steps(%n - 1, %next, %w))
  }}
}}
def @fold(%f: fn({_ROWS}, {_ROWS}) -> {_ROWS}, %acc: {_ROWS}, %xs: List[{_ROWS}]) -> {_ROWS} {{
  match (%xs) {{ Nil => %acc, Cons(%x, %rest) => @fold(%f, %f(%acc, %x), %rest), }}
}}
def @main(%x: {_ROWS}, %w: Tensor[({WIDTH}, {WIDTH}), float32], %n: int32) -> ({_ROWS}, float32) {{
  let %cell = ref(0f);
  let %f = fn (%a: {_ROWS}, %b: {_ROWS}) -> {_ROWS} {{
    ref_write(%cell, ref_read(%cell) + 1f);
    %a + %b * ref_read(%cell)
  }};
  let %sum = @fold(%f, %x, @steps(%n, %x, %w));
  (%sum, ref_read(%cell))
}}
"""


@cache
def module() -> IRModule:
    """The program, with its types."""
    return relay.parse(TEXT)


def inputs(rng: np.random.Generator) -> list[Any]:
    """Rows, a weight, and how many steps are taken."""
    weight = rng.standard_normal((WIDTH, WIDTH)).astype("float32") / 8
    rows = rng.standard_normal((int(rng.integers(0, 9)), WIDTH)).astype("float32")
    return [rows, weight, np.asarray(rng.integers(0, 40), "int32")]


def wanted(rows: Any, weight: Any, steps: Any) -> tuple[Any, Any]:
    """What the program gives."""
    found, step = rows, rows
    for number in range(int(steps)):
        step = np.tanh(step @ weight.T)
        found = found + step * np.float32(number + 1)
    return found, np.float32(steps)


ENGINES: dict[str, Callable[[], Callable[..., Any]]] = {
    "relay": lambda: RelayMachine(relay.vm.compile(module(), "llvm"), cpu())["main"],
    "bytecode": lambda: VirtualMachine(heddle.compile(module(), exec_mode="bytecode"), cpu())["main"],
    "compiled": lambda: VirtualMachine(heddle.compile(module(), exec_mode="compiled"), cpu())["main"],
}
"""What makes `main` of a machine."""


def call(run: Callable[..., Any], arrays: list[Any]) -> tuple[Any, ...]:
    """A call's results as arrays."""
    return tuple(value.numpy() for value in run(*map(tensor, arrays)))


def is_right(arrays: list[Any], found: tuple[Any, ...]) -> bool:
    return all(
        np.allclose(value, want, rtol=1e-3, atol=1e-3)
        for value, want in zip(found, wanted(*arrays), strict=True)
    )
