"""Diagnostic codes of the lower room: from graphs to loops to bytecode."""

from heddle.support.diagnostics import declare_code

L0101 = declare_code(
    "L0101",
    "operator cannot be lowered",
    "An operator reached code generation that has no loops and that the machine does not know.",
)
L0102 = declare_code(
    "L0102",
    "rank is not known",
    "An operator needs the rank of a tensor that is known only when the program runs; "
    "match_cast the value to a type with a rank first.",
)
L0201 = declare_code(
    "L0201",
    "function has no global_symbol",
    "Only functions with a global_symbol become part of an executable.",
)
L0202 = declare_code(
    "L0202",
    "nested function",
    "LambdaLift makes nested functions global; it must run before code generation.",
)
