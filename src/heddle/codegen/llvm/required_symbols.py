"""What object code asks of others: only the support library, C's memory and math functions, and functions
that the program itself names.

LLVM calls functions of the compiler's runtime library (`__truncdfhf2` and its like) where a processor lacks
an instruction. Nothing provides those to a process, unless some library that is loaded happens to hold them.
"""

from __future__ import annotations

import re
from functools import cache

from heddle.codegen.codes import G0105
from heddle.runtime.native.elf import elf_machine, undefined_symbols
from heddle.support.diagnostics import InternalError

_MEMORY = ("memcpy", "memmove", "memset", "memcmp", "bcmp")
_MATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "ldexp",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "pow",
    "rint",
    "round",
    "roundeven",
    "sin",
    "sincos",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
_MACHINES = (62, 183)  # x86-64, AArch64
_LINKER = ("_GLOBAL_OFFSET_TABLE_",)
_DECLARED = re.compile(r'^declare [^@]*@(?:"([^"]+)"|([\w.$]+))', re.MULTILINE)


@cache
def provided_symbols() -> frozenset[str]:
    """What LLVM may call of its own accord: C's functions on memory and on float32 and float64."""
    return frozenset((*_MEMORY, *_LINKER, *_MATH, *(f"{name}f" for name in _MATH)))


def check_symbols(object_code: bytes, text: str, name: str) -> None:
    """Refuse object code that needs what neither its text declares nor the C library has.

    Read are 64-bit ELF objects for x86-64 and AArch64, whose instructions do all that kernels ask for; code
    for lesser processors is linked by a compiler, with its runtime library. Raises: InternalError G0105.
    """
    if elf_machine(object_code) not in _MACHINES:
        return
    declared = {quoted or plain for quoted, plain in _DECLARED.findall(text)}
    needed = {symbol.decode() for symbol in undefined_symbols(object_code)}
    missing = sorted(needed - declared - provided_symbols())
    if missing:
        raise InternalError(
            G0105,
            f"the code of {name!r} needs {', '.join(missing)}, which no library here provides",
            help="the lowering of this operation for this target is missing",
        )
