"""ONNX models on the command line: a good one, and many that are not."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.driver.cli import ExitCode, main
from heddle.driver.compare import difference
from tests.e2e.command_line import Done, heddle

onnx = pytest.importorskip("onnx", reason="ONNX models need the extra onnx")
pytest.importorskip("typer", reason="the command line needs the extra cli")


def dense_model(activation: str = "Relu", weight: int = 8) -> Any:
    """y = activation(x @ w + b) with a symbolic number of rows."""
    make = onnx.helper
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["product"], name="fc"),
        make.make_node("Add", ["product", "b"], ["sum"], name="bias"),
        make.make_node(activation, ["sum"], ["y"], name="act"),
    ]
    values = [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 8])]
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((weight, 4)).astype("float32"), "w"),
        onnx.numpy_helper.from_array(np.ones(4, "float32"), "b"),
    ]
    outputs = [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = make.make_graph(nodes, "dense", values, outputs, weights)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9)


def in_process(*args: object) -> Done:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(arg) for arg in args])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "dense.onnx"
    path.write_bytes(dense_model().SerializeToString())
    return path


def test_a_model_that_the_other_engine_refuses_is_told(tmp_path: Path) -> None:
    """ONNX has sines of bfloat16, and ONNX Runtime has not. The run itself is done and shown."""
    pytest.importorskip("onnxruntime", reason="comparing needs the extra bench")
    make, bfloat16 = onnx.helper, onnx.TensorProto.BFLOAT16
    values = [make.make_tensor_value_info(name, bfloat16, [4]) for name in "xy"]
    graph = make.make_graph([make.make_node("Sin", ["x"], ["y"])], "g", values[:1], values[1:])
    sine = make.make_model(graph, opset_imports=[make.make_opsetid("", 22)], ir_version=9)
    (tmp_path / "m.onnx").write_bytes(sine.SerializeToString())
    run = ("run", tmp_path / "m.onnx", "--repeat", 0)
    assert in_process(*run).code == 0
    done = in_process(*run, "--compare", "onnxruntime")
    assert done.code == ExitCode.OUTPUTS_DIFFER, done.err
    assert "refused the model" in done.out + done.err
    assert "fault of Heddle" not in done.err and "Traceback" not in done.err
    report = json.loads(in_process(*run, "--compare", "onnxruntime", "--json").out)
    assert report["comparison"]["agrees"] is False and "Sin" in report["comparison"]["refused"]


def test_a_call_that_the_other_engine_refuses_is_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pytest.importorskip("onnxruntime", reason="comparing needs the extra bench")

    refusal = engine.capi.onnxruntime_pybind11_state.InvalidArgument

    def refuse(*_: Any) -> Any:
        raise refusal("[ONNXRuntimeError] : not these inputs")

    monkeypatch.setattr(engine.InferenceSession, "run", refuse)
    done = in_process("run", model, "--dim", "rows=6", "--compare", "onnxruntime", "--repeat", 0)
    assert done.code == ExitCode.OUTPUTS_DIFFER, done.err
    assert "not these inputs" in done.out + done.err
    assert "fault of Heddle" not in done.err


def test_agrees_with_onnxruntime(model: Path) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs the extra bench")
    done = heddle("run", model, "--dim", "rows=6", "--compare", "onnxruntime", "--json", "--repeat", 1)
    assert done.code == 0, done.err
    assert json.loads(done.out)["comparison"]["agrees"]


def test_compiled_once_runs_with_any_size(model: Path, tmp_path: Path) -> None:
    assert heddle("compile", model, "-o", tmp_path / "dense.heddle").code == 0
    for rows in (1, 7, 64):
        done = heddle("run", tmp_path / "dense.heddle", "--dim", f"rows={rows}", "--json", "--repeat", 0)
        assert json.loads(done.out)["outputs"][0]["shape"] == [rows, 4]


def test_different_outputs_have_their_own_exit_code(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs the extra bench")
    monkeypatch.setattr(
        "heddle.driver.compare.difference",
        lambda name, a, b, precision: difference(name, a + 1, b, precision),
    )
    done = in_process("run", model, "--compare", "onnxruntime", "--repeat", 0)
    assert done.code == ExitCode.OUTPUTS_DIFFER
    assert "outputs differ" in done.out


def test_bfloat16_against_strict(model: Path) -> None:
    """The report gives errors relative to the outputs' scale; those of 8 bits are small, and not nothing."""
    args = ("run", model, "--dim", "rows=6", "--precision", "bf16", "--compare", "fp32", "--repeat", 1)
    done = in_process(*args, "--json")
    assert done.code == ExitCode.DONE, done.err
    report = json.loads(done.out)
    (row,) = report["comparison"]["outputs"]
    assert report["precision"] == "bf16" and report["comparison"]["engine"] == "fp32" and row["agrees"]
    assert 1e-5 < row["mean_relative_error"] < row["max_relative_error"] * 2 < 4e-2
    assert row["max_abs_error"] == pytest.approx(row["max_relative_error"] * row["max_magnitude"])
    shown = in_process(*args)
    assert "bf16" in shown.out and "relative to the scale: max" in shown.out


def test_strict_against_strict_is_equal(model: Path) -> None:
    done = in_process("run", model, "--dim", "rows=5", "--compare", "fp32", "--repeat", 0, "--json")
    (row,) = json.loads(done.out)["comparison"]["outputs"]
    assert row["max_abs_error"] == row["max_relative_error"] == row["mean_relative_error"] == 0


def test_the_precision_of_a_compiled_model_is_chosen(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "narrow.heddle"
    assert in_process("compile", model, "-o", path, "--precision", "bf16").code == ExitCode.DONE
    done = in_process("run", path, "--dim", "rows=2", "--repeat", 0, "--json")
    assert json.loads(done.out)["precision"] == "bf16"
    in_process("run", path, "--precision", "bf16").failed_with("D0301", "compiled already")
    in_process("run", path, "--compare", "fp32").failed_with("D0402", "one precision")
    in_process("run", model, "--precision", "int4").failed_with("D0103", "'int4'", "fp32, bf16")
    text = in_process("inspect", model, "--stage", "scheduled", "--precision", "bf16").out
    assert "bfloat16" in text


def test_unknown_operator(tmp_path: Path) -> None:
    path = tmp_path / "odd.onnx"
    path.write_bytes(dense_model("Frobnicate").SerializeToString())
    heddle("run", path).failed_with("N0201", "Frobnicate", 'node "act"')


def test_sizes_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "odd.onnx"
    path.write_bytes(dense_model(weight=9).SerializeToString())
    done = heddle("run", path)
    done.failed_with(done.err[6:11], 'node "fc"')


def test_dimension_that_contradicts_an_input(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 8), "float32"))
    done = heddle("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--dim", "rows=4")
    done.failed_with("D0202", "'rows' is 4", "5 by input 'x'")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    heddle("run", tmp_path / "empty.onnx").failed_with("N0102")


@settings(max_examples=40)
@given(data=st.data())
def test_damaged_model(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Truncation and flipped bits end in a coded message, or in a model that still is one."""
    stored = bytearray(dense_model().SerializeToString())
    if data.draw(st.booleans()):
        stored = stored[: data.draw(st.integers(0, len(stored) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(stored)
    done = in_process("run", path, "--repeat", 0, "--json")
    assert done.code in (ExitCode.DONE, ExitCode.BAD_INPUT), done.err
    assert done.code == ExitCode.DONE or done.err.startswith("error["), done.err
