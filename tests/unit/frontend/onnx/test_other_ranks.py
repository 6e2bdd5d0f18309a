"""Operators of the conformance cases with inputs of other ranks, and constants without elements.

Each model is imported, or refused with a code.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper, parser
from onnx.backend.test.loader import load_model_tests

from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError
from tests.unit.frontend.onnx.runtime_oracle import Compared

PARTS = 12
MOST_RANK = 5
_FORMS = ("free", "fixed", "constant", "empty", "all constant")


@cache
def _cases() -> tuple[ModelProto, ...]:
    """The first case of each operator and number of inputs that is one node."""
    found: dict[tuple[str, str, int], ModelProto] = {}
    for case in load_model_tests(kind="node"):
        model = case.model or onnx.load(f"{case.model_dir}/model.onnx")
        if len(model.graph.node) == 1:
            node = model.graph.node[0]
            found.setdefault((node.domain, node.op_type, len(model.graph.input)), model)
    return tuple(found.values())


def _changed(model: ModelProto, index: int, rank: int, form: str) -> ModelProto | None:
    """The case with an input of another rank; None where there is no constant of its type."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    del graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in graph.node[0].output if name)
    given = graph.input[index]
    kind = given.type.tensor_type
    if form in ("free", "fixed"):
        dims = [f"q{axis}" if form == "free" else 2 for axis in range(rank)]
        given.CopyFrom(helper.make_tensor_value_info(given.name, kind.elem_type, dims))
        return made
    shapes = {given.name: (0 if form == "empty" else 2,) * rank}
    if form == "all constant":
        for other in graph.input:
            shapes.setdefault(other.name, _shape(other))
    for other in [each for each in graph.input if each.name in shapes]:
        if (
            not other.type.HasField("tensor_type")
            or other.type.tensor_type.elem_type == onnx.TensorProto.STRING
        ):
            return None
        dtype = helper.tensor_dtype_to_np_dtype(other.type.tensor_type.elem_type)
        graph.initializer.append(numpy_helper.from_array(np.ones(shapes[other.name], dtype), other.name))
        graph.input.remove(other)
    return made


def _shape(given: ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in given.type.tensor_type.shape.dim)


def _models(part: int) -> Iterator[tuple[str, ModelProto]]:
    for model in _cases()[part::PARTS]:
        for index, given in enumerate(model.graph.input):
            if not given.type.HasField("tensor_type"):
                continue
            for rank in range(MOST_RANK + 1):
                for form in _FORMS:
                    made = _changed(model, index, rank, form)
                    if made is not None:
                        yield f"{model.graph.node[0].op_type}, input {index}: {form}, rank {rank}", made


@pytest.mark.parametrize("part", range(PARTS))
def test_inputs_of_other_ranks_are_imported_or_refused(part: int) -> None:
    """15 places raised bare errors of Python before."""
    faults, count = [], 0
    for name, model in _models(part):
        count += 1
        try:
            from_onnx(model)
        except HeddleError:
            pass
        except Exception as error:
            faults.append(f"{name}: {type(error).__name__}: {error}")
    assert count > 500 and not faults, faults[:10]


@pytest.mark.parametrize(
    ("body", "feed"),
    [
        ("(float[3] x, bool c) => (y) { y = Compress<axis=0>(x, c) }", {"c": np.array(True)}),
        ("(float[n] x, bool c) => (y) { y = Compress<axis=0>(x, c) }", {"c": np.array(False)}),
        ("(float[3] x, float s) => (y) { y = Resize(x, , s) }", {"s": np.array(2, "float32")}),
    ],
)
def test_a_number_stands_for_a_vector_of_one(body: str, feed: dict[str, Any]) -> None:
    model = helper.make_model(
        parser.parse_graph(f"one {body}"), opset_imports=[helper.make_opsetid("", 17)], ir_version=10
    )
    assert Compared(model).check({"x": np.array([1, 2, 4], "float32"), **feed}) == "equal"


def test_the_greatest_of_one_number() -> None:
    graph = parser.parse_graph("one (float x) => (y) { y = Hardmax(x) }")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert Compared(model).check({"x": np.array(3, "float32")}, [np.array(1, "float32")]) == "equal"
