"""Structural equality and hashes of nodes that are shared between scopes: each is looked at a few times, and
what was found of it in one scope does not count where its variables mean something else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import heddle
from heddle import relay
from heddle.ir.structural import _Comparison, _Keyer, structural_bytes, structural_equal, structural_hash

INT = relay.scalar_type("int32")
DEPTH = 60
Rung = Callable[[Any, Any], Any]


def _var(name: str) -> Any:
    return relay.var(name, INT)


def _lets(below: Any, outer: Any) -> Any:
    var = _var("v")
    return relay.Let(var, relay.Function([], relay.add(below, outer)), relay.add(relay.Call(var, []), below))


def _clauses(below: Any, outer: Any) -> Any:
    var = _var("u")
    named = relay.Clause(relay.PatternVar(var), relay.add(var, below))
    return relay.Match(outer, [named, relay.Clause(relay.PatternWildcard(), below)])


RUNGS: dict[str, Rung] = {
    "functions": lambda below, _: relay.add(below, relay.Call(relay.Function([], below), [])),
    "parameters": lambda below, outer: relay.add(
        below, relay.Call(relay.Function([param := _var("p")], relay.add(param, below)), [outer])
    ),
    "captures": lambda below, outer: relay.Tuple([relay.Function([], relay.Tuple([below, outer])), below]),
    "inside": lambda below, _: relay.Function([_var("q")], relay.Tuple([below, below])),
    "lets": _lets,
    "clauses": _clauses,
}


def _ladder(rung: Rung, depth: int = DEPTH) -> Any:
    outer = _var("x")
    made: Any = outer
    for _ in range(depth):
        made = rung(made, outer)
    return relay.Function([outer], made)


def _bounded(monkeypatch: pytest.MonkeyPatch, cls: Any, name: str, most: int) -> None:
    """A method is called so often at most, in all calls together."""
    count, method = [0], getattr(cls, name)

    def counting(*args: Any) -> Any:
        count[0] += 1
        assert count[0] < most, "shared nodes are looked at again and again"
        return method(*args)

    monkeypatch.setattr(cls, name, counting)


@pytest.mark.parametrize("name", RUNGS)
def test_shared_nodes_are_compared_a_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _ladder(RUNGS[name]), _ladder(RUNGS[name])
    _bounded(monkeypatch, _Comparison, "_nodes", 50 * DEPTH)
    assert structural_equal(one, other)
    assert structural_equal(one.body, other.body, map_free_vars=True)


@pytest.mark.parametrize("name", RUNGS)
def test_shared_nodes_are_written_a_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each number of variables that are bound around them, which may be as many as they are deep."""
    one, other = _ladder(RUNGS[name]), _ladder(RUNGS[name])
    _bounded(monkeypatch, _Keyer, "_node", 100 * DEPTH**2)
    assert structural_hash(one) == structural_hash(other)
    assert structural_hash(one.body, True) == structural_hash(other.body, True)
    assert (
        structural_bytes(one) == structural_bytes(other) != structural_bytes(_ladder(RUNGS[name], DEPTH - 1))
    )


def _drawn(rng: random.Random) -> Any:
    """A term over `x` and `y` whose parts are shared; what is bound in one part may be free in another."""
    x, y = _var("x"), _var("y")
    parts: list[Any] = [x, y, relay.const(1)]
    for _ in range(rng.randint(3, 9)):
        var, kind = _var("p"), rng.randrange(4)
        leaves = [rng.choice([x, y, var]) for _ in range(rng.choice([0, 2, 30]))]
        inside = relay.Tuple([*leaves, *(rng.choice(parts) for _ in range(rng.randint(1, 2)))])
        if kind == 0:
            parts.append(inside)
        elif kind == 1:
            parts.append(relay.Let(var, rng.choice(parts), inside))
        else:
            parts += [relay.Function([var], inside), *[inside] * (kind - 2)]
    return relay.Function([x, y], relay.Tuple(parts[3:]))


def _written_out(term: Any, names: dict[Any, Any]) -> Any:
    """The term with nothing shared, and with variables of its own for each scope."""
    if isinstance(term, relay.Function):
        params = {param: _var(param.name_hint) for param in term.params}
        return relay.Function(list(params.values()), _written_out(term.body, {**names, **params}))
    if isinstance(term, relay.Let):
        var = _var(term.var.name_hint)
        return relay.Let(
            var, _written_out(term.value, names), _written_out(term.body, {**names, term.var: var})
        )
    if isinstance(term, relay.Tuple):
        return relay.Tuple([_written_out(part, names) for part in term.fields])
    return names.get(term, term)


def test_a_term_and_the_same_term_with_nothing_shared() -> None:
    rng = random.Random()
    others = [_drawn(rng) for _ in range(3)]
    for _ in range(60):
        term = _drawn(rng)
        plain = _written_out(term, {})
        assert structural_equal(term, plain) and structural_equal(plain, term)
        assert structural_hash(term) == structural_hash(plain)
        assert structural_bytes(term) == structural_bytes(plain)
        for other in others:
            assert structural_equal(plain, other) == structural_equal(other, term)
            assert structural_equal(plain, other) == (structural_hash(other) == structural_hash(term))
        others[rng.randrange(3)] = term


def test_a_variable_that_is_free_here_and_bound_there() -> None:
    x, y = _var("x"), _var("y")
    large = x
    for _ in range(40):
        large = relay.add(large, x)
    one, other = (relay.Tuple([large, relay.Function([param], large)]) for param in (x, y))
    assert not structural_equal(one, other) and not structural_equal(other, one)
    assert structural_hash(one) != structural_hash(other)


def test_free_variables_are_renamed_one_to_one_through_all_scopes() -> None:
    x, y = _var("x"), _var("y")
    f, g = relay.Function([], x), relay.Function([], y)

    def are_equal(one: list[Any], other: list[Any]) -> bool:
        left, right = relay.Tuple(one), relay.Tuple(other)
        found = structural_equal(left, right, True)
        assert found == structural_equal(right, left, True)
        assert found == (structural_hash(left, True) == structural_hash(right, True))
        return found

    for one, other in (([f, f], [f, g]), ([f, x], [f, y]), ([x, f], [x, g]), ([x, x], [x, y])):
        assert not are_equal(one, other)
    assert are_equal([f, x, g], [g, y, f]) and are_equal([x, f], [y, g])


def test_keys_of_one_text_and_several_kinds() -> None:
    plain = relay.Function([], relay.const(1))
    one, other = (plain.with_attr("table", table) for table in ({1: 2, "1": 3}, {"1": 3, 1: 2}))
    assert structural_equal(one, other) and structural_hash(one) == structural_hash(other)
    assert heddle.ir.structural_equal(one, plain) is False
