"""Sums and products. Laws of a ring hold for every integer dtype, wrapping included; none of them is
for floats."""

from heddle.arith.simplify.pattern import c1, c2, pmax, pmin, select, w, x, y, z
from heddle.arith.simplify.rule import Rule

ADD_SUB_RULES = (
    Rule("add-const-left", c1 + x, x + c1, linear=True, algebra="+ commutes; constants stand right"),
    Rule("add-consts", (x + c1) + c2, x + (c1 + c2), linear=True, algebra="+ associates"),
    Rule("add-after-sub-const", (x - c1) + c2, x + (c2 - c1), linear=True, algebra="x - a + b = x + (b - a)"),
    Rule(
        "const-minus-plus-const", (c1 - x) + c2, (c1 + c2) - x, linear=True, algebra="a - x + b = (a+b) - x"
    ),
    Rule(
        "add-constants-out-left", (x + c1) + y, (x + y) + c1, linear=True, algebra="constants move outwards"
    ),
    Rule(
        "add-constants-out-right", x + (y + c1), (x + y) + c1, linear=True, algebra="constants move outwards"
    ),
    Rule("sub-consts", (x - c1) - c2, x - (c1 + c2), linear=True, algebra="x - a - b = x - (a+b)"),
    Rule("sub-const-after-add", (x + c1) - c2, x + (c1 - c2), linear=True, algebra="x + a - b = x + (a-b)"),
    Rule("sub-self", x - x, 0, linear=True, algebra="x - x = 0"),
    Rule("add-self", x + x, x * 2, linear=True, algebra="x + x = 2x"),
    Rule("add-cancel-right", (x - y) + y, x, linear=True, algebra="x - y + y = x"),
    Rule("add-cancel-left", x + (y - x), y, linear=True, algebra="x + y - x = y"),
    Rule("sub-cancel-left", (x + y) - x, y, linear=True, algebra="x + y - x = y"),
    Rule("sub-cancel-right", (x + y) - y, x, linear=True, algebra="x + y - y = x"),
    Rule("sub-from-sum-left", x - (x + y), 0 - y, linear=True, algebra="x - (x + y) = -y"),
    Rule("sub-from-sum-right", x - (y + x), 0 - y, linear=True, algebra="x - (y + x) = -y"),
    Rule("sub-difference", x - (x - y), y, linear=True, algebra="x - (x - y) = y"),
    Rule("sub-shared-left", (x + y) - (x + z), y - z, linear=True, algebra="x cancels"),
    Rule("sub-shared-cross", (x + y) - (z + x), y - z, linear=True, algebra="x cancels"),
    Rule("sub-shared-cross-2", (y + x) - (x + z), y - z, linear=True, algebra="x cancels"),
    Rule("sub-shared-right", (y + x) - (z + x), y - z, linear=True, algebra="x cancels"),
    Rule("add-same-factor-const", x * c1 + x, x * (c1 + 1), linear=True, algebra="distributive law"),
    Rule("add-same-factor-const-left", x + x * c1, x * (c1 + 1), linear=True, algebra="distributive law"),
    Rule("add-same-factor-consts", x * c1 + x * c2, x * (c1 + c2), linear=True, algebra="distributive law"),
    Rule("sub-same-factor-const", x * c1 - x, x * (c1 - 1), linear=True, algebra="distributive law"),
    Rule("sub-same-factor-const-left", x - x * c1, x * (1 - c1), linear=True, algebra="distributive law"),
    Rule("sub-same-factor-consts", x * c1 - x * c2, x * (c1 - c2), linear=True, algebra="distributive law"),
    Rule("add-negated", x + y * -1, x - y, linear=True, algebra="x + (-y) = x - y"),
    Rule("negated-add", x * -1 + y, y - x, linear=True, algebra="-x + y = y - x"),
    Rule("sub-negated", x - y * -1, x + y, linear=True, algebra="x - (-y) = x + y"),
    Rule(
        "quotient-and-rest",
        (x // c1) * c1 + x % c1,
        x,
        when=lambda m: m[c1] != 0,
        domain="index",
        linear=True,
        algebra="x = (x // c) * c + x % c",
    ),
    Rule(
        "rest-and-quotient",
        x % c1 + (x // c1) * c1,
        x,
        when=lambda m: m[c1] != 0,
        domain="index",
        linear=True,
        algebra="x = x % c + (x // c) * c",
    ),
    Rule(
        "minus-quotient",
        x - (x // c1) * c1,
        x % c1,
        when=lambda m: m[c1] > 0,
        domain="index",
        linear=True,
        algebra="x - (x // c) * c = x % c",
    ),
    Rule(
        "min-plus-max", pmin(x, y) + pmax(x, y), x + y, algebra="of two numbers one is the min, one the max"
    ),
    Rule("min-plus-max-crossed", pmin(x, y) + pmax(y, x), x + y, algebra="as above"),
    Rule("max-plus-min", pmax(x, y) + pmin(x, y), x + y, algebra="as above"),
    Rule("max-plus-min-crossed", pmax(x, y) + pmin(y, x), x + y, algebra="as above"),
    Rule(
        "sum-minus-min-left",
        x - pmin(x, y),
        pmax(x - y, 0),
        domain="index",
        algebra="x - min(x,y) = max(0, x-y)",
    ),
    Rule(
        "sum-minus-min-right",
        x - pmin(y, x),
        pmax(x - y, 0),
        domain="index",
        algebra="x - min(y,x) = max(x-y, 0)",
    ),
    Rule(
        "sum-minus-max-left",
        x - pmax(x, y),
        pmin(x - y, 0),
        domain="index",
        algebra="x - max(x,y) = min(0, x-y)",
    ),
    Rule(
        "sum-minus-max-right",
        x - pmax(y, x),
        pmin(x - y, 0),
        domain="index",
        algebra="x - max(y,x) = min(x-y, 0)",
    ),
    Rule(
        "select-plus-select",
        select(x, y, z) + select(x, w, c1),
        select(x, y + w, z + c1),
        algebra="same choice",
    ),
    Rule(
        "select-minus-select",
        select(x, y, z) - select(x, w, c1),
        select(x, y - w, z - c1),
        algebra="same choice",
    ),
    Rule("select-minus-true", select(x, y, z) - y, select(x, 0, z - y), algebra="same choice"),
    Rule("select-minus-false", select(x, y, z) - z, select(x, y - z, 0), algebra="same choice"),
)

MUL_RULES = (
    Rule("mul-const-left", c1 * x, x * c1, linear=True, algebra="* commutes; constants stand right"),
    Rule("mul-consts", (x * c1) * c2, x * (c1 * c2), linear=True, algebra="* associates"),
    Rule("mul-distribute-const", (x + c1) * c2, x * c2 + c1 * c2, linear=True, algebra="distributive law"),
    Rule(
        "mul-distribute-const-sub", (x - c1) * c2, x * c2 - c1 * c2, linear=True, algebra="distributive law"
    ),
    Rule("mul-constant-out", (x * c1) * y, (x * y) * c1, linear=True, algebra="constants move outwards"),
    Rule(
        "mul-constant-out-right", x * (y * c1), (x * y) * c1, linear=True, algebra="constants move outwards"
    ),
    Rule("mul-difference-negated", (x - y) * -1, y - x, linear=True, algebra="-(x - y) = y - x"),
    Rule(
        "min-times-max", pmin(x, y) * pmax(x, y), x * y, algebra="of two numbers one is the min, one the max"
    ),
    Rule("max-times-min", pmax(x, y) * pmin(x, y), x * y, algebra="as above"),
)
