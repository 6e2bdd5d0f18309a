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
G0104 = declare_code(
    "G0104",
    "LLVM crashed",
    "The process in which LLVM compiled a function ended by a signal. This is a fault of Heddle or of LLVM.",
)
G0105 = declare_code(
    "G0105",
    "code needs a function that nobody provides",
    "LLVM made an operation into a call of the compiler's runtime library, which is no part of a process. "
    "This is a fault of Heddle: the operation has to be lowered to instructions that the target has.",
)
G0201 = declare_code(
    "G0201",
    "C source needs a compiler",
    "Sources in the attribute `c_source` of an external function are compiled by the system's compiler, by "
    "the one that HEDDLE_CC or HEDDLE_CXX names, or by that of the extra `link`.",
)
G0202 = declare_code("G0202", "C source does not compile", "The compiler's own message follows.")
G0203 = declare_code(
    "G0203",
    "C source does not fit",
    "`c_source_fmt` is 'c' or 'cc'; the source defines the function with HEDDLE_KERNEL of heddle_kernel.h; "
    "it is compiled for the processor that the compiler runs on. It has no constructors: no static object of "
    "C++ that a function makes, no `__attribute__((constructor))`.",
)
G0204 = declare_code(
    "G0204",
    "no C program of its own",
    "A program in one C file runs without a host: it cannot call builtins that are written in Python, such "
    "as caches of attention, and no functions of the user's. An arena also needs fixed sizes, and functions "
    "without branches and recursion, so that the memory is known when they are compiled.",
)
G0205 = declare_code(
    "G0205",
    "no name for C",
    "A function that becomes C source has a name of ASCII letters, digits and underscores, which does "
    "not begin with a digit.",
)
