"""Every case of `onnx.backend.test` passes in all modes, or is on the list of refusals, which may only
shrink."""

from __future__ import annotations

import unittest

import heddle.backend
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest

from heddle.support.diagnostics import HeddleError, ImportModelError
from tests.e2e.onnx_board import (
    QUICK,
    SHARDS,
    Outcome,
    cases,
    has_newer_cases,
    refusals,
    run,
    shard,
)


@pytest.mark.whole("a change of any kernel may be seen in any case")
@pytest.mark.parametrize("number", range(SHARDS))
def test_cases_without_optimisation(number: int) -> None:
    _check({name: run(name, QUICK) for name in shard(number) if not name.startswith("real/")})


@pytest.mark.parametrize("number", range(SHARDS))
def test_cases(number: int) -> None:
    _check({name: run(name) for name in shard(number)})


def _check(outcomes: dict[str, Outcome]) -> None:
    known = refusals()
    wrong = [item for item in outcomes.values() if item.status not in ("pass", "refused")]
    unlisted = {
        name: item.reason for name, item in outcomes.items() if item.status == "refused" and name not in known
    }
    if (wrong or unlisted) and has_newer_cases():
        pytest.skip("a later release of onnx has cases that nobody looked at yet")
    assert not wrong, wrong[:5]
    assert not unlisted, f"refused and not on the list: {unlisted}"
    mended = [name for name, item in outcomes.items() if item.status == "pass" and name in known]
    assert not mended, f"on the list of refusals, and they pass: take them off: {mended}"


def test_list_of_refusals() -> None:
    """Each line names a case and a coded reason; no line is for nothing."""
    known = refusals()
    assert set(known) <= set(cases())
    assert all(reason.startswith("error[N0") for reason in known.values())
    assert len(known) <= 0.02 * len(cases())


# ---- heddle.backend


def _node_model() -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("a", "b")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_runner_of_onnx() -> None:
    """The short program that ONNX's documentation gives for a backend."""
    suite = BackendTest(heddle.backend, __name__)
    suite.include("^test_(abs|add_bcast|concat_1d_axis_0|sequence_model1|split_equal_parts_1d_opset18)_")
    result = unittest.TestResult()
    suite.test_suite.run(result)
    assert result.wasSuccessful(), result.failures + result.errors
    assert result.testsRun - len(result.skipped) >= 4


def test_prepare_and_run() -> None:
    a, b = np.arange(3, dtype="float32"), np.ones(3, "float32")
    made = heddle.backend.prepare(_node_model(), "CPU:0")
    for inputs in ([a, b], {"b": b, "a": a}):
        (got,) = made.run(inputs)
        np.testing.assert_array_equal(got, a - b)
    (other,) = heddle.backend.run_model(_node_model(), [a[:2], b[:2]], exec_mode="bytecode")
    np.testing.assert_array_equal(other, [-1, 0])


def test_run_node() -> None:
    (got,) = heddle.backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [np.ones((2, 0), "int8")])
    assert got.shape == (2, 0) and got.dtype == np.int8


@pytest.mark.parametrize(
    ("device", "is_there"), [("CPU", True), ("CPU:0", True), ("CPU:1", False), ("CUDA", False), ("", False)]
)
def test_devices(device: str, is_there: bool) -> None:
    assert heddle.backend.supports_device(device) is is_there


def test_wrong_calls() -> None:
    model = _node_model()
    made = heddle.backend.prepare(model)
    x = np.ones(3, "float32")
    for call, code in (
        (lambda: heddle.backend.prepare(model, "CUDA"), "D0701"),
        (lambda: heddle.backend.prepare(model, fast=True), "D0103"),
        (lambda: made.run([x]), "D0701"),
        (lambda: made.run({"a": x, "c": x}), "D0701"),
        (lambda: made.run([x, x], fast=True), "D0103"),
    ):
        with pytest.raises(HeddleError) as caught:
            call()
        assert caught.value.code == code
    with pytest.raises(ImportModelError):
        heddle.backend.run_node(helper.make_node("Unknown", ["x"], ["y"]), [x])
