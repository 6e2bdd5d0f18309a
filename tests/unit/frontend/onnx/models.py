"""Small models of one or a few nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_NUMBERS = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "int32": TensorProto.INT32,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "string": TensorProto.STRING,
}


def info(name: str, shape: Any, dtype: str = "float32") -> Any:
    return helper.make_tensor_value_info(name, _NUMBERS[dtype], shape)


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    stored: dict[str, Any] | None = None,
    opset: int = 18,
    **more: Any,
) -> onnx.ModelProto:
    """Inputs by name: a shape, or (shape, dtype). Outputs have no stated type."""
    given = [info(name, *(spec if isinstance(spec, tuple) else (spec,))) for name, spec in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (stored or {}).items()]
    graph = helper.make_graph(nodes, "graph", given, results, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def node(op: str, inputs: list[str], outputs: list[str], name: str = "", **attrs: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name, **attrs)
