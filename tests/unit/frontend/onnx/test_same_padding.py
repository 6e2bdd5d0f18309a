"""`auto_pad` over sizes that are free, against ONNX Runtime: the output has ceil(input / stride) elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from heddle.frontend.onnx import from_onnx
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

MODES = ("SAME_UPPER", "SAME_LOWER")
SIZES = ((7, 8), (8, 7), (1, 2), (13, 5), (32, 33))
WINDOWS: dict[str, dict[str, Any]] = {
    "3x3 by 2": {"kernel_shape": [3, 3], "strides": [2, 2]},
    "5x2 by 3x1": {"kernel_shape": [5, 2], "strides": [3, 1]},
    "2x2 by 4": {"kernel_shape": [2, 2], "strides": [4, 4]},
}
POOLS = ("MaxPool", "AveragePool", "AveragePool with padding", "LpPool")


def pool(kind: str, mode: str, window: str, dims: list[Any]) -> ModelProto:
    attrs = {**WINDOWS[window], "auto_pad": mode}
    if kind == "AveragePool with padding":
        attrs["count_include_pad"] = 1
    return model([node(kind.split()[0], ["x"], ["y"], **attrs)], {"x": dims}, ["y"])


def with_pads(made: ModelProto, sizes: Any) -> ModelProto:
    """The model with the padding as numbers."""
    attrs = {item.name: helper.get_attribute_value(item) for item in made.graph.node[0].attribute}
    upper = attrs.pop("auto_pad") == b"SAME_UPPER"
    windows = zip(sizes, attrs["kernel_shape"], attrs["strides"], strict=True)
    total = [max(0, (-(-n // step) - 1) * step + reach - n) for n, reach, step in windows]
    small, large = [n // 2 for n in total], [n - n // 2 for n in total]
    pads = small + large if upper else large + small
    kind = made.graph.node[0].op_type
    return model([node(kind, ["x"], ["y"], pads=pads, **attrs)], {"x": ["n", 3, "h", "w"]}, ["y"])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", POOLS)
def test_pools(kind: str, mode: str, window: str) -> None:
    compared = Compared(pool(kind, mode, window, ["n", 3, "h", "w"]))
    for height, width in SIZES:
        x = np.random.default_rng(height).standard_normal((2, 3, height, width)).astype("float32") - 2
        wanted = compared.expected({"x": x})
        if window == "2x2 by 4":  # windows that lie apart: it takes the padding to be negative
            wanted = Compared.session_of(with_pads(compared.model, x.shape[2:])).run(None, {"x": x})
        assert compared.check({"x": x}, wanted, rtol=1e-5, atol=1e-6) == "equal"


@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("mode", MODES)
def test_convolutions(mode: str, window: str, group: int) -> None:
    kernel = WINDOWS[window]["kernel_shape"]
    w = np.random.default_rng(1).standard_normal((16, 8 // group, *kernel)).astype("float32")
    attrs = {**WINDOWS[window], "auto_pad": mode, "group": group}
    made = model([node("Conv", ["x", "w"], ["y"], **attrs)], {"x": ["n", 8, "h", "w"]}, ["y"], {"w": w})
    compared = Compared(made)
    for height, width in SIZES:
        x = np.random.default_rng(height).standard_normal((2, 8, height, width)).astype("float32")
        assert compared.check({"x": x}, rtol=1e-4, atol=1e-4) == "equal"


@pytest.mark.parametrize("mode", MODES)
def test_quantised_convolutions(mode: str) -> None:
    """What pads is the zero point."""
    w = np.random.default_rng(2).integers(-9, 9, (4, 3, 3, 3)).astype("int8")
    stored = {"w": w, "z": np.uint8(7), "zw": np.int8(1)}
    convolved = node("ConvInteger", ["x", "w", "z", "zw"], ["y"], auto_pad=mode, strides=[2, 2])
    compared = Compared(model([convolved], {"x": ([1, 3, "h", "w"], "uint8")}, ["y"], stored))
    for height, width in SIZES:
        x = np.random.default_rng(height).integers(0, 20, (1, 3, height, width)).astype("uint8")
        wanted = compared.expected({"x": x})
        assert wanted is None or compared.check({"x": x}) == "equal"


def test_layers_keep_short_sizes() -> None:
    """Four layers of stride 2: a sixteenth, rounded up."""
    w = np.ones((8, 8, 3, 3), np.float32)
    nodes = [
        node("Conv", [f"t{k}", "w"], [f"t{k + 1}"], auto_pad="SAME_UPPER", strides=[2, 2]) for k in range(4)
    ]
    made = from_onnx(model(nodes, {"t0": [1, 8, "h", "w"]}, ["t4"], {"w": w}))
    assert [str(dim) for dim in made["main"].ret_ty.dims[2:]] == ["(h + 15) // 16", "(w + 15) // 16"]


@pytest.mark.parametrize("mode", MODES)
def test_transposed_convolutions(mode: str) -> None:
    w = np.random.default_rng(3).standard_normal((4, 6, 3, 3)).astype("float32")
    turned = node("ConvTranspose", ["x", "w"], ["y"], auto_pad=mode, strides=[2, 2])
    compared = Compared(model([turned], {"x": ["n", 4, "h", "w"]}, ["y"], {"w": w}))
    for height, width in SIZES:
        x = np.random.default_rng(height).standard_normal((1, 4, height, width)).astype("float32")
        assert compared.check({"x": x}, rtol=1e-4, atol=1e-4) == "equal"
