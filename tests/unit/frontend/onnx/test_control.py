"""Branches and loops stay control flow, and agree with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import If
from heddle.ir.visitor import walk
from heddle.relax.interpreter import GraphInterpreter
from tests.e2e.model_zoo import loop_model
from tests.unit.frontend.onnx.models import info, model, node


def agree(made: Any, *arrays: np.ndarray) -> None:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(
        None, {i.name: a for i, a in zip(made.graph.input, map(np.asarray, arrays), strict=True)}
    )
    got = GraphInterpreter(from_onnx(made))["main"](*arrays)
    for mine, theirs in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize(("trips", "limit"), [(5, 100.0), (50, 100.0), (5, -1.0), (1, 0.0)])
def test_loop_and_branch_depend_on_data(trips: int, limit: float) -> None:
    agree(loop_model(), np.array([1, 2, 3], np.float32), np.int64(trips), np.float32(limit))


def test_loop_is_a_private_recursive_function() -> None:
    mod = from_onnx(loop_model())
    loop, main = mod["loop_loop"], mod["main"]
    assert "global_symbol" not in loop.attrs
    assert sum(isinstance(item, If) for item in walk(loop.body)) == 1
    assert sum(isinstance(item, If) for item in walk(main.body)) == 1


def test_carried_value_that_grows() -> None:
    body = helper.make_graph(
        [node("Concat", ["v", "x"], ["w"], axis=0), node("Identity", ["go"], ["go_on"])],
        "body",
        [info("i", [], "int64"), info("go", [], "bool"), info("v", ["k"])],
        [info("go_on", [], "bool"), info("w", ["k"])],
    )
    made = model([node("Loop", ["n", "", "x"], ["y"], body=body)], {"x": ["m"], "n": ([], "int64")}, ["y"])
    for trips in (0, 1, 4):
        got = GraphInterpreter(from_onnx(made))["main"](np.array([1, 2], np.float32), np.int64(trips))
        assert got.shape == (2 + 2 * trips,)


def test_scan_of_running_sums() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["t"]), node("Mul", ["t", "scale"], ["out"])],
        "body",
        [info("s", [2]), info("row", [2])],
        [info("t", [2]), info("out", [2])],
    )
    made = model(
        [node("Scan", ["start", "rows"], ["end", "all"], body=body, num_scan_inputs=1)],
        {"start": [2], "rows": ["n", 2], "scale": [1]},
        ["end", "all"],
    )
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    agree(made, np.zeros(2, np.float32), rows, np.array([2], np.float32))


def test_branches_of_different_shapes() -> None:
    then = helper.make_graph([node("Concat", ["x", "x"], ["t"], axis=0)], "then", [], [info("t", ["a"])])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [info("e", ["b"])])
    made = model(
        [node("If", ["c"], ["z"], then_branch=then, else_branch=other), node("Relu", ["z"], ["y"])],
        {"x": ["n"], "c": ([], "bool")},
        ["y"],
    )
    for choice in (True, False):
        agree(made, np.array([-1, 2], np.float32), np.bool_(choice))


def test_known_condition_takes_its_branch() -> None:
    then = helper.make_graph([node("Neg", ["x"], ["t"])], "then", [], [info("t", ["n"])])
    other = helper.make_graph([node("Floor", ["x"], ["e"])], "else", [], [info("e", ["n"])])
    made = model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        {"x": ["n"]},
        ["y"],
        {"c": np.bool_(True)},
    )
    assert not any(isinstance(item, If) for item in walk(from_onnx(made)["main"].body))
    agree(made, np.array([-1.5, 2], np.float32))
