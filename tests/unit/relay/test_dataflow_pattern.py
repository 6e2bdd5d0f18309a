"""Patterns: what they fit, rewriting, partitions, composites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.relay.dataflow_pattern import (
    CallPattern,
    DFPatternCallback,
    FunctionPattern,
    TuplePattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    partition,
    rewrite,
    wildcard,
)
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, program, run

x, y, z = (relay.var(name, shape=(2, 3)) for name in "xyz")
w = relay.var("w", shape=(4, 3))
one = relay.const(1.0)
conv = relay.nn.conv2d(
    relay.var("d", shape=(1, 2, 5, 5)), relay.var("k", shape=(3, 2, 3, 3)), kernel_size=(3, 3)
)
wild = wildcard

FITS: list[tuple[str, Any, Any, bool]] = [
    ("var", is_var("x"), x, True),
    ("another var", is_var("y"), x, False),
    ("any var", is_var(), x, True),
    ("no var", is_var(), one, False),
    ("constant", is_constant(), one, True),
    ("no constant", is_constant(), x, False),
    ("wildcard", wild(), relay.Tuple([x]), True),
    ("equal", is_expr(x + y), x + y, True),
    ("not equal", is_expr(x + y), x - y, False),
    ("operator", is_op("add")(wild(), wild()), x + y, True),
    ("another operator", is_op("add")(wild(), wild()), x - y, False),
    ("swapped", is_op("add")(is_var("x"), is_var("y")), y + x, True),
    ("not swapped", is_op("subtract")(is_var("x"), is_var("y")), y - x, False),
    ("words", is_var("x") + is_var("y") * is_constant(), x + y * one, True),
    ("quotient", is_var("x") / is_var("y") - is_var("z"), x / y - z, True),
    ("product of a quotient", (is_var("x") * is_var("y")) / is_var("z"), x * (y / z), True),
    ("quotient of a product", is_var("x") * (is_var("y") / is_var("z")), (x * y) / z, True),
    ("another product", (is_var("x") * is_var("y")) / is_var("z"), x * (z / y), False),
    ("any arguments", CallPattern(wild(), None), x + y, True),
    ("wrong number", is_op("tanh")(wild(), wild()), relay.tanh(x), False),
    ("left", is_op("add")(wild(), wild()) | is_op("subtract")(wild(), wild()), x + y, True),
    ("right", is_op("add")(wild(), wild()) | is_op("subtract")(wild(), wild()), x - y, True),
    ("neither", is_op("add")(wild(), wild()) | is_op("subtract")(wild(), wild()), x * y, False),
    ("optional", is_op("tanh")(wild()).optional(lambda p: is_op("exp")(p)), relay.exp(relay.tanh(x)), True),
    ("optional left out", is_op("tanh")(wild()).optional(lambda p: is_op("exp")(p)), relay.tanh(x), True),
    ("tuple", is_tuple([is_var("x"), wild()]), relay.Tuple([x, y]), True),
    ("shorter tuple", is_tuple([is_var("x")]), relay.Tuple([x, y]), False),
    ("any tuple", TuplePattern(None), relay.Tuple([x, y]), True),
    ("field", is_tuple_get_item(wild(), 1), relay.TupleGetItem(relay.Tuple([x, y]), 1), True),
    ("another field", is_tuple_get_item(wild(), 1), relay.TupleGetItem(relay.Tuple([x, y]), 0), False),
    ("any field", is_tuple_get_item(wild()), relay.TupleGetItem(relay.Tuple([x, y]), 0), True),
    ("branch", is_if(wild(), is_var("x"), is_var("y")), relay.If(relay.const(True), x, y), True),
    ("other branch", is_if(wild(), is_var("y"), is_var("x")), relay.If(relay.const(True), x, y), False),
    ("let", is_let(is_var("z"), is_op("tanh")(wild()), wild()), relay.Let(z, relay.tanh(x), z), True),
    ("function", FunctionPattern([wild()], is_op("tanh")(wild())), relay.Function([x], relay.tanh(x)), True),
    ("any parameters", FunctionPattern(None, wild()), relay.Function([x, y], x), True),
    ("wrong parameters", FunctionPattern([wild()], wild()), relay.Function([x, y], x), False),
    ("attributes", is_op("nn.conv2d")(wild(), wild()).has_attr({"kernel_size": [3, 3]}), conv, True),
    ("other attributes", is_op("nn.conv2d")(wild(), wild()).has_attr({"groups": 2}), conv, False),
    ("unknown attributes", has_attr({"nothing": 1}), conv, False),
    (
        "attributes of a function",
        has_attr({"Composite": "a"}),
        relay.Function([x], x).with_attr("Composite", "a"),
        True,
    ),
    ("type", has_type(relay.TensorType((2, 3))), x, True),
    ("type of a call", has_type(relay.TensorType((2, 4))), relay.nn.dense(x, w), True),
    ("another type", has_type(relay.TensorType((2, 4))), x, False),
    ("dtype", has_dtype("float32", is_op("add")(wild(), wild())), x + y, True),
    ("another dtype", is_var().has_dtype("int8"), x, False),
    ("sizes", has_shape((2, 3)), x + y, True),
    ("other sizes", is_var("x").has_shape((3, 2)), x, False),
    ("free sizes", has_shape((relay.Any(), 3)), relay.var("n", shape=(relay.Any(), 3)), True),
]


@pytest.mark.parametrize(("name", "pattern", "expr", "fits"), FITS, ids=[row[0] for row in FITS])
def test_what_patterns_fit(name: str, pattern: Any, expr: Any, fits: bool) -> None:
    assert pattern.match(expr) is fits
    assert relay.dataflow_pattern.match(pattern, expr) is fits


def test_one_pattern_is_one_expression() -> None:
    same = wildcard()
    twice = is_op("add")(same, same)
    assert twice.match(x + x) and not twice.match(x + y)
    shared = is_op("tanh")(same)
    assert (shared * same).match(relay.tanh(x) * x) and not (shared * same).match(relay.tanh(x) * y)


def test_an_alternative_that_fails_later_is_taken_back() -> None:
    inner = wildcard()
    pattern = is_op("subtract")(is_op("tanh")(inner) | inner, inner)
    assert pattern.match(relay.tanh(x) - x) and pattern.match(x - x)


def test_a_wildcard_that_leads_back_repeats() -> None:
    chain = wildcard()
    chain.redirect_to(is_op("tanh")(chain) | is_var("x"))
    assert chain.match(x) and chain.match(relay.tanh(relay.tanh(relay.tanh(x))))
    assert not chain.match(relay.tanh(relay.exp(x))) and not chain.match(relay.tanh(y))


DOMINATED = [
    ("chain", lambda: relay.nn.relu(relay.tanh(relay.exp(x))), True),
    ("two ways", lambda: (lambda e: relay.nn.relu(relay.tanh(e) + relay.tanh(e)))(relay.exp(x)), True),
    ("no way between", lambda: relay.nn.relu(relay.exp(x)), True),
    ("with a constant", lambda: relay.nn.relu(relay.exp(x) + one), True),
    ("another operator between", lambda: relay.nn.relu(relay.nn.softmax(relay.exp(x))), False),
    ("no parent", lambda: relay.nn.relu(relay.tanh(x)), False),
]


@pytest.mark.parametrize(("name", "make", "fits"), DOMINATED, ids=[row[0] for row in DOMINATED])
def test_dominators(name: str, make: Any, fits: bool) -> None:
    path = is_op("tanh")(wildcard()) | is_op("add")(wildcard(), wildcard())
    pattern = dominates(is_op("exp")(wildcard()), path, is_op("nn.relu")(wildcard()))
    assert pattern.match(make()) is fits


class _ReplaceTanh(DFPatternCallback):
    def __init__(self, once: bool = False) -> None:
        super().__init__(rewrite_once=once)
        self.data = wildcard()
        self.pattern = is_op("tanh")(self.data)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        assert pre.op.name == "tanh" and node_map[self.pattern][0] is post
        return relay.exp(node_map[self.data][0])


def test_rewriting() -> None:
    expr = relay.tanh(relay.tanh(x) + y)
    made = rewrite(_ReplaceTanh(), expr)
    assert structural_equal(made, relay.exp(relay.exp(x) + y))
    same = x + y
    assert rewrite(_ReplaceTanh(), same) is same
    assert structural_equal(_ReplaceTanh().rewrite(expr), made)


class _Grow(DFPatternCallback):
    def __init__(self, once: bool) -> None:
        super().__init__(rewrite_once=once)
        self.pattern = is_var("x")

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return relay.tanh(post)


def test_rewriting_that_does_not_end_is_refused() -> None:
    assert structural_equal(rewrite(_Grow(True), relay.exp(x)), relay.exp(relay.tanh(x)))
    with pytest.raises(HeddleError, match="Q0405"):
        rewrite(_Grow(False), relay.exp(x))


def test_callbacks_see_types_where_they_ask() -> None:
    seen = []

    class Typed(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(require_type=True)
            self.pattern = is_op("nn.dense")(wildcard(), wildcard())

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            seen.append(tuple(int(dim) for dim in pre.checked_type.dims))
            return post

    rewrite(Typed(), relay.nn.dense(x, w))
    assert seen and set(seen) == {(2, 4)}


def test_matches_do_not_overlap() -> None:
    expr = relay.tanh(relay.tanh(relay.tanh(x)))
    pattern = is_op("tanh")(is_op("tanh")(wildcard()))
    made = partition(pattern, expr)
    inner = made.args[0]
    assert isinstance(made.op, relay.Function) and inner.op.name == "tanh" and inner.args[0] is x


def test_what_is_used_outside_is_not_taken() -> None:
    shared = relay.tanh(x)
    expr = relay.Tuple([relay.exp(shared), shared])
    assert partition(is_op("exp")(is_op("tanh")(wildcard())), expr) is expr


def test_partitions() -> None:
    pattern = is_op("add")(is_op("nn.dense")(wildcard(), wildcard()), is_constant())
    bias = relay.const(floats(4))
    expr = relay.nn.relu(relay.nn.dense(x, w) + bias)
    made = pattern.partition(expr, {"Composite": "t.dense"})
    func = made.args[0].op
    assert func.attrs["PartitionedFromPattern"] == "nn.dense_add_" and func.attrs["Composite"] == "t.dense"
    assert [param.name_hint for param in func.params] == ["FunctionVar_0_0", "FunctionVar_0_1"]
    assert [arg.name_hint for arg in made.args[0].args] == ["x", "w"]
    free = is_op("add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard())
    assert len(free.partition(expr).args[0].op.params) == 3
    assert pattern.partition(expr, check=lambda root: False) is expr
    mod = heddle.IRModule.from_expr(relay.Function([x, w], made))
    args = floats(2, 3), floats(4, 3)
    wanted = np.maximum(args[0] @ args[1].T + bias.data.numpy(), 0)
    np.testing.assert_allclose(run(mod, *args), wanted, rtol=1e-4)
    built = relay.create_executor("vm", mod).evaluate()(*args)
    np.testing.assert_allclose(built.numpy(), wanted, rtol=1e-4)


NET = (
    "def @main(%x: Tensor[(1, 2, 5, 5), float32], %w: Tensor[(3, 2, 3, 3), float32], "
    "%b: Tensor[(3), float32]) { nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b)) + 1f }"
)


def test_composites() -> None:
    conv_bias = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    table = [("dnn.conv_bias_relu", is_op("nn.relu")(conv_bias)), ("dnn.conv_bias", conv_bias)]
    mod = program(NET)
    made = relay.transform.MergeComposite(table)(mod)
    func = made["main"].body.args[0].op
    assert func.attrs["Composite"] == "dnn.conv_bias_relu"
    assert func.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_nn.relu_"
    assert_structural_equal(relay.parse(made.astext()), made)
    args = floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)
    np.testing.assert_allclose(run(made, *args), run(mod, *args), rtol=1e-5)
    refused = relay.transform.MergeComposite([(*table[0], lambda root: False), table[1]])(mod)
    assert refused["main"].body.args[0].args[0].op.attrs["Composite"] == "dnn.conv_bias"
    assert relay.transform.MergeComposite([("a.b", is_op("erf")(wildcard()))])(mod) is mod
    back = relay.transform.LambdaLift()(made)
    np.testing.assert_allclose(run(back, *args), run(mod, *args), rtol=1e-5)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(HeddleError, match="I0401"):
        is_op("nn.conv2")


def test_patterns_of_a_deep_program() -> None:
    expr: Any = x
    for _ in range(5000):
        expr = relay.tanh(relay.exp(expr))
    assert partition(is_op("tanh")(is_op("exp")(wildcard())), expr) is not expr


def test_callbacks_that_say_too_little() -> None:
    class NoPattern(DFPatternCallback):
        pass

    class NoResult(DFPatternCallback):
        def __init__(self) -> None:
            self.pattern = is_op("nn.relu")(wildcard())

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return None

    for callback, words in ((NoPattern(), "NoPattern has no pattern"), (NoResult(), "gives NoneType")):
        with pytest.raises(HeddleError, match=words) as found:
            rewrite(callback, relay.nn.relu(x))
        assert "Q0101" in str(found.value)
