"""Fresh names that are stable from run to run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword
from zlib import crc32


class NameSupply:
    """Hand out names that were not handed out before: `x`, `x_1`, `x_2`, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def reserve(self, name: str) -> None:
        """Never give this name."""
        self._taken.add(name)

    def fresh(self, hint: str) -> str:
        """A name that was not given before: the hint, else the hint and a number."""
        if hint not in self._taken:
            self._taken.add(hint)
            return hint
        stem = re.sub(r"_\d+$", "", hint) or hint
        count = self._next.get(stem, 1)
        while f"{stem}_{count}" in self._taken:
            count += 1
        self._next[stem] = count + 1
        name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def is_c_name(text: str) -> bool:
    """Whether a text is an identifier of C: ASCII letters, digits and underscores, no digit first."""
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text) is not None


def identifier(text: str) -> str:
    """The nearest Python identifier to a model's free-form name: `/layer.0/attn` becomes `layer_0_attn`."""
    cleaned = re.sub(r"\W+", "_", text).strip("_")
    if not cleaned:
        return "v"
    if iskeyword(cleaned):
        return f"{cleaned}_"
    return f"v{cleaned}" if cleaned[0].isdigit() else cleaned


def spelled(name: str) -> str:
    """A name of a function where text of Python has to have an identifier: itself, or one that no other name
    becomes."""
    is_fit = name.isidentifier() and not iskeyword(name)
    return name if is_fit else f"{identifier(name)}_{crc32(name.encode('utf-8', 'surrogatepass')):08x}"
