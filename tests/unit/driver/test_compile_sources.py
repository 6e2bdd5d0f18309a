"""What `heddle.compile` takes besides modules, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import heddle
from heddle import relax
from heddle.driver.models import find_model
from heddle.support.diagnostics import UsageError

X = np.random.default_rng(3).standard_normal((5, 3)).astype("float32")
SCRIPT = """
from heddle.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        y = R.exp(x)
        return y
"""


def _model() -> onnx.ModelProto:
    node = helper.make_node("Exp", ["x"], ["y"])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([node], "exp", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _run(executable: Any, *arrays: np.ndarray) -> np.ndarray:
    return relax.VirtualMachine(executable, heddle.cpu())["main"](*arrays).numpy()


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_paths_and_onnx_models_compile(tmp_path: Path, mode: str) -> None:
    onnx.save(_model(), tmp_path / "m.onnx")
    (tmp_path / "m.py").write_text(SCRIPT)
    for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), tmp_path / "m.py", _model()):
        found = _run(heddle.compile(source, exec_mode=mode), X)
        np.testing.assert_allclose(found, np.exp(X), rtol=1e-6)


def test_a_path_takes_what_a_module_takes(tmp_path: Path) -> None:
    onnx.save(_model(), tmp_path / "m.onnx")
    made = heddle.compile(str(tmp_path / "m.onnx"), ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3"])
    assert len(made.names) == 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("m.pt", "heddle.compile(module, example_inputs=(x,))"),
        ("m.PTH", "heddle.compile(module, example_inputs=(x,))"),
        ("m.pt2", "torch.export.load"),
        ("m.safetensors", "weights without their network"),
        ("m.tflite", "tf2onnx"),
        ("m.joblib", "skl2onnx"),
    ],
)
def test_files_of_others_say_the_way(name: str, hint: str) -> None:
    for look_up in (find_model, heddle.compile):
        with pytest.raises(UsageError) as caught:
            look_up(name)
        assert caught.value.code == "D0101" and hint in str(caught.value)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    executable = heddle.compile(_model())
    executable.export_library(tmp_path / "m.heddle")
    for given, code, hint in (
        (5, "D0108", "got int"),
        ({"w": X}, "D0108", "got dict"),
        (executable, "D0108", "compiled already"),
        (str(tmp_path / "m.heddle"), "D0301", "compiled already"),
        (str(tmp_path / "none.onnx"), "D0101", "none.onnx"),
    ):
        with pytest.raises(UsageError) as caught:
            heddle.compile(given)
        assert caught.value.code == code and hint in str(caught.value)


@pytest.mark.parametrize("option", ["example_inputs", "dynamic_shapes"])
def test_examples_are_for_pytorch(option: str) -> None:
    with pytest.raises(UsageError, match=option) as caught:
        heddle.compile(_model(), **{option: (X,)})
    assert caught.value.code == "D0103"
