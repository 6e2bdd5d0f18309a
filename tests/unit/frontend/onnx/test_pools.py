"""Pools of every rank against ONNX Runtime: windows over the edge, gaps, padding, free and fixed sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

SIZES = {1: (9,), 2: (6, 9), 3: (5, 4, 7)}
KERNELS = {1: [3], 2: [2, 3], 3: [3, 1, 2]}
OPERATORS: dict[str, tuple[dict[str, Any], ...]] = {
    "MaxPool": ({},),
    "AveragePool": ({}, {"count_include_pad": 1}),
    "LpPool": ({"p": 1}, {"p": 2}, {"p": 3}),
}


PLACES: tuple[dict[str, Any], ...] = (
    {"stride": 2, "ceil_mode": 1},
    {"stride": 2, "dilation": 2, "ceil_mode": 1, "is_padded": True},
    {"stride": 3, "is_padded": True},
    {"auto_pad": "SAME_UPPER", "ceil_mode": 1},
    {"stride": 3, "ceil_mode": 1, "is_padded": True},
    {"auto_pad": "SAME_LOWER"},
)
"""Where the windows of a pool lie."""


def attributes(rank: int, place: dict[str, Any]) -> dict[str, Any]:
    made = {name: place[name] for name in ("auto_pad", "ceil_mode") if name in place}
    made |= {f"{name}s": [place[name]] * rank for name in ("stride", "dilation") if name in place}
    if place.get("is_padded"):
        made["pads"] = [size - 1 for size in KERNELS[rank]] + [size // 2 for size in KERNELS[rank]]
    return made


@pytest.mark.parametrize("kind", ["fixed", "free"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools(kind: str, rank: int) -> None:
    """Each operator at a part of the places, which differs by rank and kind."""
    nodes = []
    for number, (op, more) in enumerate((op, more) for op, kinds in OPERATORS.items() for more in kinds):
        first = (number + rank + (kind == "free")) % 3
        for place in PLACES[first::3]:
            name = f"y{len(nodes)}"
            attrs = {**attributes(rank, place), **more}
            nodes.append(node(op, ["x"], [name], kernel_shape=KERNELS[rank], **attrs))
    shape = (2, 3, *SIZES[rank])
    given = shape if kind == "fixed" else tuple(f"d{axis}" for axis in range(rank + 2))
    outputs = [name for made in nodes for name in made.output]
    both = Compared(model(nodes, {"x": (given, "float32")}, outputs, {}, 19))
    for sizes in (shape, tuple(size + 2 for size in shape)) if kind == "free" else (shape,):
        data = np.random.default_rng(rank).uniform(-2, 2, sizes).astype("float32")
        assert both.check({"x": data}, rtol=2e-5) == "equal"


def test_a_window_over_the_edge_holds_what_is_there() -> None:
    """By hand: the last window of [1 .. 5] by twos holds the 5 alone."""
    rows = [("LpPool", {"p": 1}, [3, 7, 5]), ("LpPool", {"p": 2}, [5**0.5, 5, 5])]
    rows += [("AveragePool", {}, [1.5, 3.5, 5]), ("MaxPool", {}, [2, 4, 5])]
    nodes = [
        node(op, ["x"], [f"y{k}"], kernel_shape=[2], strides=[2], ceil_mode=1, **attrs)
        for k, (op, attrs, _) in enumerate(rows)
    ]
    both = Compared(model(nodes, {"x": ((1, 1, 5), "float32")}, [f"y{k}" for k in range(len(rows))], {}, 19))
    wanted = [np.asarray([[row]], "float32") for _, _, row in rows]
    assert both.check({"x": np.arange(1, 6, dtype="float32").reshape(1, 1, 5)}, wanted) == "equal"
