"""Link object files into this process without a linker and without LLVM, for programs that contain the native
library.

    text of all objects | jumps | constants | table of addresses | data, zeros

One memory mapping holds everything. Text pages are executable, constant pages read-only. The mapping is never
freed, because threads of the native library run in it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from heddle.runtime.codes import U0502
from heddle.runtime.native.relocations import MACHINES
from heddle.support.diagnostics import FormatError

MAGIC_64_LITTLE = b"\x7fELF\x02\x01"
SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, align, entry
SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_RELA = struct.Struct("<QQq")  # offset, symbol << 32 | kind, addend
_RELOCATABLE, SYMBOL_TABLE, _RELAS, _ZEROS = 1, 2, 4, 8
_UNWINDING = 0x70000001
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
LOCAL, _WEAK = 0, 2
_TABLE = b"_GLOBAL_OFFSET_TABLE_"
_MAX_ALIGN = 1 << 16
_JUMP_BYTES = 16
_MAX_BYTES = 1 << 31


@dataclass(slots=True)
class _Part:
    """A section that is loaded into memory, and its position in the image."""

    flags: int
    data: bytes
    size_bytes: int
    align: int
    at: int = 0
    relocations: list[tuple[int, int, int, int]] = field(default_factory=list)
    """A relocation: offset in the section, symbol number, kind, addend."""


@dataclass(slots=True)
class _Symbol:
    name: bytes
    binding: int
    section: int
    value: int


class _Object:
    """A parsed relocatable file. Raises: FormatError U0502 if it is damaged."""

    def __init__(self, code: bytes) -> None:
        if not code.startswith(MAGIC_64_LITTLE) or len(code) < 64:
            raise _bad("object code is no 64-bit ELF file")
        kind, self.machine = struct.unpack_from("<HH", code, 16)
        if kind != _RELOCATABLE or self.machine not in MACHINES:
            raise _bad(f"object code of kind {kind} for machine {self.machine} of ELF cannot be linked")
        (first,), (size, count) = struct.unpack_from("<Q", code, 0x28), struct.unpack_from("<HH", code, 0x3A)
        try:
            headers = [SECTION.unpack_from(code, first + number * size) for number in range(count)]
            self._read(code, headers)
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise _bad(f"object code is damaged: {error}") from error

    def _read(self, code: bytes, headers: Sequence[tuple[int, ...]]) -> None:
        self.parts: dict[int, _Part] = {}
        self.symbols: list[_Symbol] = []
        for number, (_, kind, flags, _, offset, size, link, _, align, _) in enumerate(headers):
            if kind == SYMBOL_TABLE:
                strings = _bytes(code, headers[link][4], headers[link][5])
                self.symbols = [
                    _symbol(row, strings) for row in SYMBOL.iter_unpack(_bytes(code, offset, size))
                ]
            elif flags & _ALLOC and kind != _UNWINDING:
                if align > _MAX_ALIGN or align & max(align, 1) - 1:
                    raise ValueError(f"a section at a multiple of {align}")
                data = b"" if kind == _ZEROS else _bytes(code, offset, size)
                self.parts[number] = _Part(flags, data, size, max(align, 1))
        for _, kind, _, _, offset, size, _, info, _, _ in headers:
            if kind == _RELAS and info in self.parts:
                rows = _RELA.iter_unpack(_bytes(code, offset, size))
                self.parts[info].relocations += [
                    (at, word >> 32, word & 0xFFFFFFFF, a) for at, word, a in rows
                ]


def _bytes(code: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(code):
        raise ValueError(f"a section of {size} bytes at {offset}, behind the end")
    return code[offset : offset + size]


def _symbol(row: tuple[int, ...], strings: bytes) -> _Symbol:
    name, info, _, section, value, _ = row
    return _Symbol(strings[name : strings.index(b"\0", name)], info >> 4, section, value)


def _bad(message: str) -> FormatError:
    return FormatError(U0502, message)


class Linked:
    """Objects laid out one after the other, for a base address that is chosen later.

    `given` maps external symbols to addresses. `look_up` returns the address of any other symbol, or None.
    Raises: FormatError U0502 for objects of different machines, symbols that are undefined or defined twice,
    and damaged objects.
    """

    def __init__(
        self, objects: Sequence[bytes], given: Mapping[str, int], look_up: Callable[[str], int | None]
    ) -> None:
        self._objects = [_Object(code) for code in objects]
        machines = {made.machine for made in self._objects}
        if len(machines) != 1:
            raise _bad(f"object code is for {len(machines)} kinds of processors")
        self.machine = MACHINES[machines.pop()]
        self._page = mmap.PAGESIZE
        self._entries: dict[int, int] = {}
        self._jumps: dict[int, int] = {}
        self._outside = self._addresses(given, look_up)
        self._lay_out()

    def _addresses(self, given: Mapping[str, int], look_up: Callable[[str], int | None]) -> dict[bytes, int]:
        """Return the addresses of the symbols that no object defines."""
        self._defined: dict[bytes, tuple[_Object, _Symbol]] = {}
        for made in self._objects:
            for symbol in made.symbols:
                if symbol.binding == LOCAL or symbol.section == UNDEFINED:
                    continue
                known = self._defined.get(symbol.name)
                if known is not None and _WEAK not in (symbol.binding, known[1].binding):
                    raise _bad(f"two objects define {_text(symbol.name)}")
                if known is None or known[1].binding == _WEAK:
                    self._defined[symbol.name] = made, symbol
        found: dict[bytes, int] = {_TABLE: 0}
        for symbol in (symbol for made in self._objects for symbol in made.symbols):
            name = symbol.name
            if symbol.section != UNDEFINED or not name or name in found or name in self._defined:
                continue
            address = given.get(_text(name))
            address = look_up(_text(name)) if address is None else address
            if address is None and symbol.binding != _WEAK:
                raise _bad(f"object code needs {_text(name)}, which this process lacks")
            found[name] = address or 0
        return found

    def _lay_out(self) -> None:
        parts = [part for made in self._objects for part in made.parts.values()]
        executable = [part for part in parts if part.flags & _EXECUTE]
        written = [part for part in parts if part.flags & _WRITE and not part.flags & _EXECUTE]
        constant = [part for part in parts if not part.flags & (_EXECUTE | _WRITE)]
        at = self._place(executable, 0)
        self._jumps_at = -(-at // _JUMP_BYTES) * _JUMP_BYTES
        at = self._to_page(self._jumps_at + _JUMP_BYTES * len(self._outside))
        self.constants_at = at
        at = self._place(constant, at)
        self.table_at = -(-at // 8) * 8
        symbols = sum(len(made.symbols) for made in self._objects)
        self.data_at = self._to_page(self.table_at + 8 * symbols)
        self.size_bytes = max(self._to_page(self._place(written, self.data_at)), self._page)
        if self.size_bytes > _MAX_BYTES:
            raise _bad(f"object code of {self.size_bytes} bytes is more than a call reaches")

    def _place(self, parts: Sequence[_Part], at: int) -> int:
        for part in parts:
            part.at = -(-at // part.align) * part.align
            at = part.at + part.size_bytes
        return at

    def _to_page(self, at: int) -> int:
        return -(-at // self._page) * self._page

    def at(self, base: int) -> bytearray:
        """Return the bytes of the image for a base address. Raises: FormatError U0502 if a symbol is too far
        away."""
        memory = bytearray(self.size_bytes)
        self._entries.clear()
        self._jumps.clear()
        for made in self._objects:
            for part in made.parts.values():
                memory[part.at : part.at + len(part.data)] = part.data
        for made in self._objects:
            for part in made.parts.values():
                self._relocate(made, part, memory, base)
        return memory

    def _relocate(self, made: _Object, part: _Part, memory: bytearray, base: int) -> None:
        for offset, number, kind, addend in part.relocations:
            found = self.machine.kinds.get(kind)
            if found is None or number >= len(made.symbols) or not 0 <= offset <= part.size_bytes - 4:
                raise _bad(f"object code has a relocation of kind {kind} at {offset} for symbol {number}")
            symbol = made.symbols[number]
            s, place = self._address(made, symbol, base), part.at + offset
            g = self._entry(s, memory, base) if found.uses_entry else 0
            where = (base + place, g, base + self.table_at)
            try:
                try:
                    found.write(memory, place, found.value(s, addend, *where))
                except OverflowError:
                    if not found.is_call:
                        raise
                    found.write(memory, place, found.value(self._jump(s, memory, base), addend, *where))
            except (OverflowError, struct.error) as error:
                raise _bad(f"{_text(symbol.name)} is too far away: {error}") from error

    def _address(self, made: _Object, symbol: _Symbol, base: int) -> int:
        if symbol.name == _TABLE:
            return base + self.table_at
        if symbol.binding != LOCAL and symbol.name in self._defined:
            made, symbol = self._defined[symbol.name]
        elif symbol.section == UNDEFINED:
            return self._outside.get(symbol.name, 0)
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section >= _FIRST_RESERVED or symbol.section not in made.parts:
            raise _bad(f"{_text(symbol.name)} lies in section {symbol.section}, which is not loaded")
        return base + made.parts[symbol.section].at + symbol.value

    def _entry(self, address: int, memory: bytearray, base: int) -> int:
        """Return the position of an address in the table of addresses; add it if it is missing."""
        at = self.table_at + 8 * self._entries.setdefault(address, len(self._entries))
        struct.pack_into("<Q", memory, at, address)
        return base + at

    def _jump(self, address: int, memory: bytearray, base: int) -> int:
        """Return the position of code in the image that jumps to an address; add it if it is missing."""
        number = self._jumps.setdefault(address, len(self._jumps))
        if number >= len(self._outside):
            raise OverflowError("one image of code is larger than a call reaches")
        at = self._jumps_at + _JUMP_BYTES * number
        code = self.machine.jump + struct.pack("<Q", address)
        memory[at : at + len(code)] = code
        return base + at

    def address(self, name: str, base: int) -> int | None:
        """Return the address of a symbol that one of the objects defines; None if none does."""
        found = self._defined.get(name.encode())
        return None if found is None else self._address(*found, base)


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def address_in(library: ctypes.CDLL, name: str) -> int | None:
    """Return the address of a symbol in a library; None if it has none. `CDLL(None)` means the whole
    process.
    """
    try:
        return ctypes.cast(library[name], ctypes.c_void_p).value
    except AttributeError:
        return None


class Image:
    """Object files that are linked into this process. `given` maps symbols that the objects do not define to
    addresses.

    Raises: FormatError U0502 for objects that are damaged, built for another processor, or need a symbol that
    the process lacks; UsageError U0502 if the system gives no memory for code.
    """

    def __init__(self, objects: Sequence[bytes], given: Mapping[str, int]) -> None:
        system = ctypes.CDLL(None, use_errno=True)
        self._linked = Linked(objects, given, partial(address_in, system))
        here = platform.machine()
        if self._linked.machine.name != here or sys.platform != "linux":
            raise _bad(f"object code is for {self._linked.machine.name}, and this is another machine: {here}")
        self._protect = system.mprotect
        self._protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        size = self._linked.size_bytes
        self._base = _mapped(system, size)
        memory = self._linked.at(self._base)
        ctypes.memmove(self._base, (ctypes.c_ubyte * size).from_buffer(memory), size)
        self._allow(0, self._linked.constants_at, mmap.PROT_READ | mmap.PROT_EXEC)
        self._allow(self._linked.constants_at, self._linked.data_at, mmap.PROT_READ)

    def _allow(self, start: int, end: int, rights: int) -> None:
        if end > start and self._protect(self._base + start, end - start, rights) != 0:
            raise _bad("the system allows no code that was written at run time")

    def address(self, name: str) -> int | None:
        """Return the address of a symbol of the objects; None if none defines it."""
        return self._linked.address(name, self._base)


def _mapped(system: ctypes.CDLL, size: int) -> int:
    """Map fresh memory that is never unmapped. Python's own mappings end with the interpreter, but the
    threads do not."""
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    take = system.mmap
    take.restype = ctypes.c_void_p
    take.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    )
    found: int | None = take(None, size, mmap.PROT_READ | mmap.PROT_WRITE, kind, -1, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise _bad(f"the system gives no {size} bytes of memory for code")
    return found
