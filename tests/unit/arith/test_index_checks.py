"""Checks of indices in values that a condition chooses: what is simplified raises where the original does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relax
from heddle.arith import Analyzer
from heddle.frontend.onnx import from_onnx
from heddle.ir.visitor import walk
from heddle.prim.checked_index import checked_index
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Select, Var, constant
from heddle.prim.ops import equal, if_then_else, less, logical_not, select
from heddle.support.diagnostics import TrapIndexError

D, E = Var("d", "int64"), Var("e", "int64")
ZERO, FIVE = constant(0, "int64"), constant(5, "int64")
BROADCAST = select(equal(D, 1), E, D)
"""The size that sizes d and e broadcast to."""
CHECKS = {
    "a value that is not chosen": select(equal(D, 1), ZERO, checked_index(FIVE, BROADCAST)),
    "the first value": select(logical_not(equal(D, 1)), checked_index(FIVE, BROADCAST), ZERO),
    "a value in a value": select(less(D, 9), select(equal(D, 1), ZERO, checked_index(FIVE, BROADCAST)), ZERO),
    "within a sum": select(equal(D, 1), ZERO, checked_index(FIVE, BROADCAST) + D),
    "in a choice in a value": select(
        equal(D, 1), ZERO, if_then_else(less(E, 100), checked_index(FIVE, BROADCAST), ZERO)
    ),
}


def _outcome(expr, sizes):
    try:
        return int(evaluate(expr, sizes))
    except TrapIndexError as error:
        return str(error)


@pytest.mark.parametrize("name", CHECKS)
def test_values_of_a_select_are_computed_whatever_the_condition_is(name: str) -> None:
    simplified = Analyzer().simplify(CHECKS[name])
    for d, e in product((1, 2, 7), repeat=2):
        sizes = {D: d, E: e}
        assert _outcome(simplified, sizes) == _outcome(CHECKS[name], sizes), sizes


def test_a_value_that_is_computed_alone_is_simplified_by_its_condition() -> None:
    chosen = if_then_else(equal(D, 1), ZERO, checked_index(FIVE, BROADCAST))
    assert not any(isinstance(node, Select) for node in walk(Analyzer().simplify(chosen)))


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_an_element_of_a_broadcast_sum_is_read(exec_mode: str) -> None:
    """Either operand may be the one that is repeated, and the index lies outside of it."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, [name]) for name in ("a", "b")]
    output = helper.make_tensor_value_info("z", TensorProto.INT32, [])
    nodes = [helper.make_node("Sub", ["a", "b"], ["y"]), helper.make_node("Gather", ["y", "at"], ["z"])]
    at = numpy_helper.from_array(np.array(5), "at")
    graph = helper.make_graph(nodes, "graph", inputs, [output], [at])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    compiled = heddle.compile(from_onnx(model), exec_mode=exec_mode)
    main = relax.VirtualMachine(compiled, heddle.cpu())["main"]
    rng = np.random.default_rng()
    for sizes in ((1, 7), (7, 1), (7, 7)):
        a, b = (rng.integers(-99, 99, size, dtype=np.int32) for size in sizes)
        assert main(a, b).numpy() == (a - b)[5]
    with pytest.raises(TrapIndexError, match="index 5 is out of range for an axis of 4 elements"):
        main(np.zeros(1, "int32"), np.zeros(4, "int32"))
