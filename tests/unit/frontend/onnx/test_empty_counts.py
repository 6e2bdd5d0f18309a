"""Operators of which a count or a limit is empty or 0: one answer, whether sizes are known or free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def made(nodes: list[Any], inputs: dict[str, Any], opset: int, stored: dict[str, Any] | None = None) -> Any:
    given = [helper.make_tensor_value_info(name, kind, dims) for name, (dims, kind) in inputs.items()]
    kept = [numpy_helper.from_array(np.asarray(array), name) for name, array in (stored or {}).items()]
    graph = helper.make_graph(nodes, "counts", given, [helper.make_empty_tensor_value_info("y")], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def answer(model: Any, *arrays: Any, mode: str = "compiled") -> Any:
    """The result, or the code with which it is refused."""
    try:
        machine = relax.VirtualMachine(heddle.compile(from_onnx(model), exec_mode=mode), heddle.cpu())
        return machine["main"](*arrays).numpy()
    except HeddleError as error:
        return error.code


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("kind", ["linear", "circular"])
@pytest.mark.parametrize("dims", [(2, 5, 0), (2, 5, "s"), ("b", "m", "s"), (2, "m", 0)], ids=str)
def test_rows_that_are_none_are_written(dims: tuple[Any, ...], kind: str, mode: str) -> None:
    batch, size, count = dims
    node = helper.make_node("TensorScatter", ["x", "u", "i"], ["y"], axis=1, mode=kind)
    inputs = {"x": ([batch, size, 3], FLOAT), "u": ([batch, count, 3], FLOAT), "i": ([batch], INT)}
    model = made([node], inputs, 24)
    rng = np.random.default_rng(1)
    for rows in (0, 1, 3) if isinstance(count, str) else (0,):
        x, u = (rng.standard_normal((2, n, 3)).astype("float32") for n in (5, rows))
        first = np.array([1, 2])
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x, "u": u, "i": first})
        np.testing.assert_array_equal(answer(model, x, u, first, mode=mode), wanted)


@pytest.mark.parametrize(
    "attrs", [{}, {"onesided": 1}, {"inverse": 1}, {"inverse": 1, "onesided": 1}], ids=str
)
def test_a_transform_of_nothing_is_refused(attrs: dict[str, int]) -> None:
    """numpy refuses it as well; ONNX Runtime gives nothing for some."""
    parts = 2 if "inverse" in attrs else 1
    size = 1 if len(attrs) == 2 else 0  # the whole of a half of one element is of none
    x, node = np.zeros((3, size, parts), "float32"), helper.make_node("DFT", ["x"], ["y"], **attrs)
    for dims, code in (([3, size, parts], "N0106"), (["b", "n", parts], "V0401")):
        assert answer(made([node], {"x": (dims, FLOAT)}, 20), x) == code
    node = helper.make_node("DFT", ["x", "l"], ["y"], **attrs)
    x = np.ones((3, 4, parts), "float32")
    assert answer(made([node], {"x": (["b", "n", parts], FLOAT)}, 20, {"l": 0}), x) == "N0106"
    given = made([node], {"x": (["b", "n", parts], FLOAT), "l": ([], INT)}, 20)
    assert answer(given, x, np.array(0)) == "V0401"
    assert answer(given, x, np.array(-1)) == "V0401"
    assert answer(given, x, np.array(4)).shape[0] == 3


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "given"])
@pytest.mark.parametrize("dims", [[0], [2], [1, 0]], ids=str)
def test_limits_of_a_suppression_are_numbers(dims: list[int], stored: bool) -> None:
    limits = {"m": np.ones(dims, "int64"), "o": np.ones(dims, "float32"), "s": np.ones(dims, "float32")}
    inputs: dict[str, Any] = {"boxes": ([1, 4, 4], FLOAT), "scores": ([1, 1, 4], FLOAT)}
    if not stored:
        inputs |= {"m": (dims, INT), "o": (dims, FLOAT), "s": (dims, FLOAT)}
    node = helper.make_node("NonMaxSuppression", [*("boxes", "scores"), *limits], ["y"])
    assert answer(made([node], inputs, 11, limits if stored else None)) == "N0106"
