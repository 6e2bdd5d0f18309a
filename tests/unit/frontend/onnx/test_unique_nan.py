"""Unique takes NaN for one value, the greatest, and zeros of both signs for one, along an axis or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

VALUES = (0.0, -0.0, 1.0, np.nan, -np.inf, np.inf, 2.0)


def expected(x: Any, axis: int | None, is_sorted: bool) -> list[Any]:
    """numpy's answer; of slices by the ranks of their elements, since numpy's slices with NaN differ."""
    given = x.reshape(-1) if axis is None or x.ndim == 1 else x
    keys = np.unique(x, return_inverse=True)[1].reshape(given.shape)
    first, inverse, counts = np.unique(keys, True, True, True, axis=0)[1:]
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [given[first], *(part.astype(np.int64) for part in (first, inverse, counts))]


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(("rank", "axis"), [(1, None), (1, 0), (2, None), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_zeros(rank: int, axis: int | None, is_sorted: bool, dtype: str) -> None:
    attrs = {"sorted": int(is_sorted)} | ({} if axis is None else {"axis": axis})
    shape = ["n", 3][:rank]
    compared = Compared(
        model([node("Unique", ["x"], list("yivc"), **attrs)], {"x": (shape, dtype)}, list("yivc"))
    )
    rng = np.random.default_rng()
    for count in (1, 2, 7, 40):
        x = rng.choice(VALUES, (count, 3)[:rank]).astype(dtype)
        assert compared.check({"x": x}, expected(x, axis, is_sorted)) == "equal"
    x = np.full((5, 3)[:rank], np.nan, dtype)
    assert compared.check({"x": x}, expected(x, axis, is_sorted)) == "equal"
