"""Text from files on a terminal."""

from __future__ import annotations

import pytest

from heddle.support.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [/x] :smile: é×", "plain [/x] :smile: é×"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\ud800b", "a\\ud800b"),
        ("right\u202eleft", "right\\u202eleft"),
        ("two\nlines\tand a tab", "two\\nlines\\tand a tab"),
    ],
)
def test_a_name(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
    shown.encode()


def test_lines_stay_lines() -> None:
    assert printable_lines("a\n\tb\x1b[2J\r\n\n") == "a\n\tb\\x1b[2J\\r\n\n"
