"""Whole models through the importer: results agree with ONNX Runtime, and shapes stay symbolic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Call
from heddle.relax.interpreter import GraphInterpreter
from tests.e2e.model_zoo import LIGHT, exported, light_model, sample_inputs

FAST = ("squeezenet", "shufflenet")
SHAPE_OPS = {"relax.shape_of", "relax.shape_to_tensor", "relax.tensor_to_shape"}


def agree(model: Any, mod: Any, arrays: list[np.ndarray], tolerance: float) -> None:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    expected = session.run(
        None, {item.name: array for item, array in zip(session.get_inputs(), arrays, strict=True)}
    )
    got = GraphInterpreter(mod)["main"](*arrays)
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
    agree(model, from_onnx(model), [np.random.default_rng(0).random(shape, np.float32)], 1e-4)


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
        agree(path, mod, sample_inputs(kind, batch=batch, seq=seq, past=past), 1e-4)
