"""Which functions lead to which, on random call graphs against a closure of their edges."""

from __future__ import annotations

import numpy as np
import pytest

from heddle import relay
from heddle.ir.call_graph import is_recursive, names_in, on_cycles, reachable, with_functions_of
from heddle.ir.expr import Call, Function, GlobalVar, Tuple
from heddle.ir.module import IRModule


def _module(edges: np.ndarray) -> tuple[IRModule, list[GlobalVar]]:
    """A function for each row, which names those of its columns, in calls or as values."""
    names = [GlobalVar(f"f{k}") for k in range(len(edges))]
    table = {}
    for name, row in zip(names, edges, strict=True):
        param = relay.var("x", shape=(2,))
        named = [other for other, is_named in zip(names, row, strict=True) if is_named]
        body = Tuple(tuple(Call(other, (param,)) if k % 2 else other for k, other in enumerate(named)))
        table[name] = Function((param,), body, dialect="relay")
    return IRModule(table), names


@pytest.mark.parametrize("seed", range(20))
def test_against_the_closure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    edges = rng.random((count, count)) < rng.uniform(0.05, 0.5)
    mod, names = _module(edges)
    closure = edges.copy()
    for k in range(count):
        closure |= closure[:, k : k + 1] & closure[k : k + 1]
    looped = np.diag(closure)
    for k, name in enumerate(names):
        assert names_in(mod[name]) == {names[j] for j in np.flatnonzero(edges[k])}
        assert reachable(mod, [name]) == {name, *(names[j] for j in np.flatnonzero(closure[k]))}
        assert is_recursive(mod, name) == looped[k]
    between = (looped | closure[:, looped].any(axis=1)) & (looped | closure[looped].any(axis=0))
    assert on_cycles(mod) == {names[k] for k in np.flatnonzero(between)}


def test_functions_of_a_module() -> None:
    mod, (a, b, c) = _module(np.asarray([[0, 1, 0], [0, 0, 0], [0, 0, 0]], bool))
    assert reachable(mod, [a, GlobalVar("elsewhere")]) == {a, b}
    assert set(with_functions_of(mod, {a, b})) == {a, b}
    assert with_functions_of(mod, {a, b, c}) is mod
