"""Element types that the specifications of operators allow and their bodies forget."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from heddle.driver.compile import build
from heddle.driver.values import as_argument
from heddle.frontend.onnx import from_onnx
from heddle.runtime import cpu
from heddle.target import Target
from heddle.vm.relax import VirtualMachine

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def node_model(
    op_type: str, inputs: list[Any], num_outputs: int = 1, opset: int = 24, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node. An input that is None is left out; its outputs have no stated type."""
    names = ["" if value is None else f"x{place}" for place, value in enumerate(inputs)]
    outputs = [f"y{place}" for place in range(num_outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, outputs, **attrs)],
        "main",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in zip(names, inputs, strict=True)
            if name
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def results(model: onnx.ModelProto, inputs: list[Any]) -> list[np.ndarray[Any, Any]]:
    given = [value for value in inputs if value is not None]
    found = VirtualMachine(build(from_onnx(model), Target("llvm -opt-level=0")), cpu())["main"](
        *map(as_argument, given)
    )
    return [part.numpy() for part in (found if isinstance(found, (tuple, list)) else [found])]


def reference(model: onnx.ModelProto, inputs: list[Any]) -> list[np.ndarray[Any, Any]]:
    given = [value for value in inputs if value is not None]
    names = [value.name for value in model.graph.input]
    found: list[np.ndarray[Any, Any]] = ReferenceEvaluator(model).run(
        None, dict(zip(names, given, strict=True))
    )
    return found


def agree(op_type: str, inputs: list[Any], rtol: float, opset: int = 24, **attrs: Any) -> None:
    model = node_model(op_type, inputs, opset=opset, **attrs)
    for mine, theirs in zip(results(model, inputs), reference(model, inputs), strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if theirs.dtype.kind in "iu":
            np.testing.assert_array_equal(mine, theirs)
        else:
            np.testing.assert_allclose(mine.astype("float64"), theirs.astype("float64"), rtol=rtol, atol=rtol)


def random(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng().standard_normal(shape).astype(dtype)


TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}
FLOATS = [np.dtype(name) if name != "bfloat16" else BFLOAT16 for name in TOLERANCES]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normalisation_by_mean_and_variance(dtype: Any) -> None:
    x = random(dtype, 2, 3, 4, 5)
    [mine] = results(node_model("MeanVarianceNormalization", [x], opset=13), [x])
    wide, axes = x.astype("float64"), (0, 2, 3)
    wanted = (wide - wide.mean(axes, keepdims=True)) / (wide.std(axes, keepdims=True) + 1e-9)
    assert mine.dtype == dtype
    tolerance = max(TOLERANCES[dtype.name], 1e-7)  # the body finds a variance as a difference of means
    np.testing.assert_allclose(mine.astype("float64"), wanted, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("values", FLOATS, ids=str)
@pytest.mark.parametrize("keys", FLOATS[:3], ids=str)
def test_attention_gives_the_type_of_its_queries(keys: Any, values: Any) -> None:
    inputs = [random(keys, 1, 2, 3, 4), random(keys, 1, 2, 5, 4), random(values, 1, 2, 5, 4)]
    [mine] = results(node_model("Attention", inputs, opset=23), inputs)
    q, k, v = (value.astype("float64") for value in inputs)
    scores = q @ k.swapaxes(-1, -2) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    assert mine.dtype == keys
    tolerance = max(TOLERANCES[keys.name], TOLERANCES[values.name], 1e-6)  # softmax is one of float32
    np.testing.assert_allclose(mine.astype("float64"), wanted, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_cropping_and_padding_by_sizes_of_both_types(dtype: str) -> None:
    agree("CenterCropPad", [random("float32", 6, 5), np.array([4, 9], dtype)], 0, opset=18)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_one_hot_rows_of_indices_outside(dtype: str) -> None:
    """One beyond the depth, or the largest number there is, gives a row of the off value."""
    indices = np.array([0, 2, 3, np.iinfo(dtype).max, np.iinfo(dtype).max - 1], dtype)
    inputs = [indices, np.array(3, "int64"), np.array([5, 7], "float32")]
    [mine] = results(node_model("OneHot", inputs, opset=13), inputs)
    assert mine.tolist() == [[7, 5, 5], [5, 5, 7], [5, 5, 5], [5, 5, 5], [5, 5, 5]]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("attrs", [{"lambd": 1.5}, {"lambd": 1.5, "bias": 1.5}, {"lambd": 0.25, "bias": 0.5}])
def test_shrinking_integers_compares_floats(dtype: str, attrs: dict[str, float]) -> None:
    first = 0 if dtype.startswith("u") else -6
    agree("Shrink", [np.arange(first, 7).astype(dtype)], 0, opset=9, **attrs)


def _resized(x: Any, count: int, mode: str) -> Any:
    sizes = np.array([*x.shape[:-1], count], "int64")
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)],
        "main",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(sizes, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    return results(model, [x])[0], reference(model, [x])[0]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint16"])
def test_resized_integers_round_halves_away_from_zero(dtype: str, mode: str) -> None:
    values = np.array([0, 1, 2, 3, 4, 5, 6, 7], "float64")
    for sign in (1,) if dtype.startswith("u") else (1, -1):
        floats, _ = _resized((sign * values).reshape(1, 1, 1, 8), 4, mode)
        mine, _ = _resized((sign * values).astype(dtype).reshape(1, 1, 1, 8), 4, mode)
        np.testing.assert_array_equal(mine, np.sign(floats) * np.floor(np.abs(floats) + 0.5))


def test_resized_doubles_are_sums_of_doubles_with_weights_of_float32() -> None:
    mine, theirs = _resized(random("float64", 1, 1, 3, 9), 5, "linear")
    assert mine.dtype == theirs.dtype == "float64"
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_resized_integers_keep_their_digits(dtype: str) -> None:
    """Beyond what float32 counts one by one, resized or not."""
    x = np.full((1, 1, 1, 4), (1 << 24) + 1, dtype)
    for count in (4, 2, 8):
        mine, _ = _resized(x, count, "linear")
        assert mine.tolist() == [[[[(1 << 24) + 1] * count]]]
