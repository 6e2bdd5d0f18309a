"""ProveIndices: checks go where constants and loop functions prove that they hold, and stay elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import heddle
from heddle import relax
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.lower.prove_indices import ProveIndices
from heddle.prim.checked_index import CHECKED_INDEX
from heddle.prim.nodes import Call, SizeVar
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import HeddleError
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

TARGET = Target("llvm")
TABLE = np.arange(32, dtype="float32").reshape(8, 4)
Graph = Callable[[Any, Any], Expr]


def program(graph: Graph, dtype: str = "int64", rows: Any = None) -> IRModule:
    """A function of a table of 8 rows (`rows`, if given) and integers (5,)."""
    table = Var("table", TensorType((8 if rows is None else rows, 4), "float32"))
    at = Var("at", TensorType((5,), dtype))
    builder = BlockBuilder()
    with builder.function("main", [table, at]):
        with builder.dataflow():
            result = builder.emit_output(graph(table, at))
        builder.emit_func_output(result)
    return builder.get()


def checks(mod: IRModule) -> int:
    return sum(
        isinstance(node, Call) and node.op.name == CHECKED_INDEX
        for func in mod.functions.values()
        if isinstance(func, PrimFunc)
        for node in walk(func.body)
    )


def before_and_after(mod: IRModule) -> tuple[int, int]:
    """How many checks there are before the pass and after it."""
    for step in (*optimize_passes(TARGET), *legalize_passes(TARGET)):
        if isinstance(step, ProveIndices):
            return checks(mod), checks(step(mod))
        mod = step(mod)
    raise AssertionError("the pipeline has no such pass")


def numbers(values: Any, dtype: str = "int64") -> Expr:
    return const(np.asarray(values, dtype))


PROVED: dict[str, Graph] = {
    "rest": lambda t, at: op.take(t, op.floor_mod(at, numbers(8)), axis=0),
    "rest of less": lambda t, at: op.take(t, op.floor_mod(at, numbers(3)), axis=0),
    "mask": lambda t, at: op.take(t, op.bitwise_and(at, numbers(7)), axis=0),
    "clip": lambda t, at: op.take(t, op.minimum(op.maximum(at, numbers(-8)), numbers(7)), axis=0),
    "constants": lambda t, at: op.add(
        op.take(t, numbers([7, 0, -8]), axis=0), op.take(t, numbers(3), axis=0)
    ),
    "table of constants": lambda t, at: op.take(
        t, op.take(numbers([5, 7, 0, 2]), op.bitwise_and(at, numbers(3)), axis=0), axis=0
    ),
    "one or the other": lambda t, at: op.take(t, op.astype(op.greater(at, numbers(2)), "int64"), axis=0),
    "elements": lambda t, at: op.gather_elements(
        t, op.broadcast_to(op.expand_dims(op.bitwise_and(at, numbers(3)), (1,)), (5, 4)), axis=0
    ),
}
UNPROVED: dict[str, Graph] = {
    "given": lambda t, at: op.take(t, at, axis=0),
    "one too many": lambda t, at: op.take(t, op.floor_mod(at, numbers(9)), axis=0),
    "one too few": lambda t, at: op.take(t, op.maximum(op.minimum(at, numbers(7)), numbers(-9)), axis=0),
    "a product that wraps": lambda t, at: op.take(
        t, op.minimum(op.multiply(op.bitwise_and(at, numbers(2**62)), numbers(4)), numbers(7)), axis=0
    ),
    "constants": lambda t, at: op.take(t, numbers([7, 8]), axis=0),
}


@pytest.mark.parametrize("name", PROVED)
def test_proved(name: str) -> None:
    before, after = before_and_after(program(PROVED[name]))
    assert before > 0 and after == 0


@pytest.mark.parametrize("name", UNPROVED)
def test_unproved(name: str) -> None:
    before, after = before_and_after(program(UNPROVED[name]))
    assert before == after == 1


@pytest.mark.parametrize("name", PROVED)
def test_axes_of_free_sizes_keep_their_checks(name: str) -> None:
    _, after = before_and_after(program(PROVED[name], rows=SizeVar("rows")))
    assert after > 0


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", PROVED)
def test_proved_indices_read_the_same(name: str, exec_mode: str) -> None:
    mod = program(PROVED[name])
    at = np.random.default_rng().integers(-(2**40), 2**40, 5)
    machine = relax.VirtualMachine(heddle.compile(mod, exec_mode=exec_mode), heddle.cpu())
    expected = GraphInterpreter(mod)["main"](TABLE, at)
    np.testing.assert_array_equal(np.asarray(machine["main"](TABLE, at)), np.asarray(expected))


@pytest.mark.parametrize("name", ["one too many", "one too few", "constants"])
def test_unproved_indices_are_errors(name: str) -> None:
    machine = relax.VirtualMachine(heddle.compile(program(UNPROVED[name])), heddle.cpu())
    with pytest.raises(HeddleError, match="U1001"):
        machine["main"](TABLE, np.asarray([8, 8, 8, 8, -100]))


def test_bytes_of_constants_prove_nothing() -> None:
    """Their values may be given later (`load_late_bound_consts`), those of wider integers may not."""
    graph: Graph = lambda t, at: op.take(t, op.astype(numbers([1, 2], "int8"), "int64"), axis=0)  # noqa: E731
    mod = program(graph)
    rest = [step for step in legalize_passes(TARGET) if not isinstance(step, ProveIndices)][:3]
    for step in rest:
        mod = step(mod)
    assert checks(mod) == checks(ProveIndices()(mod)) == 1


def full_trees(trees: int, depth: int, features: int) -> onnx.ModelProto:
    """Every leaf of a tree is as deep."""
    inner, rng = 2**depth - 1, np.random.default_rng(0)
    nodes = [(tree, node) for tree in range(trees) for node in range(2 * inner + 1)]
    leaves = [(tree, node) for tree, node in nodes if node >= inner]
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[tree for tree, _ in nodes],
        nodes_nodeids=[number for _, number in nodes],
        nodes_featureids=rng.integers(features, size=len(nodes)).tolist(),
        nodes_values=rng.standard_normal(len(nodes)).tolist(),
        nodes_modes=["LEAF" if number >= inner else "BRANCH_LEQ" for _, number in nodes],
        nodes_truenodeids=[0 if number >= inner else 2 * number + 1 for _, number in nodes],
        nodes_falsenodeids=[0 if number >= inner else 2 * number + 2 for _, number in nodes],
        target_treeids=[tree for tree, _ in leaves],
        target_nodeids=[number for _, number in leaves],
        target_ids=[0] * len(leaves),
        target_weights=rng.standard_normal(len(leaves)).tolist(),
    )
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", features])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    graph = onnx.helper.make_graph([node], "trees", [x], [y])
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("features", [20, 32])
def test_a_forest_walks_without_checks(features: int) -> None:
    before, after = before_and_after(from_onnx(full_trees(3, 4, features)))
    assert before > 3 and after == 0
