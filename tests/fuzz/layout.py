"""An artefact taken apart for mutation: sections in table order, each as the fields that its reader reads.

The fields come from the loaders themselves: while a good file is loaded, a recording reader notes what was
read from each section. So a new section, or a new field, is mutated without a word here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from unittest import mock

from heddle.runtime import artefact
from heddle.runtime.artefact import ALIGN_BYTES, MAGIC, VERSION, Section
from heddle.runtime.module import Module, variant_from_sections
from heddle.runtime.variant_table import VARIANTS, read_variants
from heddle.runtime.wire import Reader, Writer

KINDS = ("u8", "i32", "i64", "u64", "f64", "text", "numbers", "words", "raw")
Field = tuple[str, Any]
"""What a section holds: kind and value. `raw` are bytes without a form."""


class Recorder(Reader):
    """Notes the fields that are read. What a field reads of its own is not noted again."""

    def __init__(self, data: Any, name: str, file_offset: int, fields: list[Field]) -> None:
        super().__init__(data, name, file_offset)
        self._fields = fields
        self._inside = False

    def _note(self, kind: str, read: Any) -> Any:
        if self._inside:
            return read()
        self._inside = True
        try:
            value = read()
        finally:
            self._inside = False
        self._fields.append((kind, list(value) if kind in ("numbers", "words") else value))
        return value

    def _take(self, size_bytes: int) -> memoryview:
        data = super()._take(size_bytes)
        if not self._inside:
            self._fields.append(("raw", bytes(data)))
        return data

    def u8(self) -> int:
        return self._note("u8", super().u8)

    def i32(self) -> int:
        return self._note("i32", super().i32)

    def i64(self) -> int:
        return self._note("i64", super().i64)

    def numbers(self) -> list[int]:
        return self._note("numbers", super().numbers)

    def u64(self) -> int:
        return self._note("u64", super().u64)

    def f64(self) -> float:
        return self._note("f64", super().f64)

    def text(self) -> str:
        return self._note("text", super().text)

    def words(self) -> list[int]:
        return self._note("words", super().words)


@dataclass
class Layout:
    """The sections of a file by name, and the fields of those that have some."""

    sections: dict[str, bytes]
    fields: dict[str, list[Field]] = field(default_factory=dict)


def load_all(sections: Mapping[str, Section]) -> Module:
    """What a machine loads of a file. Each of its variants is loaded before, as if it had been asked for."""
    if VARIANTS in sections:
        for row in read_variants(sections):
            variant_from_sections(sections, row.name)
    return variant_from_sections(sections)


def take_apart(data: bytes) -> Layout:
    """Load a good file and keep what was read."""
    parts = artefact.parse_artefact(memoryview(data))
    made = Layout({name: bytes(part.data) for name, part in parts.items()})
    names = {part.offset: name for name, part in parts.items() if len(part.data)}

    def reader(piece: Any, name: str, file_offset: int = 0) -> Reader:
        known = names.get(file_offset, name)
        made.fields[known] = []  # a part that several variants have is read for each
        return Recorder(piece, name, file_offset, made.fields[known])

    with mock.patch.object(artefact, "Reader", reader):
        load_all(parts)
    made.fields.pop("section table", None)
    for name, fields in made.fields.items():
        assert write_fields(fields) == made.sections[name], f"section {name} is not its fields"
    return made


def write_fields(fields: list[Field]) -> bytes:
    """The section of the fields, with right lengths."""
    writer = Writer()
    for kind, value in fields:
        WRITERS[kind](writer, value)
    return writer.bytes()


WRITERS: dict[str, Callable[[Writer, Any], None]] = {
    **{kind: getattr(Writer, kind) for kind in KINDS if kind != "raw"},
    "raw": lambda writer, value: writer._parts.append(value),
}
"""How a field of a kind is written."""


@dataclass
class Entry:
    """A row of the section table; `digest` None stands for the right one."""

    name: bytes
    data: bytes
    offset: int | None = None
    length: int | None = None
    digest: bytes | None = None


@dataclass
class Head:
    """The fields before the table; None stands for the right value."""

    magic: bytes = MAGIC
    version: int = VERSION
    count: int | None = None
    table_bytes: int | None = None
    file_bytes: int | None = None
    digest: bytes | None = None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest()


def put_together(entries: list[Entry], head: Head | None = None) -> bytes:
    """A file with these sections, right lengths, places and digests, but for what the entries say."""
    head = head or Head()
    free = 64 + sum(8 + len(entry.name) + 48 for entry in entries)
    table, body = [], []
    at = free
    for entry in entries:
        start = -(-at // ALIGN_BYTES) * ALIGN_BYTES
        body += [bytes(start - at), entry.data]
        at = start + len(entry.data)
        table.append(struct.pack("<Q", len(entry.name)) + entry.name)
        offset = start if entry.offset is None else entry.offset
        length = len(entry.data) if entry.length is None else entry.length
        table.append(struct.pack("<QQ", offset & (1 << 64) - 1, length & (1 << 64) - 1))
        table.append(_digest(entry.data) if entry.digest is None else entry.digest)
    rows = b"".join(table)
    first = struct.pack(
        "<8sIIQQ",
        head.magic,
        head.version & (1 << 32) - 1,
        (len(entries) if head.count is None else head.count) & (1 << 32) - 1,
        (len(rows) if head.table_bytes is None else head.table_bytes) & (1 << 64) - 1,
        (at if head.file_bytes is None else head.file_bytes) & (1 << 64) - 1,
    )
    covered = first + rows if head.version >= 3 else rows
    return b"".join([first, _digest(covered) if head.digest is None else head.digest, rows, *body])


def entries_of(sections: dict[str, bytes]) -> list[Entry]:
    return [Entry(name.encode("utf-8", "surrogatepass"), data) for name, data in sections.items()]
