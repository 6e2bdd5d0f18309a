"""Quantised operators of com.microsoft. Weights have 7 bits where ONNX Runtime's sums of two products
saturate on processors without integer dot products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import Case, check

BYTES = ("uint8", "int8")


def bytes_of(rng: np.random.Generator, dtype: str, *shape: int, bits: int = 8) -> np.ndarray:
    high = 1 << (bits - 1)
    made = rng.integers(-high, high, shape)
    return (made + (128 if dtype == "uint8" else 0)).astype(dtype)


def scale(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def element_cases(dtype: str) -> dict[str, Case]:
    rng = generator(BYTES.index(dtype))
    middle = 121 if dtype == "uint8" else 7

    def zero(value: int) -> np.ndarray:
        return np.array(value, dtype)

    def one(op: str, x: np.ndarray, y_scale: float, y_zero: int, **attrs: Any) -> Case:
        """Scales whose ratios are no halves, so that few results lie between two numbers."""
        feed = {"x": x, "x_scale": scale(0.0307), "x_zero": zero(middle)}
        return Case(op, {**feed, "y_scale": scale(y_scale), "y_zero": zero(y_zero)}, attrs, step=1)

    def two(op: str, c_scale: float) -> Case:
        feed = {"a": bytes_of(rng, dtype, 5, 1, 17), "a_scale": scale(0.101), "a_zero": zero(middle)}
        feed |= {"b": bytes_of(rng, dtype, 3, 17), "b_scale": scale(0.207), "b_zero": zero(middle + 3)}
        return Case(op, {**feed, "c_scale": scale(c_scale), "c_zero": zero(middle - 4)}, step=1)

    low = 0 if dtype == "uint8" else -128
    image, rows = bytes_of(rng, dtype, 2, 3, 11, 9), bytes_of(rng, dtype, 4, 5, 37)
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    joined = {"y_scale": scale(0.05), "y_zero": zero(middle)}
    for k, width in enumerate((3, 5, 1)):
        joined |= {
            f"x{k}": bytes_of(rng, dtype, 2, width),
            f"s{k}": scale(0.0307 + 0.017 * k),
            f"z{k}": zero(k),
        }
    return {
        "add": two("QLinearAdd", 0.307),
        "mul": two("QLinearMul", 3.01),
        "sigmoid": one("QLinearSigmoid", rows, 1 / 256, low),
        "leaky": one("QLinearLeakyRelu", rows, 0.0411, middle, alpha=0.2),
        "softmax": one("QLinearSoftmax", rows, 1 / 256, low, opset=13, axis=1),
        "softmax_joined": one("QLinearSoftmax", rows, 1 / 256, low, opset=12, axis=1),
        "pool": one("QLinearAveragePool", image, 0.0211, middle, **window, strides=[2, 2]),
        "pool_padded": one("QLinearAveragePool", image, 0.0211, middle, **window, count_include_pad=1),
        "pool_last": one("QLinearAveragePool", image, 0.0211, middle, **window, channels_last=1, ceil_mode=1),
        "pool_all": one("QLinearGlobalAveragePool", image, 0.0111, middle),
        "pool_all_last": one("QLinearGlobalAveragePool", image, 0.0111, middle, channels_last=1),
        "concat": Case("QLinearConcat", joined, {"axis": 1}, step=1),
    }


ELEMENTS = {f"{name}_{dtype}": case for dtype in BYTES for name, case in element_cases(dtype).items()}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name: str) -> None:
    check(ELEMENTS[name])


def test_free_sizes_of_elements() -> None:
    case = ELEMENTS["add_uint8"]
    names = {"a": ("n", 1, "m"), "b": ("k", "m")}
    other = {**case.feed, "a": case.feed["a"][:2, :, :13], "b": case.feed["b"][:1, :13]}
    check(replace(case, free=names), others=[replace(case, free=names, feed=other)])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales(op: str, axis: int | None, dtype: str) -> None:
    rng = generator(len(op), (axis or 0) + 1)
    limits = np.iinfo(dtype)
    size = () if axis is None else ((5, 7)[axis],)
    wide = (normal(rng, 5, 7) * (limits.max * 0.2)).astype(np.float32)
    x = wide if op == "QuantizeLinear" else rng.integers(limits.min, limits.max, (5, 7), dtype=dtype)
    feed = {
        "x": x,
        "scale": rng.uniform(0.1, 0.4, size).astype(np.float32),
        "zero": rng.integers(limits.max // 4, limits.max // 2, size).astype(dtype),
    }
    check(Case(op, feed, {} if axis is None else {"axis": axis}))


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("b_dtype", BYTES)
@pytest.mark.parametrize("a_dtype", BYTES)
def test_integer_product(a_dtype: str, b_dtype: str, by_column: bool) -> None:
    if a_dtype == "int8" and b_dtype == "uint8":
        pytest.skip("ONNX Runtime has no kernel for int8 times uint8")
    rng = generator(len(a_dtype), len(b_dtype))
    columns = (6,) if by_column else ()
    feed = {
        "a": bytes_of(rng, a_dtype, 2, 5, 7),
        "b": bytes_of(rng, b_dtype, 7, 6, bits=7),
        "a_scale": scale(0.2),
        "b_scale": rng.uniform(0.01, 0.1, columns).astype(np.float32),
        "a_zero": np.array(100, a_dtype),
        "b_zero": np.full(columns, 3, b_dtype),
        "bias": normal(rng, 6) if by_column else None,
    }
    check(Case("MatMulIntegerToFloat", feed, free={"a": ("n", "m", 7)}, atol=1e-4))


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("dtype", BYTES)
def test_dynamic_product(dtype: str, by_column: bool) -> None:
    """The range of `a` may be rounded otherwise by one step of 255."""
    rng = generator(len(dtype), int(by_column))
    columns = (6,) if by_column else ()
    feed = {
        "a": normal(rng, 2, 5, 7),
        "b": bytes_of(rng, dtype, 7, 6, bits=7),
        "b_scale": rng.uniform(0.01, 0.1, columns).astype(np.float32),
        "b_zero": np.full(columns, 3, dtype),
        "bias": normal(rng, 6) if by_column else None,
    }
    check(Case("DynamicQuantizeMatMul", feed, free={"a": ("n", "m", 7)}, rtol=1e-3, atol=1e-3))


@pytest.mark.parametrize("is_quantized", [False, True])
@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(trans: tuple[int, int], is_quantized: bool) -> None:
    rng = generator(*trans)
    shapes = (5, 3) if trans[0] else (3, 5), (4, 5) if trans[1] else (5, 4)
    feed: dict[str, Any] = {
        "a": bytes_of(rng, "uint8", *shapes[0]),
        "a_scale": scale(0.1),
        "a_zero": np.uint8(120),
    }
    feed["b"] = bytes_of(rng, "int8", *shapes[1], bits=7)
    feed |= {"b_scale": rng.uniform(0.1, 0.4, 4).astype(np.float32), "b_zero": np.arange(4, dtype=np.int8)}
    feed["c"] = rng.integers(-99, 99, 4).astype(np.int32) if is_quantized else None
    if is_quantized:
        feed |= {"y_scale": scale(3.07), "y_zero": np.uint8(100)}
    attrs = {"transA": trans[0], "transB": trans[1], "alpha": 0.7}
    constants = tuple(name for name in feed if name not in ("a", "c") and feed[name] is not None)
    check(Case("QGemm", feed, attrs, stored=constants, step=1))


def lstm(direction: str, dtype: str, by_column: bool, lengths: list[int] | None) -> Case:
    rng = generator(len(direction))
    ways, steps, batch, width, hidden = 1 + (direction == "bidirectional"), 6, 3, 5, 7
    columns = (ways, 4 * hidden) if by_column else (ways,)
    feed = {
        "x": normal(rng, steps, batch, width),
        "w": bytes_of(rng, dtype, ways, width, 4 * hidden, bits=7),
        "r": bytes_of(rng, dtype, ways, hidden, 4 * hidden, bits=7),
        "b": normal(rng, ways, 8 * hidden) if by_column else None,
        "lengths": None if lengths is None else np.array(lengths, np.int32),
        "h": normal(rng, ways, batch, hidden) if by_column else None,
        "c": normal(rng, ways, batch, hidden) if by_column else None,
        "p": normal(rng, ways, 3 * hidden) if by_column else None,
    }
    for name in "wr":
        feed[f"{name}_scale"] = rng.uniform(0.01, 0.02, columns).astype(np.float32)
        feed[f"{name}_zero"] = np.full(columns, 128 if dtype == "uint8" else 0, dtype)
    constants = tuple(n for n in feed if n not in ("x", "lengths", "h", "c") and feed[n] is not None)
    attrs = {"direction": direction, "hidden_size": hidden}
    return Case("DynamicQuantizeLSTM", feed, attrs, ("y", "y_h", "y_c"), constants, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm(direction: str, dtype: str, by_column: bool) -> None:
    check(lstm(direction, dtype, by_column, None))


def test_lstm_of_lengths() -> None:
    """The range of inputs counts steps behind a sequence's end here, and not there: a step of 255 more."""
    check(replace(lstm("forward", "int8", True, [6, 2, 4]), rtol=1e-2, atol=1e-2))
