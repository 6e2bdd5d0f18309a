"""Convolutions compiled once for every batch, height and width: scheduled, and equal to ONNX Runtime's."""

import numpy as np
import onnxruntime
import pytest
from heddle.relax.frontend.onnx import from_onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.transform import Sequential
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

SIZES = ((1, 9, 1), (2, 1, 9), (1, 2, 3), (1, 5, 7), (3, 13, 12), (1, 14, 29), (1, 27, 20), (2, 40, 61))
CASES = {
    "3x3": {"kernel": (3, 3), "pads": (1, 1, 1, 1)},
    "3x3 of few channels": {"kernel": (3, 3), "pads": (1, 1, 1, 1), "ins": 12, "outs": 12},
    "3x3 stride 2": {"kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)},
    "5x3 dilated, uneven edges": {"kernel": (5, 3), "pads": (4, 1, 4, 2), "dilations": (2, 1)},
    "1x1": {"kernel": (1, 1)},
    "1x1 stride 2": {"kernel": (1, 1), "strides": (2, 2)},
    "depthwise": {"kernel": (3, 3), "pads": (1, 1, 1, 1), "group": 32},
    "depthwise 5x5 stride 2": {"kernel": (5, 5), "pads": (2, 2, 2, 2), "strides": (2, 2), "group": 32},
    "groups": {"kernel": (3, 3), "pads": (1, 1, 1, 1), "group": 2},
}


def network(kernel, ins=32, outs=32, group=1, **attributes) -> ModelProto:
    """A 1x1 convolution, the convolution that is asked for, and a sum with it."""
    rng = np.random.default_rng(3)

    def array(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / 4).astype("float32"), name)

    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"]),
        helper.make_node("Conv", ["a", "second", "bias"], ["b"], group=group, **attributes),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Mul", ["b", "c"], ["y"]),
    ]
    weights = [
        array("first", ins, 4, 1, 1),
        array("second", outs, ins // group, *kernel),
        array("bias", outs),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, "h", "w"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "image", [image], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_any_image(name, mode):
    model = network(**CASES[name])
    machine = heddle.relax.VirtualMachine(heddle.compile(from_onnx(model), exec_mode=mode), heddle.cpu())
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    for n, height, width in SIZES:
        x = rng.standard_normal((n, 4, height, width)).astype("float32")
        (wanted,) = peer.run(None, {"x": x})
        np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_function_has_a_schedule(name):
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)))
    loops = [
        func
        for func in passes(from_onnx(network(**CASES[name]))).functions.values()
        if isinstance(func, PrimFunc)
    ]
    rules = {func.attrs.get("schedule_rule") for func in loops}
    assert rules <= {"ConvolutionRule", "Winograd", "Elementwise"}
    assert rules & {"ConvolutionRule", "Winograd"}
