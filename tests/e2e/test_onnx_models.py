"""Whole models through the importer: results agree with ONNX Runtime, and shapes stay symbolic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Call
from heddle.relax.interpreter import GraphInterpreter
from heddle.runtime import cpu
from heddle.vm.relax import VirtualMachine
from tests.e2e.command_line import environment
from tests.e2e.model_zoo import (
    LIGHT,
    exported,
    light_model,
    loop_model,
    ramp_input,
    sample_inputs,
    stored_light_model,
    with_logits,
)
from tests.marks import LARGE

FAST = ("squeezenet", "shufflenet")
SHAPE_OPS = {"relax.shape_of", "relax.shape_to_tensor", "relax.tensor_to_shape"}


def agree(model: Any, run: Any, arrays: list[np.ndarray], tolerance: float) -> None:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    expected = session.run(
        None, {item.name: array for item, array in zip(session.get_inputs(), arrays, strict=True)}
    )
    got = run(*arrays)
    for mine, theirs in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=LARGE) for name in LIGHT]
)
def test_light_cnn(name: str) -> None:
    model = light_model(name)
    stored = {item.name for item in model.graph.initializer}
    image = next(value for value in model.graph.input if value.name not in stored)
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    agree(
        model,
        GraphInterpreter(from_onnx(model))["main"],
        [np.random.default_rng(0).random(shape, np.float32)],
        1e-4,
    )


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_transformer(kind: str) -> None:
    """No value of the running model is a shape, and other sizes than the exported ones work."""
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    path = exported(kind)
    mod = from_onnx(path)
    calls = [item.value for item in mod["main"].body.bindings() if isinstance(item.value, Call)]
    assert not [call for call in calls if call.op.name in SHAPE_OPS]
    for batch, seq, past in ((1, 1, 0), (3, 4, 2), (2, 9, 7)):
        agree(path, GraphInterpreter(mod)["main"], sample_inputs(kind, batch=batch, seq=seq, past=past), 1e-4)


def compiled(mod: Any) -> Any:
    machine = VirtualMachine(build(mod), cpu())

    def run(*arrays: np.ndarray) -> Any:
        made = machine["main"](*arrays)
        return tuple(item.numpy() for item in made) if isinstance(made, (tuple, list)) else made.numpy()

    return run


@pytest.mark.parametrize(
    "name", [name if name == "squeezenet" else pytest.param(name, marks=LARGE) for name in LIGHT]
)
def test_compiled_light_cnn(name: str) -> None:
    """onnx's stored output with constant weights; with random ones ONNX Runtime's, before the softmax too."""
    model, expected = stored_light_model(name)
    image = ramp_input(model)
    np.testing.assert_allclose(compiled(from_onnx(model))(image), expected, rtol=1e-3)
    model = with_logits(light_model(name))
    image = np.random.default_rng(0).standard_normal(image.shape, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {session.get_inputs()[0].name: image})
    mine = compiled(from_onnx(model))(image)
    for got, wanted in zip(mine if isinstance(mine, tuple) else (mine,), theirs, strict=True):
        assert np.abs(got - wanted).max() <= 1e-4 * np.abs(wanted).max()


FRESH = """
import sys, numpy as np, heddle.runtime, heddle.vm.relax as vm
machine = vm.VirtualMachine(heddle.runtime.load_module("model.heddle"), heddle.runtime.cpu())
with np.load("inputs.npz") as inputs:
    made = machine["main"](*(inputs[name] for name in sorted(inputs)))
np.savez("outputs.npz", *(item.numpy() for item in made))
assert not {"onnx", "llvmlite.ir", "heddle.graph", "heddle.relax", "heddle.codegen"} & set(sys.modules)
"""


def test_artefact_in_a_fresh_process_gives_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    arrays = sample_inputs("bert", batch=3, seq=7)
    executable = build(from_onnx(exported("bert")))
    executable.export_library(tmp_path / "model.heddle")
    np.savez(tmp_path / "inputs.npz", *arrays)
    subprocess.run([sys.executable, "-c", FRESH], cwd=tmp_path, env=environment(), check=True)
    here = VirtualMachine(executable, cpu())["main"](*arrays)
    with np.load(tmp_path / "outputs.npz") as there:
        for number, item in enumerate(here):
            assert there[f"arr_{number}"].tobytes() == item.numpy().tobytes()


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_compiled_transformer(kind: str) -> None:
    """One executable for all sizes."""
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    path = exported(kind)
    run = compiled(from_onnx(path))
    for batch, seq, past in ((1, 1, 0), (3, 4, 2)):
        agree(path, run, sample_inputs(kind, batch=batch, seq=seq, past=past), 1e-4)


@pytest.mark.parametrize(("trips", "limit"), [(5, 100.0), (50, 100.0), (0, 1.0), (5, -1.0)])
def test_compiled_loop_and_branch(trips: int, limit: float) -> None:
    model = loop_model()
    arrays = [np.array([1, 2, 3], np.float32), np.asarray(trips, np.int64), np.asarray(limit, np.float32)]
    agree(model, compiled(from_onnx(model)), arrays, 1e-6)
