"""Functions that hand their results on compute what they did."""

from __future__ import annotations

from typing import Any

import pytest

from heddle import IRModule, relay
from heddle.ir.expr import Call, Function, If
from heddle.ir.op import Op
from heddle.ir.structural import assert_structural_equal
from heddle.relay.nodes import Let
from heddle.relay.placement import post_order
from heddle.relay.transform import to_cps, un_cps
from heddle.support.diagnostics import HeddleError, UsageError
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import program, run


def _there_and_back(mod: Any) -> Any:
    mod["main"] = un_cps(to_cps(mod["main"], mod))
    return relay.transform.InferType()(mod)


FUNCTIONS_IN_DATA = ("closure_in_data", "fixed_point", "lambda_terms", "lazy_stream", "memo_of_options")
PROGRAMS = [name for name in ROWS if name not in FUNCTIONS_IN_DATA]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_the_corpus(name: str) -> None:
    make, reference = ROWS[name]
    args = make()
    mod = _there_and_back(parsed(name))
    same(run(mod, *args), reference(*args))
    assert_structural_equal(relay.parse(mod.astext()), mod)


@pytest.mark.parametrize("name", PROGRAMS[::9])
def test_machines_run_them(name: str) -> None:
    make, reference = ROWS[name]
    args = make()
    mod = _there_and_back(parsed(name))
    same(relay.create_executor("vm", mod).evaluate()(*args), reference(*args))


def test_every_call_is_the_last_step() -> None:
    mod = program(
        "def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } } "
        "def @main(%n: int32) -> int32 { let %f = fn (%g: fn(int32) -> int32) { %g(%n) + 1 }; %f(@fact) }"
    )
    made = to_cps(mod["main"], mod)
    assert [p.name_hint for p in made.params] == ["n", "k"] and len(made.type_params) == 1
    for func in (made, mod["fact_cps"]):
        for expr in post_order(func):
            if isinstance(expr, Let):
                value = expr.value
                assert not isinstance(value, If)
                assert not isinstance(value, Call) or isinstance(value.op, Op)
    mod["main"] = un_cps(made)
    assert int(run(mod, 5)) == 121


def test_what_cannot_be_rewritten() -> None:
    x = relay.var("x", "float32")
    with pytest.raises(UsageError, match="Q0503"):
        to_cps(relay.const(1.0))
    with pytest.raises(UsageError, match="Q0503"):
        un_cps(Function((x,), x, dialect="relay"))
    for name in FUNCTIONS_IN_DATA:
        with pytest.raises(UsageError, match="Q0503"):
            _there_and_back(parsed(name))
    mod = program("type Box { Box(fn(int32) -> int32) } def @main(%b: Box) { %b }")
    with pytest.raises(UsageError, match="Q0503"):
        to_cps(mod["main"], mod)


@pytest.mark.parametrize("change", [to_cps, relay.transform.gradient])
def test_variables_that_are_not_bound(change: Any) -> None:
    x, y, g = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.GlobalVar("g")
    closure = relay.Function([], relay.multiply(x, y))
    for func in (
        relay.Function([], x),
        relay.Function([y], relay.add(x, y)),
        relay.Function([y], relay.Let(y, x, relay.tanh(y))),
        relay.Function([y], relay.Call(closure, [])),
        relay.Function([y], relay.Call(g, [y])),
    ):
        mod = IRModule({g: relay.Function([y], relay.add(x, y))})
        with pytest.raises(HeddleError, match=r"Q0307.*%x is not bound"):
            change(func, mod)
