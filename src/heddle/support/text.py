"""Building indented text, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TextBuilder:
    """Lines with the current indentation (four spaces a level)."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._level = 0

    def line(self, text: str = "") -> None:
        self._lines.append("    " * self._level + text if text else "")

    def lines(self, text: str) -> None:
        for line in text.splitlines():
            self.line(line)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._level += 1
        try:
            yield
        finally:
            self._level -= 1

    @property
    def num_lines(self) -> int:
        return len(self._lines)

    def build(self) -> str:
        return "\n".join(self._lines)
