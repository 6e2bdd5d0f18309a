"""Diagnostic codes of integer analysis."""

from heddle.support.diagnostics import declare_code

A0101 = declare_code(
    "A0101",
    "variable bound twice",
    "An analyzer was told two different things about one variable. "
    "Pass allow_override=True to replace what it knows.",
)
A0102 = declare_code(
    "A0102",
    "no such level of iterator maps",
    "A level is `bijective`, `surjective` or `nocheck`, in capitals or not, or a member of `IterMapLevel`.",
)
