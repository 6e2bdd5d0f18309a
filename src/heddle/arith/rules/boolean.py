"""Boolean algebra over comparisons. Conditions have no effects, so both sides may be reordered or dropped."""

from __future__ import annotations

from heddle.arith.simplify.pattern import as_pattern, c1, c2, eq, ne, x, y, z
from heddle.arith.simplify.rule import Match, Rule


def _integers(m: Match) -> bool:
    """Negating an order needs a total one: not so for floats, where NaN compares false with everything."""
    return m.dtype(x).is_int


BOOLEAN_RULES = (
    Rule("not-not", ~~x, x, domain="bool", algebra="involution"),
    Rule("not-less", ~(x < y), y <= x, when=_integers, domain="bool", algebra="total order"),
    Rule("not-less-equal", ~(x <= y), y < x, when=_integers, domain="bool", algebra="total order"),
    Rule("not-equal", ~eq(x, y), ne(x, y), domain="bool", algebra="definition of !="),
    Rule("not-not-equal", ~ne(x, y), eq(x, y), domain="bool", algebra="definition of !="),
    Rule("not-and", ~(x & y), ~x | ~y, domain="bool", algebra="De Morgan"),
    Rule("not-or", ~(x | y), ~x & ~y, domain="bool", algebra="De Morgan"),
    Rule("and-self", x & x, x, domain="bool", algebra="idempotent"),
    Rule("or-self", x | x, x, domain="bool", algebra="idempotent"),
    Rule("and-true", x & True, x, domain="bool", algebra="neutral element"),
    Rule("true-and", as_pattern(True) & x, x, domain="bool", algebra="neutral element"),
    Rule("and-false", x & False, False, domain="bool", algebra="zero element"),
    Rule("false-and", as_pattern(False) & x, False, domain="bool", algebra="zero element"),
    Rule("or-false", x | False, x, domain="bool", algebra="neutral element"),
    Rule("false-or", as_pattern(False) | x, x, domain="bool", algebra="neutral element"),
    Rule("or-true", x | True, True, domain="bool", algebra="unit element"),
    Rule("true-or", as_pattern(True) | x, True, domain="bool", algebra="unit element"),
    Rule("and-complement", x & ~x, False, domain="bool", algebra="complement"),
    Rule("complement-and", ~x & x, False, domain="bool", algebra="complement"),
    Rule("or-complement", x | ~x, True, domain="bool", algebra="complement"),
    Rule("complement-or", ~x | x, True, domain="bool", algebra="complement"),
    Rule("and-absorb", x & (x | y), x, domain="bool", algebra="absorption"),
    Rule("and-absorb-left", (x | y) & x, x, domain="bool", algebra="absorption"),
    Rule("or-absorb", x | (x & y), x, domain="bool", algebra="absorption"),
    Rule("or-absorb-left", (x & y) | x, x, domain="bool", algebra="absorption"),
    Rule("and-repeated", (x & y) & x, x & y, domain="bool", algebra="idempotent"),
    Rule("and-repeated-right", (x & y) & y, x & y, domain="bool", algebra="idempotent"),
    Rule("or-repeated", (x | y) | x, x | y, domain="bool", algebra="idempotent"),
    Rule("or-repeated-right", (x | y) | y, x | y, domain="bool", algebra="idempotent"),
    Rule("or-of-ands-ll", (x & y) | (x & z), x & (y | z), domain="bool", algebra="distributive law"),
    Rule("or-of-ands-lr", (x & y) | (z & x), x & (y | z), domain="bool", algebra="distributive law"),
    Rule("or-of-ands-rl", (y & x) | (x & z), x & (y | z), domain="bool", algebra="distributive law"),
    Rule("or-of-ands-rr", (y & x) | (z & x), x & (y | z), domain="bool", algebra="distributive law"),
    Rule("equal-and-not-equal", eq(x, y) & ne(x, y), False, domain="bool", algebra="contradiction"),
    Rule("not-equal-and-equal", ne(x, y) & eq(x, y), False, domain="bool", algebra="contradiction"),
    Rule("equal-or-not-equal", eq(x, y) | ne(x, y), True, domain="bool", algebra="excluded middle"),
    Rule("not-equal-or-equal", ne(x, y) | eq(x, y), True, domain="bool", algebra="excluded middle"),
    Rule("less-and-not-less", (x < y) & (y <= x), False, domain="bool", algebra="contradiction"),
    Rule("not-less-and-less", (y <= x) & (x < y), False, domain="bool", algebra="contradiction"),
    Rule("less-or-not-less", (x < y) | (y <= x), True, when=_integers, domain="bool", algebra="total order"),
    Rule("not-less-or-less", (y <= x) | (x < y), True, when=_integers, domain="bool", algebra="total order"),
    Rule(
        "both-upper-bounds",
        (x < c1) & (x < c2),
        x < c1,
        when=lambda m: m[c1] <= m[c2],
        domain="bool",
        algebra="the lesser bound implies the other",
    ),
    Rule(
        "empty-interval",
        (x < c1) & (c2 <= x),
        False,
        when=lambda m: m[c1] <= m[c2],
        domain="bool",
        algebra="x < a <= b <= x is impossible",
    ),
    Rule(
        "empty-interval-2",
        (c2 <= x) & (x < c1),
        False,
        when=lambda m: m[c1] <= m[c2],
        domain="bool",
        algebra="x < a <= b <= x is impossible",
    ),
    Rule(
        "two-values",
        eq(x, c1) & eq(x, c2),
        False,
        when=lambda m: m[c1] != m[c2],
        domain="bool",
        algebra="x has one value",
    ),
)
