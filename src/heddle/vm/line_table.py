"""Line tables: the location in the user's model from which each instruction came.

Section `spans` is a sequence of fields; numbers are signed 64-bit words:

    version   1
    texts     every name and source line, once
    lines     (source, number, text) of each line that a place points into
    leaves    (kind, a, b, c, d, e) of each place:
                0 text      a: the text
                1 source    a: the line's index in `lines`, b: column, c: last line, d: end column
                2 model     a: model, b: node, c: operator
    groups    for each place that a rewrite made of others: (text of its name, leaves...)
    entries   (instruction, place): leaves are numbered from 0, groups after them

The older section `line_table` holds only texts. Old files have it, and so do programs that were built by
hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from heddle.runtime.artefact import Section
from heddle.runtime.wire import Reader, Writer
from heddle.support.span import DerivedSpan, ModelSpan, Source, SourceSpan, Span, TextSpan, leaves
from heddle.vm.tables import read_numbered_table, write_table

LineTable = Mapping[int, Span]
_VERSION = 1
_TEXT, _SOURCE, _MODEL = range(3)
_LEAF_WORDS, _LINE_WORDS, _ENTRY_WORDS = 6, 3, 2
_MAX_NUMBER = 1 << 31
"""Upper limit of line, column and instruction numbers."""


def kept_span(span: Span | None) -> Span | None:
    """Return the part of a location that a line table stores: of a source text only the line that it points
    into, of a rewrite only the original locations."""
    if span is None:
        return None
    found = tuple(dict.fromkeys(_kept_leaf(leaf) for leaf in leaves(span)))
    if len(found) <= 1:
        return found[0] if found else None
    return DerivedSpan(span.by if isinstance(span, DerivedSpan) else "", found)


def _kept_leaf(span: Span) -> Span:
    if not isinstance(span, SourceSpan):
        return span
    text = span.source.line(span.line)
    most = len(text) + 1 if text else _MAX_NUMBER - 1
    return replace(
        span,
        source=Source(span.source.name, text, span.line),
        column=min(span.column, most),
        end_column=min(span.end_column, most) if span.end_line == span.line else span.end_column,
    )


K = TypeVar("K")


class _Numbers(dict[K, int]):
    """Numbers things in the order in which they are first requested."""

    def of(self, key: K) -> int:
        return self.setdefault(key, len(self))


def line_table_section(table: LineTable) -> tuple[str, bytes]:
    """Return the section name and the content for a table of kept spans. A table of texts only has the older
    form."""
    if all(isinstance(span, TextSpan) for span in table.values()):
        return "line_table", write_table({pc: span.place() for pc, span in table.items()})
    return "spans", _write_spans(table)


def _write_spans(table: LineTable) -> bytes:
    texts: _Numbers[str] = _Numbers()
    lines: _Numbers[tuple[int, int, int]] = _Numbers()
    places: _Numbers[Span] = _Numbers()
    for span in table.values():
        for leaf in leaves(span):
            places.of(leaf)
    rows = [_leaf_row(leaf, texts, lines) for leaf in places]
    groups: list[list[int]] = []
    for span in dict.fromkeys(table.values()):
        if isinstance(span, DerivedSpan):
            groups.append([texts.of(span.by), *(places[leaf] for leaf in leaves(span))])
            places.of(span)
    writer = Writer()
    writer.u64(_VERSION)
    writer.texts(tuple(texts))
    writer.words([word for row in lines for word in row])
    writer.words([word for row in rows for word in row])
    writer.u64(len(groups))
    for group in groups:
        writer.words(group)
    writer.words([word for pc, span in table.items() for word in (pc, places[span])])
    return writer.bytes()


def _leaf_row(leaf: Span, texts: _Numbers[str], lines: _Numbers[tuple[int, int, int]]) -> Sequence[int]:
    if isinstance(leaf, SourceSpan):
        text = leaf.source.line(leaf.line)
        line = lines.of((texts.of(leaf.source.name), leaf.line, texts.of(text)))
        return (_SOURCE, line, leaf.column, leaf.end_line, leaf.end_column, 0)
    if isinstance(leaf, ModelSpan):
        return (_MODEL, texts.of(leaf.model), texts.of(leaf.node), texts.of(leaf.op), 0, 0)
    assert isinstance(leaf, TextSpan)
    return (_TEXT, texts.of(leaf.text), 0, 0, 0, 0)


def read_line_table(sections: Mapping[str, Section]) -> dict[int, Span]:
    """Read the line table of a file; empty if there is none. Raises: FormatError F0106 for a malformed
    section."""
    if "spans" in sections:
        return _TableReader(sections["spans"].reader()).table()
    if "line_table" not in sections:
        return {}
    return {pc: TextSpan(text) for pc, text in read_numbered_table(sections["line_table"]).items()}


class _TableReader:
    """Reads section `spans`. Raises: FormatError F0106."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        version = reader.u64()
        if version != _VERSION:
            raise reader.fail(f"expected a line table of version {_VERSION}, got {version}")
        self._texts = reader.texts()
        self._lines = [self._line(*row) for row in self._rows(_LINE_WORDS)]
        self._places: list[Span] = [self._leaf(*row) for row in self._rows(_LEAF_WORDS)]

    def table(self) -> dict[int, Span]:
        reader, num_leaves = self._reader, len(self._places)
        for row in reader.items(8, reader.words):
            if len(row) < 2:
                raise reader.fail("a place that is made of none")
            found = tuple(self._place(member, num_leaves) for member in row[1:])
            self._places.append(DerivedSpan(self._text(row[0]), found))
        table = {}
        for pc, place in self._rows(_ENTRY_WORDS):
            table[self._below(pc, _MAX_NUMBER, "instruction")] = self._place(place, len(self._places))
        reader.done()
        return table

    def _rows(self, size: int) -> list[Sequence[int]]:
        words = self._reader.words()
        if len(words) % size:
            raise self._reader.fail(f"expected rows of {size} words, got {len(words)} words")
        return [words[at : at + size] for at in range(0, len(words), size)]

    def _below(self, number: int, limit: int, what: str, least: int = 0) -> int:
        if not least <= number < limit:
            raise self._reader.fail(f"{what} {number} is not from {least} to {limit - 1}")
        return number

    def _text(self, number: int) -> str:
        return self._texts[self._below(number, len(self._texts), "text")]

    def _place(self, number: int, limit: int) -> Span:
        return self._places[self._below(number, limit, "place")]

    def _line(self, name: int, number: int, text: int) -> Source:
        return Source(self._text(name), self._text(text), self._below(number, _MAX_NUMBER, "line"))

    def _leaf(self, kind: int, a: int, b: int, c: int, d: int, _: int) -> Span:
        if kind == _TEXT:
            return TextSpan(self._text(a))
        if kind == _MODEL:
            return ModelSpan(self._text(a), self._text(b), self._text(c))
        if kind != _SOURCE:
            raise self._reader.fail(f"place of unknown kind {kind}")
        source = self._lines[self._below(a, len(self._lines), "line")]
        line = source.first_line
        text = source.line(line)
        most = len(text) + 2 if text else _MAX_NUMBER
        column = self._below(b, most, "column", 1)
        end_line = self._below(c, _MAX_NUMBER, "last line", line)
        end_column = self._below(d, most if end_line == line else _MAX_NUMBER, "end column", 1)
        return SourceSpan(source, line, column, end_line, end_column)
