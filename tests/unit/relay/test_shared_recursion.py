"""Expressions that name a function bound by a let, and that it shares with the program behind the let."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.expr import Expr
from heddle.ir.structural import assert_structural_equal
from heddle.relay.placement import with_own_recursions
from heddle.relay.transform.to_a_normal_form import ToANormalForm
from heddle.relay.transform.to_basic_block_normal_form import ToBasicBlockNormalForm
from heddle.relay.typed import infer_module
from tests.unit.relay.programs import run

SCALAR = relay.TensorType((), "float32")


def called(f: Expr, x: Expr) -> tuple[Expr, Expr]:
    """A call that both make."""
    shared = relay.Call(f, [relay.const(-1.0)])
    return shared, shared


def held(f: Expr, x: Expr) -> tuple[Expr, Expr]:
    """A tuple with the function, which both call out of it."""
    pair = relay.Tuple([f, x])
    return tuple(relay.Call(relay.TupleGetItem(pair, 0), [relay.const(-1.0)]) for _ in range(2))


def below(f: Expr, x: Expr) -> tuple[Expr, Expr]:
    """A call below what each makes on its own."""
    shared = relay.Call(f, [relay.const(-1.0)])
    return relay.add(shared, relay.const(0.0)), relay.multiply(shared, relay.const(1.0))


def apart(f: Expr, x: Expr) -> tuple[Expr, Expr]:
    """Nothing that names the function."""
    shared = relay.subtract(x, relay.add(x, relay.const(1.0)))
    return shared, shared


def sharing(uses: Callable[[Expr, Expr], tuple[Expr, Expr]]) -> heddle.IRModule:
    """f(n) = n if n < 0 else -1 + f(n - 1); main(x) = f(x) + (-1 + x)."""
    f, n, x = relay.Var("f", relay.FuncType([SCALAR], SCALAR)), relay.Var("n", SCALAR), relay.Var("x", SCALAR)
    inside, outside = uses(f, x)
    step = relay.add(inside, relay.Call(f, [relay.subtract(n, relay.const(1.0))]))
    func = relay.Function([n], relay.If(relay.less(n, relay.const(0.0)), n, step), SCALAR)
    after = relay.add(relay.Call(f, [x]), relay.add(outside, x))
    return heddle.IRModule.from_expr(relay.Function([x], relay.Let(f, func, after), SCALAR))


@pytest.mark.parametrize("uses", [called, held, below, apart])
def test_text_and_values(uses: Callable[[Expr, Expr], tuple[Expr, Expr]]) -> None:
    mod = infer_module(sharing(uses))
    back = relay.parse(mod.astext())
    assert_structural_equal(back, mod)
    formed = [infer_module(step(mod)) for step in (ToANormalForm(), ToBasicBlockNormalForm())]
    for each in formed:
        assert_structural_equal(relay.parse(each.astext()), each)
    for x in (-2.0, 0.0, 3.0):
        expected = x + (x if x < 0 else -(int(x) + 1) - 1) - 1
        found = [float(np.asarray(run(each, np.float32(x)))) for each in (mod, *formed, back)]
        assert found == [expected] * 4


def test_the_same_object_where_nothing_is_shared() -> None:
    func = sharing(apart)["main"]
    assert with_own_recursions(func) is func
    assert with_own_recursions(with_own_recursions(sharing(called)["main"])) is not None


def test_a_function_that_stands_behind_its_let_too() -> None:
    f, n, x = relay.Var("f", relay.FuncType([SCALAR], SCALAR)), relay.Var("n", SCALAR), relay.Var("x", SCALAR)
    step = relay.Call(f, [relay.subtract(n, relay.const(1.0))])
    func = relay.Function([n], relay.If(relay.less(n, relay.const(0.0)), n, step), SCALAR)
    after = relay.add(relay.Call(f, [x]), relay.Call(func, [x]))
    mod = infer_module(heddle.IRModule.from_expr(relay.Function([x], relay.Let(f, func, after), SCALAR)))
    assert_structural_equal(relay.parse(mod.astext()), mod)
    assert float(np.asarray(run(infer_module(ToANormalForm()(mod)), np.float32(2)))) == -2.0


@pytest.mark.parametrize("is_recursive", [False, True])
def test_a_block_that_binds_all_that_it_names_stays_shared(is_recursive: bool) -> None:
    """It writes into a reference once, whether or not the function around one of its uses names itself."""
    f, n, q, r, a = (relay.var(name) for name in "fnqra")
    write = relay.RefWrite(q, relay.add(relay.RefRead(q), relay.const(1)))
    block = relay.Let(q, r, relay.Let(relay.var("_"), write, relay.RefRead(q)))
    again = relay.Call(f, [relay.subtract(n, relay.const(1))]) if is_recursive else relay.const(0)
    branches = relay.If(relay.less(n, relay.const(1)), relay.const(0), relay.add(block, again))
    func = relay.Function([n], branches, relay.scalar_type("int32"))
    result = relay.Tuple([relay.add(relay.Call(f, [relay.const(3)]), a), relay.RefRead(r)])
    main = relay.Let(r, relay.RefCreate(relay.const(0)), relay.Let(a, block, relay.Let(f, func, result)))
    mod = infer_module(heddle.IRModule.from_expr(relay.Function([], main)))
    assert_structural_equal(relay.parse(mod.astext()), mod)
    machine = relay.create_executor("vm", mod).evaluate()
    assert [int(item.numpy()) for item in machine()] == [4 if is_recursive else 2, 1]


def test_variables_of_patterns_that_nobody_reads_are_bound_once() -> None:
    n, v, u = (relay.var(name, relay.scalar_type("int32")) for name in "nvu")
    f, a = relay.var("f"), relay.var("a", relay.TupleType([relay.scalar_type("int32")] * 2))
    pattern = relay.PatternTuple([relay.PatternVar(u), relay.PatternVar(v)])
    last = relay.Call(f, [relay.const(0)])
    block = relay.Match(a, [relay.Clause(pattern, relay.add(v, last))])
    step = relay.add(block, relay.Call(f, [relay.subtract(n, relay.const(1))]))
    func = relay.Function([n], relay.If(relay.less(n, relay.const(1)), relay.const(0), step))
    after = relay.add(relay.Call(f, [relay.const(2)]), block)
    mod = infer_module(heddle.IRModule.from_expr(relay.Function([a], relay.Let(f, func, after))))
    for each in (mod, ToANormalForm()(mod), ToBasicBlockNormalForm()(mod)):
        assert relay.analysis.well_formed(each["main"])
        assert_structural_equal(relay.parse(infer_module(each).astext()), infer_module(each))
