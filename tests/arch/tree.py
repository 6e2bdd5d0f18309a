"""The source tree as syntax trees, for rules about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "heddle"


@dataclass(frozen=True)
class SourceFile:
    """`name` is the path below src/heddle, with slashes."""

    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.name.split("/")[0]


@cache
def source_files() -> tuple[SourceFile, ...]:
    files = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        files.append(SourceFile(path.relative_to(SOURCE).as_posix(), text, ast.parse(text)))
    return tuple(files)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
