"""Products of matrices without rows, columns or what is summed over; no schedule rule fails on one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared


def _data(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize(("k", "columns"), [(5, 0), (0, 33), (0, 0)])
def test_products_of_nothing(k: int, columns: int, is_stored: bool) -> None:
    for rows, is_free in itertools.product((0, 1, 33), (True, False)):
        a, b = _data(rows, k), _data(k, columns)
        inputs = {"a": (["n" if is_free else rows, k], "float32")}
        made = model(
            [node("MatMul", ["a", "b"], ["y"])],
            inputs if is_stored else {**inputs, "b": ([k, columns], "float32")},
            ["y"],
            {"b": b} if is_stored else None,
        )
        assert Compared(made).check({"a": a, "b": b}, [a @ b]) == "equal"
