"""Tables of texts in stored executables: by name or by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.runtime.artefact import Section
from heddle.runtime.wire import Reader, Writer


def write_table(entries: Mapping[Any, str]) -> bytes:
    """The section of a table; numbers are stored as texts."""
    writer = Writer()
    writer.u64(len(entries))
    for key, text in entries.items():
        writer.text(str(key))
        writer.text(text)
    return writer.bytes()


def read_table(section: Section) -> dict[str, str]:
    """A table by names. Raises: FormatError F0106."""
    reader = section.reader()
    table = dict(reader.items(16, lambda: (reader.text(), reader.text())))
    reader.done()
    return table


def read_numbered_table(section: Section) -> dict[int, str]:
    """A table by numbers. Raises: FormatError F0106."""
    reader = section.reader()
    table = dict(reader.items(16, lambda: (_number(reader), reader.text())))
    reader.done()
    return table


def _number(reader: Reader) -> int:
    key = reader.text()
    if not (key.isascii() and key.isdecimal() and len(key) <= 18):
        raise reader.fail(f"expected a number as key, got {key[:40]!r}")
    return int(key)
