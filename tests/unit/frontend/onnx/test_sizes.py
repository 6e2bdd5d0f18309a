"""Sizes that do not fit, overflow or are negative, as constants and as inputs: ONNX Runtime's result, or a
coded error where it gives an error. One table, a row a model; each model meets all its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.graph.types import TensorType
from heddle.support.diagnostics import HeddleError, InternalError
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

BIG, MAX, MIN = 2**62, 2**63 - 1, -(2**63)
X = np.arange(24, dtype="float32").reshape(2, 3, 4)
DIMS: dict[str, Any] = {"static": (2, 3, 4), "symbolic": ("a", "b", "c")}


@dataclass(frozen=True)
class Row:
    """One operator on `x` and an integer vector, which is a constant or an input."""

    op: str
    values: tuple[Any, ...]
    outputs: int = 1
    attrs: tuple[tuple[str, Any], ...] = ()
    as_input: bool = True
    dtype: str = "int64"

    def model(self, dims: Any, value: Any = None, opset: int = 18) -> Any:
        names = [f"y{k}" for k in range(self.outputs)]
        nodes = [node(self.op, ["x", "v"], names, **dict(self.attrs))]
        inputs: dict[str, Any] = {"x": (dims, "float32")}
        if value is not None:
            return model(nodes, inputs, names, {"v": np.array(value, self.dtype)}, opset)
        length = len(self.values[0]) if len({len(v) for v in self.values}) == 1 else "k"
        return model(nodes, {**inputs, "v": ((length,), self.dtype)}, names, None, opset)


ROWS = [
    Row("Compress", ((1, 0, 1), (1, 1, 1, 1, 1), (), (0, 0, 0), (1,)), dtype="bool"),
    Row("Compress", ((1, 0, 1), (1, 1, 1, 1, 1), (), (0, 0, 1)), 1, (("axis", 0),), dtype="bool"),
    Row("Compress", ((1, 0, 1), (1, 1, 1, 1, 1), (0, 0, 0, 1)), 1, (("axis", 1),), dtype="bool"),
    Row("Split", ((3, 1), (3, 3), (1, 1), (4, 0), (-1, 5), (BIG, BIG), (MAX, 6 - MAX)), 2, (("axis", 2),)),
    Row("Split", ((1, 1, 2), (MAX, MAX, 6), (BIG, BIG, 4), (0, 0, 4)), 3, (("axis", -1),)),
    Row("Tile", ((1, 2, 1), (0, 1, 1), (1, 1, BIG + 1), (BIG, 4, 1), (-1, 1, 1), (2**40, 2**40, 1))),
    Row("Reshape", ((4, 6), (-1, 2), (0, -1), (5, -1), (-2, -12), (25, 1), (BIG, 4), (MAX, 2))),
    Row("Expand", ((2, 3, 4), (1, 1, 1), (2, 3, 5), (-1, 3, 4), (MAX, 1, 1))),
    Row("Expand", ((5, 1, 1, 1), (0, 1, 1, 1), (2**40, 2**40, 1, 4), (MAX, 1, 1, 1))),
    Row("TopK", ((0,), (1,), (4,), (5,), (-1,), (MAX,)), 2, as_input=False),
    Row("TopK", ((2,), (3,)), 2, (("axis", 0),), as_input=False),
]


def outcome(made: Any, value: Any) -> str:
    """What a model with a constant gives, or the code of the error with which it is refused."""
    try:
        from_onnx(made)
    except InternalError:
        raise
    except HeddleError as error:
        try:
            wanted = Compared.session_of(made).run(None, {"x": X})
        except Exception:  # ONNX Runtime has no common class of its errors
            return error.code
        raise AssertionError(f"refused {value}: {error}; expected {wanted}") from error
    return Compared(made).check({"x": X})


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.op}{len(row.values)}")
def test_sizes_that_are_constants(row: Row, dims: str) -> None:
    said = {outcome(row.model(DIMS[dims], value), value) for value in row.values}
    assert "equal" in said
    assert len(said) > 1 or row.op == "Compress"


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.as_input], ids=lambda row: f"{row.op}{len(row.values)}"
)
def test_sizes_that_are_inputs(row: Row, dims: str) -> None:
    compared = Compared(row.model(DIMS[dims]))
    said = {compared.check({"x": X, "v": np.array(value, row.dtype)}) for value in row.values}
    assert "equal" in said
    assert len(said) > 1 or row.op == "Compress"


RANGES = (
    (0, 10, 3),
    (10, 0, -3),
    (0, 10, -1),
    (0, MAX, 1),
    (MIN, MAX, BIG),
    (0, 5, 0),
    (5, 5, 1),
    (MAX, MIN, -BIG),
    (0, MAX, BIG),
    (MIN, MAX, 1),
    (2**53, 2**53 + 3, 1),
)


def test_ranges_that_are_inputs() -> None:
    made = model([node("Range", list("abc"), ["y"])], dict.fromkeys("abc", ((), "int64")), ["y"])
    compared = Compared(made)
    for bounds in RANGES:
        feed = {k: np.array(v) for k, v in zip("abc", bounds, strict=True)}
        low, high, step = bounds
        count = max(0, -((low - high) // step)) if step else 0
        expected = None if count >= 2**40 or not step else [np.array(range(low, high, step), np.int64)]
        said = compared.check(feed, expected, refuses=expected is None)
        assert (said == "equal") == (expected is not None)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (BIG, 4), (MAX,), (2, 3), (0,), (-1,)])
def test_fills_of_a_constant_shape(shape: tuple[int, ...]) -> None:
    stored = {"s": np.array(shape, np.int64)}
    made = model(
        [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["c", "x"], ["y"])],
        {"x": ((1,), "float32")},
        ["y"],
        stored,
    )
    try:
        said = Compared(made).check({"x": np.ones(1, "float32")})
    except HeddleError as error:
        said = error.code
    assert said != "I0501"
    assert (said == "equal") == (shape in ((2, 3), (0,)))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dims", [(0, 3), ("a", "b")])
def test_the_greatest_of_nothing_is_an_error(op: str, dims: Any) -> None:
    for axis in (0, 1):
        made = model([node(op, ["x"], ["y"], axis=axis)], {"x": (dims, "float32")}, ["y"])
        try:
            said = Compared(made).check({"x": np.zeros((0, 3), "float32")})
        except HeddleError as error:
            said = error.code
        assert said == ("equal" if axis else "R0203" if dims == (0, 3) else "V0401")


def test_sequence_lengths_out_of_range() -> None:
    inputs = {"x": (("a", "b", "c"), "float32"), "n": (("a",), "int64")}
    made = model([node("ReverseSequence", ["x", "n"], ["y"], time_axis=1, batch_axis=0)], inputs, ["y"])
    compared = Compared(made)
    for lengths in ((1, 2), (3, 3), (5, 1), (-1, 1), (1, MAX), (0, 2), (MIN, 0)):
        valid = all(0 <= length <= 3 for length in lengths)
        assert compared.check({"x": X, "n": np.array(lengths)}) == ("equal" if valid else "U1001")


def test_reflecting_further_than_the_axis_reaches() -> None:
    stored = {"p": np.array([0, 0, 3, 0, 0, 3])}
    made = model(
        [node("Pad", ["x", "p"], ["y"], mode="reflect")], {"x": (("a", "b", "c"), "float32")}, ["y"], stored
    )
    compared = Compared(made)
    for size in (3, 4, 5, 7, 1):
        feed = {"x": np.arange(2.0 * size).astype("float32").reshape(2, 1, size)}
        assert compared.check(feed) == ("equal" if size > 3 else "V0401")


@pytest.mark.parametrize("dim", [2**63, 2**64, -(2**63) - 1])
def test_a_dimension_has_64_bits(dim: int) -> None:
    with pytest.raises(HeddleError, match="integer of 64 bits") as caught:
        TensorType((dim, 3), "float32")
    assert caught.value.code == "R0101"
