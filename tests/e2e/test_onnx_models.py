"""Whole models through the importer: results agree with ONNX Runtime, and shapes stay symbolic."""

from __future__ import annotations

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
from tests.e2e.model_zoo import LIGHT, exported, light_model, loop_model, sample_inputs

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
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in LIGHT]
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
