"""Compiled programs call Python for nothing that machine code can do: each such call costs 20 kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.runtime import cpu
from heddle.script import from_source
from heddle.vm.relax import VirtualMachine

ort = pytest.importorskip("onnxruntime")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def num_host_calls(call: Callable[[], Any]) -> int:
    """How often machine code asks Python for a callee."""
    count = 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "_call_host"

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def recurrent_model(kind: str, steps: int | str, batch: int | str, direction: str) -> onnx.ModelProto:
    rng, ways, hidden = np.random.default_rng(0), 2 if direction == "bidirectional" else 1, 8
    shapes = {"w": (ways, GATES[kind] * hidden, 6), "r": (ways, GATES[kind] * hidden, hidden)}
    weights = [numpy_helper.from_array(rng.standard_normal(s, "float32"), n) for n, s in shapes.items()]
    node = helper.make_node(kind, ["x", "w", "r"], ["all", "last"], hidden_size=hidden, direction=direction)
    after = helper.make_node("Softmax", ["all"], ["y"], axis=-1)
    graph = helper.make_graph(
        [node, after],
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "last")],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("steps", "batch"), [(5, "b"), ("s", "b"), ("s", 3), (5, 3)])
@pytest.mark.parametrize("kind", sorted(GATES))
def test_recurrent_layers_stay_in_machine_code(
    kind: str, steps: int | str, batch: int | str, direction: str
) -> None:
    model = recurrent_model(kind, steps, batch, direction)
    main = VirtualMachine(build(from_onnx(model), exec_mode="compiled"), cpu())["main"]
    x = np.random.default_rng(1).standard_normal((5, 3, 6), "float32")
    found = main(x)
    assert num_host_calls(lambda: main(x)) == 0
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, expected in zip(found, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


SHARED_SHAPE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def fill(y: T.handle, n: T.int64, m: T.int64):
        Y = T.match_buffer(y, (4,), "int64")
        for i in range(4):
            with T.sblock("Y"):
                v = T.axis.spatial(4, i)
                Y[v] = n * 10 + m + v

    @R.function
    def main(x: R.Tensor(("n", "m"), "int64")) -> R.Tuple(R.Tensor((4,), "int64"), R.Shape(["n", "m"])):
        n = T.int64()
        m = T.int64()
        cls = Module
        y = R.call_tir(cls.fill, (), out_ty=R.Tensor((4,), "int64"), tir_vars=R.shape([n, m]))
        s = R.shape([n, m])
        return (y, s)
"""


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("shape", [(0, 1), (1, 7), (3, 64)])
def test_sizes_of_a_shape_that_others_hold(mode: str, shape: tuple[int, int]) -> None:
    main = VirtualMachine(build(from_source(SHARED_SHAPE), exec_mode=mode), cpu())["main"]
    x = np.zeros(shape, "int64")
    values, sizes = main(x)
    assert tuple(sizes) == shape
    assert values.numpy().tolist() == [shape[0] * 10 + shape[1] + k for k in range(4)]
    if mode == "compiled":
        assert num_host_calls(lambda: main(x)) == 0
