"""Resize to the nearest neighbour takes the neighbour that ONNX Runtime takes, sizes constant or not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_sizes_that_are_inputs(coordinates: str, rounding: str) -> None:
    attrs = {
        "mode": "nearest",
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": rounding,
        "axes": [2, 3],
    }
    inputs = {"x": ((1, 1, 1, "n"), "float32"), "s": ((2,), "int64")}
    compared = Compared(model([node("Resize", ["x", "", "", "s"], ["y"], **attrs)], inputs, ["y"]))
    for size in (1, 2, 3, 5, 7, 14, 38):
        for wanted in (1, 2, 3, 4, 7, 9, 12, 19, 33, 38):
            x = np.arange(size, dtype="float32").reshape(1, 1, 1, size)
            assert compared.check({"x": x, "s": np.array([2, wanted])}) == "equal"


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_sizes_that_are_constants(coordinates: str) -> None:
    pairs = ((3, 7), (1, 3), (5, 9), (7, 3), (6, 4), (7, 33))
    nodes = [
        node(
            "Resize",
            [f"x{k}", "", "", f"s{k}"],
            [f"y{k}"],
            mode="nearest",
            coordinate_transformation_mode=coordinates,
        )
        for k in range(len(pairs))
    ]
    inputs = {f"x{k}": ((1, 1, 1, size), "float32") for k, (size, _) in enumerate(pairs)}
    stored = {f"s{k}": np.array([1, 1, 1, wanted]) for k, (_, wanted) in enumerate(pairs)}
    compared = Compared(model(nodes, inputs, [f"y{k}" for k in range(len(pairs))], stored))
    feed = {
        f"x{k}": np.arange(size, dtype="float32").reshape(1, 1, 1, size) for k, (size, _) in enumerate(pairs)
    }
    assert compared.check(feed) == "equal"
