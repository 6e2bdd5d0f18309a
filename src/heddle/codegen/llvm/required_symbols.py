"""What object code asks of others: only the support library, C's memory and math functions, and functions
that the program itself names.

LLVM calls functions of the compiler's runtime library (`__truncdfhf2` and its like) where a processor lacks
an instruction. Nothing provides those to a process, unless some library that is loaded happens to hold them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from heddle.codegen.codes import G0105
from heddle.runtime.native.elf import undefined_symbols
from heddle.runtime.native.foreign_symbols import needed_symbols
from heddle.runtime.native.object_format import object_format
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
_CHECKED = ("ELF x86_64", "ELF aarch64", "COFF x86_64", "COFF aarch64", "Mach-O x86_64", "Mach-O aarch64")
"""Objects of processors whose instructions do all that kernels ask for. Code for lesser ones, and for
WebAssembly, is linked by a compiler, with its runtime library."""
_OF_CONTAINER = {
    "COFF": ("_fltused", "__chkstk", "___chkstk_ms"),
    "Mach-O": (
        "bzero",
        "__bzero",
        "memset_pattern16",
        "__exp10",
        "__exp10f",
        "__sincos_stret",
        "__sincosf_stret",
    ),
}
"""What else a platform's C library has."""
_LINKER = ("_GLOBAL_OFFSET_TABLE_",)
_DECLARED = re.compile(r'^declare [^@]*@(?:"([^"]+)"|([\w.$]+))', re.MULTILINE)


@cache
def provided_symbols() -> frozenset[str]:
    """What LLVM may call of its own accord: C's functions on memory and on float32 and float64."""
    return frozenset((*_MEMORY, *_LINKER, *_MATH, *(f"{name}f" for name in _MATH)))


def declared_symbols(text: str) -> tuple[str, ...]:
    """The functions that LLVM IR names and does not define."""
    return tuple(sorted({_unescaped(quoted) or plain for quoted, plain in _DECLARED.findall(text)}))


def _unescaped(name: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)


def check_symbols(object_code: bytes, declared: Iterable[str], name: str) -> None:
    """Refuse object code that needs what neither its text declares nor the C library has.

    Read are objects of the formats `_CHECKED`. Raises: InternalError G0105.
    """
    found = object_format(object_code)
    if str(found) not in _CHECKED:
        return
    assert found is not None
    needed = needed_symbols(object_code)
    if needed is None:
        needed = {symbol.decode() for symbol in undefined_symbols(object_code)}
    missing = sorted(needed - {*declared, *_OF_CONTAINER.get(found.container, ())} - provided_symbols())
    if missing:
        raise InternalError(
            G0105,
            f"the code of {name!r} needs {', '.join(missing)}, which no library here provides",
            help="the lowering of this operation for this target is missing",
        )
