"""Diagnostic codes of targets."""

from heddle.support.diagnostics import declare_code

H0101 = declare_code(
    "H0101", "malformed target", "A target is a kind followed by options: `llvm -mcpu=NAME -num-cores=4`."
)
H0102 = declare_code(
    "H0102", "unknown target kind", "Programs are compiled for the kinds that the message lists."
)
H0103 = declare_code(
    "H0103",
    "unknown target option",
    "Every option of a target changes something. What another kind or another compiler has and would do "
    "nothing here is refused; the message says what to do instead.",
)
H0104 = declare_code(
    "H0104", "no current target", "`Target.current(allow_none=False)` was called outside `with target:`."
)
H0105 = declare_code(
    "H0105",
    "unknown processor",
    "`-mcpu` is a name that LLVM knows for the triple's machine, such as `x86-64-v3`, `znver4` or "
    "`sapphirerapids`, and the processor can run code for that triple.",
)
H0106 = declare_code(
    "H0106",
    "no code for this triple",
    "`-mtriple` names a machine and a system for which LLVM can make object code, such as "
    "`x86_64-unknown-linux-gnu` or `aarch64-linux-gnu`.",
)
H0107 = declare_code(
    "H0107",
    "unknown processor feature",
    "`-mattr` lists features by LLVM's names, such as `+avx512bf16,-fma`. What the triple says already "
    "(64-bit code, how floats are passed) is no feature to choose.",
)
