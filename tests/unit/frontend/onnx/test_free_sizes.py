"""Operators that count along an axis: its size may be free, and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import MODES, Compared

DIMS: dict[str, Any] = {"static": (2, 3, 5), "free": ("a", "b", "c")}
SHAPES = {"static": ((2, 3, 5),), "free": ((2, 3, 5), (1, 1, 1), (4, 7, 1))}


def compare(op: str, kind: str, dtype: str, inputs: dict[str, Any] | None = None, **attrs: Any) -> None:
    stored = inputs or {}
    made = model([node(op, ["x", *stored], ["y"], **attrs)], {"x": (DIMS[kind], dtype)}, ["y"], stored, 18)
    both = Compared(made)
    for shape in SHAPES[kind]:
        data = np.random.default_rng(1).integers(-3, 4, shape).astype(dtype)
        assert both.check({"x": data}) == "equal"


@pytest.mark.parametrize("kind", DIMS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_hardmax(kind: str, axis: int) -> None:
    compare("Hardmax", kind, "float32", axis=axis)


@pytest.mark.parametrize("dims", [("n", 3), ("n", "m"), (0, 3), (2, 0)])
@pytest.mark.parametrize("opset", [9, 18])
def test_hardmax_of_rows_without_elements(dims: tuple[str | int, ...], opset: int) -> None:
    """Nothing is greatest there, and nothing is marked."""
    for axis in (0, 1):
        nodes = [node("Hardmax", ["x"], ["y"], axis=axis)]
        both = Compared(model(nodes, {"x": (dims, "float32")}, ["y"], opset=opset))
        for shape in ((0, 3), (2, 0), (2, 3), (1, 3)):
            fits = all(isinstance(dim, str) or dim == size for dim, size in zip(dims, shape, strict=True))
            data = np.full(shape, -np.inf, np.float32)
            data[:, 1:] = np.arange(data[:, 1:].size).reshape(data[:, 1:].shape)
            assert not fits or both.check({"x": data}) == "equal"


@pytest.mark.parametrize(("opset", "dtype"), [(7, "float32"), (9, "float64"), (10, "bool"), (12, "bool")])
def test_masks_of_dropout_have_the_type_of_their_operator_set(opset: int, dtype: str) -> None:
    given = "float64" if dtype == "float64" else "float32"
    nodes = [node("Dropout", ["x"], ["y", "mask"])]
    made = model(nodes, {"x": (("n",), given)}, ["y", "mask"], opset=opset)
    machine = relax.VirtualMachine(heddle.compile(from_onnx(made), target="llvm"), heddle.cpu())
    mask = machine["main"](np.arange(3, dtype=given))[1].numpy()
    assert mask.dtype == dtype
    assert mask.all()


@pytest.mark.parametrize("kind", DIMS)
@pytest.mark.parametrize(("op", "keepdims"), [("ArgMax", 0), ("ArgMin", 1)])
def test_the_last_of_equal_extremes(kind: str, op: str, keepdims: int) -> None:
    for axis in (0, -1):
        compare(op, kind, "int32", axis=axis, keepdims=keepdims, select_last_index=1)


@pytest.mark.parametrize("kind", DIMS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_means_of_integers_drop_the_fraction(kind: str, dtype: str) -> None:
    for axes in ([1], [0, -1], [0, 1, 2]):
        compare("ReduceMean", kind, dtype, {"axes": np.asarray(axes)}, keepdims=0)
    compare("ReduceMean", kind, dtype)


@pytest.mark.parametrize("mode", MODES)
def test_checked_kernels_take_bounds_and_targets_that_are_negative(mode: str) -> None:
    """-1 of a target, and the end of a slice counted from the end, are inputs of the running model."""
    nodes = [node("Reshape", ["x", "s"], ["r"]), node("Slice", ["x", "k", "e"], ["p"])]
    given = {"x": (("n", 4), "float32"), "s": ((2,), "int64"), "k": ((1,), "int64"), "e": ((1,), "int64")}
    mod = from_onnx(model(nodes, given, ["r", "p"], {}, 18))
    vm = relax.VirtualMachine(heddle.compile(mod, exec_mode=mode, sanitize=True), heddle.cpu())
    x = np.arange(12, dtype="float32").reshape(3, 4)
    for first, end in ((-3, -1), (0, 2), (-(2**63), 2**63 - 1), (2, -(2**63))):
        reshaped, part = vm["main"](x, np.asarray([-1, 6]), np.asarray([first]), np.asarray([end]))
        np.testing.assert_array_equal(reshaped.numpy(), x.reshape(-1, 6))
        np.testing.assert_array_equal(part.numpy(), x[first:end])


def test_constants_without_elements_are_folded() -> None:
    nodes = [
        node("Softmax", ["w"], ["s"], axis=1),
        node("LogSoftmax", ["w"], ["t"], axis=1),
        node("CumSum", ["w", "axis"], ["c"], exclusive=1),
        node("CumSum", ["w", "axis"], ["d"], exclusive=1, reverse=1),
    ]
    stored = {"w": np.zeros((3, 0), "float32"), "axis": np.asarray(1)}
    both = Compared(model(nodes, {}, ["s", "t", "c", "d"], stored, 18))
    assert both.check({}) == "equal"
