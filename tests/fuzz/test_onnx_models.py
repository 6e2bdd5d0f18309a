"""A few mutated models, and what longer runs found."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError, InternalError
from tests.fuzz.onnx_models import fuzz


def test_mutated_models_run_or_are_refused() -> None:
    done = fuzz(60, seed=21)
    assert not done.faults
    assert done.outcomes["accepted"] > 10
    assert len(done.outcomes) > 4  # several kinds of refusal were reached


def test_mutated_models_are_imported_or_refused() -> None:
    done = fuzz(250, seed=22, run=False)
    assert not done.faults
    assert len(done.outcomes) > 6


def model(
    op: str, inputs: int = 1, dtype: int = TensorProto.FLOAT, opset: int = 20, domain: str = "", **attrs: Any
) -> Any:
    names = [f"x{number}" for number in range(inputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [helper.make_tensor_value_info(name, dtype, [2, 2]) for name in names],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def mistyped_axis() -> Any:
    """An attribute of another kind than its value, in an operator set that lacks the operator."""
    proto = model("LayerNormalization", 2, opset=15, axis=-1)
    proto.graph.node[0].attribute[0].type = 13
    return proto


def future_domain() -> Any:
    proto = model("Cast", 1, domain="ai.onnx.ml", to=1)
    proto.graph.node[0].domain = "ai.onnx.ml"
    proto.opset_import[1].version = 1 << 40
    return proto


def scan_with(**attrs: Any) -> Any:
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, [2])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [2])
    body = helper.make_graph([helper.make_node("Neg", ["row"], ["out"])], "body", [row], [out])
    return model("Scan", 1, body=body, **{"num_scan_inputs": 1, **attrs})


def tiled_for_more_axes() -> Any:
    proto = model("Tile", 2)
    proto.graph.input[1].CopyFrom(helper.make_tensor_value_info("x1", TensorProto.INT64, [3]))
    return proto


def sliced_by_strings() -> Any:
    proto = model("Slice", 4, opset=13)
    for value in proto.graph.input[1:]:
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.STRING, [1]))
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        *(model(op, 2) for op in ("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        model("BitShift", 2, direction="LEFT"),
        mistyped_axis(),
        future_domain(),
        scan_with(scan_output_axes=[0, 0]),
        scan_with(scan_input_directions=[0, 1]),
        scan_with(num_scan_inputs=0),
        tiled_for_more_axes(),
        sliced_by_strings(),
        model("SoftmaxCrossEntropyLoss", 1, opset=13),
    ],
    ids=lambda proto: proto.graph.node[0].op_type,
)
def test_what_was_found_is_refused_with_a_code(proto: Any) -> None:
    with pytest.raises(HeddleError) as caught:
        from_onnx(proto)
    assert not isinstance(caught.value, InternalError)
