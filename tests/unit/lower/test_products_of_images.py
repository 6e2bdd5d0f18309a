"""Products that follow convolutions, and selections that follow products: valid graphs for which a schedule
rule once had no loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx


def check(nodes: list[onnx.NodeProto], dims: list[Any], x: np.ndarray, stored: dict[str, np.ndarray]) -> None:
    """Compile for `dims`, run on x, and compare with ONNX Runtime."""
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "joined", [given], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    machine = relax.VirtualMachine(heddle.compile(from_onnx(model)), heddle.cpu())
    np.testing.assert_allclose(np.asarray(machine["main"](x)), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("dims", "channels", "kernel"),
    [((1, 3, 8, 8), 8, 3), ((2, 16, 7, 7), 16, 3), ((1, 16, 14, 14), 32, 1), ((1, 3, 5, 9), 3, 3)],
)
def test_a_product_reads_a_convolution(dims: tuple[int, ...], channels: int, kernel: int) -> None:
    rng = np.random.default_rng(1)
    stored = {
        "w": rng.normal(size=(channels, dims[1], kernel, kernel)).astype(np.float32),
        "m": rng.normal(size=(dims[3], 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[kernel // 2] * 4),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("MatMul", ["s", "m"], ["y"]),
    ]
    check(nodes, list(dims), rng.normal(size=dims).astype(np.float32), stored)


@pytest.mark.parametrize("batch", [1, 4, "b"])
@pytest.mark.parametrize("columns", [48, 64])
def test_a_class_token_is_taken_from_a_product(batch: Any, columns: int) -> None:
    rng = np.random.default_rng(2)
    stored = {
        "w": rng.normal(size=(64, columns)).astype(np.float32),
        "b": rng.normal(size=columns).astype(np.float32),
        "p": rng.normal(size=(1, 50, columns)).astype(np.float32),
        "i": np.array(0),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Add", ["c", "p"], ["d"]),
        helper.make_node("Gather", ["d", "i"], ["y"], axis=1),
    ]
    size = batch if isinstance(batch, int) else 3
    check(nodes, [batch, 50, 64], rng.normal(size=(size, 50, 64)).astype(np.float32), stored)
