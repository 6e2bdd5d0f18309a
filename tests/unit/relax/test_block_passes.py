"""Passes about the form of functions: Normalize, ConvertToDataflow, TopologicalSort."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from heddle.graph.nodes import body_of
from heddle.ir.expr import Call, Function, Var
from heddle.ir.instrument import verify_module
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relax import TensorType, op
from heddle.relax.transform.convert_to_dataflow import ConvertToDataflow
from heddle.relax.transform.normalize import Normalize
from heddle.relax.transform.topological_sort import TopologicalSort
from heddle.script import from_source
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.support.diagnostics import UsageError
from tests.unit.relax.running import assert_runs

RNG = np.random.default_rng(5)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def names(mod: IRModule, block: int = 0) -> list[str]:
    return [binding.var.name_hint for binding in body_of(mod["main"]).blocks[block].bindings]


def test_nested_expressions_get_variables():
    x = Var("x", TensorType((3,), "float32"))
    nested = op.multiply(op.add(x, x), op.exp(op.add(x, x)))
    assert isinstance(nested.args[0], Call)
    mod = IRModule.from_expr(Function((x,), nested).with_attr("global_symbol", "main"))
    made = Normalize()(mod)
    assert not verify_module(made)
    assert len(body_of(made["main"]).bindings()) == 4
    assert Normalize()(made) is made
    value = array(3)
    np.testing.assert_allclose(assert_runs(made, value), 2 * value * np.exp(2 * value), rtol=1e-5)


def test_runs_of_pure_bindings_become_dataflow_blocks():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            a = R.add(x, x)
            b = R.multiply(a, a)
            _ = R.call_packed("test.effect", b, ty_args=[R.Tuple()])
            c = R.exp(b)
            return c

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                b = R.multiply(a, a)
                R.output(b)
            _ = R.call_packed("test.effect", b, ty_args=[R.Tuple()])
            c = R.exp(b)
            return c

    made = ConvertToDataflow()(Before)
    assert not verify_module(made)
    assert_structural_equal(made, Expected, map_free_vars=True)
    assert ConvertToDataflow()(made) is made
    assert ConvertToDataflow(min_size=3)(Before) is Before
    smaller = ConvertToDataflow(min_size=1)(Before)
    assert [block.is_dataflow for block in body_of(smaller["main"]).blocks] == [True, False, True]


def test_a_dataflow_block_takes_in_its_neighbours():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
            a = R.add(x, x)
            with R.dataflow():
                b = R.exp(a)
                R.output(b)
            d = R.multiply(b, a)
            if c:
                f = R.add(d, x)
                g = R.exp(f)
                e = R.subtract(g, x)
            else:
                e = d
            return e

    made = ConvertToDataflow()(Before)
    assert not verify_module(made)
    blocks = body_of(made["main"]).blocks
    assert [block.is_dataflow for block in blocks] == [True, False]
    assert [binding.var.is_dataflow for binding in blocks[0].bindings] == [True, True, False]
    branch = blocks[1].bindings[0].value.true_branch
    assert [binding.var.is_dataflow for binding in branch.blocks[0].bindings] == [True, True, False]
    assert [block.is_dataflow for block in branch.blocks] == [True]
    for choice in (True, False):
        assert_runs(made, array(3), np.array(choice), before=Before)


@I.ir_module
class Chains:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Any:
        with R.dataflow():
            a = R.exp(x)
            b = R.tanh(y)
            c = R.add(a, a)
            d = R.add(b, b)
            f = R.exp(b)
            e = R.multiply(c, d)
            R.output(e, f)
        return (e, f)


@pytest.mark.parametrize(
    ("order", "direction", "expected"),
    [
        ("depth-first", "from-inputs", ["a", "c", "b", "d", "e", "f"]),
        ("breadth-first", "from-inputs", ["a", "b", "c", "d", "f", "e"]),
        ("depth-first", "from-outputs", ["b", "f", "a", "c", "d", "e"]),
    ],
)
def test_bindings_are_sorted(order: str, direction: str, expected: list[str]):
    made = TopologicalSort(order, direction)(Chains)
    assert not verify_module(made)
    assert sorted(names(made)) == sorted(names(Chains))
    assert names(made) == expected
    assert_runs(made, array(3), array(3), before=Chains)


def test_sorted_bindings_stay_the_same_object():
    once = TopologicalSort()(Chains)
    assert TopologicalSort()(once) is once


def test_a_cast_to_a_known_size_is_no_definition():
    """`n` comes from x: nothing waits for the cast that says it again."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.match_cast(a, R.Tensor((n, 3)))
            c = R.exp(b)
            R.output(c)
        return c
""")
    for order, direction in product(("depth-first", "breadth-first"), ("from-inputs", "from-outputs")):
        made = TopologicalSort(order, direction)(mod)
        assert not verify_module(made)
        assert names(made) == ["a", "b", "c"]


def test_unknown_orders_are_refused():
    with pytest.raises(UsageError, match="I0508"):
        TopologicalSort("sideways")
