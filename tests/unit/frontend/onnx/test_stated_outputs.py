"""Transposed convolutions that state the size of their output, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], list[tuple[int, ...]]]] = {
    "2d": ({"strides": [2, 2], "output_shape": [10, 8]}, (3, 2, 3, 3), [(5, 4), (6, 5), (6, 4)]),
    "2d, longer than the windows": (
        {"strides": [2, 2], "output_shape": [10, 9], "output_padding": [1, 1]},
        (3, 2, 3, 3),
        [(5, 4), (4, 4), (6, 4)],
    ),
    "1d lower": (
        {"strides": [2], "output_shape": [21], "auto_pad": "SAME_LOWER"},
        (3, 2, 4),
        [(10,), (11,), (14,)],
    ),
    "1d upper": (
        {"strides": [2], "output_shape": [22], "auto_pad": "SAME_UPPER"},
        (3, 2, 5),
        [(10,), (11,), (13,)],
    ),
}


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_stated_outputs(name: str, is_free: bool) -> None:
    attrs, kernel, sizes = CASES[name]
    rng = np.random.default_rng(7)
    stored = {
        "w": rng.standard_normal(kernel).astype("float32"),
        "b": rng.standard_normal(2).astype("float32"),
    }
    for size in sizes:
        dims = ["n", 3, *("h", "w")[: len(size)]] if is_free else [1, 3, *size]
        made = model([node("ConvTranspose", ["x", "w", "b"], ["y"], **attrs)], {"x": dims}, ["y"], stored)
        compared = Compared(made)
        for shape in sizes if is_free else [size]:
            x = rng.standard_normal((1, 3, *shape)).astype("float32")
            assert compared.check({"x": x}, rtol=1e-4, atol=1e-4) == "equal"
        if is_free:
            break
