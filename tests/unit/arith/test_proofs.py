"""What can be proved of bounded variables, and what cannot.

0 <= a < 4, 0 <= b < 8, 0 <= c < 16; x, y, z unbounded; 0 <= i < m, 0 <= j < n; n, m sizes.
"""

from __future__ import annotations

from typing import Any

import pytest
from expressions import show

from heddle.arith import Analyzer
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, Range, SizeVar, Var
from heddle.prim.ops import logical_and as land
from heddle.prim.ops import maximum as pmax
from heddle.prim.ops import minimum as pmin

x, y, z, a, b, c, i, j = (Var(name, "int64") for name in "xyzabcij")
n, m = SizeVar("n"), SizeVar("m")
p, q = Var("p", "bool"), Var("q", "bool")
f, g = Var("f", "float32"), Var("g", "float32")
s = Var("s", "int8")


def analyzer() -> Analyzer:
    ana = Analyzer()
    for var, extent in ((a, 4), (b, 8), (c, 16)):
        ana.bind(var, Range(IntImm("int64", 0), IntImm("int64", extent)))
    ana.bind(i, Range(IntImm("int64", 0), m))
    ana.bind(j, Range(IntImm("int64", 0), n))
    return ana


def eq(lhs: Any, rhs: Any) -> Any:
    return ops.equal(lhs, rhs)


def at_least(value: Any, low: int) -> Any:
    return ops.less_equal(low, value)


def ne(lhs: Any, rhs: Any) -> Any:
    return ops.not_equal(lhs, rhs)


PROVABLE = [
    i * n + j < m * n,
    i * n + j >= 0,
    (n + 7) // 8 * 8 >= n,
    (n + 7) // 8 * 8 <= n + 7,
    n // 8 * 8 <= n,
    pmax(n, 1) >= 1,
    pmin(n, m) <= m,
    n * m >= 0,
    i < m,
    i + 1 <= m,
    i * 2 + 1 < m * 2,
    (i + 1) * n <= m * n,
    x % 8 < 8,
    land(x % 8 >= 0, x % 8 <= 7),
    eq(x // 4 * 4 + x % 4, x),
    eq((x * 4 + 3) % 2, 1),
    j % n < n,
    i * 4 + a < m * 4,
    (i * 8 + b) // 8 < m,
    ne(x * 2, y * 2 + 1),
]
UNPROVABLE = [
    x < y,
    i + 1 < m,
    n > 0,
    x * x > 0,
    x % 8 < 7,
    (n + 7) // 8 * 8 > n,
    i * n + j < m * n - 1,
    pmin(n, m) < m,
]


@pytest.mark.parametrize("condition", PROVABLE, ids=show)
def test_provable(condition: Any) -> None:
    assert analyzer().can_prove(condition)


@pytest.mark.parametrize("condition", UNPROVABLE, ids=show)
def test_unprovable(condition: Any) -> None:
    assert not analyzer().can_prove(condition)


JOINED = [
    (x - x % 4, x // 4 * 4),
    (x - (x + 1) % 4 + 3, (x + 1) // 4 * 4 + 2),
    ((n - (n + 1) % 2 + 1) // 2, (n + 1) // 2),
    (x // 2 - x // 4 * 2, x // 2 % 2),
    ((n + 1) // 2 - (n + 3) // 4 * 2, ((n + 1) // 2 + 1) % 2 - 1),
    (x // 3 * 5 - x // 6 * 10, x // 3 % 2 * 5),
]
"""Sizes of what was padded to a whole number of steps, and what these differ by."""


@pytest.mark.parametrize(("given", "wanted"), JOINED, ids=show)
def test_remainders_and_quotients_join(given: Any, wanted: Any) -> None:
    made = analyzer().simplify(given)
    assert structural_equal(made, analyzer().simplify(wanted))
    assert num_divisions(made) <= num_divisions(wanted)
    for value in range(-13, 30):
        at = {x: value, n: abs(value)}
        assert evaluate(made, at) == evaluate(given, at)


def num_divisions(expr: Any) -> int:
    return sum(isinstance(node, (FloorDiv, FloorMod)) for node in walk(expr))


def test_what_is_told_of_a_variable_holds_at_once() -> None:
    """Also where terms with it, or proofs that failed, are remembered."""
    ana = Analyzer()
    assert not ana.can_prove(x + z < 12)
    ana.bind(x, Range(IntImm("int64", 0), IntImm("int64", 4)))
    assert not ana.can_prove(x + z < 12)
    ana.bind(z, Range(IntImm("int64", 0), IntImm("int64", 8)))
    assert ana.can_prove(x + z < 12)
    assert ana.can_prove(y < 3) is False
    ana.bind(y, IntImm("int64", 2))
    assert ana.can_prove(y < 3)
    ana.bind(z, Range(IntImm("int64", 0), IntImm("int64", 80)), allow_override=True)
    assert not ana.can_prove(x + z < 12)


def test_proofs_under_constraints() -> None:
    ana = analyzer()
    with ana.constraint_scope(x * 8 + y < n):
        assert ana.can_prove(x * 8 + y + 1 <= n)
        assert ana.can_prove(x * 8 + y < n + 3)
        with ana.constraint_scope(n <= z):
            assert ana.can_prove(x * 8 + y < z)
        assert not ana.can_prove(x * 8 + y < z)
    assert not ana.can_prove(x * 8 + y < n)
    with ana.constraint_scope(eq(x % 4, 0)):
        assert ana.modular_set(x + 1).coeff == 4
        assert ana.can_prove(eq((x + 4) % 4, 0))


def test_products_of_matrices_keep_values() -> None:
    """A tiled index, evaluated."""
    index = (x // 8 * 4 + x % 8 // 2) * 8 + x % 2 * 4 + a
    found = analyzer().simplify(index)
    for value in range(-9, 20):
        env = {x: value, a: 3}
        assert evaluate(found, env) == evaluate(index, env)
