"""What can be proved of bounded variables, and what cannot.

0 <= a < 4, 0 <= b < 8, 0 <= c < 16; x, y, z unbounded; 0 <= i < m, 0 <= j < n; n, m sizes.
"""

from __future__ import annotations

from typing import Any

import pytest
from expressions import show

from heddle.arith import Analyzer
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, Range, SizeVar, Var
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
