"""Read and check the one-file format of compiled programs: a table of named sections with digests.

    offset  0  magic  b"HEDDLE\\0\\1"            8  u32 version, u32 number of sections
           16  u64 length of the table          24  u64 length of the file
           32  32-byte digest of the bytes before it and of the table
           64  table: per section  u64 length of the name, name, u64 offset, u64 length, 32-byte digest
               sections, each at a multiple of 64, zero bytes between

Digests are BLAKE2b. Integers are little-endian. Sections lie in table order and do not overlap, so there is
only one way to read a file.

Everything is checked before it is used. A malformed file raises FormatError with a byte offset, and no
allocation is larger than the file. The header and the table are checked when a file is opened. A section is
checked when it is taken from the table. If a file holds several variants of a program, only the sections of
the loaded variant are read.

Sections are views of the memory-mapped file. Constants are used in place, without a copy. If another process
truncates the file while it is mapped, the reading process dies (SIGBUS). Replace such a file instead of
writing into it, as `write_artefact` does.

`heddle.runtime.module` defines the names of the sections for one program, `heddle.runtime.variant_table`
those for several variants.

Version 2 added the memory scopes and the line table of a program, and the version of the native interface
that kernels were compiled for. Version 3 added variants and the processor features that kernels need; its
table digest also covers the header. Files of older versions are still read.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from heddle.runtime.codes import F0101, F0102, F0103, F0104, F0105
from heddle.runtime.wire import Reader
from heddle.support.diagnostics import FormatError
from heddle.support.frozen import frozen
from heddle.support.reading import open_file, reading

MAGIC = b"HEDDLE\0\1"
VERSION, OLDEST_VERSION = 3, 1
"""The version that is written, and the versions that can be read."""
ALIGN_BYTES = 64
HEAD = struct.Struct("<8sIIQQ32s")
START = struct.Struct("<8sIIQQ")  # the head without the digest
ENTRY_TAIL = struct.Struct("<QQ32s")
_DIGEST_BYTES = 32


def digest_of(data: bytes | memoryview) -> bytes:
    """Return the digest that a file stores for its header and for each section: BLAKE2b, 32 bytes."""
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN_BYTES) * ALIGN_BYTES


@frozen
class Section:
    """A named part of a file. `offset` is its position in the file (for messages). `version` is the file's
    format version.
    """

    name: str
    data: memoryview
    offset: int
    version: int = VERSION

    def reader(self) -> Reader:
        """Return a reader for the bytes of the section."""
        return Reader(self.data, self.name, self.offset)


def table_bytes_of(sections: Mapping[str, bytes | memoryview]) -> int:
    """Return the length in bytes of the table for these sections."""
    return sum(8 + len(name.encode()) + ENTRY_TAIL.size for name in sections)


def section_offsets(sections: Mapping[str, bytes | memoryview]) -> dict[str, int]:
    """Return the file offset of each section, by name."""
    offsets, free = {}, HEAD.size + table_bytes_of(sections)
    for name, data in sections.items():
        offsets[name] = _aligned(free)
        free = offsets[name] + len(data)
    return offsets


def _map_file(path: str | os.PathLike[str]) -> memoryview:
    with reading(path), open_file(path) as file:
        return map_descriptor(file.fileno())


def map_descriptor(descriptor: int) -> memoryview:
    """Map an open file into memory, copy-on-write: a program that writes into a constant never changes the
    file.

    Raises: OSError if the system cannot map the file.
    """
    if os.fstat(descriptor).st_size == 0:
        return memoryview(b"")
    try:
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    except ValueError as error:  # it became shorter
        raise OSError(errno.EINVAL, str(error)) from error


class SectionTable(Mapping[str, Section]):
    """The sections of a file whose header and table were checked. Indexing with a name checks that section.

    Raises: FormatError F0104 on indexing, if the digest of the section does not match.
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
        """Return the length of a section in bytes, without reading the section."""
        return len(self._rows[name][0].data)


def open_artefact(path: str | os.PathLike[str], is_authentic: bool = False) -> SectionTable:
    """Map a file and check its header and table. With `is_authentic` (the bytes were verified in another
    way), section digests are not checked later.

    Raises: UsageError S0102 if the file cannot be read; FormatError F0101 (another format), F0102 (version),
    F0103 (truncated), F0104 (damaged).
    """
    return section_table(_map_file(path), is_authentic)


def read_artefact(path: str | os.PathLike[str]) -> dict[str, Section]:
    """Map a file and check all of its sections. Raises: as `open_artefact`."""
    return dict(open_artefact(path))


def parse_artefact(data: memoryview) -> dict[str, Section]:
    """Parse the bytes of an artefact and check all sections. Raises: FormatError as `open_artefact`."""
    return dict(section_table(data))


def section_table(data: memoryview, is_authentic: bool = False) -> SectionTable:
    """Parse the header and table of an artefact's bytes. With `is_authentic`, section digests are not checked
    later.

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
    """Return the section `name`. Raises: FormatError F0105 if it is missing."""
    found = sections.get(name)
    if found is None:
        raise FormatError(F0105, f"artefact has no section {name!r}")
    return found
