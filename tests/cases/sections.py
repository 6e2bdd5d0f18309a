"""Files of golden cases: a heading in words with options, then sections that start with lines `--- name`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

_MARK = re.compile(r"^--- (\w+)\n", re.MULTILINE)


@dataclass(frozen=True)
class CaseFile:
    """`head`: all above the first section. `options`: its lines `key: value` below the words, in order."""

    path: Path
    head: str
    options: tuple[tuple[str, str], ...]
    sections: dict[str, str]

    def updated(self, **made: str) -> None:
        """Write the file with other texts in sections; those that it lacks come last."""
        found = "".join(f"--- {name}\n{text.rstrip()}\n" for name, text in (self.sections | made).items())
        self.path.write_text(self.head + found)

    def given(self, key: str) -> list[str]:
        """The values of an option."""
        return [value for name, value in self.options if name == key]


def read_sections(path: Path, needed: str, allowed: tuple[str, ...], keys: tuple[str, ...] = ()) -> CaseFile:
    """Read a case that has the section `needed`, and perhaps others, and options `keys`.

    Raises: AssertionError for a file of another form.
    """
    head, *parts = _MARK.split(path.read_text())
    names, texts = parts[::2], parts[1::2]
    assert needed in names, f"{path}: expected a line {f'--- {needed}'!r}"
    unknown = set(names) - {needed, *allowed}
    assert not unknown, f"{path}: unknown section {min(unknown)!r}"
    assert len(names) == len(set(names)), f"{path}: a section stands twice"
    words, *lines = head.rstrip().split("\n")
    assert words and words.partition(":")[0] not in keys, f"{path}: expected a first line of words"
    options = []
    for line in lines:
        key, mark, value = (part.strip() for part in line.partition(":"))
        if key in keys:
            options.append((key, value))
        else:
            assert not (mark and key.isidentifier()), f"{path}: unknown option {key!r}"
    return CaseFile(path, head, tuple(options), dict(zip(names, texts, strict=True)))


def settle(case: CaseFile, request: pytest.FixtureRequest, difference: str | None, **made: str) -> None:
    """Fail with a difference, or take what was made into the file where pytest runs with `--update`."""
    if difference is not None and request.config.getoption("--update"):
        case.updated(**made)
        return
    shown = "\n".join(made.values())
    assert difference is None, f"{difference}\n{shown}\nto take this: pytest {case.path} --update"
