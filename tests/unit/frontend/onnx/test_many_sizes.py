"""Shapes and axes that are computed when the model runs: how many of them a model may have."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.importer import MOST_SIZES
from heddle.support.diagnostics import ImportModelError

INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@pytest.mark.parametrize("op", ["ReduceSum", "Reshape", "Expand", "ConstantOfShape", "Unsqueeze"])
def test_a_list_of_sizes_is_bounded_before_it_gets_variables(op: str) -> None:
    names = ["sizes"] if op == "ConstantOfShape" else ["x", "sizes"]
    infos = [
        helper.make_tensor_value_info("x", FLOAT, [2, 3]),
        helper.make_tensor_value_info("sizes", INT64, [1 << 40]),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"])],
        "many_sizes",
        infos,
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ImportModelError, match=f"at most {MOST_SIZES} elements, got {1 << 40}") as caught:
        from_onnx(model)
    assert caught.value.code == "N0301"
