"""Diagnostic codes of lowering: from graphs to loops to bytecode."""

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

# ---- from Relay

L0301 = declare_code(
    "L0301",
    "Relay program cannot be compiled",
    "A part of the program has no place in the shared normal form; the interpreter runs it.",
)
L0302 = declare_code(
    "L0302",
    "generic function without end of instances",
    "A generic function becomes a function for each of the types that it is called with, which are too many.",
)
L0303 = declare_code(
    "L0303",
    "generic function as a value",
    "A generic function can be called, or given to a function that says with which types it is called.",
)
L0304 = declare_code(
    "L0304",
    "reference may lead to itself",
    "A machine frees what nobody holds any more. A reference to a function, or to a value that may hold the "
    "same kind of reference, can be held by what it holds itself. The interpreter runs such programs.",
)
L0305 = declare_code(
    "L0305",
    "branches are nested too deeply",
    "Each clause of a match is a branch inside the one before. Put some of them into a function.",
)

L0306 = declare_code(
    "L0306",
    "graph cannot be written in Relay",
    "An input or result of the graph is a text, a sequence or a tensor of unknown rank, which Relay lacks, "
    "or a size of it is found nowhere. `heddle.compile` takes the graph itself.",
)

L0307 = declare_code(
    "L0307",
    "memory scope that no machine has",
    "Annotations may name memory scopes for passes; what is compiled lies in the scope 'global' of a device.",
)

# ---- schedules

L0401 = declare_code(
    "L0401",
    "rule for loops failed",
    "A warning: the next rule took the function over, or its loops stay as they are. The result is right, "
    "and the kernel may be slow. Please report it.",
)
