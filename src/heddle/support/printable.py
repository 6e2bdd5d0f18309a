"""Text that came from a file, made fit for a terminal.

Names in models and artefacts are whatever their writer chose. Characters that would steer a terminal (escape
sequences, marks that turn the direction of writing) or that no encoding has (lone surrogates) are shown as
Python writes them in a string: `\\x1b`, `\\u202e`, `\\ud800`.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """A name, or other text of one line, with an escape for each character that is not shown as itself."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines: their ends stay, and tabs do."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
