"""Axes, bounds and amounts of a number that is known when the model runs, where operators keep the rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import heddle
from heddle.support.diagnostics import HeddleError, ImportModelError

Array = np.ndarray[Any, Any]


def _ints(*numbers: int) -> Array:
    return np.array(numbers, "int64")


def _model(op: str, lengths: dict[str, str | int], is_free: bool, names: list[str], **attrs: Any) -> Any:
    node = helper.make_node(op, ["x", *names], ["y", "places"] if op == "TopK" else ["y"], **attrs)
    dims = ["p", "q", "r"] if is_free else [3, 4, 5]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    inputs += [
        helper.make_tensor_value_info(name, TensorProto.INT64, [length]) for name, length in lengths.items()
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def _check(model: Any, cases: list[tuple[Array, ...]], wrong: list[tuple[Array, ...]], mode: str) -> None:
    """Right results for cases, and errors with a code for wrong ones, after which the machine goes on."""
    machine = heddle.relax.VirtualMachine(heddle.compile(model, exec_mode=mode), heddle.cpu())
    reference = ReferenceEvaluator(model)
    names = [value.name for value in model.graph.input]
    x = np.random.default_rng(7).standard_normal((3, 4, 5)).astype("float32")

    def run(case: tuple[Array, ...]) -> Array:
        result: Array = machine["main"](*map(heddle.tensor, (x, *case))).numpy()
        return result

    for case in wrong:
        with pytest.raises(HeddleError):
            run(case)
    for case in cases:
        (expected,) = reference.run(None, dict(zip(names, (x, *case), strict=True)))
        np.testing.assert_allclose(run(case), expected, rtol=1e-5, atol=1e-6)


both_sizes = pytest.mark.parametrize("is_free", [False, True])
both_modes = pytest.mark.parametrize("mode", ["bytecode", "compiled"])


@both_sizes
@both_modes
def test_slices(is_free: bool, mode: str) -> None:
    model = _model("Slice", dict.fromkeys("seat", "K"), is_free, list("seat"))
    cases = [
        (_ints(), _ints(), _ints(), _ints()),
        (_ints(1), _ints(9), _ints(-1), _ints(2)),
        (_ints(-1, 0), _ints(-100, 2), _ints(2, 0), _ints(-1, 1)),
        (_ints(1, 2, 3), _ints(5, 5, 5), _ints(0, 1, 2), _ints(1, 1, 1)),
        (_ints(1 << 62), _ints(-(1 << 63)), _ints(1), _ints(-1)),
    ]
    wrong = [
        (_ints(0, 0), _ints(2, 2), _ints(2, 2), _ints(1, 1)),
        (_ints(0), _ints(2), _ints(7), _ints(1)),
        (_ints(1), _ints(5), _ints(0), _ints(0)),
    ]
    _check(model, cases, wrong, mode)


@both_sizes
def test_slices_whose_lengths_have_other_names(is_free: bool) -> None:
    model = _model("Slice", {"s": "A", "e": "B"}, is_free, ["s", "e"])
    cases = [(_ints(), _ints()), (_ints(1), _ints(2)), (_ints(1, 1, 1), _ints(2, 2, 2))]
    _check(model, cases, [(_ints(1, 1), _ints(2)), (_ints(0, 0, 0, 0), _ints(1, 1, 1, 1))], "compiled")
    model = _model("Slice", {"s": "A", "e": 2, "a": "C"}, is_free, ["s", "e", "a"])
    _check(
        model, [(_ints(1, 1), _ints(2, 2), _ints(0, -1))], [(_ints(1), _ints(2, 2), _ints(0, 1))], "compiled"
    )


@both_sizes
@pytest.mark.parametrize("how", ["constant", "edge"])
def test_pads(is_free: bool, how: str) -> None:
    model = _model("Pad", {"p": "A", "a": "B"}, is_free, ["p", "", "a"], mode=how)
    cases = [(_ints(), _ints()), (_ints(1, 2), _ints(-1)), (_ints(1, 2, 3, 4), _ints(-1, 0))]
    wrong = [(_ints(1, 2, 3), _ints(-1, 0)), (_ints(1, 2, 3, 4), _ints(0, 0)), (_ints(1, 1), _ints(3))]
    _check(model, cases, wrong, "compiled")
    model = _model("Pad", {"p": "A"}, is_free, ["p"], mode=how)
    _check(model, [(_ints(1, 2, 3, 4, 5, 6),)], [(_ints(1, 2),)], "compiled")


@both_sizes
def test_one_length_says_the_other(is_free: bool) -> None:
    for lengths in ({"p": 4, "a": "B"}, {"p": "A", "a": 2}):
        model = _model("Pad", lengths, is_free, ["p", "", "a"])
        _check(model, [(_ints(1, 2, 3, 4), _ints(-1, 0))], [(_ints(1, 2, 3, 4), _ints(0, 0))], "compiled")


@both_sizes
def test_repeats(is_free: bool) -> None:
    model = _model("Tile", {"r": "A"}, is_free, ["r"])
    _check(model, [(_ints(1, 2, 3),), (_ints(1, 0, 3),)], [(_ints(1, 2),)], "compiled")


@both_sizes
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp"])
def test_reductions(op: str, noop: int, is_free: bool) -> None:
    model = _model(op, {"a": "K"}, is_free, ["a"], noop_with_empty_axes=noop)
    cases = [(_ints(0),), (_ints(-1, 0),), (_ints(0, 1, 2),)]
    if not (noop and op in ("ReduceL2", "ReduceLogSumExp")):  # onnx's reference leaves |x| out
        cases.append((_ints(),))
    _check(model, cases, [(_ints(1, 1),), (_ints(3),)], "compiled")


def test_a_rank_that_depends_on_the_axes_is_refused() -> None:
    model = _model("ReduceSum", {"a": "K"}, False, ["a"], keepdims=0)
    with pytest.raises(ImportModelError, match="N0301"):
        heddle.compile(model)


@both_sizes
@pytest.mark.parametrize("largest", [0, 1])
def test_a_count_is_one_number(is_free: bool, largest: int) -> None:
    model = _model("TopK", {"k": "K"}, is_free, ["k"], largest=largest, axis=2)
    wrong = [(_ints(),), (_ints(1, 2),), (_ints(6),), (_ints(-1),)]
    _check(model, [(_ints(1),), (_ints(5),), (_ints(0),)], wrong, "compiled")


@both_sizes
def test_sizes_and_scales_of_all_axes(is_free: bool) -> None:
    model = _model("Resize", {"s": "K"}, is_free, ["", "", "s"], mode="nearest")
    _check(model, [(_ints(3, 2, 10),), (_ints(6, 4, 5),)], [(_ints(3, 4),), (_ints(1, 2, 3, 4),)], "compiled")
    model = _model("Resize", {"s": "K"}, is_free, ["", "s"], mode="nearest")
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT
    cases = [(np.array(scales, "float32"),) for scales in ([1, 2, 1], [1, 0.5, 2])]
    _check(model, cases, [(np.ones(2, "float32"),)], "compiled")
