"""The places of maxima that MaxPool gives, and MaxRoiPool, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.runtime.native.library import native_library
from tests.unit.frontend.onnx.contrib.builders import generator
from tests.unit.frontend.onnx.contrib.case import Case, check

WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "1d": ((2, 3, 11), {"kernel_shape": [3], "strides": [2]}),
    "2d": ((2, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "2d_dilated": ((1, 2, 9, 8), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "2d_ceil": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1}),
    "2d_same": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    "2d_whole": ((2, 2, 5, 7), {"kernel_shape": [5, 7]}),
    "3d": ((1, 2, 5, 4, 6), {"kernel_shape": [2, 3, 2], "pads": [0, 1, 1, 1, 1, 0], "strides": [1, 2, 2]}),
}


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in WINDOWS), ("2d", "uint8"), ("2d", "int8"), ("3d", "float64")],
)
def test_places(name: str, dtype: str, order: int) -> None:
    """Small whole numbers, so that there are several maxima, of which the first is meant."""
    shape, attrs = WINDOWS[name]
    x = generator(*shape).integers(0 if dtype == "uint8" else -4, 5, shape).astype(dtype)
    check(Case("MaxPool", {"x": x}, {**attrs, "storage_order": order}, ("y", "places"), domain=""))


def test_free_sizes() -> None:
    shape, attrs = WINDOWS["2d"]
    cases = [
        Case(
            "MaxPool",
            {"x": generator(*size).standard_normal(size).astype("f4")},
            attrs,
            ("y", "p"),
            domain="",
            free={"x": ("n", 3, "h", "w")},
        )
        for size in (shape, (1, 3, 3, 2), (3, 3, 23, 17))
    ]
    check(cases[0], others=cases[1:])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_of_free_sizes(mode: str, order: int) -> None:
    attrs = {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": mode, "storage_order": order}
    cases = [
        Case(
            "MaxPool",
            {"x": generator(*size).integers(0, 9, size).astype("float32")},
            attrs,
            ("y", "p"),
            domain="",
            free={"x": ("n", 3, "h", "w")},
        )
        for size in ((1, 3, 7, 40), (2, 3, 8, 41), (1, 3, 1, 1), (1, 3, 2, 200))
    ]
    check(cases[0], others=cases[1:])


def test_any_number_of_threads() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = generator(5).integers(-3, 4, (2, 8, 61, 77)).astype("float32")
    values = [helper.make_tensor_value_info("x", 1, ["n", 8, "h", "w"])]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "p")]
    graph = helper.make_graph([node], "g", values, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    machine = relax.VirtualMachine(heddle.compile(from_onnx(made)), heddle.cpu())
    found, before = [], native_library().num_threads
    for threads in (1, 2):
        heddle.runtime.set_num_threads(threads)
        found.append([tensor.numpy() for tensor in machine["main"](x)])
    heddle.runtime.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def regions(seed: int, count: int, batch: int) -> np.ndarray:
    """Also such that are outside of the image, upside down, and with corners between two pixels."""
    rng = generator(seed)
    corners = rng.integers(-6, 30, (count, 4)) / 2
    return np.concatenate([rng.integers(0, batch, (count, 1)), corners], axis=1).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("pooled", [(1, 1), (7, 5)])
def test_max_roi_pool(pooled: tuple[int, int], scale: float) -> None:
    x = generator(*pooled).standard_normal((2, 3, 11, 9)).astype(np.float32)
    attrs = {"pooled_shape": pooled, "spatial_scale": scale}
    case = Case("MaxRoiPool", {"x": x, "r": regions(1, 13, 2)}, attrs, domain="")
    others = [replace(case, feed={"x": x[:, :, :5], "r": regions(2, 1, 2)})]
    check(case)
    free = {"x": ("n", 3, "h", 9), "r": ("k", 5)}
    check(replace(case, free=free), others=[replace(other, free=free) for other in others])
