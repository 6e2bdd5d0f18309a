"""Whole models are printed with their weights, read back, and give the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.driver.compile import build
from heddle.driver.stages import write_stage
from heddle.frontend.onnx import from_onnx
from heddle.ir.structural import assert_structural_equal
from heddle.runtime import cpu
from heddle.script import from_source
from heddle.vm.relax import VirtualMachine
from tests.e2e.model_zoo import LIGHT, exported, light_model, loop_model, ramp_input, sample_inputs
from tests.marks import LARGE

QUICK = ("squeezenet", "shufflenet")


def _again(mod: Any, folder: Path) -> Any:
    """The module from its text and weights file, and from text alone."""
    files = write_stage(mod, "relax", folder / "model.py")
    again = from_source(files[0].read_text(), folder=folder)
    assert_structural_equal(mod, again)
    return again


def _same_results(mod: Any, again: Any, args: list[Any]) -> None:
    results = [VirtualMachine(build(each), cpu())["main"](*args) for each in (mod, again)]
    first, second = (
        [
            value.numpy()
            for value in (each if hasattr(each, "__iter__") and not hasattr(each, "numpy") else [each])
        ]
        for each in results
    )
    assert len(first) == len(second) > 0
    for one, other in zip(first, second, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=LARGE) for name in LIGHT]
)
def test_light_cnn(name: str, tmp_path: Path) -> None:
    model = light_model(name)
    mod = from_onnx(model)
    again = _again(mod, tmp_path)
    if name == "squeezenet":
        _same_results(mod, again, [ramp_input(model)])


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit", "resnet", "mobilenet"])
def test_exported(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the models are exported by it")
    mod = from_onnx(exported(kind))
    again = _again(mod, tmp_path)
    assert_structural_equal(mod, from_source(mod.script(show_meta=True)))
    if kind == "bert":
        _same_results(mod, again, sample_inputs(kind))


def test_loop_and_branch(tmp_path: Path) -> None:
    mod = from_onnx(loop_model())
    again = _again(mod, tmp_path)
    args = [np.ones(3, np.float32), np.asarray(5, np.int64), np.asarray(20, np.float32)]
    _same_results(mod, again, args)
