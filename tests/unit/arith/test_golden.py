"""What simplifies to what.

0 <= a < 4, 0 <= b < 8, 0 <= c < 16; x, y, z unbounded; 0 <= i < m, 0 <= j < n; n, m sizes.
"""

from __future__ import annotations

from typing import Any

import pytest
from expressions import show

from heddle.arith import Analyzer
from heddle.ir.structural import structural_equal
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Broadcast, FloatImm, IntImm, Ramp, Range, SizeVar, Var, as_expr
from heddle.prim.ops import if_then_else as ite
from heddle.prim.ops import logical_and as land
from heddle.prim.ops import logical_not as lnot
from heddle.prim.ops import logical_or as lor
from heddle.prim.ops import maximum as pmax
from heddle.prim.ops import minimum as pmin
from heddle.prim.ops import select as sel
from heddle.prim.ops import truncdiv, truncmod

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


ADD_SUB = [
    (x + y - x, y),
    (x - x, 0),
    (x + x, x * 2),
    (x * 3 + x, x * 4),
    (x * 3 - x * 5, x * -2),
    (x + 3 - 5, x - 2),
    (3 + x, x + 3),
    (5 - (x + 3), 2 - x),
    (x - (y - x), x * 2 - y),
    (y - x - y, x * -1),
    ((x + y) * 2 - y * 2, x * 2),
    ((x + 1) * (y + 1) - x * y, x + y + 1),
    ((m + 1) * n - m * n, n),
    (m * n - n * m, 0),
    (x * 4 + 8 - (x + 2) * 4, 0),
    (pmin(x, y) + pmax(x, y), x + y),
    (pmax(x, y) + pmin(y, x), x + y),
    (x - pmin(x, y), pmax(x - y, 0)),
    (x - pmax(y, x), pmin(x - y, 0)),
    (sel(p, x, y) + sel(p, z, 3), sel(p, x + z, y + 3)),
    (sel(p, x, y) - y, sel(p, x - y, 0)),
]
MUL = [
    (4 * x, x * 4),
    (x * 2 * 3, x * 6),
    ((x + 2) * 3, x * 3 + 6),
    ((x - y) * -1, y - x),
    (x * 2 * (y * 3), x * y * 6),
    ((x * 2 + 2) * y, (x + 1) * y * 2),
    (pmin(x, y) * pmax(x, y), x * y),
    (x * 0, 0),
]
FLOORDIV = [
    (x // 4 * 4 + x % 4, x),
    (x % 4 + x // 4 * 4, x),
    ((x * 8 + b) // 8, x),
    ((x * 8 + b) // 4, x * 2 + b // 4),
    ((x * 8 + b) // 16, x // 2),
    ((x * 16 + b * 2) // 16, x),
    ((x * 4 + 2) // 6, (x * 2 + 1) // 3),
    (x // 4 // 8, x // 32),
    ((x // 4 + 3) // 2, (x + 4) // 8 + 1),
    ((x + 8) // 8, x // 8 + 1),
    ((x - 1) // 8, (x + 7) // 8 - 1),
    ((x * 9) // 8, x + x // 8),
    (b // 8, 0),
    ((b + 8) // 8, 1),
    ((b - 8) // 8, -1),
    (x % 16 // 4, x // 4 % 4),
    ((x * 6) // 3, x * 2),
    ((x * 3) // 6, x // 2),
    (x // -4, (x * -1) // 4),
    ((m * n + j) // n, m),
    ((i * n + j) // n, i),
    ((x * n * 4) // (n * 2), x * 2),
    ((x * n) // (y * n), x // y),
    ((n + 7) // 8 * 8 - n, 7 - (n + 7) % 8),
    (((n + 7) // 8 + 3) // 4, (n + 31) // 32),
    (x - x // 4 * 4, x % 4),
    ((x * 16 + c) // 16 % 4, x % 4),
]
FLOORMOD = [
    ((x * 8 + b) % 8, b),
    ((x * 8 + b) % 16, x % 2 * 8 + b),
    ((x * 8 + b) % 4, b % 4),
    (b % 8, b),
    ((x + 9) % 8, (x + 1) % 8),
    ((x - 1) % 8, (x + 7) % 8),
    (x % 16 % 8, x % 8),
    ((x * 4) % 12, x % 3 * 4),
    ((x * 8) % 4, 0),
    ((i * n + j) % n, j),
    ((x * n) % n, 0),
    ((x * n) % (y * n), n * (x % y)),
    (x // 4 % 4 * 4 + x % 4, x % 16),
    (x // 8 % 4 * 8 + x % 8 + x // 32 * 32, x),
    (b - b % 8, 0),
    ((b + x * 8) % 8 + x * 8, b + x * 8),
    ((15 - c) % 16, 15 - c),
]
TRUNC = [
    (truncdiv(b, 4), b // 4),
    (truncmod(b, 4), b % 4),
    (truncdiv(x * 8, 4), x * 2),
    (truncdiv(truncdiv(x, 2), 3), truncdiv(x, 6)),
    (truncmod(x * 4, 8), truncmod(x, 2) * 4),
    (truncmod(x, -4), truncmod(x, 4)),
    (truncdiv(a, 8), 0),
    (truncdiv(a - 3, 4), 0),
    (truncmod(a - 3, 4), a - 3),
    (truncdiv(n * 8 + b, 8), n),
    (truncdiv(x, y) * y + truncmod(x, y), x),
]
MINMAX = [
    (pmin(n, n + 1), n),
    (pmax(n, n - 1), n),
    (pmin(x + 1, x + 3), x + 1),
    (pmin(x + 3, 5), pmin(x, 2) + 3),
    (pmin(x * 8, 64), pmin(x, 8) * 8),
    (pmin(x + z, y + z), pmin(x, y) + z),
    (pmin(x * -2, y * -2), pmax(x, y) * -2),
    (pmin(pmin(x, 3), 5), pmin(x, 3)),
    (pmin(3, x), pmin(x, 3)),
    (pmax(pmin(x, y), x), x),
    (pmin(pmax(x, y), x), x),
    (pmin(pmin(x, y), y), pmin(x, y)),
    (pmax(pmin(x, y), pmin(x, z)), pmin(x, pmax(y, z))),
    (pmin(a, 3), a),
    (pmax(a, 4), 4),
    (pmin(b, 16), b),
    (pmax(n, 0), n),
    (pmin((n + 7) // 8 * 8, n), n),
    (pmax(x // 4, y // 4), pmax(x, y) // 4),
    (pmin(i, m), i),
    (pmax(i, m), m),
]
COMPARE = [
    (x + 1 < 3, x < 2),
    (x * 4 < 16, x < 4),
    (x * 4 < 15, x < 4),
    (x * 4 <= 15, x < 4),
    (x * 8 + b < 64, x < 8),
    (x * 8 + b < 65, x * 8 + b < 65),
    (x // 4 < 2, x < 8),
    (x // 4 >= 2, at_least(x, 8)),
    (x + 1 <= y, x < y),
    (x < y + 1, x <= y),
    (x + z < y + z, x < y),
    (x > 2, at_least(x, 3)),
    (x >= y, y <= x),
    (a < 4, True),
    (a >= 4, False),
    (a * 8 + b < 32, True),
    (i * n + j < m * n, True),
    (n * m >= 0, True),
    ((n + 7) // 8 * 8 >= n, True),
    ((n + 7) // 8 * 8 - n <= 7, True),
    (eq(x + 1, 3), eq(x, 2)),
    (eq(x * 4 + y * 2, 5), False),
    (ne(x * 4 + y * 2, 5), True),
    (eq(x * 2, 6), eq(x, 3)),
    (eq(y + x, x + 3), eq(y, 3)),
    (eq(a, 9), False),
    (eq(x % 4, 5), False),
    (eq(x - y, 0), eq(x, y)),
    (lnot(x < y), y <= x),
    (lnot(eq(x, y)), ne(x, y)),
    (pmin(x, y) < 3, lor(x < 3, y < 3)),
    (pmax(x, y) < 3, land(x < 3, y < 3)),
    (f > g, g < f),
    (lnot(f < g), lnot(f < g)),
]
BOOLEAN = [
    (land(p, lnot(p)), False),
    (lor(p, lnot(p)), True),
    (land(p, lor(p, q)), p),
    (lor(land(p, q), p), p),
    (land(x < 4, x < 8), x < 4),
    (land(x < 8, x < 4), x < 4),
    (land(x < 4, x > 5), False),
    (lor(x < 4, x >= 4), True),
    (lor(x < 4, x < 8), x < 8),
    (lnot(land(p, q)), lor(lnot(p), lnot(q))),
    (lnot(land(x < 3, y < 3)), lor(at_least(x, 3), at_least(y, 3))),
    (land(a < 4, p), p),
    (land(eq(x, 3), x < 5), eq(x, 3)),
]
SELECT = [
    (sel(p, x, x), x),
    (sel(lnot(p), x, y), sel(p, y, x)),
    (sel(a < 4, x, y), x),
    (sel(x < 4, pmin(x, 4), y), sel(x < 4, x, y)),
    (ite(land(x >= 0, x < 8), x // 8, y), ite(land(at_least(x, 0), x < 8), 0, y)),
    (ite(x < 4, ite(x < 8, y, z), z), ite(x < 4, y, z)),
    (sel(p, sel(q, x, y), y), sel(land(p, q), x, y)),
    (sel(p, ops.const(True, "bool"), ops.const(False, "bool")), p),
    (ite(eq(x, 3), x + 1, y), ite(eq(x, 3), 4, y)),
]
FLOATS = [
    (f + 0.0, f + 0.0),
    (f * 0.0, f * 0.0),
    (f - f, f - f),
    (f + g - g, f + g - g),
    (f - FloatImm("float32", 0.0), f),
    (f + FloatImm("float32", -0.0), f),
]
NARROW = [
    (s + s - s, s),
    (s * 2 // 2, s * 2 // 2),
    (s + 100 < 120, s + 100 < 120),
    ((s + 100) // 4, (s + 100) // 4),
]
VECTOR = [
    (Ramp(x, 1, 4) + Broadcast(y, 4), Ramp(x + y, 1, 4)),
    (Ramp(x, 2, 4) * Broadcast(IntImm("int64", 3), 4), Ramp(x * 3, 6, 4)),
    (Ramp(x, 1, 4) + Ramp(y, 2, 4), Ramp(x + y, 3, 4)),
    (Broadcast(x, 4) + Broadcast(x, 4), Broadcast(x * 2, 4)),
    (Broadcast(x, 4) < Broadcast(x, 4), Broadcast(as_expr(False), 4)),
    (Ramp(x * 4, 4, 4) // Broadcast(IntImm("int64", 4), 4), Ramp(x, 1, 4)),
    (Ramp(x * 4, 1, 4) // Broadcast(IntImm("int64", 4), 4), Broadcast(x, 4)),
    (Ramp(x * 4, 1, 4) % Broadcast(IntImm("int64", 4), 4), Ramp(IntImm("int64", 0), 1, 4)),
]
GOLDEN = [
    *(ADD_SUB + MUL + FLOORDIV + FLOORMOD + TRUNC + MINMAX + COMPARE),
    *(BOOLEAN + SELECT + FLOATS + NARROW + VECTOR),
]


@pytest.mark.parametrize(("expr", "expected"), GOLDEN, ids=lambda e: show(as_expr(e)))
def test_golden(expr: Any, expected: Any) -> None:
    expr = as_expr(expr)
    wanted = ops.const(expected, expr.dtype) if isinstance(expected, (int, bool)) else as_expr(expected)
    found = analyzer().simplify(expr)
    assert structural_equal(found, wanted), f"got {show(found)}, wanted {show(wanted)}"
    assert analyzer().simplify(found) is found


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
