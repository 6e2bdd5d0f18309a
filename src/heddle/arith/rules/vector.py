"""Vectors: ramps and broadcasts stay in front, so that the index of a vector access is a ramp or a
broadcast."""

from __future__ import annotations

from heddle.arith.simplify.pattern import broadcast, c1, c2, c3, eq, lanes, ne, pmax, pmin, ramp, w, x, y, z
from heddle.arith.simplify.rule import Rule

VECTOR_RULES = (
    Rule(
        "ramp-plus-ramp", ramp(x, y, lanes) + ramp(z, w, lanes), ramp(x + z, y + w, lanes), algebra="by lane"
    ),
    Rule(
        "ramp-minus-ramp", ramp(x, y, lanes) - ramp(z, w, lanes), ramp(x - z, y - w, lanes), algebra="by lane"
    ),
    Rule(
        "ramp-plus-broadcast",
        ramp(x, y, lanes) + broadcast(z, lanes),
        ramp(x + z, y, lanes),
        algebra="by lane",
    ),
    Rule(
        "broadcast-plus-ramp",
        broadcast(z, lanes) + ramp(x, y, lanes),
        ramp(z + x, y, lanes),
        algebra="by lane",
    ),
    Rule(
        "ramp-minus-broadcast",
        ramp(x, y, lanes) - broadcast(z, lanes),
        ramp(x - z, y, lanes),
        algebra="by lane",
    ),
    Rule(
        "broadcast-minus-ramp",
        broadcast(z, lanes) - ramp(x, y, lanes),
        ramp(z - x, 0 - y, lanes),
        algebra="by lane",
    ),
    Rule(
        "ramp-times-broadcast",
        ramp(x, y, lanes) * broadcast(z, lanes),
        ramp(x * z, y * z, lanes),
        algebra="by lane",
    ),
    Rule(
        "broadcast-times-ramp",
        broadcast(z, lanes) * ramp(x, y, lanes),
        ramp(z * x, z * y, lanes),
        algebra="by lane",
    ),
    Rule("ramp-flat", ramp(x, 0, lanes), broadcast(x, lanes), algebra="stride 0"),
    Rule(
        "add-broadcasts",
        broadcast(x, lanes) + broadcast(y, lanes),
        broadcast(x + y, lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "sub-broadcasts",
        broadcast(x, lanes) - broadcast(y, lanes),
        broadcast(x - y, lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "mul-broadcasts",
        broadcast(x, lanes) * broadcast(y, lanes),
        broadcast(x * y, lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "floordiv-broadcasts",
        broadcast(x, lanes) // broadcast(y, lanes),
        broadcast(x // y, lanes),
        algebra="by lane",
    ),
    Rule(
        "floormod-broadcasts",
        broadcast(x, lanes) % broadcast(y, lanes),
        broadcast(x % y, lanes),
        algebra="by lane",
    ),
    Rule(
        "min-broadcasts",
        pmin(broadcast(x, lanes), broadcast(y, lanes)),
        broadcast(pmin(x, y), lanes),
        algebra="by lane",
    ),
    Rule(
        "max-broadcasts",
        pmax(broadcast(x, lanes), broadcast(y, lanes)),
        broadcast(pmax(x, y), lanes),
        algebra="by lane",
    ),
    Rule(
        "less-broadcasts",
        broadcast(x, lanes) < broadcast(y, lanes),
        broadcast(x < y, lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "less-equal-broadcasts",
        broadcast(x, lanes) <= broadcast(y, lanes),
        broadcast(x <= y, lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "equal-broadcasts",
        eq(broadcast(x, lanes), broadcast(y, lanes)),
        broadcast(eq(x, y), lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "not-equal-broadcasts",
        ne(broadcast(x, lanes), broadcast(y, lanes)),
        broadcast(ne(x, y), lanes),
        domain="any",
        algebra="by lane",
    ),
    Rule(
        "and-broadcasts",
        broadcast(x, lanes) & broadcast(y, lanes),
        broadcast(x & y, lanes),
        domain="bool",
        algebra="by lane",
    ),
    Rule(
        "or-broadcasts",
        broadcast(x, lanes) | broadcast(y, lanes),
        broadcast(x | y, lanes),
        domain="bool",
        algebra="by lane",
    ),
    Rule("not-broadcast", ~broadcast(x, lanes), broadcast(~x, lanes), domain="bool", algebra="by lane"),
    Rule(
        "ramp-quotient",
        ramp(x * c1, c2, lanes) // broadcast(c3, lanes),
        ramp(x * (c1 // c3), c2 // c3, lanes),
        when=lambda m: m[c3] > 0 and m[c1] % m[c3] == 0 and m[c2] % m[c3] == 0,
        domain="wide",
        algebra="c3 divides base and stride",
    ),
    Rule(
        "ramp-quotient-constant",
        ramp(x, c1, lanes) // broadcast(c2, lanes),
        broadcast(x // c2, lanes),
        when=lambda m: m[c2] > 0 and m[c1] > 0 and m.is_multiple(x, m[c2]) and m.lanes * m[c1] <= m[c2],
        domain="wide",
        algebra="all lanes lie in one block of c2",
    ),
    Rule(
        "ramp-remainder-constant",
        ramp(x, c1, lanes) % broadcast(c2, lanes),
        ramp(x % c2, c1, lanes),
        when=lambda m: m[c2] > 0 and m[c1] > 0 and m.is_multiple(x, m[c2]) and m.lanes * m[c1] <= m[c2],
        domain="wide",
        algebra="all lanes lie in one block of c2",
    ),
)
