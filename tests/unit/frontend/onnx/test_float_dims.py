"""Sizes that a model computes through floats are those of its float arithmetic, known or free, as in ONNX
Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

SCALES = (2.3, 0.7, 1 / 3, 1.5, 2.0, 0.625, 3.3, 1.0625, 0.9999, 7.1)
SIZES = (1, 2, 3, 7, 10, 97, 100, 1000, 1009, 4096)


def resize(size: int | str, scale: float, opset: int = 18) -> ModelProto:
    op, inputs = ("Resize", ["x", "", "s"]) if opset > 9 else ("Upsample", ["x", "s"])
    return model(
        [node(op, inputs, ["y"], mode="nearest")],
        {"x": [1, size]},
        ["y"],
        {"s": np.array([1, scale], np.float32)},
        opset,
    )


def grown(size: int, scale: float) -> int:
    return int(np.floor(np.float32(size) * np.float32(scale)))


def dims_of(mod: IRModule) -> tuple[Any, ...]:
    return tuple(mod["main"].ret_ty.dims)


@pytest.mark.parametrize("scale", SCALES)
def test_a_free_size_grows_as_a_known_one(scale: float) -> None:
    compared = Compared(resize("n", scale))
    for size in SIZES:
        if grown(size, scale) not in (0, size):  # ONNX Runtime copies an image whose size stays
            x = np.arange(size, dtype="float32").reshape(1, size)
            assert compared.check({"x": x}) == "equal"


@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale >= 1])
def test_upsample_grows_as_resize(scale: float) -> None:
    compared = Compared(resize("n", scale, 9))
    for size in SIZES:
        if grown(size, scale) != size:
            assert compared.check({"x": np.arange(size, dtype="float32").reshape(1, size)}) == "equal"


@pytest.mark.parametrize("scale", SCALES)
def test_known_sizes(scale: float) -> None:
    for size in SIZES:
        if grown(size, scale):
            assert [int(dim) for dim in dims_of(from_onnx(resize(size, scale)))] == [1, grown(size, scale)]


def test_exact_scales_stay_formulas() -> None:
    shown = [str(dims_of(from_onnx(resize("n", scale)))[1]) for scale in (2.0, 1.5, 0.5, 2.3)]
    assert shown == ["n * 2", "n + n // 2", "n // 2", "size"]


# ---- shapes that a graph computes


def computed(
    steps: Sequence[tuple[str, float]], rounding: str, dtype: int = TensorProto.FLOAT, size: Any = "n"
) -> ModelProto:
    """Zeros of as many elements as `rounding(n op number op number ...)`."""
    element = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
    nodes = [node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["f"], to=dtype)]
    stored, last = {}, "f"
    for number, (op, value) in enumerate(steps):
        stored[f"c{number}"] = np.array([value], element[dtype])
        nodes.append(node(op, [last, f"c{number}"], [f"f{number}"]))
        last = f"f{number}"
    if rounding != "Cast":
        nodes.append(node(rounding, [last], ["h"]))
        last = "h"
    nodes += [node("Cast", [last], ["t"], to=TensorProto.INT64), node("ConstantOfShape", ["t"], ["y"])]
    return model(nodes, {"x": [size]}, ["y"], stored)


CHAINS = [
    [("Mul", 2.3)],
    [("Mul", 0.1)],
    [("Div", 3.0)],
    [("Div", 0.3)],
    [("Mul", 1.5), ("Mul", 2.3)],
    [("Div", 49.0), ("Mul", 49.0)],
    [("Mul", 2.3), ("Div", 2.3)],
    [("Mul", 3.0), ("Mul", 0.25), ("Div", 7.0)],
]


@pytest.mark.parametrize("rounding", ["Floor", "Ceil", "Cast"])
@pytest.mark.parametrize("chain", CHAINS)
def test_chains(chain: list[tuple[str, float]], rounding: str) -> None:
    compared = Compared(computed(chain, rounding))
    for size in SIZES:
        assert compared.check({"x": np.zeros(size, np.float32)}) == "equal"


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_of_known_sizes(chain: list[tuple[str, float]]) -> None:
    for size in (49, 97, 1000):
        compared = Compared(computed(chain, "Floor", size=size))
        assert compared.check({"x": np.zeros(size, np.float32)}) == "equal"


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_of_float64(chain: list[tuple[str, float]]) -> None:
    compared = Compared(computed(chain, "Floor", TensorProto.DOUBLE))
    for size in (1, 7, 100, 1000, 2049, 4095):
        assert compared.check({"x": np.zeros(size, np.float32)}) == "equal"


def test_a_float_of_a_size_as_a_tensor() -> None:
    """The value itself, rounded once, as a product or a quotient."""
    nodes = [node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["f"], to=TensorProto.FLOAT)]
    nodes += [node("Mul", ["f", "c"], ["y"]), node("Div", ["f", "d"], ["z"])]
    stored = {"c": np.array([2.3], np.float32), "d": np.array([3], np.float32)}
    compared = Compared(model(nodes, {"x": ["n"]}, ["y", "z"], stored))
    for size in SIZES:
        assert compared.check({"x": np.zeros(size, np.float32)}, rtol=0) == "equal"


# ---- padding to whole steps, as TensorFlow's "same"


def same_padding(kernel: int, stride: int, size: Any, dtype: int = TensorProto.FLOAT) -> ModelProto:
    """`max((ceil(n / stride) - 1) * stride + kernel - n, 0)` in floats, a half of it before, the rest behind,
    then a convolution."""
    element = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}[dtype]
    numbers = {"stride": stride, "one": 1, "kernel": kernel, "zero": 0, "two": 2}
    stored: dict[str, Any] = {name: np.array(value, element) for name, value in numbers.items()}
    stored |= {"axis": np.array(2), "first": np.array([0]), "none": np.zeros(2, np.int64)}
    stored["w"] = np.linspace(-1, 1, 2 * kernel).reshape(1, 2, kernel).astype(np.float32)
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "axis"], ["i"]),
        node("Cast", ["i"], ["n"], to=dtype),
        node("Div", ["n", "stride"], ["d"]),
        node("Ceil", ["d"], ["steps"]),
        node("Sub", ["steps", "one"], ["a"]),
        node("Mul", ["a", "stride"], ["b"]),
        node("Add", ["b", "kernel"], ["c"]),
        node("Sub", ["c", "n"], ["e"]),
        node("Clip", ["e", "zero", ""], ["total"]),
        node("Div", ["total", "two"], ["h"]),
        node("Cast", ["h"], ["before"], to=TensorProto.INT64),
        node("Cast", ["before"], ["before_f"], to=dtype),
        node("Sub", ["total", "before_f"], ["after_f"]),
        node("Cast", ["after_f"], ["after"], to=TensorProto.INT64),
        node("Unsqueeze", ["before", "first"], ["before_1"]),
        node("Unsqueeze", ["after", "first"], ["after_1"]),
        node("Concat", ["none", "before_1", "none", "after_1"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["p"]),
        node("Conv", ["p", "w"], ["y"], kernel_shape=[kernel], strides=[stride]),
    ]
    return model(nodes, {"x": [1, 2, size]}, ["y"], stored)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 2), (3, 1), (7, 4), (2, 3)])
def test_padding_to_whole_steps(kernel: int, stride: int, dtype: int) -> None:
    free = same_padding(kernel, stride, "n", dtype)
    compared = Compared(free)
    for size in (1, 2, 3, 4, 7, 8, 31, 97):
        x = np.random.default_rng(size).standard_normal((1, 2, size)).astype("float32")
        assert compared.check({"x": x}, rtol=1e-4, atol=1e-5) == "equal"
        known = dims_of(from_onnx(same_padding(kernel, stride, size, dtype)))
        assert [int(dim) for dim in known] == [1, 1, -(-size // stride)]


def test_padding_to_whole_steps_is_a_formula() -> None:
    """No size is read when it runs, layer after layer."""
    assert [str(dims_of(from_onnx(same_padding(3, stride, "n")))[2]) for stride in (1, 2)] == [
        "n",
        "(n + 1) // 2",
    ]


EXACT = [
    [("Mul", 0.5), ("Add", 0.25), ("Mul", 4.0)],
    [("Sub", 3.0), ("Max", 0.0)],
    [("Mul", 1.5), ("Min", 7.25)],
    [("Div", 3.0), ("Add", 1.0)],
    [("Mul", 2.3), ("Sub", 1.0), ("Max", 0.0)],
    [("Add", 0.1), ("Sub", 0.1)],
]


@pytest.mark.parametrize("rounding", ["Floor", "Ceil", "Cast"])
@pytest.mark.parametrize("chain", EXACT)
def test_sums_and_extremes(chain: list[tuple[str, float]], rounding: str) -> None:
    """Exact ones are formulas; others are the model's own float arithmetic."""
    compared = Compared(computed([*chain, ("Max", 0.0)], rounding))
    for size in SIZES:
        assert compared.check({"x": np.zeros(size, np.float32)}) == "equal"
