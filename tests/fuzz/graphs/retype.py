"""A case in another element type: inputs and constants are converted, and every node is evaluated again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from heddle.frontend.onnx.part import used_names
from tests.fuzz.graphs.judge import Case
from tests.fuzz.graphs.oracle import Refused, evaluate, value_info
from tests.fuzz.graphs.values import ONNX_TYPES, Value

ROUNDING = np.float32(1.0001)
"""Stands for errors of rounding, which are not followed from node to node here."""


def with_dtype(case: Case, old: str, new: str) -> Case | None:
    """The case with `new` for `old` in inputs, constants and what casts give, and with wider tolerances. None
    where a peer refuses it."""
    dtypes = {dtype.name: dtype for dtype in ONNX_TYPES}
    before, after = dtypes[old], dtypes[new]

    def turned(value: Any) -> Any:
        if isinstance(value, list):
            return [turned(item) for item in value]
        return value.astype(after) if value.dtype == before else value

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    for item in graph.initializer:
        item.CopyFrom(numpy_helper.from_array(turned(numpy_helper.to_array(item)), item.name))
    for node in graph.node:
        _turn_attributes(node, ONNX_TYPES[before], ONNX_TYPES[after])
    for info in graph.input:
        if info.type.tensor_type.elem_type == ONNX_TYPES[before]:
            info.type.tensor_type.elem_type = ONNX_TYPES[after]
    tables = [{name: turned(array) for name, array in given.items()} for given in case.inputs]
    inputs = [dict(table) for table in tables]
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    opset = model.opset_import[0].version
    try:
        for table in tables:
            table.update(constants)
            for node in graph.node:
                wanted = {name: table[name] for name in used_names(node)}
                names = [name for name in node.output if name]
                table.update(zip(names, evaluate(node, wanted, opset), strict=True))
    except (Refused, KeyError):
        return None
    outputs = [info.name for info in graph.output]
    for info in graph.output:
        info.CopyFrom(value_info(info.name, tables[0][info.name]))
    results = [[table[name] for name in outputs] for table in tables]
    if any(array.dtype.kind == "f" and not np.isfinite(array).all() for row in results for array in row):
        return None
    known = {
        name: Value(name, [table[name] for table in tables], [table[name] for table in tables])
        for name in tables[0]
    }
    noisy = [[array * ROUNDING if array.dtype.kind == "f" else array for array in row] for row in results]
    return replace(case, model=model, inputs=inputs, wanted=results, noisy=noisy, known=known)


def _turn_attributes(node: onnx.NodeProto, before: int, after: int) -> None:
    """`to` of casts and `dtype` of what makes values."""
    for attr in node.attribute:
        if attr.name in ("to", "dtype") and attr.i == before:
            attr.i = after
