"""Programs whose types and values nest deep: a result, or a refusal that says so."""

from __future__ import annotations

from typing import Any

import pytest

import heddle
from heddle import relay
from heddle.ir.instrument import verify_module
from heddle.relay.transform import InferType
from heddle.support.diagnostics import HeddleError


def _result(run: Any) -> str:
    """`ok`, or the code of the refusal."""
    try:
        run()
    except HeddleError as error:
        return error.diagnostics[0].code.name
    return "ok"


def _tuples(depth: int) -> heddle.IRModule:
    x = value = relay.var("x", shape=(2,))
    for _ in range(depth):
        value = relay.Tuple([value])
    return heddle.IRModule.from_expr(relay.Function([x], value))


def _types(depth: int) -> heddle.IRModule:
    ty: Any = relay.TensorType((2,))
    for _ in range(depth):
        ty = relay.TupleType([ty])
    given, taken = relay.var("given", ty), relay.var("taken", ty)
    func = relay.Function([taken], relay.const(1.0))
    return heddle.IRModule.from_expr(relay.Function([given], relay.Call(func, [given])))


@pytest.mark.parametrize("make", [_tuples, _types])
@pytest.mark.parametrize("depth", [20, 300, 2000])
def test_deep_types_are_inferred_and_compiled_or_refused(make: Any, depth: int) -> None:
    if make is _tuples and depth == 2000:
        depth = 600  # each level has a type of its own size
    mod = make(depth)
    wanted = {"ok"} if depth == 20 else {"ok", "I0510"}
    assert _result(lambda: InferType()(mod)) in wanted
    assert _result(lambda: relay.vm.compile(mod)) in wanted
    assert _result(lambda: str(mod)) in wanted
    assert _result(lambda: verify_module(mod)) in wanted
    assert _result(lambda: relay.vm.compile(make(3))) == "ok"


def test_deep_branches_of_the_other_dialect_are_printed_and_verified_or_refused() -> None:
    x, c = (
        heddle.relax.Var("x", heddle.relax.TensorType((2,))),
        heddle.relax.Var("c", heddle.relax.TensorType((), "bool")),
    )
    body: Any = heddle.relax.SeqExpr([], x)
    for _ in range(1500):
        body = heddle.relax.SeqExpr([], heddle.relax.If(c, body, heddle.relax.SeqExpr([], x)))
    func = heddle.relax.Function([x, c], body, heddle.relax.TensorType((2,)))
    mod = heddle.IRModule({"main": func})
    assert _result(lambda: verify_module(mod)) in {"ok", "I0510"}
    assert _result(lambda: str(mod)) in {"ok", "I0510"}
