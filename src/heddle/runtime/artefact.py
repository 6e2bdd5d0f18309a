"""The one-file format: a checked table of named sections.

    offset  0  magic  b"HEDDLE\\0\\1"            8  u32 version, u32 number of sections
           16  u64 length of the table          24  u64 length of the file
           32  32-byte digest of the bytes before it and of the table
           64  table: per section  u64 length of the name, name, u64 offset, u64 length, 32-byte digest
               sections, each at a multiple of 64, zero bytes between

Digests are blake2b. Integers are little-endian. Sections lie in table order and do not overlap, so a file has
one reading. Everything is checked before it is used: a malformed file gives a FormatError with a byte offset,
and no allocation is larger than the file. Head and table are checked when a file is opened, a section when it
is taken: of several variants, only the one that is loaded is read. Sections are views of the mapped file;
constants are used where they lie. A file that another process shortens while it is mapped kills the reader
(SIGBUS): replace files, as our writer does.

What the sections are called is said in `heddle.runtime.module` (one program) and
`heddle.runtime.variant_table` (several variants of one).

Version 2 added the memory scopes and the line table of a program, and the number of the native interface that
kernels were compiled for. Version 3 added variants, and what kernels need of a processor; its digest of the
table covers the bytes before it too. Files of the older versions are read.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from heddle.runtime.codes import F0101, F0102, F0103, F0104, F0105
from heddle.runtime.wire import Reader
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.frozen import frozen
from heddle.support.reading import open_file

MAGIC = b"HEDDLE\0\1"
VERSION, OLDEST_VERSION = 3, 1
"""What is written, and what is still read."""
ALIGN_BYTES = 64
HEAD = struct.Struct("<8sIIQQ32s")
START = struct.Struct("<8sIIQQ")  # the head without the digest
ENTRY_TAIL = struct.Struct("<QQ32s")
_DIGEST_BYTES = 32


def digest_of(data: bytes | memoryview) -> bytes:
    """What a file has for its head and each section: BLAKE2b of 32 bytes."""
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN_BYTES) * ALIGN_BYTES


@frozen
class Section:
    """A named part of a file. `offset` is its place there, for messages; `version` is the file's."""

    name: str
    data: memoryview
    offset: int
    version: int = VERSION

    def reader(self) -> Reader:
        """What takes the section's bytes apart."""
        return Reader(self.data, self.name, self.offset)


def table_bytes_of(sections: Mapping[str, bytes | memoryview]) -> int:
    """The length of the table of these sections."""
    return sum(8 + len(name.encode()) + ENTRY_TAIL.size for name in sections)


def section_offsets(sections: Mapping[str, bytes | memoryview]) -> dict[str, int]:
    """Where in the file each section will begin."""
    offsets, free = {}, HEAD.size + table_bytes_of(sections)
    for name, data in sections.items():
        offsets[name] = _aligned(free)
        free = offsets[name] + len(data)
    return offsets


def _map_file(path: str | os.PathLike[str]) -> memoryview:
    try:
        with open_file(path) as file:
            return map_descriptor(file.fileno())
    except (OSError, ValueError) as error:
        raise UsageError(
            S0102, f"cannot read {os.fspath(path)}: {getattr(error, 'strerror', None) or error}"
        ) from error


def map_descriptor(descriptor: int) -> memoryview:
    """The bytes of an open file. A program that writes into a constant changes its own copy, never the file.

    Raises: OSError and ValueError where the system does not map it.
    """
    if os.fstat(descriptor).st_size == 0:
        return memoryview(b"")
    return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))


class SectionTable(Mapping[str, Section]):
    """The sections of a file whose head and table are right. Taking a section checks its bytes.

    Taking raises: FormatError F0104 where the bytes are not those that were written.
    """

    def __init__(self, rows: Mapping[str, tuple[Section, bytes]], is_authentic: bool = False) -> None:
        self._rows = rows
        self._checked: set[str] = set(rows) if is_authentic else set()

    def __getitem__(self, name: str) -> Section:
        section, digest = self._rows[name]
        if name not in self._checked:
            if digest_of(section.data) != digest:
                raise FormatError(
                    F0104, f"section {name!r} at byte {section.offset} is damaged: its digest differs"
                )
            self._checked.add(name)
        return section

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def size_bytes(self, name: str) -> int:
        """The length of a section, which is not looked into."""
        return len(self._rows[name][0].data)


def open_artefact(path: str | os.PathLike[str], is_authentic: bool = False) -> SectionTable:
    """Map a file and check its head and its table; sections are not checked where the file is known to be
    authentic.

    Raises: UsageError S0102 where it cannot be read; FormatError F0101 (another format), F0102 (version),
    F0103 (truncated), F0104 (damaged).
    """
    return section_table(_map_file(path), is_authentic)


def read_artefact(path: str | os.PathLike[str]) -> dict[str, Section]:
    """Map a file and check all of it. Raises: as `open_artefact`."""
    return dict(open_artefact(path))


def parse_artefact(data: memoryview) -> dict[str, Section]:
    """The sections of an artefact's bytes, all checked. Raises: FormatError as `open_artefact`."""
    return dict(section_table(data))


def section_table(data: memoryview, is_authentic: bool = False) -> SectionTable:
    """The sections of an artefact's bytes, which are not checked where the bytes are known to be authentic.

    Raises: FormatError as `open_artefact`.
    """
    if len(data) < len(MAGIC) or data[:8] != MAGIC:
        raise FormatError(F0101, "not a heddle artefact: the magic at byte 0 is missing")
    if len(data) < HEAD.size:
        raise FormatError(
            F0103, f"artefact is truncated: expected a head of {HEAD.size} bytes, got {len(data)}"
        )
    _, version, count, table_bytes, file_bytes, table_digest = HEAD.unpack_from(data)
    if not OLDEST_VERSION <= version <= VERSION:
        raise FormatError(
            F0102, f"artefact version at byte 8: expected {OLDEST_VERSION} to {VERSION}, got {version}"
        )
    if len(data) < file_bytes:
        raise FormatError(F0103, f"artefact is truncated: expected {file_bytes} bytes, got {len(data)}")
    if len(data) != file_bytes or HEAD.size + table_bytes > file_bytes:
        raise FormatError(
            F0104, f"artefact's lengths at byte 16 do not fit: expected {file_bytes} bytes, got {len(data)}"
        )
    table = data[HEAD.size : HEAD.size + table_bytes]
    start = bytes(data[: START.size]) if version >= 3 else b""
    if digest_of(start + bytes(table)) != table_digest:
        raise FormatError(
            F0104, f"section table at byte {HEAD.size} or the head is damaged: its digest differs"
        )
    reader = Reader(table, "section table", HEAD.size)
    return SectionTable(_read_table(data, version, reader, count, HEAD.size + table_bytes), is_authentic)


def _read_table(
    data: memoryview, version: int, table: Reader, count: int, free: int
) -> dict[str, tuple[Section, bytes]]:
    """The rows of the table: sections and their digests."""
    sections: dict[str, tuple[Section, bytes]] = {}
    for _ in range(count):
        name, offset, length = table.text(), table.u64(), table.u64()
        digest = b"".join(table.u64().to_bytes(8, "little") for _ in range(_DIGEST_BYTES // 8))
        if offset % ALIGN_BYTES or offset < free or length > len(data) - offset or name in sections:
            raise FormatError(F0104, f"section {name!r} at byte {offset} with {length} bytes is out of place")
        if any(data[free:offset]):
            raise FormatError(F0104, f"bytes before section {name!r} at byte {offset} are not zero")
        sections[name] = Section(name, data[offset : offset + length], offset, version), digest
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
