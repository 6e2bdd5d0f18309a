"""Models as ONNX Runtime's optimiser and quantiser write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import MODES
from tests.unit.frontend.onnx.models import model, node

WIDTH = 16


def block() -> onnx.ModelProto:
    """A block of a transformer without its attention, as exporters write it."""
    rng = generator(1)
    stored = {
        "w1": normal(rng, WIDTH, 32) * 0.3,
        "b1": normal(rng, 32),
        "w2": normal(rng, 32, WIDTH) * 0.3,
        "b2": normal(rng, WIDTH),
        "gamma": normal(rng, WIDTH),
        "beta": normal(rng, WIDTH),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "root": np.float32(2**0.5),
        "eighth": np.float32(0.125),
    }
    nodes = [
        node("MatMul", ["x", "w1"], ["m1"]),
        node("Add", ["m1", "b1"], ["a1"]),
        node("Div", ["a1", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["p"]),
        node("Mul", ["a1", "p"], ["q"]),
        node("Mul", ["q", "half"], ["g"]),
        node("MatMul", ["g", "w2"], ["m2"]),
        node("Add", ["m2", "b2"], ["a2"]),
        node("Add", ["a2", "x"], ["s"]),
        node("LayerNormalization", ["s", "gamma", "beta"], ["n"], axis=-1, epsilon=1e-5),
        node("Transpose", ["n"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["n", "t"], ["k"]),
        node("Mul", ["k", "eighth"], ["y"]),
    ]
    return model(nodes, {"x": ["b", "s", WIDTH]}, ["y"], stored, opset=17)


def network() -> onnx.ModelProto:
    """Convolutions, sums, joins and pools of images."""
    rng = generator(2)
    stored = {
        "w1": normal(rng, 8, 3, 3, 3) * 0.3,
        "b1": normal(rng, 8) * 0.1,
        "w2": normal(rng, 8, 8, 1, 1) * 0.3,
        "w3": normal(rng, 16, 5) * 0.3,
        "b3": normal(rng, 5),
    }
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["c1"], ["r1"], alpha=0.1),
        node("Conv", ["r1", "w2"], ["c2"]),
        node("Sigmoid", ["c2"], ["g"]),
        node("Mul", ["r1", "g"], ["m"]),
        node("Add", ["m", "r1"], ["a"]),
        node("Concat", ["a", "m"], ["j"], axis=1),
        node("AveragePool", ["j"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["o"]),
        node("Flatten", ["o"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["h"]),
        node("Softmax", ["h"], ["y"], axis=-1),
    ]
    return model(nodes, {"x": ["n", 3, 8, 8]}, ["y"], stored, opset=13)


def recurrent() -> onnx.ModelProto:
    rng = generator(3)
    stored = {
        "w": normal(rng, 1, 28, 6) * 0.3,
        "r": normal(rng, 1, 28, 7) * 0.3,
        "b": normal(rng, 1, 56) * 0.3,
        "v": normal(rng, 7, 5),
        "u": normal(rng, 5),
    }
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["h"], hidden_size=7),
        node("Squeeze", ["h", "axis"], ["t"]),
        node("MatMul", ["t", "v"], ["m"]),
        node("Add", ["m", "u"], ["y"]),
    ]
    return model(nodes, {"x": [4, "b", 6]}, ["y"], {**stored, "axis": np.array([1])}, opset=13)


def operators(made: onnx.ModelProto) -> set[str]:
    return {item.op_type for item in made.graph.node if item.domain == "com.microsoft"}


def compare(made: onnx.ModelProto, feeds: Sequence[np.ndarray], rtol: float, atol: float) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    module = from_onnx(made)
    for mode in MODES:
        machine = relax.VirtualMachine(heddle.compile(module, target="llvm", exec_mode=mode), heddle.cpu())
        for x in feeds:
            np.testing.assert_allclose(machine["main"](x).numpy(), session.run(None, {"x": x})[0], rtol, atol)


def optimised(made: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(made.SerializeToString(), options)
    return onnx.load(folder / "optimised.onnx")


def test_optimised_block(tmp_path: Path) -> None:
    made = optimised(block(), tmp_path)
    assert {"BiasGelu", "SkipLayerNormalization", "FusedMatMul"} <= operators(made)
    rng = generator(4)
    compare(made, [normal(rng, 2, 5, WIDTH), normal(rng, 1, 1, WIDTH)], 1e-4, 1e-5)


def test_optimised_network(tmp_path: Path) -> None:
    made = optimised(network(), tmp_path)
    assert "FusedConv" in operators(made)
    compare(made, [normal(generator(4), 2, 3, 8, 8)], 1e-4, 1e-5)


class _Images:
    """What the quantiser calibrates with."""

    def __init__(self) -> None:
        self.left = [normal(generator(k), 2, 3, 8, 8) for k in range(3)]

    def get_next(self) -> dict[str, Any] | None:
        return {"x": self.left.pop()} if self.left else None


def test_quantised_network(tmp_path: Path) -> None:
    """Numbers of 8 bits may differ by one step where a result lies between two."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="the quantiser needs more packages")
    onnx.save(network(), tmp_path / "network.onnx")
    quantization.quantize_static(
        tmp_path / "network.onnx",
        tmp_path / "quantised.onnx",
        _Images(),
        quant_format=quantization.QuantFormat.QOperator,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QUInt8,
    )
    made = onnx.load(tmp_path / "quantised.onnx")
    assert {"QLinearAdd", "QLinearMul", "QLinearConcat", "QGemm", "QLinearGlobalAveragePool"} <= operators(
        made
    )
    compare(made, [normal(generator(0), 2, 3, 8, 8), normal(generator(1), 1, 3, 8, 8)], 0, 0.02)


def test_dynamically_quantised_recurrence(tmp_path: Path) -> None:
    """A state that lies between two of 255 numbers may be rounded otherwise, and the next ones follow it."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="the quantiser needs more packages")
    onnx.save(recurrent(), tmp_path / "recurrent.onnx")
    quantization.quantize_dynamic(
        tmp_path / "recurrent.onnx",
        tmp_path / "dynamic.onnx",
        weight_type=quantization.QuantType.QUInt8,
        op_types_to_quantize=["LSTM", "MatMul"],
    )
    made = optimised(onnx.load(tmp_path / "dynamic.onnx"), tmp_path)
    assert "DynamicQuantizeLSTM" in operators(made)
    compare(made, [normal(generator(0), 4, 3, 6), normal(generator(1), 4, 1, 6)], 0, 2e-2)
