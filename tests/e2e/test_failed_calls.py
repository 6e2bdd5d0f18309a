"""A call that fails damages nothing that the caller can see: what earlier calls gave, what it was given, and
what the program holds stay as they are, and the next call gives the same bits. See docs/threat-model.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.runtime.native.library import native_library
from heddle.support.diagnostics import HeddleError

ROWS, WIDTH = 24, 16
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
NODES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "gather": (lambda data: helper.make_node("Gather", [data, "i"], ["z"], axis=0), (9,)),
    "columns": (lambda data: helper.make_node("Gather", [data, "i"], ["z"], axis=1), (9,)),
    "elements": (lambda data: helper.make_node("GatherElements", [data, "i"], ["z"], axis=1), (ROWS, 9)),
    "scatter rows": (lambda data: helper.make_node("ScatterND", [data, "i", "u"], ["z"]), (9, 1)),
    "scatter": (
        lambda data: helper.make_node("ScatterElements", [data, "i", "u"], ["z"], axis=0),
        (9, WIDTH),
    ),
    "sums": (
        lambda data: helper.make_node("ScatterElements", [data, "i", "u"], ["z"], axis=0, reduction="add"),
        (9, WIDTH),
    ),
}
"""Operators that check indices, by the shape of these. Updates are (9, WIDTH)."""
SOURCES = ("x", "constant", "made", "kept")
"""What the operator reads or changes: the input, the model's own, a value of the call, one of the results."""


def model(kind: str, source: str, is_free: bool) -> bytes:
    make, index_shape = NODES[kind]
    rows: Any = "n" if is_free else ROWS
    nodes = [
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("Add", ["y", "constant"], ["made"]),
        make({"kept": "y"}.get(source, source)),
        helper.make_node("Tanh", ["z"], ["w"]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("x", FLOAT, [rows, WIDTH]), info("i", INT, index_shape)]
    if "scatter" in kind or kind == "sums":
        inputs.append(info("u", FLOAT, [9, WIDTH]))
    weights = numpy_helper.from_array(np.linspace(-1, 1, ROWS * WIDTH, dtype="float32").reshape(ROWS, -1))
    weights.name = "constant"
    outputs = [info(name, FLOAT, None) for name in ("y", "w", "same", "constant")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    content: bytes = made.SerializeToString()
    return content


@pytest.mark.parametrize("is_free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_call_that_fails_damages_nothing(mode: str, kind: str, source: str, is_free: bool) -> None:
    executable = heddle.compile(
        from_onnx(onnx.load_from_string(model(kind, source, is_free))), exec_mode=mode
    )
    rng = np.random.default_rng(7)
    machines = [relax.VirtualMachine(executable, heddle.cpu())["main"] for _ in range(2)]
    size = WIDTH if kind in ("columns", "elements") else ROWS
    index_shape = NODES[kind][1]
    x = rng.standard_normal((ROWS, WIDTH)).astype("float32")
    indices = rng.integers(0, size, index_shape)
    if "scatter" in kind:
        indices[:] = rng.permutation(size)[:9].reshape((9,) + (1,) * (indices.ndim - 1))
    given = [x, indices]
    if "scatter" in kind or kind == "sums":
        given.append(rng.standard_normal((9, WIDTH)).astype("float32"))
    before = [array.copy() for array in given]
    first = machines[0](*given)
    kept = [result.numpy().copy() for result in first]
    native = native_library()
    threads = native.num_threads
    for bad in (size, -size - 1, 1 << 62, -(1 << 63)):
        for place in (0, indices.size // 2, indices.size - 1):
            wrong = indices.copy()
            wrong.reshape(-1)[place] = bad
            try:
                native.set_num_threads(1 + place % 2)
                with pytest.raises(HeddleError) as caught:
                    machines[0](given[0], wrong, *given[2:])
                assert isinstance(caught.value, IndexError)
            finally:
                native.set_num_threads(threads)
            for result, expected in zip(first, kept, strict=True):
                np.testing.assert_array_equal(result.numpy(), expected)
            for array, expected in zip(given, before, strict=True):
                np.testing.assert_array_equal(array, expected)
    for machine in machines:
        for result, expected in zip(machine(*given), kept, strict=True):
            np.testing.assert_array_equal(result.numpy(), expected)
