"""A few random graphs, the list of known differences, and the shrinker."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.fuzz.graphs import judge as judging
from tests.fuzz.graphs import oracle
from tests.fuzz.graphs.grow import make_graph
from tests.fuzz.graphs.judge import Verdict, difference
from tests.fuzz.graphs.report import ten_lines, write
from tests.fuzz.graphs.run import case_of, run_case
from tests.fuzz.graphs.shrink import shrink

SEEDS = (0, 1, 2, 3, 4, 5, 7, 9, 10, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_agree_with_the_peers(seed):
    _, verdict, _ = run_case(case_of(seed))
    assert not verdict.is_fault, f"{verdict}; python -m tests.fuzz.graphs --seed {seed} --count 1"


def test_a_seed_means_one_graph_and_graphs_are_valid_and_many_sided():
    operators = set()
    for seed in range(40):
        model = case_of(seed).model
        onnx.checker.check_model(model)
        operators |= {node.op_type for node in model.graph.node}
    assert len(operators) > 80
    first, again = make_graph(7), make_graph(7)
    assert [node.SerializeToString() for node in first.nodes] == [
        node.SerializeToString() for node in again.nodes
    ]


def int64(*items: int) -> np.ndarray:
    return np.asarray(items, np.int64)


_X = np.linspace(-2.0, 2.0, 7)
_COUNTER = helper.make_graph(
    [helper.make_node("Identity", ["goes_on"], ["again"]), helper.make_node("Identity", ["i"], ["row"])],
    "counter",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("goes_on", 9, [])],
    [helper.make_tensor_value_info("again", 9, []), helper.make_tensor_value_info("row", 7, [])],
)
EXAMPLES = {
    "Slice backward to INT_MAX": (
        helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"]),
        {"x": _X, "starts": int64(3), "ends": int64((1 << 63) - 1), "axes": int64(0), "steps": int64(-1)},
        "runtime",
        np.zeros(0),
    ),
    "HardSwish, Erf and Gelu of float64": (
        helper.make_node("Erf", ["x"], ["y"]),
        {"x": _X},
        "reference",
        np.asarray([math.erf(item) for item in _X]),
    ),
    "GlobalMaxPool of float64": (
        helper.make_node("GlobalMaxPool", ["x"], ["y"]),
        {"x": _X.reshape(1, 1, 7)},
        "reference",
        np.full((1, 1, 1), 2.0),
    ),
    "Reductions of integers that overflow": (
        helper.make_node("ReduceProd", ["x"], ["y"], keepdims=0),
        {"x": np.full(41, 3)},
        "runtime",
        np.asarray(3**41 - 2 * 2**64),
    ),
    "Rows that loops collect": (
        helper.make_node("Loop", ["trips", "go"], ["y"], body=_COUNTER),
        {"trips": np.asarray(3), "go": np.asarray(True)},
        "reference",
        np.arange(3),
    ),
}
"""For each known difference: a node, the peer that departs from the standard there, the right answer."""


@pytest.mark.parametrize("rule", oracle.known_differences(), ids=lambda rule: rule["name"])
def test_each_known_difference_is_there_and_needed(rule):
    node, given, peer, standard = EXAMPLES[rule["name"]]
    assert oracle._difference(node, given) is rule
    (answer,) = oracle._ANSWERS[peer](node, given, 21)
    is_there = answer.shape != standard.shape or np.abs(answer - standard).max() > 1e-10
    if not is_there and oracle.is_newer_than_seen():
        pytest.skip("a later release of the peer mended it")
    assert is_there


def test_a_fault_shrinks_to_the_node_that_makes_it(monkeypatch, tmp_path):
    """Every graph that holds a Tanh counts as wrong."""

    def judge(case):
        wrong = any(node.op_type == "Tanh" for node in case.model.graph.node)
        return Verdict("wrong", "values", "made up") if wrong else Verdict("ok")

    monkeypatch.setattr("tests.fuzz.graphs.shrink.judge", judge)
    seed = next(seed for seed in range(99) if judge(case_of(seed)).is_fault)
    small, verdict = shrink(case_of(seed), judge(case_of(seed)))
    assert [node.op_type for node in small.model.graph.node] == ["Tanh"]
    assert len(small.inputs) == 1
    onnx.checker.check_model(write(small, verdict, tmp_path))
    assert len(ten_lines(small, verdict).splitlines()) == 10


def test_a_fault_of_any_type_shrinks_to_plain_types(monkeypatch):
    """Every graph that holds a Tanh counts as wrong, whatever it is of."""

    def judge(case):
        wrong = any(node.op_type == "Tanh" for node in case.model.graph.node)
        return Verdict("wrong", "values", "made up") if wrong else Verdict("ok")

    monkeypatch.setattr("tests.fuzz.graphs.shrink.judge", judge)
    kinds = ("float16", "float64", "bfloat16")
    seed = next(
        seed
        for seed in range(999)
        if judge(case_of(seed)).is_fault
        and any(array.dtype.name in kinds for array in case_of(seed).inputs[0].values())
    )
    small, _ = shrink(case_of(seed), judge(case_of(seed)))
    assert {array.dtype.name for array in small.inputs[0].values()} <= {"float32", "int64", "bool"}
    onnx.checker.check_model(small.model, full_check=True)
    monkeypatch.undo()
    assert not judging.judge(small).is_fault


def test_a_changed_result_is_seen():
    """The judge says so when one element of a result is another."""
    case = case_of(3)
    rows = [[array.copy() for array in side[0]] for side in (case.wanted, case.noisy)]
    for row in rows:
        row[0].reshape(-1)[0] += 1
    changed = replace(case, wanted=[rows[0], *case.wanted[1:]], noisy=[rows[1], *case.noisy[1:]])
    assert judging.judge(changed).key == "values"


def test_differences_name_the_first_element():
    want = np.asarray([1, 2, 3], np.float32)
    assert not difference(want * np.float32(1 + 1e-6), want, want)
    assert "first at (1,)" in difference(np.asarray([1, 5, 3], np.float32), want, want)
    assert difference(want.astype(np.float64), want, want).startswith("dtype")
    assert difference(want[:2], want, want).startswith("shape")
