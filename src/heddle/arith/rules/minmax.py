"""Minimum and maximum of integers: a distributive lattice, on which addition is monotonic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.arith.simplify.pattern import Pattern, c1, c2, pmax, pmin, select, x, y, z
from heddle.arith.simplify.rule import Rule

Lattice = Callable[[Any, Any], Pattern]


def _family(name: str, f: Lattice, g: Lattice) -> tuple[Rule, ...]:
    """The laws of one of the pair (f, g) = (min, max) or (max, min)."""

    def law(
        suffix: str, lhs: Pattern, rhs: Pattern, algebra: str, domain: str = "int", linear: bool = False
    ) -> Rule:
        return Rule(f"{name}-{suffix}", lhs, rhs, algebra=algebra, domain=domain, linear=linear)

    return (
        law("self", f(x, x), x, "idempotent"),
        law("const-right", f(c1, x), f(x, c1), "commutes; constants stand right", linear=True),
        law("consts", f(f(x, c1), c2), f(x, f(c1, c2)), "associates", linear=True),
        law("repeated-left", f(f(x, y), x), f(x, y), "idempotent", linear=True),
        law("repeated-right", f(f(x, y), y), f(x, y), "idempotent", linear=True),
        law("repeated-outer-left", f(x, f(x, y)), f(x, y), "idempotent", linear=True),
        law("repeated-outer-right", f(y, f(x, y)), f(x, y), "idempotent", linear=True),
        law("absorb-left", f(g(x, y), x), x, "absorption"),
        law("absorb-right", f(g(x, y), y), y, "absorption"),
        law("absorb-outer-left", f(x, g(x, y)), x, "absorption"),
        law("absorb-outer-right", f(y, g(x, y)), y, "absorption"),
        law("of-both-same", f(f(x, y), g(x, y)), f(x, y), "f(x,y) is beyond g(x,y)"),
        law("of-both-crossed", f(g(x, y), f(x, y)), f(x, y), "f(x,y) is beyond g(x,y)"),
        law("distribute-ll", f(g(x, y), g(x, z)), g(x, f(y, z)), "distributive law"),
        law("distribute-lr", f(g(x, y), g(z, x)), g(x, f(y, z)), "distributive law"),
        law("distribute-rl", f(g(y, x), g(x, z)), g(x, f(y, z)), "distributive law"),
        law("distribute-rr", f(g(y, x), g(z, x)), g(x, f(y, z)), "distributive law"),
        law("of-sums-ll", f(x + y, x + z), x + f(y, z), "addition is monotonic", domain="index", linear=True),
        law("of-sums-lr", f(x + y, z + x), x + f(y, z), "addition is monotonic", domain="index", linear=True),
        law("of-sums-rl", f(y + x, x + z), x + f(y, z), "addition is monotonic", domain="index", linear=True),
        law("of-sums-rr", f(y + x, z + x), f(y, z) + x, "addition is monotonic", domain="index", linear=True),
        law(
            "sum-const",
            f(x + c1, x + c2),
            x + f(c1, c2),
            "addition is monotonic",
            domain="index",
            linear=True,
        ),
        law(
            "of-differences-l",
            f(x - y, x - z),
            x - g(y, z),
            "subtraction reverses",
            domain="index",
            linear=True,
        ),
        law(
            "of-differences-r", f(x - y, z - y), f(x, z) - y, "subtraction keeps", domain="index", linear=True
        ),
        law(
            "shift-const",
            f(x + c1, c2),
            f(x, c2 - c1) + c1,
            "addition is monotonic",
            domain="index",
            linear=True,
        ),
        law(
            "from-const",
            f(c1 - x, c2),
            c1 - g(x, c1 - c2),
            "subtraction reverses",
            domain="index",
            linear=True,
        ),
        law(
            "of-selects", f(select(x, y, z), select(x, c1, c2)), select(x, f(y, c1), f(z, c2)), "same choice"
        ),
    )


MINMAX_RULES = (
    *_family("min", pmin, pmax),
    *_family("max", pmax, pmin),
    Rule(
        "min-of-quotients",
        pmin(x // c1, y // c1),
        pmin(x, y) // c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        algebra="floor division by c > 0 is monotonic",
    ),
    Rule(
        "max-of-quotients",
        pmax(x // c1, y // c1),
        pmax(x, y) // c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        algebra="floor division by c > 0 is monotonic",
    ),
    Rule(
        "min-round-up",
        pmin((x + c1) // c2 * c2, x),
        x,
        when=lambda m: m[c2] > 0 and m[c1] + 1 == m[c2],
        domain="index",
        linear=True,
        algebra="rounding up is not below",
    ),
    Rule(
        "max-round-up",
        pmax((x + c1) // c2 * c2, x),
        (x + c1) // c2 * c2,
        when=lambda m: m[c2] > 0 and m[c1] + 1 == m[c2],
        domain="index",
        linear=True,
        algebra="rounding up is not below",
    ),
    Rule(
        "min-positive-scale",
        pmin(x * c1, y * c1),
        pmin(x, y) * c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="scaling by c > 0 is monotonic",
    ),
    Rule(
        "max-positive-scale",
        pmax(x * c1, y * c1),
        pmax(x, y) * c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="scaling by c > 0 is monotonic",
    ),
    Rule(
        "min-negative-scale",
        pmin(x * c1, y * c1),
        pmax(x, y) * c1,
        when=lambda m: m[c1] < 0,
        domain="index",
        linear=True,
        algebra="scaling by c < 0 reverses",
    ),
    Rule(
        "max-negative-scale",
        pmax(x * c1, y * c1),
        pmin(x, y) * c1,
        when=lambda m: m[c1] < 0,
        domain="index",
        linear=True,
        algebra="scaling by c < 0 reverses",
    ),
    Rule(
        "min-ordered",
        pmin(x, y),
        x,
        when=lambda m: m.bound(x)[1] <= m.bound(y)[0],
        algebra="x <= y by bounds",
    ),
    Rule(
        "min-reversed",
        pmin(x, y),
        y,
        when=lambda m: m.bound(y)[1] <= m.bound(x)[0],
        algebra="y <= x by bounds",
    ),
    Rule(
        "max-ordered",
        pmax(x, y),
        y,
        when=lambda m: m.bound(x)[1] <= m.bound(y)[0],
        algebra="x <= y by bounds",
    ),
    Rule(
        "max-reversed",
        pmax(x, y),
        x,
        when=lambda m: m.bound(y)[1] <= m.bound(x)[0],
        algebra="y <= x by bounds",
    ),
)
