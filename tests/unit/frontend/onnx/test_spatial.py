"""Operators on images, boxes, signals and grams with free sizes, against ONNX Runtime or numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

IMAGE = ["n", "c", "h", "w"]


def _normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(padding: str) -> None:
    nodes = [
        node("GridSample", ["x", "g"], [f"y{k}"], mode=mode, padding_mode=padding, align_corners=align)
        for k, (mode, align) in enumerate(itertools.product(("nearest", "linear"), (0, 1)))
    ]
    inputs = {"x": IMAGE, "g": (["n", "a", "b", 2], "float32")}
    compared = Compared(model(nodes, inputs, [f"y{k}" for k in range(4)], opset=20))
    for shape, out in (((2, 3, 5, 7), (4, 3)), ((1, 1, 2, 3), (1, 6)), ((2, 2, 4, 4), (0, 3))):
        grid = np.random.default_rng(1).uniform(-1.9, 1.9, (shape[0], *out, 2)).astype("float32")
        wanted = None if out[0] else [np.zeros((*shape[:2], *out), "float32")] * 4
        assert compared.check({"x": _normal(*shape), "g": grid}, wanted, rtol=2e-3) == "equal"


def test_non_max_suppression() -> None:
    names = ["boxes", "scores", "most", "overlap", "least"]
    inputs = {
        "boxes": (["n", "k", 4], "float32"),
        "scores": (["n", "c", "k"], "float32"),
        "most": ((1,), "int64"),
        "overlap": ((1,), "float32"),
        "least": ((1,), "float32"),
    }
    for centred in (0, 1):
        made = node("NonMaxSuppression", names, ["chosen"], center_point_box=centred)
        compared = Compared(model([made], inputs, ["chosen"], opset=11))
        for seed, (n, c, k), most, overlap, least in (
            (0, (2, 3, 40), 5, 0.3, 0.2),
            (1, (1, 1, 7), 0, 0.5, 0.0),
            (2, (1, 2, 60), 60, 0.0, 0.5),
            (3, (1, 1, 1), 3, 1.0, 0.99),
            (4, (1, 2, 0), 3, 0.5, 0.0),
            (5, (1, 1, 307), 300, 0.9, 0.0),
            (6, (2, 5, 131), 70, 0.4, -1.0),
        ):
            rng = np.random.default_rng(seed)
            feed = {
                "boxes": rng.uniform(0, 10, (n, k, 4)).astype("float32"),
                "scores": (rng.integers(0, 50, (n, c, k)) / 50).astype("float32"),  # some are equal
                "most": np.array([most]),
                "overlap": np.array([overlap], "float32"),
                "least": np.array([least], "float32"),
            }
            assert compared.check(feed) == "equal"


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str) -> None:
    nodes = [
        node(
            "RoiAlign",
            ["x", "rois", "at"],
            [f"y{k}"],
            mode=mode,
            output_height=3,
            output_width=2,
            sampling_ratio=ratio,
            spatial_scale=0.5,
            coordinate_transformation_mode=place,
        )
        for k, (ratio, place) in enumerate(itertools.product((0, 2), ("half_pixel", "output_half_pixel")))
    ]
    inputs = {"x": IMAGE, "rois": (["r", 4], "float32"), "at": (["r"], "int64")}
    compared = Compared(model(nodes, inputs, [f"y{k}" for k in range(4)], opset=16))
    for count in (5, 1):
        corners = np.random.default_rng(count).uniform(0, 8, (count, 2))
        rois = np.concatenate([corners, corners + np.random.default_rng(7).uniform(1, 9, (count, 2))], 1)
        feed = {"x": _normal(2, 3, 8, 9), "rois": rois.astype("float32"), "at": np.arange(count) % 2}
        assert compared.check(feed, rtol=1e-3) == "equal"
    assert compared.check({**feed, "at": np.array([2])}, refuses=True) != "equal"


def test_columns_to_images() -> None:
    made = node("Col2Im", ["x", "size", "block"], ["y"], strides=[2, 1], pads=[1, 0, 1, 2], dilations=[1, 2])
    inputs = {"x": (["n", "e", "l"], "float32"), "size": ((2,), "int64"), "block": ((2,), "int64")}
    compared = Compared(model([made], inputs, ["y"]))
    for size, block, channels in (((6, 7), (2, 3), 2), ((5, 5), (1, 1), 1), ((4, 9), (3, 2), 3)):
        rows = (size[0] + 2 - (block[0] - 1) - 1) // 2 + 1
        columns = size[1] + 2 - 2 * (block[1] - 1) - 1 + 1
        x = _normal(2, channels * block[0] * block[1], rows * columns)
        feed = {"x": x, "size": np.array(size), "block": np.array(block)}
        assert compared.check(feed, rtol=1e-4) == "equal"


@pytest.mark.parametrize("parts", [1, 2])
def test_fourier_transforms(parts: int) -> None:
    """Lengths and axes as inputs, lengths that cut and that fill up, and back again."""
    nodes = [
        node("DFT", ["x", "length", "axis"], ["y"]),
        node("DFT", ["y", "", "axis"], ["back"], inverse=1),
        node("DFT", ["x", "length", "axis"], ["half"], onesided=1),
    ]
    inputs = {"x": (["n", "m", parts], "float32"), "length": ((), "int64"), "axis": ((), "int64")}
    wanted = ["y", "back"] + (["half"] if parts == 1 else [])
    compared = Compared(model(nodes[: len(wanted)], inputs, wanted, opset=20))
    for shape, axis, length in (((3, 8), 1, 8), ((7, 2), 0, 7), ((2, 5), -2, 9), ((1, 6), 1, 4)):
        x = _normal(*shape, parts)
        signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        place = axis + 1 if axis == -2 else axis  # of the tensor without its last dimension
        place = 1 if axis == -2 else place
        full = np.fft.fft(signal, length, place)
        back = np.fft.ifft(full, axis=place)
        results = [full, back]
        if parts == 1:
            results.append(np.fft.rfft(x[..., 0], length, place))
        expected = [np.stack([r.real, r.imag], -1).astype("float32") for r in results]
        feed = {"x": x, "length": np.array(length), "axis": np.array(axis)}
        got = _outputs(compared, feed)
        for mine in got:
            for a, b in zip(mine, expected, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4)


def _outputs(compared: Compared, feed: dict[str, Any]) -> list[list[Any]]:
    runs = [machine["main"](*(feed[name] for name in compared.names)) for machine in compared.machines]
    return [[part.numpy() for part in run] for run in runs]


@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique_slices(is_sorted: int) -> None:
    nodes = [
        node("Unique", ["x"], ["a", "b", "c", "d"], axis=1, sorted=is_sorted),
        node("Unique", ["x"], ["e", "f", "g", "h"], sorted=is_sorted),
    ]
    compared = Compared(model(nodes, {"x": (["n", "m"], "float32")}, list("abcdefgh")))
    for shape in ((2, 9), (1, 1), (3, 6)):
        x = np.random.default_rng(sum(shape)).integers(0, 2, size=shape).astype("float32")
        assert compared.check({"x": x}) == "equal"


def test_convolution_deformed_at_random() -> None:
    """Offsets also lead out of the image."""
    attrs = {"strides": [1, 2], "pads": [1, 1, 0, 1], "dilations": [2, 1], "group": 2, "offset_group": 2}
    made = node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], **attrs)
    inputs = {"x": (["n", 4, "h", "w"], "float32"), "o": (["n", 24, "a", "e"], "float32")}
    inputs["m"] = (["n", 12, "a", "e"], "float32")
    stored = {"w": _normal(6, 2, 3, 2), "b": _normal(6)}
    compared = Compared(model([made], inputs, ["y"], stored, opset=19))
    for n, h, w in ((2, 7, 6), (1, 5, 31), (3, 13, 3)):
        out = (h + 1 - 4, (w + 2 - 2) // 2 + 1)
        feed = {"x": _normal(n, 4, h, w), "o": 3 * _normal(n, 24, *out, seed=h), "m": _normal(n, 12, *out)}
        assert compared.check(feed, rtol=1e-3, atol=1e-4) == "equal"


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 1, 2, 37), (3, 2, 4, 2, 6)])
def test_affine_grid(sizes: tuple[int, ...], align: int) -> None:
    ndim = len(sizes) - 2
    made = node("AffineGrid", ["m", "size"], ["y"], align_corners=align)
    inputs = {"m": (["n", ndim, ndim + 1], "float32")}
    stored = {"size": np.array(sizes, "int64")}
    compared = Compared(model([made], inputs, ["y"], stored, opset=20))
    feed = {"m": _normal(sizes[0], ndim, ndim + 1)}
    assert compared.check(feed, rtol=1e-4, atol=1e-5) == "equal"


def test_deformed_convolution() -> None:
    """Offsets of 0 make it a convolution."""
    attrs = {"strides": [2, 1], "pads": [1, 0, 1, 2], "dilations": [1, 2], "group": 2}
    nodes = [
        node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], offset_group=2, **attrs),
        node("Conv", ["x", "w", "b"], ["z"], **attrs),
    ]
    inputs = {"x": (["n", 4, "h", "w"], "float32"), "o": (["n", 24, "a", "e"], "float32")}
    inputs["m"] = (["n", 12, "a", "e"], "float32")
    stored = {"w": _normal(6, 2, 3, 2), "b": _normal(6)}
    machines = Compared(model(nodes, inputs, ["y", "z"], stored, opset=19)).machines
    for h, w in ((7, 6), (5, 3)):
        out = ((h + 2 - 3) // 2 + 1, w + 2 - 2)
        feed = (_normal(2, 4, h, w), np.zeros((2, 24, *out), "float32"), np.ones((2, 12, *out), "float32"))
        for machine in machines:
            y, z = (part.numpy() for part in machine["main"](*feed))
            np.testing.assert_allclose(y, z, rtol=1e-3, atol=1e-4)
