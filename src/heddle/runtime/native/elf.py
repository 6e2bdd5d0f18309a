"""Relocatable ELF objects: wrap data as an object, list defined and undefined symbols, and rename symbols.

Renaming lets several libraries with the same functions be linked into one file. Only the section table, the
symbol tables and their strings are parsed. A new string table (the old one, followed by the new names) is
appended to the file, so all old references stay valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from heddle.runtime.codes import U0506
from heddle.runtime.native.image import (
    LOCAL,
    MAGIC_64_LITTLE,
    SECTION,
    SYMBOL,
    SYMBOL_TABLE,
    UNDEFINED,
)
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

_PROGBITS, _STRINGS = 1, 3
_CONSTRUCTORS = 14
_WRITE, _ALLOC = 1, 2
_GLOBAL_OBJECT = 1 << 4 | 1
_HEAD_BYTES = 64


@frozen
class _Table:
    """A symbol table: the offset and number of its symbols, and its strings with the header of their
    section.
    """

    offset: int
    count: int
    strings_header: int
    strings: bytes

    def name(self, at: int) -> bytes:
        return self.strings[at : self.strings.index(b"\0", at)]


def data_object(machine: int, data: bytes | memoryview, start: str, end: str) -> bytes:
    """Return a relocatable object for a machine (ELF e_machine) with writable data, aligned to 64, and
    symbols for its start and end."""
    texts = [b"", b".data.heddle", b".symtab", b".strtab", b".shstrtab", b".note.GNU-stack"]
    names = b"".join(text + b"\0" for text in texts)
    strings = b"\0" + start.encode() + b"\0" + end.encode() + b"\0"
    symbols = SYMBOL.pack(0, 0, 0, 0, 0, 0)
    symbols += SYMBOL.pack(1, _GLOBAL_OBJECT, 0, 1, 0, len(data))
    symbols += SYMBOL.pack(2 + len(start), _GLOBAL_OBJECT, 0, 1, len(data), 0)
    at = _HEAD_BYTES
    places = []
    for part, align in ((data, 64), (symbols, 8), (strings, 1), (names, 1)):
        at = -(-at // align) * align
        places.append(at)
        at += len(part)
    headers_at = -(-at // 8) * 8
    kinds = [  # name, type, flags, offset, size, link, info, align, entry
        (0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, _PROGBITS, _WRITE | _ALLOC, places[0], len(data), 0, 0, 64, 0),
        (2, SYMBOL_TABLE, 0, places[1], len(symbols), 3, 1, 8, SYMBOL.size),
        (3, _STRINGS, 0, places[2], len(strings), 0, 0, 1, 0),
        (4, _STRINGS, 0, places[3], len(names), 0, 0, 1, 0),
        (5, _PROGBITS, 0, at, 0, 0, 0, 1, 0),
    ]
    name_at = [sum(len(text) + 1 for text in texts[:number]) for number in range(len(texts))]
    headers = b"".join(
        SECTION.pack(name_at[name], kind, flags, 0, offset, size, link, info, align, entry)
        for name, kind, flags, offset, size, link, info, align, entry in kinds
    )
    head = MAGIC_64_LITTLE + b"\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, headers_at, 0, 64, 0, 0, 64, len(kinds), 4)
    made = bytearray(headers_at)
    made[: len(head)] = head
    for place, part in zip(places, (data, symbols, strings, names), strict=True):
        made[place : place + len(part)] = part
    return bytes(made + headers)


def _headers(code: bytes) -> tuple[int, int, int]:
    """Return the offset of the section headers, the size of one, and their number."""
    (first,), (size, count) = struct.unpack_from("<Q", code, 0x28), struct.unpack_from("<HH", code, 0x3A)
    return first, size, count


def has_constructors(code: bytes) -> bool:
    """Whether an ELF object has constructors: functions that run when it is loaded."""
    if not is_elf(code):
        return False
    first, size, count = _headers(code)
    headers = (SECTION.unpack_from(code, first + number * size) for number in range(count))
    return any(kind == _CONSTRUCTORS and length for _, kind, _, _, _, length, *_ in headers)


def _tables(code: bytes) -> Iterator[_Table]:
    if not is_elf(code):
        raise UsageError(U0506, "symbols are read and renamed in 64-bit little-endian ELF objects only")
    first, size, count = _headers(code)
    for number in range(count):
        _, kind, _, _, offset, length, link, _, _, _ = SECTION.unpack_from(code, first + number * size)
        if kind == SYMBOL_TABLE:
            header = first + link * size
            _, _, _, _, start, strings, *_ = SECTION.unpack_from(code, header)
            yield _Table(offset, length // SYMBOL.size, header, code[start : start + strings])


def is_elf(code: bytes) -> bool:
    """Whether these bytes are an object that this module can read: 64-bit little-endian ELF."""
    return code.startswith(MAGIC_64_LITTLE)


def elf_machine(code: bytes) -> int:
    """Return the e_machine number of an ELF object; 0 for another kind of object."""
    return int(struct.unpack_from("<H", code, 18)[0]) if is_elf(code) else 0


def _globals(code: bytes, is_defined: bool) -> set[bytes]:
    found = set()
    for table in _tables(code):
        for number in range(table.count):
            name, info, _, section, _, _ = SYMBOL.unpack_from(code, table.offset + number * SYMBOL.size)
            if info >> 4 != LOCAL and (section != UNDEFINED) is is_defined:
                found.add(table.name(name))
    return found


def undefined_symbols(code: bytes) -> set[bytes]:
    """Return the symbols that an object needs from other objects. Raises: UsageError U0506 for another kind
    of object."""
    return _globals(code, is_defined=False)


def defined_symbols(code: bytes) -> set[bytes]:
    """Return the symbols that an object defines for other objects. Raises: UsageError U0506 for another kind
    of object."""
    return _globals(code, is_defined=True)


def prefix_symbols(objects: Sequence[bytes], prefix: str) -> list[bytes]:
    """Put `prefix` before every global symbol that one of the objects defines. Other symbols, such as those
    of the C library, keep their names. Raises: UsageError U0506."""
    defined = set().union(*map(defined_symbols, objects))
    return [_renamed(code, defined, prefix.encode()) for code in objects]


def _renamed(code: bytes, names: set[bytes], prefix: bytes) -> bytes:
    made = bytearray(code)
    for table in _tables(code):
        strings = bytearray(table.strings)
        for number in range(table.count):
            at = table.offset + number * SYMBOL.size
            name_at, info = struct.unpack_from("<IB", code, at)
            if info >> 4 == LOCAL or table.name(name_at) not in names:
                continue
            struct.pack_into("<I", made, at, len(strings))
            strings += prefix + table.name(name_at) + b"\0"
        fields = list(SECTION.unpack_from(made, table.strings_header))
        fields[4:6] = len(made), len(strings)
        SECTION.pack_into(made, table.strings_header, *fields)
        made += strings
    return bytes(made)
