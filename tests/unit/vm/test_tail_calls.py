"""Loops that functions make by calling each other in tail position: constant space, in both modes."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest

from heddle.runtime import FunctionModule, allocator_for, cpu, tensor
from heddle.support.diagnostics import Trap
from heddle.support.limits import current_limits
from heddle.vm.relax import ExecBuilder, FuncKind, VirtualMachine
from heddle.vm.tail import tail_cycles

from .programs import HELPERS, builder, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled

ROUNDS = current_limits().frames + 11


def declare(made: ExecBuilder, *names: str) -> None:
    for name in names:
        made.declare_function(name, FuncKind.VM)


def step(made: ExecBuilder, name: str, callee: str, mark: int) -> None:
    """name(n, sum): sum where n is 0, else callee(n - 1, sum + mark), through a copy and a jump."""
    with made.function(name, 2):
        n, total = made.r(0), made.r(1)
        made.emit_if(n, 7)
        made.emit_call("minus_one", [n], dst=made.r(2))
        made.emit_call("plus", [total, made.imm(mark)], dst=made.r(3))
        made.emit_call(callee, [made.r(2), made.r(3)], dst=made.r(4))
        made.emit_call("vm.builtin.null_value", [], dst=made.r(3))
        made.emit_call("vm.builtin.copy", [made.r(4)], dst=made.r(5))
        made.emit_goto(2)
        made.emit_call("vm.builtin.copy", [total], dst=made.r(5))
        made.emit_ret(made.r(5))


@pytest.mark.fact("6.6")
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_cycle_takes_the_space_of_one_frame(length: int) -> None:
    made = builder()
    declare(made, *(f"f{k}" for k in range(length)))
    for k in range(length):
        step(made, f"f{k}", f"f{(k + 1) % length}", k + 1)
    with made.function("main", 1):
        made.emit_call("f0", [made.r(0), made.imm(5)], dst=made.r(1))
        made.emit_call("plus", [made.r(1), made.imm(100)], dst=made.r(2))  # no tail call
        made.emit_ret(made.r(2))
    vm = run_machine(made)
    marks = [k % length + 1 for k in range(ROUNDS)]
    assert vm["main"](ROUNDS) == 105 + sum(marks)
    assert vm["f0"](ROUNDS, 0) == sum(marks)
    assert vm.invoke_closure(vm["f0"], 4, 0) == sum(marks[:4])


def even_and_odd(functions: dict[str, Any]) -> VirtualMachine:
    made = builder()
    declare(made, "even", "odd")
    for name, callee in (("even", "odd"), ("odd", "even")):
        with made.function(name, 2, param_names=["n", "x"]):
            made.emit_if(made.r(0), 5)
            made.emit_call("minus_one", [made.r(0)], dst=made.r(2))
            made.emit_call("next", [made.r(1)], dst=made.r(3))
            made.emit_call(callee, [made.r(2), made.r(3)], dst=made.r(4))
            made.emit_ret(made.r(4))
            made.emit_call("vm.builtin.copy", [made.convert_constant(name)], dst=made.r(5))
            made.emit_call("vm.builtin.make_tuple", [made.r(5), made.r(1)], dst=made.r(6))
            made.emit_ret(made.r(6))
    return VirtualMachine(made.get(imports=[FunctionModule({**HELPERS, **functions})]), cpu())


def test_values_go_along_and_leave_nothing_behind() -> None:
    allocator = allocator_for(cpu())
    vm = even_and_odd({"next": lambda x: tensor(x.numpy() + 1)})
    gc.collect()  # what earlier tests left would be given back meanwhile
    start = allocator.books.bytes_in_use
    allocator.reset_peak()
    x = tensor(np.zeros(256, "float32"))
    for rounds in (0, 1, 6, 2001):
        name, result = vm["even"](rounds, x)
        assert name == ("odd" if rounds % 2 else "even")
        assert (result.numpy() == rounds).all()
    del result, x
    assert allocator.books.bytes_in_use == start
    assert allocator.books.peak_bytes - start <= 4 * 1024  # those of two rounds, not of all


def test_errors_in_the_middle() -> None:
    def fail(x: int) -> int:
        if x == 7:
            raise KeyError("seven")
        return x + 1

    vm = even_and_odd({"next": fail})
    for _ in range(2):
        with pytest.raises(KeyError, match="seven"):
            vm["even"](20, 0)
        assert vm["even"](6, 0) == ("even", 6)
    with pytest.raises(Trap, match="V0302"):
        vm["even"](1)


def test_an_instrument_sees_every_round() -> None:
    vm = even_and_odd({"next": lambda x: x})
    seen: list[str] = []
    vm.set_instrument(lambda func, name, before, value, *args: seen.append(name) if before else None)
    assert vm["even"](3, 0)[0] == "odd"
    assert [name for name in seen if name in ("even", "odd")] == ["odd", "even", "odd"]


def reachable(edges: dict[int, set[int]], start: int) -> set[int]:
    found, pending = set(), [start]
    while pending:
        for other in edges[pending.pop()] - found:
            found.add(other)
            pending.append(other)
    return found


def test_cycles_are_those_of_the_graph_of_tail_calls() -> None:
    rng = random.Random(5)
    for count in [1, 2, 3, 7, 12] * 8:
        edges = {k: {rng.randrange(count) for _ in range(rng.randrange(3))} for k in range(count)}
        made = builder()
        declare(made, *(f"f{k}" for k in range(count)))
        for k in range(count):
            with made.function(f"f{k}", 1):
                for callee in sorted(edges[k]):
                    made.emit_if(made.r(0), 3)
                    made.emit_call(f"f{callee}", [made.r(0)], dst=made.r(1))
                    made.emit_ret(made.r(1))
                made.emit_call(f"f{rng.randrange(count)}", [made.r(0)], dst=made.r(2))  # no tail call
                made.emit_ret(made.r(0))
        program = made.get().program
        numbers = {row.name: number for number, row in enumerate(program.functions)}
        groups = tail_cycles(program)
        for a in range(count):
            for b in range(count):
                together = a == b or (b in reachable(edges, a) and a in reachable(edges, b))
                assert (groups[numbers[f"f{a}"]] == groups[numbers[f"f{b}"]]) == together
