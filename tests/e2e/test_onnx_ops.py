"""The benchmark of ONNX's operators: a row for each, and equal outputs of both sides at the small size."""

from __future__ import annotations

import subprocess
import sys

import pytest

import heddle
from heddle.frontend.onnx import from_onnx

pytest.importorskip("benchmarks", reason="the benchmark is beside the package")
pytest.importorskip("onnxruntime")

import onnxruntime
from benchmarks.engines.onnx_runtime import OnnxSession
from benchmarks.engines.ours import HeddleSession
from benchmarks.onnx_ops.case import Case
from benchmarks.onnx_ops.catalogue import CASES, WITHOUT_ROW, operators, row
from benchmarks.onnx_ops.child import FORMS, error_of


def test_each_operator_has_a_row_or_a_reason():
    with_row = {case.operator for case in CASES}
    assert with_row | set(WITHOUT_ROW) == set(operators())
    assert not with_row & set(WITHOUT_ROW)
    assert all(WITHOUT_ROW.values())


def test_rows_have_names_of_their_own():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_rows_are_of_their_operator():
    for case in CASES:
        graph = case.model(case.small, is_fixed=False).graph
        assert case.operator in {node.op_type for node in graph.node}, case.name


def test_dimensions_are_free_or_fixed():
    for case in CASES:
        for is_fixed in (False, True):
            for value in case.model(case.large, is_fixed=is_fixed).graph.input:
                text = str(value.type)
                assert not is_fixed or "dim_param" not in text, case.name


def outputs(case: Case, is_fixed: bool):
    """Ours and ONNX Runtime's at the small size."""
    model = case.model(case.small, is_fixed=is_fixed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    sessions = HeddleSession(heddle.compile(from_onnx(model))), OnnxSession(peer)
    arrays = case.arrays(case.small)
    return [session.arrays(session.call(session.prepare(arrays))) for session in sessions]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_outputs_agree(name, form):
    case = row(name)
    ours, theirs = outputs(case, FORMS[form])
    assert ours
    assert error_of(case, ours, theirs) <= case.tolerance


def test_a_wrong_output_is_an_error():
    case = row("Relu")
    _, theirs = outputs(case, True)
    assert error_of(case, [theirs[0] + 1], theirs) > case.tolerance
    assert error_of(case, [theirs[0].astype("float64")], theirs) == float("inf")
    assert error_of(case, [theirs[0][:, 1:]], theirs) == float("inf")


def test_the_command_lists_rows_and_refuses_unknown_ones():
    command = [sys.executable, "-m", "benchmarks.onnx_ops"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout
    assert "Softmax/channels" in listed and "ImageDecoder: " in listed
    unknown = subprocess.run([*command, "Sotfmax"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2 and "Sotfmax" in unknown.stderr
