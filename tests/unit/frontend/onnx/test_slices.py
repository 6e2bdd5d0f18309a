"""Slice against ONNX Runtime: constant bounds, bounds as inputs, and axes of constant and symbolic size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

MIN, MAX = -(2**63), 2**63 - 1
BOUNDS = (MIN, -(2**40), -(2**31), -(2**31) + 1, -100, -9, -5, -4, -1, 0, 1, 3, 4, 5, 2**31 - 1, 2**40, MAX)
STEPS = (MIN, -(2**40), -3, -2, -1, 1, 2, 3, 2**40, MAX)


def differs_from_the_text(end: int, step: int) -> bool:
    """ONNX Runtime takes the greatest end of a backward slice for "to the first element"; the standard's text
    and its reference move it to the last element, so that nothing is left."""
    return step < 0 and end in (2**31 - 1, MAX)


def slices(size: Any, given: list[tuple[int, int, int]]) -> Any:
    """One model of many slices with constant bounds of one input; the last axis is sliced too."""
    nodes, stored = [], {}
    for k, (start, end, step) in enumerate(given):
        for name, value in (("start", start), ("end", end), ("step", step), ("axis", 0)):
            stored[f"{name}{k}"] = np.array([value], np.int64)
        names = ["x", *(f"{name}{k}" for name in ("start", "end", "axis", "step"))]
        nodes.append(node("Slice", names, [f"y{k}"]))
    return model(nodes, {"x": ((size, 2), "int64")}, [f"y{k}" for k in range(len(given))], stored)


def points(seed: int, count: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    always = [
        (-1, MIN, -1),
        (-1, -(2**31), -1),
        (-1, -9, -1),
        (-1, -(2**40), -1),
        (1, 4, -2),
        (-100, MIN, -1),
    ]
    drawn = [[values[i] for i in rng.integers(0, len(values), count)] for values in (BOUNDS, BOUNDS, STEPS)]
    return [*always, *(p for p in zip(*drawn, strict=True) if not differs_from_the_text(p[1], p[2]))]


@pytest.mark.parametrize("size", [0, 1, 4, 7])
def test_constant_bounds_of_a_constant_axis(size: int) -> None:
    compared = Compared(slices(size, points(size, 30)))
    assert compared.check({"x": np.arange(size * 2).reshape(size, 2)}) == "equal"


def test_constant_bounds_of_a_symbolic_axis() -> None:
    compared = Compared(slices("n", points(10, 40)))
    for size in (0, 1, 2, 4, 7, 13):
        assert compared.check({"x": np.arange(size * 2).reshape(size, 2)}) == "equal"


@pytest.mark.parametrize("step", [-3, -1, 1, 2])
@pytest.mark.parametrize("size", [5, "n"])
def test_bounds_that_are_inputs(size: Any, step: int) -> None:
    stored = {"axes": np.array([0], np.int64), "steps": np.array([step], np.int64)}
    inputs = {"x": ((size, 2), "int64"), "start": ((1,), "int64"), "end": ((1,), "int64")}
    made = model([node("Slice", ["x", "start", "end", "axes", "steps"], ["y"])], inputs, ["y"], stored)
    compared = Compared(made)
    rng = np.random.default_rng(step + 9)
    for rows in (0, 1, 5, 7) if size == "n" else (5,):
        for start, end in rng.choice(BOUNDS, (40, 2)):
            if differs_from_the_text(end, step):
                continue
            feed = {"x": np.arange(rows * 2).reshape(rows, 2), "start": start[None], "end": end[None]}
            assert compared.check(feed) == "equal"


def test_several_axes_forward_and_backward() -> None:
    stored = {
        "start": np.array([-1, 1, -1], np.int64),
        "end": np.array([MIN, MAX, -9], np.int64),
        "axes": np.array([0, 1, 2], np.int64),
        "steps": np.array([-1, 2, -2], np.int64),
    }
    made = model(
        [node("Slice", ["x", "start", "end", "axes", "steps"], ["y"])],
        {"x": (("a", "b", "c"), "int64")},
        ["y"],
        stored,
    )
    compared = Compared(made)
    for shape in ((3, 4, 5), (1, 1, 1), (0, 3, 2), (2, 7, 11)):
        assert compared.check({"x": np.arange(np.prod(shape)).reshape(shape)}) == "equal"


def test_bounds_from_the_length_of_another_slice() -> None:
    """The length has several forms, by where the first slice ends; only one of them counts."""
    numbers = {"begin": [6], "axis": [0], "back": [-1], "first": [0], "two": [2]}
    nodes = [
        node("Slice", ["x", "begin", "end", "axis", "back"], ["y"]),
        node("Shape", ["y"], ["length"]),
        node("Gather", ["length", "first"], ["stop"]),
        node("Sub", ["stop", "two"], ["start"]),
        node("Slice", ["y", "start", "stop", "axis"], ["z"]),
    ]
    stored = {name: np.array(value, np.int64) for name, value in numbers.items()}
    compared = Compared(model(nodes, {"x": ((3,), "int64"), "end": ((1,), "int64")}, ["z"], stored))
    for end in BOUNDS:
        if not differs_from_the_text(end, -1):
            assert compared.check({"x": np.arange(3), "end": np.array([end])}) == "equal"
