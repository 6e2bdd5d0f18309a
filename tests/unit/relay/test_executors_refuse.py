"""Arguments of other kinds to executors, machines and pipelines end in an error with a code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from heddle.contrib import graph_executor

import heddle
from heddle import relay
from heddle.support.diagnostics import HeddleError
from heddle.vm.graph.aot import AotModule
from heddle.vm.relay import VirtualMachine

ODD: list[Any] = [None, "nothing", 1.5, -1, 2, b"", [], {}, np.ones(2), (0,), [0]]
X, Y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
MOD = heddle.IRModule.from_expr(relay.Function([X, Y], relay.add(X, Y)))
ONES = np.ones(4, "float32")


def _module(kind: str) -> Any:
    factory = relay.build(MOD, executor=relay.backend.Executor(kind))
    made = factory["default"](heddle.cpu())
    module = graph_executor.GraphModule(made) if kind == "graph" else AotModule(made)
    module.run(x=ONES, y=ONES)
    return factory, module


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_static_modules(kind: str) -> None:
    factory, module = _module(kind)
    for odd in ODD:
        acts: list[tuple[str, Callable[[], Any]]] = [
            ("V0803", lambda odd=odd: module.get_output(odd)),
            ("V0803", lambda odd=odd: module.get_input(odd)),
            ("V0803", lambda odd=odd: module.module.set_input(odd, ONES)),
            ("V0803", lambda odd=odd: module.module.get_input_name(odd)),
            ("U0501", lambda odd=odd: module[odd]),
            ("U0501", lambda odd=odd: factory[odd]),
        ]
        for code, act in acts:
            with pytest.raises(HeddleError, match=code):
                act()
        assert module.get_input_index(odd) == -1
    module.set_input(np.int64(1), 2 * ONES)
    module.run()
    np.testing.assert_array_equal(module.get_output(np.int32(0)).numpy(), 3 * ONES)


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_what_is_no_program_on_a_device(kind: str) -> None:
    factory, module = _module(kind)
    for odd in (*ODD, factory, MOD):
        with pytest.raises(HeddleError, match=r"V0303.*expected a program on a device") as caught:
            type(module)(odd)
        assert 'factory["default"](device)' in str(caught.value)


@pytest.mark.parametrize("kind", ["graph", "aot"])
@pytest.mark.parametrize("key", ["y", 1])
def test_a_value_that_does_not_fit_names_its_input(kind: str, key: str | int) -> None:
    _, module = _module(kind)
    for value, code in ((np.ones(3, "float32"), "U0301"), ("text", "U0302")):
        with pytest.raises(HeddleError, match=rf"{code}(?s:.*)the value is for input 'y'"):
            module.set_input(key, value)
    module.run(x=ONES, y=ONES)
    np.testing.assert_array_equal(module.get_output(0).numpy(), ONES + ONES)


def test_parameters_are_shared_with_a_graph_alone() -> None:
    module = _module("graph")[1]
    data = heddle.runtime.save_param_dict({"x": heddle.runtime.tensor(ONES)})
    for odd in [*ODD, _module("aot")[1]]:
        with pytest.raises(HeddleError, match=r"V0804.*parameters are those of a graph, got \w+"):
            module.share_params(odd, data)
    module.share_params(_module("graph")[1], data)


def test_a_factory_without_a_graph_is_no_list() -> None:
    with pytest.raises(HeddleError, match="U0501"):
        list(_module("aot")[0])


def test_programs_of_the_machine(tmp_path: Path) -> None:
    program = relay.vm.compile(MOD)
    machine = VirtualMachine(program, heddle.cpu())
    for odd in ODD:
        with pytest.raises(HeddleError, match="V0301"):
            program.get_function_params(odd)
        if not isinstance(odd, dict):
            with pytest.raises(HeddleError, match=r"V030[39]"):
                program.load_late_bound_consts_from_map(odd)
    with pytest.raises(HeddleError, match=r"V0309.*not asked for 1, x"):
        program.load_late_bound_consts_from_map({"x": ONES, 1: ONES})
    for path in (tmp_path / "none", tmp_path, "a\0b", None):
        with pytest.raises(HeddleError, match="S0102"):
            program.load_late_bound_consts(path)
    for args, outs in [({}, None), ({}, 3), (None, []), ([ONES], [])]:
        with pytest.raises(HeddleError, match=r"V0303.*expected"):
            machine.invoke_with_outputs("main", args, outs)
    with pytest.raises(HeddleError, match="V0302"):
        machine.invoke_with_outputs("main", {1: ONES, "x": ONES}, [np.zeros_like(ONES)])
    with pytest.raises(HeddleError, match=r"V0310.*has 1 results, got 0"):
        machine.invoke_with_outputs("main", {"x": ONES}, [])


def test_cases_of_what_is_no_match() -> None:
    for odd in [*ODD, MOD["main"]]:
        with pytest.raises(HeddleError, match=r"Q0101.*takes a match"):
            relay.analysis.unmatched_cases(odd)
