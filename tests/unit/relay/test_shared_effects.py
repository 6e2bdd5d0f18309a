"""Expressions with effects that branches, clauses, functions and blocks share: done once, where the text has
them, by the interpreter as by machines."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.expr import Expr
from heddle.relay.sharing import Sharing
from heddle.relay.transform.to_a_normal_form import ToANormalForm
from heddle.relay.typed import infer_module
from tests.unit.relay.programs import plain, run

INT = relay.TensorType((), "int32")
BOOL = relay.TensorType((), "bool")


class Programs:
    """Random programs that count in a reference. What was made for a scope may be used again in it and in
    the scopes inside."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._numbers = count()
        self._ref = self._var("r")

    def program(self) -> heddle.IRModule:
        """A value, and what the reference holds in the end."""
        made = relay.Tuple([self._make(4, [[]]), relay.RefRead(self._ref)])
        body = relay.Let(self._ref, relay.RefCreate(relay.const(0)), made)
        return infer_module(heddle.IRModule.from_expr(relay.Function([], body)))

    def _var(self, hint: str) -> relay.Var:
        return relay.Var(f"{hint}{next(self._numbers)}", None if hint == "r" else INT)

    def _step(self) -> Expr:
        """Write another number, and give the old one."""
        old, done = self._var("old"), relay.var("done")
        new = relay.add(relay.add(old, old), relay.const(self._random.randint(1, 9)))
        return relay.Let(old, relay.RefRead(self._ref), relay.Let(done, relay.RefWrite(self._ref, new), old))

    def _make(self, depth: int, pools: list[list[Expr]]) -> Expr:
        known = [expr for pool in pools for expr in pool]
        if known and self._random.random() < 0.4:
            return self._random.choice(known)
        if depth == 0 or self._random.random() < 0.2:
            made = self._step()
        else:
            kinds = (self._sum, self._branch, self._clause, self._call, self._recursion, self._let)
            made = self._random.choice(kinds)(depth - 1, pools)
        pools[-1].append(made)
        return made

    def _sum(self, depth: int, pools: list[list[Expr]]) -> Expr:
        return relay.add(self._make(depth, pools), self._make(depth, pools))

    def _branch(self, depth: int, pools: list[list[Expr]]) -> Expr:
        cond = relay.less(self._make(depth, pools), relay.const(self._random.randint(0, 20)))
        return relay.If(cond, self._make(depth, [*pools, []]), self._make(depth, [*pools, []]))

    def _clause(self, depth: int, pools: list[list[Expr]]) -> Expr:
        data = relay.Tuple([self._make(depth, pools), self._make(depth, pools)])
        parts = [self._var("part"), self._var("part")]
        inner = [*pools, [*parts]]
        clause = relay.Clause(
            relay.PatternTuple(list(map(relay.PatternVar, parts))), self._make(depth, inner)
        )
        return relay.Match(data, [clause])

    def _call(self, depth: int, pools: list[list[Expr]]) -> Expr:
        param = self._var("x")
        func = relay.Function([param], self._make(depth, [*pools, [param]]), INT)
        args = [self._make(depth, pools)]
        return relay.add(relay.Call(func, args), relay.Call(func, args))

    def _recursion(self, depth: int, pools: list[list[Expr]]) -> Expr:
        func, param = relay.Var(f"f{next(self._numbers)}", relay.FuncType([INT], INT)), self._var("n")
        again = relay.Call(func, [relay.subtract(param, relay.const(1))])
        step = relay.add(self._make(depth, [*pools, [param]]), again)
        body = relay.If(relay.less(param, relay.const(1)), self._make(depth, [*pools, []]), step)
        after = relay.add(relay.Call(func, [relay.const(2)]), self._make(depth, [*pools, []]))
        return relay.Let(func, relay.Function([param], body, INT), after)

    def _let(self, depth: int, pools: list[list[Expr]]) -> Expr:
        var = self._var("v")
        return relay.Let(var, self._make(depth, pools), self._make(depth, [*pools, [var]]))


def numbers(found: Any) -> list[int]:
    return [int(item) for item in plain(found)]


@pytest.mark.parametrize("seed", range(60))
def test_as_in_the_text_and_in_a_normal_form(seed: int) -> None:
    mod = Programs(seed).program()
    expected = numbers(run(infer_module(ToANormalForm()(mod))))
    assert numbers(run(mod)) == expected
    assert numbers(run(relay.parse(mod.astext()))) == expected


@pytest.mark.parametrize("seed", range(100, 106))
def test_as_on_the_machine(seed: int) -> None:
    mod = Programs(seed).program()
    assert numbers(relay.create_executor("vm", mod).evaluate()()) == numbers(run(mod))


def test_most_of_the_programs_share_across_scopes() -> None:
    assert sum(bool(Sharing(Programs(seed).program()["main"]).before) for seed in range(60)) > 30


def test_a_write_that_nested_branches_share() -> None:
    """It is done before the first branch is chosen, and once."""
    ref, first, second = relay.var("r"), relay.Var("a", BOOL), relay.Var("b", BOOL)
    write = relay.RefWrite(ref, relay.add(relay.RefRead(ref), relay.const(1)))
    inner = relay.If(second, write, relay.Tuple([]))
    body = relay.Let(relay.var("_"), relay.If(first, write, inner), relay.RefRead(ref))
    main = relay.Function([first, second], relay.Let(ref, relay.RefCreate(relay.const(0)), body))
    mod = infer_module(heddle.IRModule.from_expr(main))
    for a in (False, True):
        for b in (False, True):
            assert int(run(mod, np.bool_(a), np.bool_(b))) == 1


def test_a_block_that_a_function_shares_with_its_caller() -> None:
    """Calls of the function do not do it again."""
    ref, done, old, param = relay.var("r"), relay.var("_"), relay.Var("old", INT), relay.Var("x", INT)
    write = relay.RefWrite(ref, relay.add(relay.RefRead(ref), relay.const(1)))
    block = relay.Let(done, write, relay.Let(old, relay.RefRead(ref), old))
    func = relay.Function([param], relay.add(param, block), INT)
    calls = relay.add(relay.Call(func, [relay.const(10)]), relay.Call(func, [relay.const(20)]))
    made = relay.Tuple([relay.add(block, calls), relay.RefRead(ref)])
    main = relay.Function([], relay.Let(ref, relay.RefCreate(relay.const(0)), made))
    assert numbers(run(infer_module(heddle.IRModule.from_expr(main)))) == [33, 1]


def test_the_last_place_is_computed_once_too() -> None:
    """A tuple of a block that ends in an expression, and of that expression."""
    ref, done = relay.var("r"), relay.var("_")
    step = relay.Let(
        done, relay.RefWrite(ref, relay.add(relay.RefRead(ref), relay.const(1))), relay.RefRead(ref)
    )
    block = relay.Let(relay.Var("unused", INT), relay.RefRead(ref), step)
    made = relay.Tuple([block, step, relay.RefRead(ref)])
    main = relay.Function([], relay.Let(ref, relay.RefCreate(relay.const(0)), made))
    assert numbers(run(infer_module(heddle.IRModule.from_expr(main)))) == [1, 1, 1]
