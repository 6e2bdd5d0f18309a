"""Indices in tensors, in and out of range, against ONNX Runtime: an error of one code, never other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

MIN, MAX = -(2**63), 2**63 - 1
REDUCTIONS = ("none", "add", "mul", "max", "min")


def drawn(rng: np.random.Generator, shape: Any, size: int, bad: int, dtype: str = "int64") -> Any:
    """Valid indices, negative ones among them, `bad` of them replaced by ones out of range."""
    made = np.asarray(rng.integers(-size, max(size, 1 - size), shape)).astype(dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for _ in range(bad if made.size else 0):
        made.reshape(-1)[rng.integers(made.size)] = rng.choice([-size - 1, size, size + 7, least, most])
    return made


def case(op: str, dtype: str = "int64", **attrs: Any) -> Compared:
    """`x` of two named dimensions, `i` of one or two, and `u`, as the operator takes them."""
    inputs: dict[str, Any] = {"x": (("n", "m"), "float32")}
    index: Any = {"Gather": ("k",), "GatherND": ("k", 1), "ScatterND": ("k", 1)}.get(op, ("k", "m"))
    inputs["i"] = (index, dtype)
    names = ["x", "i"]
    if op.startswith("Scatter"):
        inputs["u"] = (("k", "m"), "float32")
        names.append("u")
    return Compared(model([node(op, names, ["y"], **attrs)], inputs, ["y"]))


def feed_of(op: str, rng: np.random.Generator, sizes: Any, bad: int, dtype: str = "int64") -> dict[str, Any]:
    n, m, k = sizes
    shape = {"Gather": (k,), "GatherND": (k, 1), "ScatterND": (k, 1)}.get(op, (k, m))
    feed = {
        "x": rng.standard_normal((n, m)).astype("float32"),
        "i": drawn(rng, shape, n, bad, dtype),
    }
    if op.startswith("Scatter"):
        feed["u"] = rng.standard_normal((k, m)).astype("float32")
    return feed


def points(rng: np.random.Generator) -> Any:
    fixed = [(4, 3, 1), (1, 1, 1), (7, 5, 7), (13, 37, 11), (3, 0, 2), (0, 3, 0), (5, 64, 2), (3, 2, 0)]
    return [*fixed, *(tuple(rng.integers(1, 40, 3)) for _ in range(8))]


def check(compared: Compared, op: str, sizes: Any, bad: int, rng: Any, dtype: str = "int64") -> None:
    if op.endswith("Elements"):
        sizes = (max(sizes[0], sizes[2]), sizes[1], sizes[2])
    feed = feed_of(op, rng, sizes, 0 if 0 in sizes else bad, dtype)  # no element: no index is used
    n = sizes[0]
    valid = bool(((feed["i"] >= -n) & (feed["i"] < n)).all())
    said = compared.check(feed, rtol=1e-4)
    if said != "equal":
        assert not valid
        assert said == "U1001"
    else:
        assert valid


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_gathers(op: str, dtype: str) -> None:
    rng, compared = np.random.default_rng(1), case(op, dtype)
    for sizes in points(rng):
        for bad in (0, 1, 3):
            check(compared, op, sizes, bad, rng, dtype)


def test_gather_nd() -> None:
    rng, compared = np.random.default_rng(2), case("GatherND")
    for sizes in points(rng):
        for bad in (0, 1, 3):
            check(compared, "GatherND", sizes, bad, rng)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_scatters(op: str, reduction: str) -> None:
    rng, compared = np.random.default_rng(3), case(op, reduction=reduction)
    for sizes in points(rng)[:12]:
        for bad in (0, 1):
            check(compared, op, sizes, bad, rng)


def test_rows_of_the_last_axis_within_a_fused_group() -> None:
    """The gather is computed inside its reader's loops, in vectors and tails, behind a condition."""
    nodes = [
        node("Gather", ["x", "i"], ["t"], axis=1),
        node("Add", ["t", "t"], ["s"]),
        node("Concat", ["s", "x"], ["c"], axis=1),
        node("Exp", ["c"], ["y"]),
    ]
    inputs = {"x": (("n", "m"), "float32"), "i": (("k",), "int64")}
    compared, rng = Compared(model(nodes, inputs, ["y"])), np.random.default_rng(4)
    for n, m, k in points(rng):
        for bad in (0, 1):
            x = rng.standard_normal((n, m)).astype("float32")
            index = drawn(rng, (k,), m, bad if n else 0)
            said = compared.check({"x": x, "i": index}, rtol=1e-4)
            assert said in ("equal", "U1001")
            assert (said == "equal") == bool(((index >= -m) & (index < m)).all())


def test_the_message_names_the_index_and_the_axis() -> None:
    compared = case("Gather")
    for index, text in ((4, "index 4 "), (-5, "index -5 "), (MIN, f"index {MIN} "), (MAX, f"index {MAX} ")):
        for machine in compared.machines:
            with pytest.raises(IndexError, match=f"{text}is out of range for an axis of 4 elements"):
                machine["main"](np.zeros((4, 3), "float32"), np.array([0, index, 1]))


def test_one_hot_ignores_indices_out_of_range() -> None:
    stored = {"depth": np.array(4, np.int64), "values": np.array([-1, 3], np.float32)}
    made = model([node("OneHot", ["i", "depth", "values"], ["y"])], {"i": (("k",), "int64")}, ["y"], stored)
    indices = np.array([0, 3, 4, -1, -4, -5, MIN, MAX, 2**32])
    assert Compared(made).check({"i": indices}) == "equal"
