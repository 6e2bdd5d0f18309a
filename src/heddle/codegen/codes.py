"""Diagnostic codes of code generation."""

from heddle.support.diagnostics import declare_code

G0101 = declare_code(
    "G0101",
    "no machine form",
    "A statement or expression cannot be compiled for the target: it belongs to an earlier stage of "
    "lowering, or names "
    "an intrinsic that the target lacks.",
)
G0102 = declare_code(
    "G0102", "LLVM refused the program", "The generated LLVM IR does not verify. This is a fault of Heddle."
)
G0103 = declare_code(
    "G0103",
    "function has no name",
    "A function that is compiled needs the attribute `global_symbol`, or a name in its module.",
)
