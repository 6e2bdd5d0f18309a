"""Building indented text, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heddle.support.span import Span


class TextBuilder:
    """Lines with the current indentation (four spaces a level). `spans` holds of each line where the thing
    came from that it writes, or None."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._level = 0
        self._span: Span | None = None
        self.spans: list[Span | None] = []

    def line(self, text: str = "") -> None:
        """Add a line at the present depth; an empty one has no spaces."""
        self._lines.append("    " * self._level + text if text else "")
        self.spans.append(self._span)

    def lines(self, text: str) -> None:
        """Add each line of a text."""
        for line in text.splitlines():
            self.line(line)

    def begin(self, span: Span | None) -> Span | None:
        """Lines from now on write what came from there, where that is known. Gives what they wrote before,
        for `end`."""
        before = self._span
        if span is not None:
            self._span = span
        return before

    def end(self, before: Span | None) -> None:
        """Lines from now on write again what they wrote before the `begin` that gave this."""
        self._span = before

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines that are added meanwhile stand four spaces deeper."""
        self._level += 1
        try:
            yield
        finally:
            self._level -= 1

    @property
    def num_lines(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def build(self) -> str:
        """The text, without a line break at its end."""
        return "\n".join(self._lines)
