"""Sizes that a model states as 0: what runs with a free size that is 0 runs with a stated one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from heddle.driver.compile import compile
from heddle.frontend.onnx import from_onnx
from heddle.runtime import cpu
from heddle.support.diagnostics import ImportModelError, Trap
from heddle.vm.relax import VirtualMachine
from tests.unit.frontend.onnx.models import model, node


def _run(made: onnx.ModelProto, *given: Any) -> list[np.ndarray[Any, Any]]:
    program = compile(from_onnx(made), target="llvm -opt-level=0")
    results = VirtualMachine(program, cpu())["main"](*given)
    return [np.asarray(item.numpy()) for item in (results if len(made.graph.output) > 1 else [results])]


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (2, 0, 3)])
def test_sums_along_an_axis_that_is_an_input(op: str, shape: tuple[int, ...]) -> None:
    made = model([node(op, ["x", "axis"], ["y"])], {"x": list(shape), "axis": ([], "int64")}, ["y"], opset=26)
    for axis in range(-len(shape), len(shape)):
        (got,) = _run(made, np.zeros(shape, "float32"), np.array(axis))
        assert got.shape == shape
        assert got.dtype == np.float32


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize(("steps", "batch"), [(0, 3), (2, 0), (0, 0)])
def test_recurrent_layers(kind: str, gates: int, steps: int, batch: int) -> None:
    states = ["h"] if kind != "LSTM" else ["h", "c"]
    first = [np.full((1, batch, 5), 0.5 + k, "float32") for k in range(len(states))]
    made = model(
        [node(kind, ["x", "w", "r", "", "", *(f"{s}0" for s in states)], ["y", *states], hidden_size=5)],
        {"x": [steps, batch, 2], **{f"{s}0": [1, batch, 5] for s in states}},
        ["y", *states],
        {"w": np.ones((1, gates * 5, 2), "float32"), "r": np.ones((1, gates * 5, 5), "float32")},
    )
    outputs, *last = _run(made, np.zeros((steps, batch, 2), "float32"), *first)
    assert outputs.shape == (steps, 1, batch, 5)
    if not steps:
        for got, wanted in zip(last, first, strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert all(got.shape == (1, batch, 5) for got in last)


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)])
def test_resized_images_without_elements(shape: tuple[int, ...], is_free: bool) -> None:
    for mode in ("nearest", "linear", "cubic"):
        made = model(
            [node("Resize", ["x", "", "scales"], ["y"], mode=mode)],
            {"x": ["n", "c", "h", 5] if is_free else list(shape)},
            ["y"],
            {"scales": np.array([1, 1, 2, 2], "float32")},
        )
        (got,) = _run(made, np.zeros(shape, "float32"))
        assert got.shape == (*shape[:2], 2 * shape[2], 10)


def test_what_has_no_pixels_has_no_resized_ones() -> None:
    made = model(
        [node("Resize", ["x", "", "", "sizes"], ["y"])],
        {"x": [1, 1, 0, 5]},
        ["y"],
        {"sizes": np.array([1, 1, 4, 5])},
    )
    with pytest.raises(ImportModelError, match=r"R0203.*an image without elements cannot be resized"):
        _run(made, np.zeros((1, 1, 0, 5), "float32"))


@pytest.mark.parametrize(("shape", "grid"), [((0, 2, 4, 4), (0, 3, 3, 2)), ((1, 2, 0, 4), (1, 0, 3, 2))])
def test_images_that_are_sampled_nowhere(shape: tuple[int, ...], grid: tuple[int, ...]) -> None:
    made = model(
        [node("GridSample", ["x", "g"], ["y"])], {"x": list(shape), "g": list(grid)}, ["y"], opset=20
    )
    (got,) = _run(made, np.zeros(shape, "float32"), np.zeros(grid, "float32"))
    assert got.shape == (*shape[:2], *grid[1:3])


def test_no_channels() -> None:
    norm = node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)
    made = model([norm], {"x": [3, 0, 2, 2], "s": [0]}, ["y"], opset=21)
    assert _run(made, np.zeros((3, 0, 2, 2), "float32"), np.zeros(0, "float32"))[0].shape == (3, 0, 2, 2)
    made = model([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": [2, 0, 6, 6]}, ["y"])
    assert _run(made, np.zeros((2, 0, 6, 6), "float32"))[0].shape == (2, 0, 3, 3)


@pytest.mark.parametrize(
    ("shape", "target", "wanted"),
    [
        ((2, 3, 1, 0, 8), (2, 3, 0, 8), (2, 3, 0, 8)),  # what copies the 1 does not fit
        ((0, 3, 32), (0, 3, 4, -1), (0, 3, 4, 8)),  # equal factors are left out, 0 too
        ((2, 0, 32), (0, 0, 4, -1), (2, 0, 4, 8)),
        ((0, 3), (0, -1), (0, 3)),
        ((0, 3), (3, 0), (3, 0)),
        ((2, 3), (3, 0), (3, 3)),
    ],
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    made = model([node("Reshape", ["x", "t"], ["y"])], {"x": list(shape)}, ["y"], {"t": np.array(target)})
    x = np.zeros(shape, "float32")
    if 0 in wanted:
        assert _run(made, x)[0].shape == wanted
    else:
        with pytest.raises(ImportModelError, match="N0106"):
            _run(made, x)


def test_a_shape_without_elements_is_for_tensors_without_elements() -> None:
    reshape = node("Reshape", ["x", "t"], ["y"], allowzero=1)
    made = model([reshape], {"x": ["n", 3]}, ["y"], {"t": np.array([4, 0])})
    assert _run(made, np.zeros((0, 3), "float32"))[0].shape == (4, 0)
    with pytest.raises(Trap, match="V0401"):
        _run(made, np.zeros((2, 3), "float32"))


def test_rows_that_are_not_there_are_not_written() -> None:
    made = model(
        [node("TensorScatter", ["x", "u", "i"], ["y"])],
        {"x": [2, 1, 4, 5], "u": [2, 1, 0, 5]},
        ["y"],
        {"i": np.array([1, 2])},
        opset=24,
    )
    x = np.arange(40, dtype="float32").reshape(2, 1, 4, 5)
    np.testing.assert_array_equal(_run(made, x, np.zeros((2, 1, 0, 5), "float32"))[0], x)


def test_amounts_that_are_not_there_are_refused() -> None:
    for op, inputs in (("TopK", ["x", "n"]), ("Range", ["n", "n", "n"]), ("Trilu", ["x", "n"])):
        outputs = ["y", "i"] if op == "TopK" else ["y"]
        given = {"x": [3, 4]} if "x" in inputs else {}
        made = model([node(op, inputs, outputs)], given, ["y"], {"n": np.zeros(0, "int64")})
        with pytest.raises(ImportModelError, match=r"N0106"):
            from_onnx(made)
    grid = model(
        [node("AffineGrid", ["x", "s"], ["y"])],
        {"x": [1, 2, 3]},
        ["y"],
        {"s": np.zeros(0, "int64")},
        opset=20,
    )
    with pytest.raises(ImportModelError, match=r"N0106.*the size must have 4 or 5 numbers, got 0"):
        from_onnx(grid)
    none = {"i": np.zeros(0, "int64"), "b": np.zeros(0, "int64")}
    image = model([node("Col2Im", ["x", "i", "b"], ["y"])], {"x": [1, 5, 5]}, ["y"], none)
    with pytest.raises(ImportModelError, match=r"N0106.*an image of 0 and blocks of 0 dimensions"):
        from_onnx(image)
