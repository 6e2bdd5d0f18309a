"""List the undefined symbols of COFF and Mach-O objects, by their C names.

**Source** PE Format, Microsoft, "COFF Symbol Table"; mach-o/loader.h and mach-o/nlist.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from heddle.runtime.native.object_format import ObjectFormat, object_format

_COFF_HEAD = struct.Struct(
    "<HHIIIHH"
)  # machine, sections, time, symbols at, their number, option bytes, flags
_COFF_SYMBOL = struct.Struct("<8sIhHBB")  # name, value, section, type, storage class, auxiliary symbols
_EXTERNAL, _UNDEFINED = 2, 0
_COFF_I386 = 0x14C
_MACHO_HEAD_BYTES = {0xFEEDFACE: 28, 0xFEEDFACF: 32}
_NLIST = {
    0xFEEDFACE: struct.Struct("<IBBHI"),
    0xFEEDFACF: struct.Struct("<IBBHQ"),
}  # name, type, section, ...
_SYMTAB = 2
_NAMES_ARE_EXTERNAL, _KIND = 0x01, 0x0E


def needed_symbols(code: bytes) -> set[str] | None:
    """Return the undefined symbols of an object; None for another format."""
    found = object_format(code)
    if found is not None and found.container == "COFF":
        return set(_needed_by_coff(code, found))
    if found is not None and found.container == "Mach-O":
        return set(_needed_by_macho(code))
    return None


def _text(strings: bytes) -> str:
    return strings[: strings.index(b"\0")].decode() if b"\0" in strings else strings.decode()


def _needed_by_coff(code: bytes, found: ObjectFormat) -> Iterator[str]:
    """Yield the undefined symbols of a COFF object. A common variable has a nonzero value, its size, and
    counts as defined."""
    _, _, _, first, count, _, _ = _COFF_HEAD.unpack_from(code)
    strings = first + count * _COFF_SYMBOL.size
    number = 0
    while number < count:
        name, value, section, _, kind, auxiliary = _COFF_SYMBOL.unpack_from(
            code, first + number * _COFF_SYMBOL.size
        )
        number += 1 + auxiliary
        if kind != _EXTERNAL or section != _UNDEFINED or value:
            continue
        is_long = name[:4] == bytes(4)
        text = _text(code[strings + struct.unpack("<I", name[4:])[0] :]) if is_long else _text(name)
        yield text.removeprefix("_") if found.machine == _COFF_I386 else text


def _needed_by_macho(code: bytes) -> Iterator[str]:
    magic, _, _, _, num_commands = struct.unpack_from("<IIIII", code)
    at = _MACHO_HEAD_BYTES[magic]
    for _ in range(num_commands):
        command, size_bytes = struct.unpack_from("<II", code, at)
        if command == _SYMTAB:
            first, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for number in range(count):
                row = _NLIST[magic].unpack_from(code, first + number * _NLIST[magic].size)
                if row[1] & _NAMES_ARE_EXTERNAL and not row[1] & _KIND and not row[4]:
                    yield _text(code[strings + row[0] :]).removeprefix("_")
        at += size_bytes
