"""Selection and conversion. The laws move whole values, so they hold for floats as well."""

from __future__ import annotations

from heddle.arith.simplify.pattern import Choice, select, w, x, y, z
from heddle.arith.simplify.rule import Rule

SELECT_RULES = (
    Rule("select-same", select(x, y, y), y, domain="any", algebra="both values are y"),
    Rule("select-negated", select(~x, y, z), select(x, z, y), domain="any", algebra="not x swaps the values"),
    Rule(
        "select-nested-true",
        select(x, select(x, y, z), w),
        select(x, y, w),
        domain="any",
        algebra="x holds there",
    ),
    Rule(
        "select-nested-false",
        select(x, y, select(x, z, w)),
        select(x, y, w),
        domain="any",
        algebra="x fails there",
    ),
    Rule(
        "select-merge-and",
        select(x, select(y, z, w), w),
        select(x & y, z, w),
        domain="any",
        algebra="z where both hold",
    ),
    Rule(
        "select-merge-or",
        select(x, z, select(y, z, w)),
        select(x | y, z, w),
        domain="any",
        algebra="z where one holds",
    ),
    Rule("select-condition", select(x, True, False), x, domain="bool", algebra="the condition itself"),
    Rule(
        "select-condition-negated", select(x, False, True), ~x, domain="bool", algebra="the condition negated"
    ),
    Rule("choice-same", Choice(x, y, y), y, domain="any", algebra="both values are y"),
    Rule("choice-negated", Choice(~x, y, z), Choice(x, z, y), domain="any", algebra="not x swaps the values"),
    Rule(
        "choice-nested-true",
        Choice(x, Choice(x, y, z), w),
        Choice(x, y, w),
        domain="any",
        algebra="x holds there",
    ),
    Rule(
        "choice-nested-false",
        Choice(x, y, Choice(x, z, w)),
        Choice(x, y, w),
        domain="any",
        algebra="x fails there",
    ),
    Rule(
        "choice-merge-and",
        Choice(x, Choice(y, z, w), w),
        Choice(x & y, z, w),
        domain="any",
        algebra="z where both hold",
    ),
)

FLOAT_RULES = (
    Rule("float-mul-one", x * 1.0, x, domain="any", algebra="exact, NaN and signed zeros kept"),
    Rule("float-one-mul", 1.0 * x, x, domain="any", algebra="exact, NaN and signed zeros kept"),
    Rule("float-sub-zero", x - 0.0, x, domain="any", algebra="exact: -0 - 0 = -0"),
    Rule("float-add-negative-zero", x + -0.0, x, domain="any", algebra="exact: 0 + -0 = 0, -0 + -0 = -0"),
)
