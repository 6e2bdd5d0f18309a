"""A few random graphs, the list of known differences, and the shrinker."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from heddle.codegen.pipeline import OPTIONAL_LOOP_PASSES
from tests.fuzz.graphs import judge as judging
from tests.fuzz.graphs import oracle
from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.grow import MAX_WIDE_ELEMENTS, is_wide, make_graph, plan_of
from tests.fuzz.graphs.judge import (
    OPTIONAL_PASSES,
    TARGETS,
    Verdict,
    Ways,
    difference,
    ways_of,
)
from tests.fuzz.graphs.report import ten_lines, write
from tests.fuzz.graphs.run import case_of, run_case
from tests.fuzz.graphs.shrink import shrink
from tests.fuzz.graphs.steps import coarsest_inside
from tests.fuzz.graphs.values import BFLOAT16

SEEDS = (0, 1, 2, 3, 4, 5, 7, 9, 10, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_agree_with_the_peers(seed):
    _, verdict, _ = run_case(case_of(seed))
    assert not verdict.is_fault, f"{verdict}; python -m tests.fuzz.graphs --seed {seed} --count 1"


def test_a_seed_means_one_graph_and_graphs_are_valid_and_many_sided():
    operators = set()
    for seed in range(60):
        model = case_of(seed).model
        onnx.checker.check_model(model)
        operators |= {node.op_type for node in model.graph.node}
    assert len(operators) > 80
    first, again = make_graph(7), make_graph(7)
    assert [node.SerializeToString() for node in first.nodes] == [
        node.SerializeToString() for node in again.nodes
    ]


def test_a_body_that_casts_to_a_finer_float_keeps_the_units_of_the_coarser_one():
    rounds = helper.make_node("Tanh", ["x"], ["t"])
    casts = helper.make_node("Cast", ["t"], ["y"], to=onnx.TensorProto.DOUBLE)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, [None])

    def branches(*nodes):
        body = helper.make_graph(nodes, "body", [], [y])
        return helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)

    given = [np.asarray(True), np.zeros(3, np.float32)]
    assert coarsest_inside(branches(rounds, casts), given) == 2.0**-23
    assert coarsest_inside(branches(branches(rounds, casts)), given) == 2.0**-23
    assert coarsest_inside(branches(rounds), given) == 0
    assert coarsest_inside(casts, given[1:]) == 0


def int64(*items: int) -> np.ndarray:
    return np.asarray(items, np.int64)


_X = np.linspace(-2.0, 2.0, 7)
_COUNTER = helper.make_graph(
    [helper.make_node("Identity", ["goes_on"], ["again"]), helper.make_node("Identity", ["i"], ["row"])],
    "counter",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("goes_on", 9, [])],
    [helper.make_tensor_value_info("again", 9, []), helper.make_tensor_value_info("row", 7, [])],
)
_ROWS = helper.make_graph(
    [helper.make_node("Identity", ["goes_on"], ["again"]), helper.make_node("Identity", ["x"], ["row"])],
    "rows",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("goes_on", 9, [])],
    [helper.make_tensor_value_info("again", 9, []), helper.make_tensor_value_info("row", 11, [None])],
)
EXAMPLES = {
    "Slice backward to INT_MAX": (
        helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"]),
        {"x": _X, "starts": int64(3), "ends": int64((1 << 63) - 1), "axes": int64(0), "steps": int64(-1)},
        "runtime",
        np.zeros(0),
        21,
    ),
    "Slice backward from before the first element": (
        helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"]),
        {
            "x": np.arange(4).astype(BFLOAT16),
            "starts": int64(-10),
            "ends": int64(-1 << 63),
            "axes": int64(0),
            "steps": int64(-1),
        },
        "reference",
        np.zeros(1),
        21,
    ),
    "Powers of integers beyond 2**53": (
        helper.make_node("Pow", ["x", "e"], ["y"]),
        {"x": np.asarray([(1 << 63) - 1]), "e": int64(1)},
        "runtime",
        np.asarray([(1 << 63) - 1]),
        21,
    ),
    "Sigmoid of large negative numbers": (
        helper.make_node("Sigmoid", ["x"], ["y"]),
        {"x": np.asarray([-16.449142], "float32")},
        "runtime",
        1 / (1 + np.exp(np.asarray([16.449142]))),
        21,
    ),
    "LpPool of incomplete windows": (
        helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2], strides=[2], pads=[1, 0], ceil_mode=1),
        {"x": np.asarray([[[1.0, 2.0]]])},
        "reference",
        np.asarray([[[1.0, 2.0]]]),
        21,
    ),
    "Thresholds of float16": (
        helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.3),
        {"x": np.asarray([0.3], "float16")},
        "runtime",
        np.zeros(1),
        21,
    ),
    "HardSwish, Erf and Gelu of float64": (
        helper.make_node("Erf", ["x"], ["y"]),
        {"x": _X},
        "reference",
        np.asarray([math.erf(item) for item in _X]),
        21,
    ),
    "GlobalMaxPool of float64": (
        helper.make_node("GlobalMaxPool", ["x"], ["y"]),
        {"x": _X.reshape(1, 1, 7)},
        "reference",
        np.full((1, 1, 1), 2.0),
        21,
    ),
    "Reductions of integers that overflow": (
        helper.make_node("ReduceProd", ["x"], ["y"], keepdims=0),
        {"x": np.full(41, 3)},
        "runtime",
        np.asarray(3**41 - 2 * 2**64),
        21,
    ),
    "Means of nothing": (
        helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0),
        {"x": np.zeros((2, 0))},
        "runtime",
        np.asarray(math.nan),
        13,
    ),
    "Means of integers that overflow": (
        helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0),
        {"x": int64(-1, -(1 << 63)).reshape(2)},
        "runtime",
        np.asarray((1 << 62) - 1),
        13,
    ),
    "Sums of bfloat16": (
        helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0),
        {"x": np.full((1, 1200), 0.5).astype(BFLOAT16)[:, ::2]},
        "reference",
        np.asarray(300),
        21,
    ),
    "ThresholdedRelu of bfloat16": (
        helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.3),
        {"x": np.full(1, 0.3).astype(BFLOAT16)},
        "reference",
        np.zeros(1),
        22,
    ),
    "Masks of Dropout before its twelfth operator set": (
        helper.make_node("Dropout", ["x"], ["y", "mask"]),
        {"x": _X},
        "runtime",
        np.full(7, True),
        11,
    ),
    "Masks of Dropout of the element's type": (
        helper.make_node("Dropout", ["x"], ["y", "mask"]),
        {"x": _X},
        "runtime",
        np.ones(7),
        7,
    ),
    "Hardmax of float64 before its thirteenth operator set": (
        helper.make_node("Hardmax", ["x"], ["y"], axis=0),
        {"x": _X.reshape(1, 7)},
        "reference",
        np.eye(7)[6:],
        12,
    ),
    "Softmax of bfloat16 before its thirteenth operator set": (
        helper.make_node("Softmax", ["x"], ["y"], axis=0),
        {"x": np.zeros((2, 2), BFLOAT16)},
        "reference",
        np.full((2, 2), 0.25),
        12,
    ),
    "GroupNormalization of float64": (
        helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=1, epsilon=0.01),
        {"x": _X.reshape(1, 7), "scale": np.ones(7), "bias": np.zeros(7)},
        "reference",
        (_X / np.sqrt(_X.var() + 0.01)).reshape(1, 7),
        21,
    ),
    "GroupNormalization of float32": (
        helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=1, epsilon=1e-3),
        {"x": np.float32([[-1.2, -1.16]]), "scale": np.ones(2, "float32"), "bias": np.zeros(2, "float32")},
        "runtime",
        np.float32([[-0.53452325, 0.53452325]]),
        21,
    ),
    "InstanceNormalization of few elements": (
        helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["y"], epsilon=0.01),
        {"x": np.float32([[[540.9996]]]), "scale": np.float32([-0.7570336]), "bias": np.float32([-1.765542])},
        "runtime",
        np.float32([[[-1.765542]]]),
        17,
    ),
    "LRN of float64": (
        helper.make_node("LRN", ["x"], ["y"], size=1, alpha=0.3),
        {"x": _X.reshape(1, 7, 1, 1)},
        "reference",
        (_X / (1 + float(np.float32(0.3)) * _X**2) ** 0.75).reshape(1, 7, 1, 1),
        21,
    ),
    "Resize with aligned corners to parts of a pixel": (
        helper.make_node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        {"x": np.arange(7, dtype="float32").reshape(1, 1, 7, 1), "scales": np.float32([1, 1, 0.5, 1])},
        "runtime",
        np.asarray([0, 2.4, 4.8]).reshape(1, 1, 3, 1),
        21,
    ),
    "LpNormalization by sums of sizes": (
        helper.make_node("LpNormalization", ["x"], ["y"], p=1),
        {"x": np.asarray([-1, 3]).astype(BFLOAT16)},
        "reference",
        np.asarray([-0.25, 0.75]),
        21,
    ),
    "Unsqueeze by negative axes that are an attribute": (
        helper.make_node("Unsqueeze", ["x"], ["y"], axes=[2, -3]),
        {"x": np.zeros((2, 5))},
        "reference",
        np.zeros((2, 1, 1, 5)),
        9,
    ),
    "Unsqueeze by axes that fall and are an attribute": (
        helper.make_node("Unsqueeze", ["x"], ["y"], axes=[1, 0]),
        {"x": np.zeros(2)},
        "reference",
        np.zeros((1, 1, 2)),
        12,
    ),
    "Products of integers along nothing": (
        helper.make_node("QLinearMatMul", [*"abcdefgh"], ["y"]),
        {
            "a": np.zeros((4, 0), "uint8"),
            "d": np.zeros((0, 3), "uint8"),
            **{name: np.array(0.5, "float32") for name in "beg"},
            **{name: np.array(213, "uint8") for name in "cfh"},
        },
        "runtime",
        np.full((4, 3), 213),
        21,
    ),
    "Rows of loops that do not run": (
        helper.make_node("Loop", ["trips", "go"], ["y"], body=_ROWS),
        {"trips": np.asarray(3), "go": np.asarray(False), "x": _X},
        "runtime",
        np.zeros((0, 7)),
        21,
    ),
    "Rows that loops collect": (
        helper.make_node("Loop", ["trips", "go"], ["y"], body=_COUNTER),
        {"trips": np.asarray(3), "go": np.asarray(True)},
        "reference",
        np.arange(3),
        21,
    ),
}
"""For each known difference: a node, its inputs, the peer that departs from the standard there, the right
answer, the operator set."""


@pytest.mark.parametrize("rule", oracle.known_differences(), ids=lambda rule: rule["name"])
def test_each_known_difference_is_there_and_needed(rule):
    node, given, peer, standard, opset = EXAMPLES[rule["name"]]
    assert oracle._difference(node, given, opset) is rule
    *_, answer = oracle._ANSWERS[peer](node, given, opset)
    is_there = (
        answer.shape != standard.shape
        or (np.isnan(answer) != np.isnan(standard)).any()
        or np.abs(answer.astype(float) - standard).max() > 1e-10
    )
    if not is_there and oracle.is_newer_than_seen():
        pytest.skip("a later release of the peer mended it")
    assert is_there


def test_a_loop_whose_body_has_a_known_difference_is_answered_turn_by_turn():
    """Gelu of float64, on which both peers are 1e-8 off, and the rows that it gives."""
    integer, logical, double = onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.DOUBLE
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Gelu", ["x"], ["y"], approximate="tanh"),
            helper.make_node("Add", ["y", "beside"], ["row"]),
            helper.make_node("Identity", ["goes"], ["on"]),
        ],
        "body",
        [info("i", integer, []), info("goes", logical, []), info("x", double, [])],
        [info("on", logical, []), info("y", double, []), info("row", double, [])],
    )
    node = helper.make_node("Loop", ["trips", "", "x0"], ["last", "rows"], body=body)
    given = {"trips": np.asarray(3), "x0": np.asarray(0.7), "beside": np.asarray(0.25)}
    last, rows = oracle.evaluate(node, given, 20)
    x, wanted = 0.7, []
    for _ in range(3):
        x = 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        wanted.append(x + 0.25)
    assert last == pytest.approx(x, rel=1e-15) and rows == pytest.approx(wanted, rel=1e-15)
    with pytest.raises(oracle.Refused):
        oracle.evaluate(node, given | {"trips": np.asarray(0)}, 20)


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


def test_every_engine_is_drawn_with_every_target_and_pass():
    drawn = [ways_of(seed) for seed in range(600)]
    assert {ways.engines for ways in drawn} == {("loops",), ("bytecode",), ("bytecode", "compiled")}
    assert {ways.target for ways in drawn} == {target for target, _ in TARGETS}
    assert {ways.without for ways in drawn} == {None, *OPTIONAL_PASSES}
    assert {ways.threads for ways in drawn} == {(1,), (2,)}
    assert ways_of(0, is_wide=True).threads == (1, 2)
    assert not any(ways.engines == ("loops",) and ways.without in OPTIONAL_LOOP_PASSES for ways in drawn)


def test_wide_graphs_are_worth_several_threads():
    cases = [case_of(seed) for seed in range(300) if is_wide(seed)]
    largest = [
        max(array.size for value in case.known.values() if not value.is_sequence for array in value.clean)
        for case in cases
    ]
    assert sum(size > 1 << 14 for size in largest) >= len(cases) // 2 > 0
    assert max(largest) <= MAX_WIDE_ELEMENTS
    _, verdict, _ = run_case(cases[0])
    assert not verdict.is_fault, verdict


@pytest.mark.parametrize("engines", [("loops",), ("bytecode",), ("compiled",), ("bytecode", "compiled")])
def test_a_changed_result_is_seen(engines):
    """The judge says so when one element of a result is another."""
    case = replace(case_of(3), ways=Ways(engines=engines, target="llvm -opt-level=0"))
    assert judging.judge(case).kind == "ok"
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


def test_which_elements_of_a_product_are_zero_is_not_asked_where_terms_cancel():
    """Elsewhere 0.3 * 0.1 - 0.1 * 0.30000004 may be 0: the error is a part of the terms, not of the sum."""
    b = Builder(plan_of(3), random.Random(0))
    left = b.given([np.array([[0.3, -0.1]], "float32")] * b.num_samples, True)
    factors = np.array([[0.1, 0.2], [0.30000004, 0.4]], "float32")
    cancelling = b.given([factors[:, :1]] * b.num_samples, True)
    other = b.given([factors[:, 1:]] * b.num_samples, True)
    b.node("NonZero", [b.node("MatMul", [left, other])])
    with pytest.raises(Unfit, match="rounding decides a step"):
        b.node("NonZero", [b.node("MatMul", [left, cancelling])])
