"""The one-file format: a checked table of named sections.

    offset  0  magic  b"HEDDLE\\0\\1"            8  u32 version, u32 number of sections
           16  u64 length of the table          24  u64 length of the file
           32  32-byte digest of the table
           64  table: per section  u64 length of the name, name, u64 offset, u64 length, 32-byte digest
               sections, each at a multiple of 64, zero bytes between

Digests are blake2b. Integers are little-endian. Sections lie in table order and do not overlap, so a file has
one reading. Everything is checked before anything is used: a malformed file gives a FormatError with a byte
offset, and no allocation is larger than the file. Sections are views of the mapped file; constants are used
where they lie. A file that another process shortens while it is mapped kills the reader (SIGBUS): replace
files, as our writer does.

Version 2 added the memory scopes and the line table of a program, and the number of the native interface that
kernels were compiled for. Files of version 1, which may lack them, are read.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from heddle.runtime.codes import F0101, F0102, F0103, F0104, F0105
from heddle.runtime.wire import Reader
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.files import atomic_writer

MAGIC = b"HEDDLE\0\1"
VERSION, OLDEST_VERSION = 2, 1
"""What is written, and what is still read."""
ALIGN_BYTES = 64
_HEAD = struct.Struct("<8sIIQQ32s")
_ENTRY_TAIL = struct.Struct("<QQ32s")
_DIGEST_BYTES = 32


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN_BYTES) * ALIGN_BYTES


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of a file. `offset` is its place there, for messages; `version` is the file's."""

    name: str
    data: memoryview
    offset: int
    version: int = VERSION

    def reader(self) -> Reader:
        return Reader(self.data, self.name, self.offset)


def write_artefact(path: str | os.PathLike[str], sections: Mapping[str, bytes | memoryview]) -> None:
    """Write a whole artefact or nothing. Raises: UsageError S0101 where the path cannot be written."""
    offsets = section_offsets(sections)
    table, end = b"", _HEAD.size + _table_bytes(sections)
    for name, data in sections.items():
        text = name.encode()
        table += struct.pack("<Q", len(text)) + text
        table += _ENTRY_TAIL.pack(offsets[name], len(data), _digest(data))
        end = offsets[name] + len(data)
    with atomic_writer(path) as file:
        file.write(_HEAD.pack(MAGIC, VERSION, len(sections), len(table), end, _digest(table)))
        file.write(table)
        for name, data in sections.items():
            file.write(bytes(offsets[name] - file.tell()))
            file.write(data)


def _table_bytes(sections: Mapping[str, bytes | memoryview]) -> int:
    return sum(8 + len(name.encode()) + _ENTRY_TAIL.size for name in sections)


def section_offsets(sections: Mapping[str, bytes | memoryview]) -> dict[str, int]:
    """Where in the file each section will begin."""
    offsets, free = {}, _HEAD.size + _table_bytes(sections)
    for name, data in sections.items():
        offsets[name] = _aligned(free)
        free = offsets[name] + len(data)
    return offsets


def _map_file(path: str | os.PathLike[str]) -> memoryview:
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            # Private: a program that writes into a constant changes its own copy, never the file.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except (OSError, ValueError) as error:
        raise UsageError(
            S0102, f"cannot read {os.fspath(path)}: {getattr(error, 'strerror', None) or error}"
        ) from error


def read_artefact(path: str | os.PathLike[str]) -> dict[str, Section]:
    """Map a file and check all of it.

    Raises: UsageError S0102 where it cannot be read; FormatError F0101 (another format), F0102 (version),
    F0103 (truncated), F0104 (damaged).
    """
    return parse_artefact(_map_file(path))


def parse_artefact(data: memoryview) -> dict[str, Section]:
    """The sections of an artefact's bytes, checked. Raises: FormatError as `read_artefact`."""
    if len(data) < len(MAGIC) or data[:8] != MAGIC:
        raise FormatError(F0101, "not a heddle artefact: the magic at byte 0 is missing")
    if len(data) < _HEAD.size:
        raise FormatError(
            F0103, f"artefact is truncated: expected a head of {_HEAD.size} bytes, got {len(data)}"
        )
    _, version, count, table_bytes, file_bytes, table_digest = _HEAD.unpack_from(data)
    if not OLDEST_VERSION <= version <= VERSION:
        raise FormatError(
            F0102, f"artefact version at byte 8: expected {OLDEST_VERSION} to {VERSION}, got {version}"
        )
    if len(data) < file_bytes:
        raise FormatError(F0103, f"artefact is truncated: expected {file_bytes} bytes, got {len(data)}")
    if len(data) != file_bytes or _HEAD.size + table_bytes > file_bytes:
        raise FormatError(
            F0104, f"artefact's lengths at byte 16 do not fit: expected {file_bytes} bytes, got {len(data)}"
        )
    table = data[_HEAD.size : _HEAD.size + table_bytes]
    if _digest(table) != table_digest:
        raise FormatError(F0104, f"section table at byte {_HEAD.size} is damaged: its digest differs")
    reader = Reader(table, "section table", _HEAD.size)
    return _read_table(data, version, reader, count, _HEAD.size + table_bytes)


def _read_table(data: memoryview, version: int, table: Reader, count: int, free: int) -> dict[str, Section]:
    sections: dict[str, Section] = {}
    for _ in range(count):
        name, offset, length = table.text(), table.u64(), table.u64()
        digest = b"".join(table.u64().to_bytes(8, "little") for _ in range(_DIGEST_BYTES // 8))
        if offset % ALIGN_BYTES or offset < free or length > len(data) - offset or name in sections:
            raise FormatError(F0104, f"section {name!r} at byte {offset} with {length} bytes is out of place")
        if any(data[free:offset]):
            raise FormatError(F0104, f"bytes before section {name!r} at byte {offset} are not zero")
        part = data[offset : offset + length]
        if _digest(part) != digest:
            raise FormatError(F0104, f"section {name!r} at byte {offset} is damaged: its digest differs")
        sections[name] = Section(name, part, offset, version)
        free = offset + length
    table.done()
    if free != len(data):
        raise FormatError(F0104, f"bytes at {free} belong to no section")
    return sections


def require(sections: Mapping[str, Section], name: str) -> Section:
    """The section `name`. Raises: FormatError F0105 where it is missing."""
    found = sections.get(name)
    if found is None:
        raise FormatError(F0105, f"artefact has no section {name!r}")
    return found
