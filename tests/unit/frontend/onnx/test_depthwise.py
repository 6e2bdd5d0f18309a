"""Convolutions of each channel by itself, of plain images that no other convolution is next to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.frontend.onnx import from_onnx
from heddle.ir.transform import Sequential
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import PrimFunc
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

CASES: dict[str, tuple[int, dict[str, Any], tuple[int, ...]]] = {
    "1d": (5, {"pads": [2, 1]}, (4,)),
    "1d_apart": (3, {"strides": [2], "dilations": [3]}, (3,)),
    "2d": (7, {"pads": [1, 1, 1, 1]}, (3, 3)),
    "2d_halved": (6, {"pads": [0, 1, 1, 0], "strides": [2, 2]}, (3, 2)),
    "2d_apart": (4, {"dilations": [2, 3], "pads": [2, 3, 2, 3]}, (3, 3)),
    "3d": (3, {"pads": [1, 1, 1, 1, 1, 1]}, (3, 3, 3)),
}
SIZES = (1, 7, 16, 33)


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def built(name: str) -> tuple[Any, int, int]:
    """A model, its channels, and its dimensions beside them."""
    channels, attrs, kernel = CASES[name]
    rng = np.random.default_rng(3)
    letters = ["d", "h", "w"][-len(kernel) :]
    stored = {
        "weight": rng.standard_normal((channels, 1, *kernel)).astype("float32"),
        "b": rng.standard_normal(channels).astype("float32"),
    }
    made = node("Conv", ["x", "weight", "b"], ["y"], group=channels, **attrs)
    return model([made], {"x": ["n", channels, *letters]}, ["y"], stored), channels, len(kernel)


@pytest.mark.parametrize("name", CASES)
def test_any_size(name: str) -> None:
    onnx_model, channels, ndim = built(name)
    compared = Compared(onnx_model)
    rng = np.random.default_rng(4)
    for k, last in enumerate(SIZES):
        shape = (k % 2 + 1, channels, *(11 + k,) * (ndim - 1), last + 8)
        x = rng.standard_normal(shape).astype("float32")
        results = []
        for threads in (1, 2):
            set_num_threads(threads)
            assert compared.check({"x": x}, rtol=1e-4, atol=1e-5) == "equal"
            results.append(compared.machines[0]["main"](x).numpy())
        np.testing.assert_array_equal(*results)


def test_images_stay_plain() -> None:
    """Windows slide over the image as it is; next to a pointwise convolution channels are blocked."""
    onnx_model, _, _ = built("2d")
    assert ranks_of_images(onnx_model) == {4}
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "p"], ["a"]),
        node("Conv", ["a", "w0"], ["c"], group=16, pads=[1, 1, 1, 1]),
        node("Conv", ["c", "p"], ["y"]),
    ]
    stored = {
        "p": rng.standard_normal((16, 16, 1, 1)).astype("float32"),
        "w0": rng.standard_normal((16, 1, 3, 3)).astype("float32"),
    }
    assert 5 in ranks_of_images(model(nodes, {"x": ["n", 16, "h", "w"]}, ["y"], stored))


def ranks_of_images(onnx_model: Any) -> set[int]:
    """The ranks of what kernels compute, images among them."""
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)))
    functions = passes(from_onnx(onnx_model)).functions.values()
    return {len(func.buffers[-1].shape) for func in functions if isinstance(func, PrimFunc)}
