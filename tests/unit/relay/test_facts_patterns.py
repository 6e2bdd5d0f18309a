"""Patterns of expressions, by the numbered facts that users' programs rely on and no other test states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.ir import register_op_attr
from heddle.ir.structural import structural_equal
from heddle.relay.dataflow_pattern import (
    DFPatternCallback,
    dominates,
    has_attr,
    is_constant,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    partition,
    rewrite,
    wildcard,
)
from heddle.relay.op import get, op_names
from heddle.relay.op_attrs import op_attr, reset_op_attr
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, run

x, y, z = (relay.var(name, shape=(2, 3)) for name in "xyz")


def test_10_1_patterns_are_built_in_words() -> None:
    pattern = is_op("add")(is_var("x"), wildcard()) * is_constant() - is_expr(y) / wildcard()
    assert pattern.match((x + z) * relay.const(2.0) - y / x)
    assert not pattern.match((x + z) * relay.const(2.0) - z / x)
    fields = is_tuple([is_var("x"), wildcard()])
    assert is_tuple_get_item(fields, 1).match(relay.TupleGetItem(relay.Tuple([x, y]), 1))
    again = wildcard()
    again.redirect_to(is_op("exp")(again) | is_var())
    assert again.match(relay.exp(relay.exp(x))) and not again.match(relay.tanh(x))


def test_10_2_one_pattern_is_one_node_and_counts_decide() -> None:
    same = wildcard()
    assert (same + same).match(x + x) and not (same + same).match(x + y)
    assert is_op("add")(is_var("x"), is_var("y")).match(y + x)
    assert is_op("multiply")(is_var("x"), is_var("y")).match(y * x)
    assert not is_op("subtract")(is_var("x"), is_var("y")).match(y - x)
    assert is_expr(x + y).match(x + y) and is_var("").match(x)


KINDS = {
    "nn.relu": 0,
    "exp": 0,
    "cast": 0,
    "clip": 0,
    "add": 1,
    "less": 1,
    "where": 1,
    "nn.bias_add": 1,
    "broadcast_to": 1,
    "reshape": 2,
    "transpose": 2,
    "concatenate": 2,
    "take": 2,
    "strided_slice": 2,
    "nn.pad": 2,
    "tile": 2,
    "sum": 3,
    "max": 3,
    "nn.conv2d": 4,
    "nn.conv2d_transpose": 4,
    "nn.dense": 4,
    "nn.batch_matmul": 4,
    "nn.softmax": 4,
    "argsort": 8,
    "topk": 8,
    "vision.non_max_suppression": 8,
}


@pytest.mark.parametrize("name", KINDS)
def test_10_3_how_operators_are_fused_is_an_attribute(name: str) -> None:
    kind = KINDS[name]
    for wanted in range(9):
        assert has_attr({"TOpPattern": wanted}).match(get(name)) is (wanted == kind)
    assert is_op(name).has_attr({"TOpPattern": kind}).match(get(name))


def test_10_3_every_operator_has_a_kind() -> None:
    assert {op_attr(name, "TOpPattern") for name in op_names()} <= {0, 1, 2, 3, 4, 7, 8}


def test_10_3_what_users_register_is_matched_instead() -> None:
    register_op_attr("tanh", "TOpPattern", 8)
    register_op_attr("tanh", "target.dnn", "all")
    try:
        pattern = is_op("tanh").has_attr({"TOpPattern": 8, "target.dnn": "all"})(wildcard())
        assert pattern.match(relay.tanh(x)) and not pattern.match(relay.exp(x))
        assert not has_attr({"TOpPattern": 0}).match(get("tanh"))
        assert not has_attr({"nothing": 8}).match(get("tanh"))
        assert not has_attr({"target.dnn": "all"}).match(get("exp"))
    finally:
        reset_op_attr("tanh", "TOpPattern")
        reset_op_attr("tanh", "target.dnn")
    assert has_attr({"TOpPattern": 0}).match(get("tanh"))


def test_10_3_any_elementwise_operator_is_a_pattern() -> None:
    """As partitions for other compilers are written: a product and what is computed on each element."""
    pattern = wildcard().has_attr({"TOpPattern": 0})(is_op("nn.dense")(wildcard(), wildcard()))
    w = relay.var("w", shape=(4, 3))
    dense = relay.nn.dense(x, w)
    assert all(pattern.match(act(dense)) for act in (relay.nn.relu, relay.tanh, relay.exp))
    assert not pattern.match(relay.nn.softmax(dense)) and not pattern.match(relay.sum(dense))


def test_10_4_dominators_and_what_is_optional() -> None:
    elementwise = wildcard().has_attr({"TOpPattern": 0})(wildcard())
    pattern = dominates(
        is_op("exp")(wildcard()), elementwise | is_op("add")(wildcard(), wildcard()), wildcard()
    )
    source = relay.exp(x)
    assert pattern.match(relay.tanh(relay.nn.relu(source)) + source)
    assert not pattern.match(relay.tanh(relay.nn.softmax(source)))
    act = is_op("exp")(wildcard()).optional(lambda p: is_op("nn.relu")(p))
    assert act.match(relay.nn.relu(source)) and act.match(source) and not act.match(relay.nn.relu(x))


def test_10_5_callbacks_rewrite_until_nothing_changes() -> None:
    class Rule(DFPatternCallback):
        def __init__(self, old: str, new: Any) -> None:
            super().__init__()
            self.inside, self.new = wildcard(), new
            self.pattern = is_op(old)(self.inside)

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return self.new(node_map[self.inside][0])

    rules = [Rule("tanh", relay.exp), Rule("exp", relay.sqrt)]
    made = rewrite(rules, relay.tanh(relay.tanh(x) + y))
    assert structural_equal(made, relay.sqrt(relay.sqrt(x) + y))
    with pytest.raises(HeddleError, match="Q0405"):
        rewrite(Rule("tanh", lambda value: relay.tanh(relay.exp(value))), relay.tanh(x))


def test_10_6_partitions_compute_the_same() -> None:
    pattern = is_op("nn.relu")(is_op("add")(wildcard(), is_constant()))
    expr = relay.nn.relu(x * y + relay.const(floats(2, 3)))
    made = partition(pattern, expr, {"Composite": "t.act"}, lambda root: root.op.name == "nn.relu")
    assert made.op.attrs["PartitionedFromPattern"] == "add_nn.relu_" and made.op.attrs["Composite"] == "t.act"
    assert len(made.op.params) == 1  # the constant stays inside
    args = floats(2, 3), floats(2, 3)
    found, wanted = (
        run(tvm.IRModule.from_expr(relay.Function([x, y], each)), *args) for each in (made, expr)
    )
    np.testing.assert_array_equal(found, wanted)
    assert partition(pattern, expr, check=lambda root: False) is expr
