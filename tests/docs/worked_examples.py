"""The worked examples of CONTRIBUTING.md: their diffs, their scripts, and what these print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class DiffError(Exception):
    """A diff that is malformed or does not fit the tree."""


@dataclass(frozen=True)
class Hunk:
    """`old` stands in the file once, and becomes `new`."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    path: str
    is_new: bool
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True)
class Example:
    """`num_files` is how many files the page says that the diff touches; without a diff none."""

    name: str
    num_files: int
    diff: str
    script: str
    output: str


def read_examples(page: str) -> list[Example]:
    """The examples of a page, in order. Raises: DiffError for one that lacks a part."""
    found = []
    for section in page.partition("## Worked examples\n")[2].split("\n### ")[1:]:
        if "```" not in section:
            continue
        name = section.partition("\n")[0]
        count = re.search(r"^Files touched: (\d+)", section, re.MULTILINE)
        blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
        if count is None or blocks.keys() | {"diff"} != {"diff", "python", "text"}:
            raise DiffError(f"{name}: expected the number of files, a diff, a script and what it prints")
        found.append(Example(name, int(count[1]), blocks.get("diff", ""), blocks["python"], blocks["text"]))
    return found


def read_diff(text: str) -> list[FileDiff]:
    """The files of a unified diff. Raises: DiffError."""
    files = []
    for part in re.split(r"^(?=--- )", text, flags=re.MULTILINE)[1:]:
        before, after, *lines = part.removesuffix("\n").split("\n")
        if not after.startswith("+++ b/"):
            raise DiffError(f"expected the name of a file, got {after!r}")
        files.append(FileDiff(after[6:], before == "--- /dev/null", _hunks(lines)))
    return files


def _hunks(lines: list[str]) -> tuple[Hunk, ...]:
    hunks = []
    starts = [number for number, line in enumerate(lines) if line.startswith("@@")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        header, body = _HUNK.match(lines[start]), lines[start + 1 : end]
        old = tuple(line[1:] for line in body if line[:1] in ("", " ", "-"))
        new = tuple(line[1:] for line in body if line[:1] in ("", " ", "+"))
        if header is None or (len(old), len(new)) != (int(header[1] or 1), int(header[2] or 1)):
            raise DiffError(f"the header does not count its lines: {lines[start]!r}")
        hunks.append(Hunk(old, new))
    return tuple(hunks)


def apply_diff(text: str, folder: Path) -> int:
    """Apply a diff to the files below a folder; gives how many it touches.

    Raises: DiffError where a hunk's old lines do not stand in the file exactly once, or a new file exists;
    nothing is written then.
    """
    made = {folder / file.path: _applied(file, folder / file.path) for file in read_diff(text)}
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return len(made)


def _applied(file: FileDiff, path: Path) -> str:
    if file.is_new:
        if path.exists():
            raise DiffError(f"{file.path} exists")
        return "\n".join(file.hunks[0].new) + "\n"
    content = path.read_text()
    for hunk in file.hunks:
        old, new = ("".join(f"{line}\n" for line in lines) for lines in (hunk.old, hunk.new))
        if content.count(old) != 1:
            raise DiffError(f"{file.path}: expected once, found {content.count(old)} times:\n{old}")
        content = content.replace(old, new)
    return content
