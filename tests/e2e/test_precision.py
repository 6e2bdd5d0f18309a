"""Networks in `precision="bf16"` against strict float32: errors of the size that 8 bits of factors leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.compare import compare_precisions

pytest.importorskip("torch", reason="the networks are exported from PyTorch")
pytest.importorskip("transformers", reason="the networks are those of transformers")
pytest.importorskip("onnx", reason="ONNX models need the extra onnx")

from heddle.frontend.onnx import from_onnx
from tests.e2e.model_zoo import exported, light_model, sample_inputs

MAX_ERROR, MEAN_ERROR = 4e-2, 1.5e-2
"""Relative to the scale of an output. One rounding is off by at most 2**-9 = 2e-3."""


@pytest.mark.parametrize("kind", ["bert", "gpt2", "resnet"])
def test_networks_stay_near(kind: str) -> None:
    rows = compare_precisions(from_onnx(str(exported(kind))), sample_inputs(kind))
    assert all(row["agrees"] for row in rows)
    assert all(row["max_relative_error"] < MAX_ERROR for row in rows)
    assert all(row["mean_relative_error"] < MEAN_ERROR for row in rows)
    assert any(row["mean_relative_error"] > 1e-4 for row in rows)  # something was rounded


def test_sizes_stay_symbolic() -> None:
    """One program, compiled once, for several batches and lengths."""
    mod = from_onnx(str(exported("bert")))
    calls = [
        relax.VirtualMachine(
            heddle.compile(mod, target="llvm", exec_mode="compiled", precision=precision), heddle.cpu()
        )["main"]
        for precision in ("bf16", "fp32")
    ]
    for batch, seq in ((1, 1), (2, 7), (3, 13)):
        inputs = sample_inputs("bert", batch=batch, seq=seq)
        for narrow, strict in zip(*(call(*inputs) for call in calls), strict=True):
            got, expected = narrow.numpy(), strict.numpy()
            assert np.abs(got - expected).max() <= MAX_ERROR * np.abs(expected).max()


@pytest.mark.long("a network of fifty layers, compiled twice for each target")
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
def test_a_large_classifier(target: str) -> None:
    model: Any = light_model("resnet50")
    image = np.random.default_rng(8).standard_normal((1, 3, 224, 224)).astype("float32")
    (row,) = compare_precisions(from_onnx(model), [image], target=target)
    assert row["agrees"] and row["max_relative_error"] < MAX_ERROR
