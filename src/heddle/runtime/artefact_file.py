"""Write the one-file format (`heddle.runtime.artefact`) to a file."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence

from heddle.runtime.artefact import (
    ENTRY_TAIL,
    HEAD,
    MAGIC,
    START,
    VERSION,
    digest_of,
    section_offsets,
    table_bytes_of,
)
from heddle.support.files import atomic_writer
from heddle.support.on_threads import map_on_threads

_MANY_BYTES = 8 << 20
"""What is worth threads: 10 ms of work for one."""


def artefact_pieces(
    sections: Mapping[str, bytes | memoryview], has_digests: bool = True
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of an artefact in file order. Pass `has_digests=False` if the bytes are authenticated
    in another way and will be read as authentic. Digests of sections take about one second per GB.
    """
    offsets = section_offsets(sections)
    digests = _digests(list(sections.values())) if has_digests else [b""] * len(sections)
    table, end = b"", HEAD.size + table_bytes_of(sections)
    for (name, data), digest in zip(sections.items(), digests, strict=True):
        text = name.encode()
        table += struct.pack("<Q", len(text)) + text
        table += ENTRY_TAIL.pack(offsets[name], len(data), digest)
        end = offsets[name] + len(data)
    start = START.pack(MAGIC, VERSION, len(sections), len(table), end)
    yield start + digest_of(start + table) + table
    written = HEAD.size + len(table)
    for name, data in sections.items():
        yield bytes(offsets[name] - written)
        yield data
        written = offsets[name] + len(data)


def _digests(parts: Sequence[bytes | memoryview]) -> list[bytes]:
    if sum(map(len, parts)) < _MANY_BYTES:
        return [digest_of(part) for part in parts]
    return map_on_threads(digest_of, parts)


def write_artefact(path: str | os.PathLike[str], sections: Mapping[str, bytes | memoryview]) -> None:
    """Write an artefact to `path` atomically: the whole file or nothing. Raises: UsageError S0101 if the path
    cannot be written.
    """
    with atomic_writer(path) as file:
        for piece in artefact_pieces(sections):
            file.write(piece)
