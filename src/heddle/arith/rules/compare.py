"""Comparisons. `>` and `>=` turn into `<` and `<=`; what needs no overflow to happen is for indices only."""

from __future__ import annotations

from heddle.arith.simplify.pattern import c1, c2, eq, ne, pmax, pmin, x, y, z
from heddle.arith.simplify.rule import Rule

COMPARE_RULES = (
    Rule("greater", x > y, y < x, domain="any", algebra="x > y is y < x"),
    Rule("greater-equal", x >= y, y <= x, domain="any", algebra="x >= y is y <= x"),
    Rule("less-self", x < x, False, algebra="irreflexive"),
    Rule("less-equal-self", x <= x, True, algebra="reflexive"),
    Rule("equal-self", eq(x, x), True, algebra="reflexive"),
    Rule("not-equal-self", ne(x, x), False, algebra="reflexive"),
    Rule(
        "less-by-bounds", x < y, True, when=lambda m: m.bound(x)[1] < m.bound(y)[0], algebra="disjoint bounds"
    ),
    Rule("not-less-by-bounds", x < y, False, when=lambda m: m.bound(x)[0] >= m.bound(y)[1], algebra="bounds"),
    Rule(
        "less-equal-by-bounds", x <= y, True, when=lambda m: m.bound(x)[1] <= m.bound(y)[0], algebra="bounds"
    ),
    Rule(
        "not-less-equal-by-bounds",
        x <= y,
        False,
        when=lambda m: m.bound(x)[0] > m.bound(y)[1],
        algebra="bounds",
    ),
    Rule(
        "not-equal-by-bounds",
        eq(x, y),
        False,
        when=lambda m: m.bound(x)[1] < m.bound(y)[0] or m.bound(x)[0] > m.bound(y)[1],
        algebra="disjoint bounds",
    ),
    Rule(
        "differs-by-bounds",
        ne(x, y),
        True,
        when=lambda m: m.bound(x)[1] < m.bound(y)[0] or m.bound(x)[0] > m.bound(y)[1],
        algebra="disjoint bounds",
    ),
    Rule("equal-const-right", eq(c1, x), eq(x, c1), linear=True, algebra="== commutes"),
    Rule("not-equal-const-right", ne(c1, x), ne(x, c1), linear=True, algebra="!= commutes"),
    Rule(
        "equal-shift", eq(x + c1, c2), eq(x, c2 - c1), linear=True, algebra="adding a constant is a bijection"
    ),
    Rule(
        "not-equal-shift",
        ne(x + c1, c2),
        ne(x, c2 - c1),
        linear=True,
        algebra="adding a constant is a bijection",
    ),
    Rule("equal-difference", eq(x - y, 0), eq(x, y), linear=True, algebra="x - y = 0 is x = y"),
    Rule("not-equal-difference", ne(x - y, 0), ne(x, y), linear=True, algebra="x - y = 0 is x = y"),
    Rule(
        "less-shift", x + c1 < c2, x < c2 - c1, domain="index", linear=True, algebra="addition is monotonic"
    ),
    Rule(
        "less-shift-right",
        c1 < x + c2,
        c1 - c2 < x,
        domain="index",
        linear=True,
        algebra="addition is monotonic",
    ),
    Rule("less-equal-shift", x + c1 <= c2, x <= c2 - c1, domain="index", linear=True, algebra="monotonic"),
    Rule(
        "less-equal-shift-right", c1 <= x + c2, c1 - c2 <= x, domain="index", linear=True, algebra="monotonic"
    ),
    Rule(
        "less-cancel-ll", x + y < x + z, y < z, domain="index", linear=True, algebra="addition is monotonic"
    ),
    Rule(
        "less-cancel-rr", y + x < z + x, y < z, domain="index", linear=True, algebra="addition is monotonic"
    ),
    Rule("less-equal-cancel-ll", x + y <= x + z, y <= z, domain="index", linear=True, algebra="monotonic"),
    Rule("less-equal-cancel-rr", y + x <= z + x, y <= z, domain="index", linear=True, algebra="monotonic"),
    Rule("less-grow", x < x + y, y > 0, domain="index", linear=True, algebra="addition is monotonic"),
    Rule(
        "less-scale",
        x * c1 < y * c1,
        x < y,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="scaling by c > 0 is monotonic",
    ),
    Rule(
        "less-scale-const",
        x * c1 < c2,
        x < (c2 + (c1 - 1)) // c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="x*a < b is x < ceil(b/a) for a > 0",
    ),
    Rule(
        "less-quotient",
        x // c1 < c2,
        x < c1 * c2,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="floor(x/a) < b is x < ab for a > 0",
    ),
    Rule(
        "less-quotient-right",
        c1 < x // c2,
        (c1 + 1) * c2 <= x,
        when=lambda m: m[c2] > 0,
        domain="index",
        linear=True,
        algebra="a < floor(x/b) is (a+1)b <= x for b > 0",
    ),
    Rule("min-less", pmin(x, y) < c1, (x < c1) | (y < c1), algebra="the lesser is below c if one is"),
    Rule("max-less", pmax(x, y) < c1, (x < c1) & (y < c1), algebra="the greater is below c if both are"),
    Rule("less-than-min", c1 < pmin(x, y), (c1 < x) & (c1 < y), algebra="the lesser is above c if both are"),
    Rule("less-than-max", c1 < pmax(x, y), (c1 < x) | (c1 < y), algebra="the greater is above c if one is"),
    Rule(
        "less-equal-min", c1 <= pmin(x, y), (c1 <= x) & (c1 <= y), algebra="the lesser is above c if both are"
    ),
    Rule(
        "less-equal-max", c1 <= pmax(x, y), (c1 <= x) | (c1 <= y), algebra="the greater is above c if one is"
    ),
    Rule("less-than-own-min", x < pmin(x, y), False, algebra="min(x, y) <= x"),
    Rule("less-than-own-min-2", y < pmin(x, y), False, algebra="min(x, y) <= y"),
    Rule("own-min-not-above", pmin(x, y) <= x, True, algebra="min(x, y) <= x"),
    Rule("own-min-not-above-2", pmin(x, y) <= y, True, algebra="min(x, y) <= y"),
    Rule("own-max-not-below", x <= pmax(x, y), True, algebra="x <= max(x, y)"),
    Rule("own-max-not-below-2", y <= pmax(x, y), True, algebra="y <= max(x, y)"),
    Rule("own-max-less", pmax(x, y) < x, False, algebra="x <= max(x, y)"),
    Rule("own-max-less-2", pmax(x, y) < y, False, algebra="y <= max(x, y)"),
    Rule("above-own-min", pmin(x, y) < x, y < x, algebra="min(x, y) < x if y is the lesser"),
    Rule("above-own-min-2", pmin(x, y) < y, x < y, algebra="min(x, y) < y if x is the lesser"),
    Rule("below-own-max", x < pmax(x, y), x < y, algebra="x < max(x, y) if y is the greater"),
    Rule("below-own-max-2", y < pmax(x, y), y < x, algebra="y < max(x, y) if x is the greater"),
    Rule(
        "product-zero",
        eq(x * y, 0),
        eq(x, 0) | eq(y, 0),
        domain="index",
        algebra="the integers have no zero divisors",
    ),
    Rule(
        "product-not-zero",
        ne(x * y, 0),
        ne(x, 0) & ne(y, 0),
        domain="index",
        algebra="the integers have no zero divisors",
    ),
    Rule(
        "equal-product-const",
        eq(x * c1, c2),
        eq(x, c2 // c1),
        when=lambda m: m[c1] != 0 and m[c2] % m[c1] == 0,
        domain="index",
        linear=True,
        algebra="scaling is injective",
    ),
    Rule(
        "equal-product-never",
        eq(x * c1, c2),
        False,
        when=lambda m: m[c1] != 0 and m[c2] % m[c1] != 0,
        domain="index",
        linear=True,
        algebra="c1 does not divide c2",
    ),
)
