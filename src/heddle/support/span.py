"""Where a thing came from: a place in a source text, a node of an imported model, or a rewrite of such
places.

Every IR node carries a span. A constructor that is not told one takes the ambient span, which importers,
parsers and passes set with `at(span)`; so a node made deep inside a rewrite still knows the user's line or
model node.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import field
from functools import lru_cache

from heddle.support.frozen import frozen


@lru_cache(maxsize=4)
def _lines(text: str) -> list[str]:
    """The lines of a text, which are asked for one after the other."""
    return text.splitlines()


@frozen
class Source:
    """A text that spans point into. `first_line` is the number of its first line in the file it was cut
    from. `is_own`: it is part of the Python program that runs, so nothing in it is kept from that.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    is_own: bool = False

    def line(self, number: int) -> str:
        """A line of the text by its number; empty outside of it."""
        lines = _lines(self.text)
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


@frozen
class SourceSpan:
    """Columns are counted from 1; the end column is one past the last character."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def source_name(self) -> str:
        """The name of the text, such as a file's."""
        return self.source.name

    def place(self) -> str:
        """Where it begins, as "file:line:column"."""
        return f"{self.source.name}:{self.line}:{self.column}"

    def excerpt(self) -> list[str]:
        """The line it begins in, and carets below; nothing where the text is not at hand."""
        text = self.source.line(self.line)
        if not text:
            return []
        end = self.end_column if self.end_line == self.line else len(text) + 1
        number = str(self.line)
        carets = " " * (self.column - 1) + "^" * max(1, end - self.column)
        return [f"{number} | {text}", f"{' ' * len(number)} | {carets}"]


@frozen
class ModelSpan:
    """A node of an imported model: `resnet.onnx node "conv1" (Conv)`."""

    model: str
    node: str
    op: str

    def place(self) -> str:
        """The model's file, the node and its operator."""
        return f'{self.model} node "{self.node}" ({self.op})'

    def excerpt(self) -> list[str]:
        """Nothing: a model has no lines."""
        return []


@frozen
class TextSpan:
    """A place of which only the text is known."""

    text: str

    def place(self) -> str:
        """The text."""
        return self.text

    def excerpt(self) -> list[str]:
        """Nothing."""
        return []


@frozen
class DerivedSpan:
    """The result of a rewrite of several places; `by` names the pass."""

    by: str
    origins: tuple[Span, ...]

    def place(self) -> str:
        """Where the first three origins are, and what made one of them."""
        names = ", ".join(origin.place() for origin in self.origins[:3])
        more = f" and {len(self.origins) - 3} more" if len(self.origins) > 3 else ""
        return f"{names}{more} (by {self.by})"

    def excerpt(self) -> list[str]:
        """That of the first origin."""
        return self.origins[0].excerpt() if self.origins else []


Span = SourceSpan | ModelSpan | TextSpan | DerivedSpan

_ambient: ContextVar[Span | None] = ContextVar("heddle_span", default=None)
ambient_span = _ambient.get


class at:
    """Give every node that is built inside, and not told otherwise, this span. None leaves the ambient span
    alone.
    """

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def __enter__(self) -> None:
        self._token = None if self._span is None else _ambient.set(self._span)

    def __exit__(self, *_exc: object) -> None:
        if self._token is not None:
            _ambient.reset(self._token)


def leaves(span: Span | None) -> tuple[Span, ...]:
    """The original places behind a span, in order and without repetition."""
    if span is None:
        return ()
    if not isinstance(span, DerivedSpan):
        return (span,)
    return tuple(dict.fromkeys(leaf for origin in span.origins for leaf in leaves(origin)))


MOST_PLACES, MOST_CHARACTERS = 16, 400


def places_text(span: Span | None) -> str | None:
    """The original places behind a span, in one line; None where nothing is known. A file may name thousands,
    with names of any length: the first ones stand for them."""
    found = leaves(span)
    shown = [_shortened(leaf.place()) for leaf in found[:MOST_PLACES]]
    if len(found) > MOST_PLACES:
        shown.append(f"{len(found) - MOST_PLACES} more")
    return "; ".join(shown) or None


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def derive(by: str, *spans: Span | None) -> Span | None:
    """Join the places of several nodes into the span of what `by` made of them."""
    origins = tuple(dict.fromkeys(leaf for span in spans for leaf in leaves(span)))
    if not origins:
        return None
    return origins[0] if len(origins) == 1 else DerivedSpan(by, origins)
