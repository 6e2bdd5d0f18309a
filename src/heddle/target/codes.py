"""Diagnostic codes of targets."""

from heddle.support.diagnostics import declare_code

H0101 = declare_code(
    "H0101", "malformed target", "A target is a kind followed by options: `llvm -mcpu=NAME -num-cores=4`."
)
H0102 = declare_code(
    "H0102", "unknown target kind", "Programs are compiled for the kinds that the message lists."
)
H0103 = declare_code("H0103", "unknown target option", "The target kind has no such option.")
H0104 = declare_code(
    "H0104", "no current target", "`Target.current(allow_none=False)` was called outside `with target:`."
)
H0105 = declare_code(
    "H0105",
    "unknown processor",
    "`-mcpu` is a name that LLVM knows, such as `x86-64-v3`, `znver4` or `sapphirerapids`.",
)
