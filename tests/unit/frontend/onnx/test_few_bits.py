"""Elements of 2 and 4 bits: stored, packed, converted, saved and loaded; ml_dtypes is the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import heddle.backend
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import heddle
from heddle.frontend.onnx import from_onnx
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import tensor

VALUES = np.array(
    [0, -0.0, 0.2, 0.25, 0.26, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3.5, 5, 5.1, 6, 7, 1e9, -1.3, -2.5]
    + [-7, np.inf, -np.inf],
    "float32",
)
KINDS = {
    "int2": TensorProto.INT2,
    "uint2": TensorProto.UINT2,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
    "int4": TensorProto.INT4,
}


def cast_model(source: int, target: int, stored: Any = None) -> onnx.ModelProto:
    inputs = [] if stored is not None else [helper.make_tensor_value_info("x", source, ["n"])]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=target)],
        "g",
        inputs,
        outputs,
        [stored] if stored is not None else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_float_to_float4(mode: str) -> None:
    (got,) = heddle.backend.run_model(
        cast_model(TensorProto.FLOAT, TensorProto.FLOAT4E2M1), [VALUES], exec_mode=mode
    )
    assert got.dtype == ml_dtypes.float4_e2m1fn
    np.testing.assert_array_equal(
        got.astype("float32"), VALUES.astype(ml_dtypes.float4_e2m1fn).astype("float32")
    )


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_every_value(mode: str, dtype: str) -> None:
    """All bit patterns, as an input and as packed constants of odd number."""
    kind = np.dtype(getattr(ml_dtypes, dtype))
    bits = DataType(dtype).bits
    patterns = np.arange(1 << bits)
    if dtype.startswith("float"):
        every = patterns.astype("uint8").view(kind)
    else:
        every = (patterns - (0 if dtype[0] == "u" else 1 << (bits - 1))).astype(kind)
    (got,) = heddle.backend.run_model(cast_model(KINDS[dtype], TensorProto.FLOAT), [every], exec_mode=mode)
    np.testing.assert_array_equal(got, every.astype("float32"))
    stored = onnx.numpy_helper.from_array(np.concatenate([every, every[:3]]), "x")
    (kept,) = heddle.backend.run_model(cast_model(0, TensorProto.FLOAT, stored), [], exec_mode=mode)
    np.testing.assert_array_equal(kept, onnx.numpy_helper.to_array(stored).astype("float32"))


@pytest.mark.parametrize("dtype", KINDS)
def test_saved_and_loaded(dtype: str, tmp_path: Path) -> None:
    made = heddle.compile(from_onnx(cast_model(TensorProto.FLOAT, KINDS[dtype])))
    path = tmp_path / "cast.heddle"
    made.export_library(str(path))
    machine = heddle.relax.VirtualMachine(heddle.runtime.load_module(str(path)), heddle.cpu())
    got = machine["main"](tensor(np.array([0, 1], "float32"))).numpy()
    assert got.dtype == np.dtype(getattr(ml_dtypes, dtype))
    assert got.astype("float32").tolist() == [0, 1]


def test_names() -> None:
    for name in ("int2", "uint2", "float4_e2m1fn"):
        dtype = DataType(name)
        assert dtype.itemsize == 1 and DataType(f"{name}x8").lanes == 8
        assert tensor(np.zeros(3), dtype=name).dtype == name
    assert DataType("float4_e2m1fn").is_float and DataType("float4_e2m1fn").is_small_float
    assert not DataType("float16").is_small_float


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("form", ["Constant", "ConstantOfShape"])
def test_tensors_in_attributes_keep_their_type(kind: str, form: str) -> None:
    """A zero point that a node gives says what is quantised to."""
    zero = helper.make_tensor(
        "zero", KINDS.get(kind, TensorProto.UINT4), [] if form == "Constant" else [1], [0]
    )
    shape = [] if form == "Constant" else ["shape"]
    stored = [helper.make_tensor("scale", TensorProto.FLOAT, [], [1.0])]
    stored += [] if form == "Constant" else [helper.make_tensor("shape", TensorProto.INT64, [0], [])]
    nodes = [
        helper.make_node(form, shape, ["z"], value=zero),
        helper.make_node("QuantizeLinear", ["x", "scale", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    data = np.array([-100, -3, 0.6, 2.4, 9, 100], "float32")
    info = ml_dtypes.iinfo(np.dtype(getattr(ml_dtypes, kind)))
    (got,) = heddle.backend.run_model(model, [data])
    np.testing.assert_array_equal(got, np.clip(np.rint(data), int(info.min), int(info.max)))
