"""Convolutions of data whose channels a model leaves open: the weight states them, and a run checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.graph.types import TensorType
from heddle.ir.expr import Call
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import IntImm
from heddle.runtime import cpu
from heddle.support.diagnostics import HeddleError
from heddle.target import Target
from heddle.vm.relax import VirtualMachine

CHANNELS = 6


def model(op_type: str, rank: int, group: int, dims: list[Any]) -> onnx.ModelProto:
    taps = [3] * rank
    shape = [8 - 8 % group, CHANNELS // group, *taps] if op_type == "Conv" else [CHANNELS, 4, *taps]
    weight = np.random.default_rng().standard_normal(shape).astype("float32")
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "w"], ["y"], pads=[1] * (2 * rank), group=group)],
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ["c", None])
@pytest.mark.parametrize("group", [1, 2, CHANNELS])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_channels_are_those_of_the_weight(op_type: str, rank: int, group: int, name: str | None) -> None:
    made = model(op_type, rank, group, ["n", name, *"dhw"[:rank]])
    mod = from_onnx(made)
    [call] = [
        node
        for func in mod.functions.values()
        for node in walk_distinct(func)
        if isinstance(node, Call) and getattr(node.op, "name", "").startswith("relax.nn.conv")
    ]
    ty = call.args[0].ty
    assert isinstance(ty, TensorType) and ty.dims is not None
    assert isinstance(ty.dims[1], IntImm) and ty.dims[1].value == CHANNELS
    for mode in ("bytecode", "compiled"):
        run = VirtualMachine(build(mod, Target("llvm -opt-level=0"), exec_mode=mode), cpu())["main"]
        for batch in (2, 0):
            x = np.random.default_rng().standard_normal((batch, CHANNELS, *[5] * rank)).astype("float32")
            found = run(x).numpy()
            if batch:
                [want] = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
            else:
                assert found.shape[0] == 0
        with pytest.raises(HeddleError, match=f"expected {CHANNELS}, got 5"):
            run(np.zeros((1, 5, *[5] * rank), "float32"))
        assert not run(np.zeros((1, CHANNELS, *[5] * rank), "float32")).numpy().any()


def test_data_is_added_to_what_is_made_of_it() -> None:
    made = model("Conv", 2, 1, ["n", "c", "h", "w"])
    weight = np.random.default_rng().standard_normal((CHANNELS, CHANNELS, 3, 3)).astype("float32")
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    made.graph.node[0].output[0] = "z"
    made.graph.node.append(helper.make_node("Add", ["x", "z"], ["y"]))
    x = np.random.default_rng().standard_normal((1, CHANNELS, 4, 5)).astype("float32")
    [want] = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    found = VirtualMachine(build(from_onnx(made), Target("llvm")), cpu())["main"](x).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_channels_that_contradict_the_weight_are_refused_at_import() -> None:
    with pytest.raises(HeddleError):
        from_onnx(model("Conv", 2, 2, ["n", 5, "h", "w"]))
