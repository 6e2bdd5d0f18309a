"""Words of Relay text.

    // to the end of the line        /* nested */ comments
    name  @global  @"a name"  %local  %12       3  3i64  1.5e-3f  inff  "text"  #[version = ...]

A number takes all digits, `.`, `e`, `+` and `-` that follow: write `1 - 2`. A run of `-` before a digit is
its sign. Line ends are `\\n` or `\\r\\n`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from heddle.relay.codes import Q0201, Q0204
from heddle.support.diagnostics import ParseError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits, exceeded
from heddle.support.span import Source, SourceSpan

_WORDS = re.compile(
    r"""
    (?P<space>[ \t\n]+|\r\n)
  | (?P<comment>//[^\n]*)
  | (?P<number>(?<!-)-*(?:\d[\d.e+-]*(?:[if](?:16|32|64)?)?(?![A-Za-z_])|(?:inf|nan)f(?:16|32|64)?(?![\w/])))
  | (?P<name>[A-Za-z_][A-Za-z0-9_/]*)
  | (?P<local>%[A-Za-z_][A-Za-z0-9_/]*)
  | (?P<graph>%\d+)
  | (?P<global>@(?:"[^"\n]*"|[A-Za-z_][A-Za-z0-9_/]*(?:\.[A-Za-z0-9_/]+)*))
  | (?P<string>"[^"\n]*")
  | (?P<section>\#\[[A-Za-z_]+[^\]\n]*\])
  | (?P<mark>->|=>|<=|>=|==|!=|[-+*/<>=(){}\[\],;:.?])
    """,
    re.VERBOSE | re.ASCII,
)
SCALAR = re.compile(r"(?:u?int(?:4|8|16|32|64)|float(?:16|32|64)|bfloat16|bool|float8_e4m3fn|float8_e5m2)$")
"""The types of numbers, which are element types too."""
_TYPE_WORDS = frozenset({"_", "Tensor", "fn", "ref", "meta", "type"})
_MOST_GRAPH_DIGITS = 18
_NUMBER = re.compile(r"(-*)(\d+)(?:i(16|32|64))?$")
_FLOAT = re.compile(r"(-*)(\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)f(16|32|64)?$")
_LARGEST = {"float16": 65520.0, "float32": 3.4028235677973366e38, "float64": float("inf")}


def is_word(text: str, kind: str) -> bool:
    """Whether a text is one word, of a kind."""
    match = _WORDS.match(text)
    return match is not None and match.lastgroup == kind and match.end() == len(text)


def is_type_name(text: str) -> bool:
    """Whether a type may be called so: a name that begins no type of another form, as `fn` and `int32` do."""
    return is_word(text, "name") and text not in _TYPE_WORDS and not SCALAR.match(text)


@frozen
class Word:
    """`kind`: name, local, graph, global, number, string, section, mark, end. The value of a number is a
    Python number with its element type."""

    kind: str
    text: str
    start: int
    end: int
    value: Any = None


class Lexer:
    """The words of one text, and their places."""

    def __init__(self, source: Source) -> None:
        if len(source.text) > current_limits().text_bytes:
            raise exceeded("text_bytes", f"{source.name} has {len(source.text)} characters")
        self.source = source
        self._lines = [0, *(m.end() for m in re.finditer("\n", source.text))]
        self.metadata = ""
        """What follows `#[metadata]`."""
        self.metadata_start = len(source.text)

    def span(self, start: int, end: int) -> SourceSpan:
        """The place of the characters from `start` to before `end`."""
        line, last = bisect_right(self._lines, start), bisect_right(self._lines, max(start, end - 1))
        first = self.source.first_line - 1
        return SourceSpan(
            self.source,
            line + first,
            start - self._lines[line - 1] + 1,
            last + first,
            end - self._lines[last - 1] + 1,
        )

    def error(self, code: Any, message: str, start: int, end: int, help: str | None = None) -> ParseError:
        """A ParseError at the characters from `start` to before `end`, for the caller to raise."""
        return ParseError(code, message, span=self.span(start, end), help=help)

    def words(self) -> list[Word]:
        """All words up to the metadata. Raises: ParseError Q0201, Q0204."""
        text, place, found = self.source.text, 0, []
        while place < len(text):
            if text.startswith("/*", place):
                place = self._skip_comment(place)
                continue
            match = _WORDS.match(text, place)
            if match is None:
                raise self._unknown(place)
            kind = match.lastgroup or ""
            if kind not in ("space", "comment"):
                found.append(self._word(kind, match.group(), place, match.end()))
                if kind == "section" and match.group().startswith("#[metadata"):
                    found.pop()
                    self.metadata, self.metadata_start = text[match.end() :], place
                    place = len(text)
                    break
            place = match.end()
        found.append(Word("end", "the end of the text", place, place))
        return found

    def _word(self, kind: str, text: str, start: int, end: int) -> Word:
        value: Any = text
        if kind == "number":
            value = self._number(text, start, end)
        elif kind in ("local", "global"):
            value = text[1:].strip('"')
        elif kind == "graph":
            value = self._graph_number(text, start, end)
        elif kind == "string":
            value = text[1:-1]
        return Word(kind, text, start, end, value)

    def _graph_number(self, text: str, start: int, end: int) -> int:
        if len(text) > _MOST_GRAPH_DIGITS + 1:
            message = f"expected a number of at most {_MOST_GRAPH_DIGITS} digits, got {text[:40]}"
            raise self.error(Q0204, message, start, end)
        return int(text[1:])

    def _number(self, text: str, start: int, end: int) -> tuple[Any, str]:
        whole = _NUMBER.fullmatch(text) if len(text) <= 64 else None
        if whole is not None:
            value = int(whole[2]) * (-1 if len(whole[1]) % 2 else 1)
            bits = int(whole[3]) if whole[3] else 32 if -(1 << 31) <= value < 1 << 31 else 64
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise self.error(Q0204, f"{text} is outside the range of int{bits}", start, end)
            return value, f"int{bits}"
        real = _FLOAT.fullmatch(text) if len(text) <= 400 else None
        if real is None:
            raise self.error(
                Q0201,
                f"{text[:40]!r} is no number",
                start,
                end,
                "a field of a field is written (%x.1).0"
                if self.source.text[start - 1 : start] == "."
                else "a float ends in f, f16, f32 or f64; between a number and an operator stands a space",
            )
        dtype = f"float{real[3] or 32}"
        number = float(real[2]) * (-1 if len(real[1]) % 2 else 1)
        if real[2] not in ("inf", "nan") and abs(number) >= _LARGEST[dtype]:
            raise self.error(Q0204, f"{text[:40]} is outside the range of {dtype}", start, end)
        return number, dtype

    def _skip_comment(self, start: int) -> int:
        depth, place = 0, start
        for match in re.compile(r"/\*|\*/").finditer(self.source.text, start):
            depth += 1 if match.group() == "/*" else -1
            place = match.end()
            if depth == 0:
                return place
        raise self.error(Q0201, "the comment does not end", start, start + 2, "each /* needs its */")

    def _unknown(self, place: int) -> ParseError:
        text = self.source.text
        if text[place] == "\r":
            return self.error(Q0201, "a carriage return without a line feed", place, place + 1)
        if text[place] == '"':
            return self.error(Q0201, "the string does not end on its line", place, place + 1)
        if text[place] in "%@":
            return self.error(Q0201, f"{text[place]} is followed by a name", place, place + 1)
        return self.error(Q0201, f"{text[place : place + 1]!r} begins no word of Relay", place, place + 1)
