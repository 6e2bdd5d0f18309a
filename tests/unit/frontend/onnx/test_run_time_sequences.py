"""Sequences, optionals and strings that exist when the model runs: inputs, branches, loops."""

from __future__ import annotations

from typing import Any

import heddle.backend
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from heddle.support.diagnostics import HeddleError
from tests.unit.frontend.onnx.models import info, node

MODES = ("compiled", "bytecode")


def sequence_info(name: str, dims: Any = None) -> Any:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, dims)
    return helper.make_value_info(name, helper.make_sequence_type_proto(element))


def backend_model(nodes: list[Any], inputs: list[Any], outputs: list[str], opset: int = 18) -> Any:
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def arrays(*sizes: int) -> list[np.ndarray[Any, Any]]:
    return [np.arange(size, dtype="float32") + size for size in sizes]


@pytest.mark.parametrize("mode", MODES)
def test_operators_of_a_sequence(mode: str) -> None:
    nodes = [
        node("SequenceInsert", ["s", "x", "at"], ["more"]),
        node("SequenceErase", ["more", "gone"], ["less"]),
        node("SequenceAt", ["less", "at"], ["item"]),
        node("Neg", ["item"], ["negative"]),
        node("SequenceLength", ["less"], ["count"]),
        node("ConcatFromSequence", ["less"], ["whole"], axis=0),
    ]
    inputs = [
        sequence_info("s", [None]),
        info("x", ["n"]),
        info("at", [], "int64"),
        info("gone", [], "int64"),
    ]
    made = heddle.backend.prepare(
        backend_model(nodes, inputs, ["less", "negative", "count", "whole"]), exec_mode=mode
    )
    for at, gone in ((0, 1), (-1, 0), (2, -1), (1, -3)):
        items, x = arrays(2, 0), arrays(3)[0]
        expected = list(items)
        expected.insert(at, x)
        del expected[gone]
        if not -len(expected) <= at < len(expected):
            continue
        less, negative, count, whole = made.run([items, x, np.array(at), np.array(gone)])
        assert [part.tolist() for part in less] == [part.tolist() for part in expected]
        np.testing.assert_array_equal(negative, -expected[at])
        assert count == len(expected) and count.dtype == np.int64
        np.testing.assert_array_equal(whole, np.concatenate(expected))
    for at, gone in ((4, 0), (0, 3)):
        with pytest.raises(HeddleError) as caught:
            made.run([arrays(2, 0), arrays(3)[0], np.array(at), np.array(gone)])
        assert caught.value.code == "V0404"


@pytest.mark.parametrize("mode", MODES)
def test_split_into_a_sequence(mode: str) -> None:
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["parts"], axis=0),
        node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        node("SplitToSequence", ["x", "step"], ["equal"], axis=1),
    ]
    inputs = [info("x", ["n", "m"]), info("sizes", ["k"], "int64"), info("step", [], "int64")]
    model = backend_model(nodes, inputs, ["parts", "rows", "equal"])
    made = heddle.backend.prepare(model, exec_mode=mode)
    x = np.arange(15, dtype="float32").reshape(5, 3)
    parts, rows, equal = made.run([x, np.array([2, 0, 3]), np.array(2)])
    assert [part.shape for part in parts] == [(2, 3), (0, 3), (3, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), x)
    np.testing.assert_array_equal(np.stack(rows), x)
    assert [part.shape for part in equal] == [(5, 2), (5, 1)]
    for sizes, step in (([2, 2], 1), ([-1, 6], 1), ([5], 0)):
        with pytest.raises(HeddleError) as caught:
            made.run([x, np.array(sizes), np.array(step)])
        assert caught.value.code == "V0403"


@pytest.mark.parametrize("mode", MODES)
def test_optional_sequence_through_a_branch(mode: str) -> None:
    """What is missing is taken for an empty sequence."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [None]))
    given = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    there = helper.make_graph(
        [node("OptionalGetElement", ["o"], ["a"])], "there", [], [sequence_info("a", [None])]
    )
    missing = helper.make_graph(
        [node("SequenceEmpty", [], ["b"])], "missing", [], [sequence_info("b", [None])]
    )
    nodes = [
        node("OptionalHasElement", ["o"], ["is_there"]),
        node("If", ["is_there"], ["s"], then_branch=there, else_branch=missing),
        node("SequenceLength", ["s"], ["count"]),
    ]
    made = heddle.backend.prepare(backend_model(nodes, [given], ["is_there", "s", "count"]), exec_mode=mode)
    for value in (None, [], arrays(3, 1)):
        is_there, items, count = made.run([value])
        assert bool(is_there) is (value is not None)
        assert [item.tolist() for item in items] == [item.tolist() for item in value or []]
        assert count == len(value or [])


@pytest.mark.parametrize("mode", MODES)
def test_loop_that_makes_a_sequence(mode: str) -> None:
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Add", ["i", "one"], ["size"]),
            node("Unsqueeze", ["size", "zero"], ["shape"]),
            node("ConstantOfShape", ["shape"], ["row"]),
            node("SequenceInsert", ["s", "row"], ["more"]),
        ],
        "body",
        [info("i", [], "int64"), info("go", [], "bool"), sequence_info("s", [None])],
        [info("go_on", [], "bool"), sequence_info("more", [None])],
        [
            onnx.numpy_helper.from_array(np.array(1), "one"),
            onnx.numpy_helper.from_array(np.array([0]), "zero"),
        ],
    )
    nodes = [node("Loop", ["trips", "", "first"], ["all"], body=body)]
    inputs = [info("trips", [], "int64"), sequence_info("first", [None])]
    made = heddle.backend.prepare(backend_model(nodes, inputs, ["all"]), exec_mode=mode)
    for trips, first in ((0, []), (3, []), (2, arrays(4))):
        (items,) = made.run([np.array(trips), first])
        assert [item.shape[0] for item in items] == [*(len(x) for x in first), *range(1, trips + 1)]


@pytest.mark.parametrize("mode", MODES)
def test_strings(mode: str) -> None:
    nodes = [
        node("StringConcat", ["a", "b"], ["joined"]),
        node("StringSplit", ["joined"], ["parts", "counts"], delimiter="-", maxsplit=1),
        node("Equal", ["a", "b"], ["same"]),
        node("Cast", ["same"], ["number"], to=TensorProto.FLOAT),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in ("a", "b")]
    model = backend_model(nodes, inputs, ["joined", "parts", "counts", "number"], 20)
    made = heddle.backend.prepare(model, exec_mode=mode)
    a, b = np.array(["x-", "", "a-b-"], object), np.array(["y", "", "c"], object)
    joined, parts, counts, number = made.run([a, b])
    assert joined.tolist() == ["x-y", "", "a-b-c"]
    assert parts.tolist() == [["x", "y"], ["", ""], ["a", "b-c"]]
    assert counts.tolist() == [2, 1, 2]
    assert number.tolist() == [0, 1, 0]
    (joined, parts, counts, number) = made.run([np.array([], object), np.array(["z"], object)])
    assert joined.shape == (0,) and parts.shape == (0, 0) and counts.shape == number.shape == (0,)
    with pytest.raises(HeddleError) as caught:
        made.run([a, b[:2]])
    assert caught.value.code == "V0403"


def test_random_numbers() -> None:
    """A seed gives the same numbers in every run; without one they differ. Their mean is that of the law."""
    nodes = [
        node("RandomUniform", [], ["u"], shape=[1 << 14], low=-1.0, high=3.0, seed=7.0),
        node("RandomNormalLike", ["x"], ["v"], mean=2.0, scale=0.5),
        node("Multinomial", ["x"], ["w"], sample_size=5, seed=1.0),
        node("Dropout", ["x", "ratio", "training"], ["d", "mask"], seed=2),
    ]
    inputs = [info("x", ["n", "m"]), info("ratio", []), info("training", [], "bool")]
    made = heddle.backend.prepare(backend_model(nodes, inputs, ["u", "v", "w", "d", "mask"]))
    x, share = np.ones((64, 64), "float32"), np.array(0.25, "float32")
    first, second = (made.run([x, share, np.array(True)]) for _ in range(2))
    assert (first[0] == second[0]).all() and (first[2] == second[2]).all() and (first[3] == second[3]).all()
    assert (first[1] != second[1]).mean() > 0.9
    assert first[0].min() >= -1 and first[0].max() < 3 and abs(first[0].mean() - 1) < 0.05
    assert abs(first[1].mean() - 2) < 0.05 and abs(first[1].std() - 0.5) < 0.05
    assert set(np.unique(first[2])) <= set(range(64))
    assert abs(first[4].mean() - 0.75) < 0.03
    np.testing.assert_allclose(first[3], np.where(first[4], x / 0.75, 0), rtol=1e-6)
    still = made.run([x, share, np.array(False)])
    assert still[4].all() and (still[3] == x).all()
