"""Detect the format and machine of an object file from its first bytes, and which files can be made for a
triple.

| container | machine                          | **Source**                            |
|---|---|---|
| ELF       | e_machine, at 18                 | System V ABI, chapter 4               |
| COFF      | Machine, at 0                    | PE Format, Microsoft, "COFF File Header" |
| Mach-O    | cputype, at 4                    | mach-o/loader.h                       |
| wasm      | the magic alone                  | WebAssembly 1.0, binary format        |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from heddle.runtime.codes import U0510
from heddle.runtime.needs import platform_of
from heddle.runtime.processor import this_processor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "i386": 3, "arm": 40, "riscv64": 243, "riscv32": 243}
_COFF_MACHINES = {"x86_64": 0x8664, "aarch64": 0xAA64, "i386": 0x14C, "arm": 0x1C4}
_MACHO_TYPES = {"x86_64": 0x01000007, "aarch64": 0x0100000C, "i386": 7, "arm": 12}
_MACHO_MAGIC = (0xFEEDFACE, 0xFEEDFACF)
_APPLE = ("darwin", "macos", "ios", "tvos", "watchos", "xros")
_NARROW = ("x32", "ilp32")
"""Parts of a triple that mean 32-bit pointers on a 64-bit machine."""
LIBRARY_MACHINES = ("x86_64", "aarch64")
"""The machines that the native support library supports under Linux."""


@frozen
class ObjectFormat:
    """A container format and a machine. `machine` is the container's machine number, 0 if it has none."""

    container: str
    machine: int

    def __str__(self) -> str:
        names = {"ELF": ELF_MACHINES, "COFF": _COFF_MACHINES, "Mach-O": _MACHO_TYPES}.get(self.container, {})
        named = [name for name, number in names.items() if number == self.machine]
        return " ".join((self.container, *(named[:1] or ([str(self.machine)] if self.machine else []))))


def object_format(code: bytes) -> ObjectFormat | None:
    """Return the format of an object file; None for bytes of another form."""
    if code[:4] == b"\x7fELF" and len(code) >= 20:
        return ObjectFormat("ELF", struct.unpack_from("<H" if code[5] == 1 else ">H", code, 18)[0])
    if code[:4] == b"\0asm":
        return ObjectFormat("wasm", 0)
    if len(code) >= 8 and struct.unpack_from("<I", code)[0] in _MACHO_MAGIC:
        return ObjectFormat("Mach-O", struct.unpack_from("<I", code, 4)[0])
    if len(code) >= 20 and struct.unpack_from("<H", code)[0] in _COFF_MACHINES.values():
        return ObjectFormat("COFF", struct.unpack_from("<H", code)[0])
    return None


def is_apple(triple: str) -> bool:
    """Whether a target triple is for one of Apple's systems."""
    return any(name in triple for name in _APPLE)


def format_of(triple: str) -> ObjectFormat | None:
    """Return the object format for a triple; None for a machine that is not in the table."""
    machine = platform_of(triple).partition("-")[0]
    machine = "i386" if machine in ("i486", "i586", "i686") else machine
    if machine.startswith("wasm"):
        return ObjectFormat("wasm", 0)
    container, names = "ELF", ELF_MACHINES
    if is_apple(triple):
        container, names = "Mach-O", _MACHO_TYPES
    elif "windows" in triple or "mingw" in triple:
        container, names = "COFF", _COFF_MACHINES
    found = names.get("arm" if machine.startswith(("armv", "thumb")) else machine)
    return None if found is None else ObjectFormat(container, found)


def check_library(name: str, triple: str) -> None:
    """Reject a shared or static library that cannot be made for a triple.

    Besides kernels, a library contains the native support library, which exists for 64-bit Linux and for this
    platform. Raises: UsageError U0510.
    """
    platform, here = platform_of(triple), this_processor().platform
    machine, _, system = platform.partition("-")
    is_wide = not any(name in triple for name in _NARROW)
    if not is_wide or (platform != here and not (machine in LIBRARY_MACHINES and system == "linux")):
        raise UsageError(
            U0510,
            f"{name} cannot be made for {triple}: libraries are for {here} and for 64-bit Linux on "
            f"{' and '.join(LIBRARY_MACHINES)}",
            help="let the name end in .heddle: the one-file format holds kernels for any target",
        )
    if name.lower().endswith(".dylib") and not is_apple(triple):
        raise UsageError(
            U0510, f"{name} is a name for macOS, and the program is for {triple}", help="name it .so"
        )


def check_objects(objects: Iterable[bytes], triple: str) -> None:
    """Check that all objects are for a triple. Raises: UsageError U0510 if one is not."""
    wanted = format_of(triple)
    for code in objects:
        found = object_format(code)
        if wanted is not None and found != wanted:
            raise UsageError(
                U0510, f"an object is {found or 'of no known format'}, and {triple} needs {wanted}"
            )
