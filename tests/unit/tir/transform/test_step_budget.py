"""Loop functions from untrusted text stop where a call would take more steps than its budget: compiled and in
the interpreter, at exactly the same count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heddle.codegen.build import build
from heddle.codegen.cache import KernelCache
from heddle.driver.compile import with_bounds_checks
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.script.parser import parse
from heddle.support.diagnostics import Trap
from heddle.support.limits import limits
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import AssertStmt, BufferStore, PrimFunc
from heddle.tir.transform.check_bounds import UNPROVEN, CheckBounds
from heddle.tir.transform.step_budget import MAX_STEPS
from tests.e2e.command_line import heddle as command_line

HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "int64"), n: T.int64, m: T.int64):
"""
# Body, and the steps that it takes for n, m and A, whose first element is 5.
PROGRAMS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "a loop": ("for i in range(n): A[i % 16] = i", lambda n, m: n),
    "a nest": ("for i in range(n):\n  for j in range(m): A[j % 16] = i", lambda n, m: n * m),
    "one after the other": (
        "for i in range(n): A[i % 16] = i\nfor j in range(m): A[j % 16] = j",
        lambda n, m: n + m,
    ),
    "the larger of two branches": (
        "if n > 3:\n  for i in range(n): A[i % 16] = i\nelse:\n  for j in range(m): A[j % 16] = j",
        max,
    ),
    "a triangle": ("for i in range(n):\n  for j in range(i): A[j % 16] = i", lambda n, m: n * (n - 1) // 2),
    "a triangle of rows": (
        "for i in range(n):\n  for j in range(i):\n    for k in range(m): A[k % 16] = i",
        lambda n, m: n * (n - 1) // 2 * m,
    ),
    "a number of turns that data tells": ("for i in range(A[0]): A[i % 16 + 0] = 5", lambda n, m: 5),
    "a while": ("while A[1] < n: A[1] = A[1] + 1", lambda n, m: n),
    "a while with a loop": (
        "while A[1] < n:\n  A[1] = A[1] + 1\n  for j in range(m): A[j % 8 + 8] = j",
        lambda n, m: n * m,
    ),
    "a while that is begun again": (
        "for i in range(m):\n  A[1] = 0\n  while A[1] < n: A[1] = A[1] + 1",
        lambda n, m: n * m,
    ),
    "in each turn of a parallel loop": (
        "for i in T.parallel(4):\n  A[i] = 0\n  while A[i] < n: A[i] = A[i] + 1",
        lambda n, m: n * 4,
    ),
}


def function(body: str, budget: int) -> PrimFunc:
    text = HEAD + "\n".join(f"    {line}" for line in body.split("\n")) + "\n"
    with limits(kernel_steps=budget):
        made: PrimFunc = with_bounds_checks(parse(text), UNPROVEN)
    return made


def arguments(n: int, m: int) -> tuple[Any, ...]:
    values = np.zeros(16, np.int64)
    values[0] = 5
    return values, n, m


def compiled(func: PrimFunc, n: int, m: int) -> None:
    build(func, cache=KernelCache(None))["f"](*arguments(n, m))


def interpreted(func: PrimFunc, n: int, m: int) -> None:
    checked = CheckBounds()(IRModule.from_expr(func))
    run_primfunc(checked["f"], *arguments(n, m))


def lower_without_codegen(func: PrimFunc) -> IRModule:
    return IRModule.from_expr(func)


@pytest.mark.parametrize("run", [compiled, interpreted])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_budget_is_kept_to_the_step(name: str, run: Callable[[PrimFunc, int, int], None]) -> None:
    body, steps = PROGRAMS[name]
    n, m = 7, 3
    run(function(body, steps(n, m)), n, m)
    with pytest.raises(Trap, match="the loops of 'f' would take more than") as found:
        run(function(body, steps(n, m) - 1), n, m)
    assert found.value.code == ("U0604" if run is compiled else "T0605")


@pytest.mark.parametrize(
    "body",
    [
        "while A[0] > 0: A[0] = 5",
        "for i in range(n):\n  for j in range(n):\n    for k in range(n): A[0] = A[0] + 1",
        "for i in range(A[2] + 9223372036854775807 // 4): A[0] = A[0] + i",
        "for i in T.parallel(8):\n  while A[i] >= 0: A[i] = 1",
    ],
)
def test_what_would_run_for_ever_ends(body: str) -> None:
    with pytest.raises(Trap, match="U0604"):
        compiled(function(body, 1 << 20), 1 << 40, 1)


def test_no_turns_are_no_steps() -> None:
    compiled(function("for i in range(n):\n  for j in range(m): A[0] = 1", 1), -5, -(1 << 40))


def test_loops_of_known_sizes_are_counted_once_or_not_at_all() -> None:
    """A kernel of a model has one check, before it begins; where all is constant, none."""

    def checks(body: str) -> list[AssertStmt]:
        mod = CheckBounds()(IRModule.from_expr(function(body, 1 << 44)))
        nodes = list(walk(mod["f"].body))
        assert not any(isinstance(node, BufferStore) and node.buffer.name == "steps" for node in nodes)
        return [node for node in nodes if isinstance(node, AssertStmt) and node.error_kind == "StepsError"]

    assert len(checks("for i in range(n):\n  for j in range(m): A[j % 16] = i")) == 1
    assert checks("for i in range(16):\n  for j in range(16): A[j] = n") == []


def test_the_budget_belongs_to_the_code_in_the_cache() -> None:
    """Two budgets are two functions."""
    cache = KernelCache(None)
    for budget in (100, 200):
        func = function("for i in range(n): A[i % 16] = i", budget)
        assert func.attrs[MAX_STEPS] == budget
        kernel = build(func, cache=cache)["f"]
        kernel(*arguments(budget, 0))
        with pytest.raises(Trap, match="U0604"):
            kernel(*arguments(budget + 1, 0))
    assert cache.counters.compiles == 2


def test_text_from_outside_has_a_budget_and_trusted_text_has_none(tmp_path: Any) -> None:
    (tmp_path / "m.py").write_text(
        """
@I.ir_module
class Module:
    @T.prim_func
    def endless(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "endless"})
        for i in range(4):
            for j in range(1000):
                y[i] = x[i]

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(Module.endless, (x,), out_ty=R.Tensor((4,), "float32"))
"""
    )
    run = ("run", "m.py", "--repeat", 0)
    assert command_line(*run, cwd=tmp_path).code == 0
    command_line(*run, "--limit", "kernel_steps=3999", cwd=tmp_path).failed_with("U0604", "kernel")
    assert command_line(*run, "--limit", "kernel_steps=3999", "--trust", cwd=tmp_path).code == 0
