"""Negative amounts of Pad: results are windows of a padded line, which may lie outside the data."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError, ImportModelError
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

SIZES = (0, 1, 3, 7)
AMOUNTS = (-8, -3, -1, 0, 2, 4)


def window(x: Any, low: int, high: int, value: float = 0) -> Any:
    """The elements from number -low up to n + high of a line that goes on as `value`; None for fewer than
    none."""
    count = len(x) + low + high
    if count < 0:
        return None
    numbers = np.arange(count) - low
    inside = (numbers >= 0) & (numbers < len(x))
    made = np.full((count, *x.shape[1:]), value, x.dtype)
    made[inside] = x[numbers[inside]]
    return made


def data(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).integers(1, 99, shape).astype(dtype)


def pad_model(mode: str, *shape: Any, dtype: str = "float32", **stored: Any) -> Any:
    """Amounts and value are inputs where they are not `stored`."""
    inputs = {"x": (shape, dtype), "pads": ((2 * len(shape),), "int64"), "value": ((), dtype)}
    given = {name: spec for name, spec in inputs.items() if name not in stored}
    made = node("Pad", ["x", "pads", "value"], ["y"], mode=mode)
    return model([made], given, ["y"], stored, opset=19)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_amounts_of_the_running_model(dtype: str) -> None:
    compared = Compared(pad_model("constant", "n", dtype=dtype))
    for n, low, high in itertools.product(SIZES, AMOUNTS, AMOUNTS):
        x, value = data(n, dtype=dtype), np.array(5, dtype)
        wanted = window(x, low, high, 5)
        feed = {"x": x, "pads": np.array([low, high]), "value": value}
        if wanted is None:
            assert compared.check(feed) == "V0401"
        else:
            np.testing.assert_array_equal(compared.expected(feed)[0], wanted)  # type: ignore[index]
            assert compared.check(feed, [wanted]) == "equal"


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (4, -4), (-3, 1), (-1, -2)])
def test_constant_amounts_of_free_sizes(low: int, high: int) -> None:
    stored = {"pads": np.array([low, 0, high, 1]), "value": np.array(5, np.float32)}
    compared = Compared(pad_model("constant", "n", "m", **stored))
    for n in SIZES:
        x = data(n, 3)
        wanted = window(x, low, high, 5)
        if wanted is None:
            assert compared.check({"x": x}) == "V0401"
        else:
            wanted = np.pad(wanted, ((0, 0), (0, 1)), constant_values=5)
            assert compared.check({"x": x}, [wanted]) == "equal"


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (4, -4), (-3, 1), (5, -4), (-8, 8), (-1, -2)])
@pytest.mark.parametrize("n", [0, 3])
def test_constant_amounts_of_known_sizes(n: int, low: int, high: int) -> None:
    stored = {"pads": np.array([low, high]), "value": np.array(5, np.float32)}
    made, x = pad_model("constant", n, **stored), data(n)
    wanted = window(x, low, high, 5)
    if wanted is not None:
        assert Compared(made).check({"x": x}, [wanted]) == "equal"
        return
    with pytest.raises(
        ImportModelError, match=f"cut {-low} and {max(0, -high)} elements of axis 0"
    ) as caught:
        from_onnx(made)
    assert caught.value.code == "N0106"


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_what_is_left_is_repeated(mode: str) -> None:
    """Of nothing there is nothing to repeat."""
    amounts = [(-2, 1), (1, -4), (-3, -2), (-5, 2)]
    compared = Compared(pad_model(mode, "n"))
    for low, high in amounts:
        x, feed = data(7), {"pads": np.array([low, high]), "value": np.array(5, np.float32)}
        cut = x[max(0, -low) : 7 - max(0, -high)]
        grow = (max(0, low), max(0, high))
        if mode == "reflect" and max(grow) >= len(cut):
            continue
        assert compared.check({"x": x, **feed}, [np.pad(cut, grow, mode)]) == "equal"  # type: ignore[call-overload]
        assert Compared(pad_model(mode, 7, **feed)).check({"x": x}, [np.pad(cut, grow, mode)]) == "equal"  # type: ignore[call-overload]
    feed["pads"] = np.array([-7, 1])
    assert compared.check({"x": data(7), **feed}, refuses=True) == "V0401"
    with pytest.raises(HeddleError, match=r"none|does not fit"):
        Compared(pad_model(mode, 7, **feed))
