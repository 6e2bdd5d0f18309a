"""float8_e8m0fnu in models: casts by all rounding modes, constants, scales; against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from heddle.driver.backend import HeddleBackend
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError

E8M0 = ml_dtypes.float8_e8m0fnu
EDGES = [0, -0.0, 1, 1.1, 1.5, 1.7, -1, -np.inf, np.inf, np.nan, 3, 6, 0.75, 100, 1e-3]
ENDS = [1.2 * 2.0**127, 1.8 * 2.0**127, 2.0**127, 2.0**-127, 2.0**-128, 1.2 * 2.0**-127, 1.6 * 2.0**-127]


def model(
    nodes: list[Any], inputs: dict[str, int], outputs: dict[str, int], stored: Any = (), opset: int = 25
):
    def infos(values: dict[str, int]) -> list[Any]:
        dims = {"s": [1]}
        return [
            helper.make_tensor_value_info(name, kind, dims.get(name, ["n"])) for name, kind in values.items()
        ]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), list(stored))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def by_heddle(proto: Any, *inputs: Any, mode: str = "compiled") -> list[np.ndarray[Any, Any]]:
    return [np.asarray(item) for item in HeddleBackend.prepare(proto, exec_mode=mode).run(list(inputs))]


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_casts_round_and_saturate_as_the_runtime_does(dtype: str, round_mode: str, saturate: int) -> None:
    rng = np.random.default_rng(7)
    data = np.concatenate([EDGES, ENDS, np.exp2(rng.uniform(-130, 127.9, 500)), rng.normal(size=100)])
    with np.errstate(all="ignore"):
        x = data.astype(np.float32)
        x = x.astype(dtype) if "float" in dtype else np.clip(np.nan_to_num(x), -100, 2e9).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    cast = helper.make_node(
        "Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=round_mode, saturate=saturate
    )
    back = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)
    proto = model([cast, back], {"x": kind}, {"z": TensorProto.FLOAT})
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    for mode in ("compiled", "bytecode"):
        np.testing.assert_array_equal(by_heddle(proto, x, mode=mode)[0], want)


def test_values_go_in_and_out_and_through_constants() -> None:
    """All 256 patterns: as an input, in an initializer, and in one that stores numbers in a field."""
    every = np.arange(256, dtype=np.uint8)
    raw = helper.make_tensor("raw", TensorProto.FLOAT8E8M0, [256], every.tobytes(), raw=True)
    fields = onnx.TensorProto(name="fields", data_type=TensorProto.FLOAT8E8M0, dims=[256])
    fields.int32_data.extend(every.tolist())
    kinds = dict.fromkeys(("a", "b", "c"), TensorProto.FLOAT8E8M0)
    nodes = [helper.make_node("Identity", [i], [o]) for i, o in (("x", "a"), ("raw", "b"), ("fields", "c"))]
    for found in by_heddle(
        model(nodes, {"x": TensorProto.FLOAT8E8M0}, kinds, (raw, fields)), every.view(E8M0)
    ):
        assert found.dtype == E8M0
        np.testing.assert_array_equal(found.view(np.uint8), every)


def test_an_unknown_rounding_is_refused() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode="sideways")
    with pytest.raises(HeddleError, match=r"N0106.*round_mode must be one of up, down, nearest"):
        from_onnx(model([node], {"x": 1}, {"y": TensorProto.FLOAT8E8M0}))


def test_scales_that_are_powers_of_two() -> None:
    scale = np.array([0.25], np.float32).astype(E8M0)
    x = np.array([3, -7, 100], np.int8)
    kinds = {"x": TensorProto.INT8, "s": TensorProto.FLOAT8E8M0}
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.FLOAT, axis=0)
    (got,) = by_heddle(model([node], kinds, {"y": TensorProto.FLOAT}, opset=28), x, scale)
    np.testing.assert_array_equal(got, x * np.float32(0.25))
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=0)
    with pytest.raises(HeddleError, match=r"N0106.*output_dtype"):
        from_onnx(model([node], kinds, {"y": TensorProto.FLOAT}, opset=28))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT])
def test_dequantized_values_have_the_type_asked_for(kind: int) -> None:
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], output_dtype=kind, axis=0)
    proto = model([node], {"x": TensorProto.INT8, "s": TensorProto.FLOAT}, {"y": kind}, opset=24)
    (got,) = by_heddle(proto, np.array([3, -7], np.int8), np.array([0.5], np.float32))
    assert got.dtype == helper.tensor_dtype_to_np_dtype(kind)
    np.testing.assert_array_equal(got.astype("float32"), [1.5, -3.5])


@pytest.mark.parametrize("saturate", [0, 1])
def test_quantisation_to_small_floats_saturates_where_asked(saturate: int) -> None:
    zero = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], saturate=saturate)
    back = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    proto = model([node, back], {"x": TensorProto.FLOAT}, {"y": TensorProto.FLOAT}, (zero, scale), opset=21)
    proto.ir_version = 10
    x = np.array([1, 448, 449, 1e6, -1e6, np.inf, np.nan, 0.3], np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(by_heddle(proto, x)[0], want)
