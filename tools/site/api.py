"""Pages of the API reference: a public module's functions, classes and values, by their docstrings."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from heddle.facade.table import ALIASES, EXPORTS

_CODE = re.compile(r"(`+[^`]*`+)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def modules() -> list[str]:
    """The public modules, without second names of others."""
    return [name for name in EXPORTS if name not in ALIASES and _members(importlib.import_module(name))]


def _members(module: ModuleType) -> dict[str, Any]:
    names = [name for name in dir(module) if not name.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def page(name: str) -> str:
    """The page of a module, in MyST Markdown."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", _text(inspect.getdoc(module) or ""), ""]
    values = []
    for member, value in _members(module).items():
        if inspect.isclass(value):
            lines += _class(f"{name}.{member}", value)
        elif callable(value):
            lines += _function(f"{name}.{member}", value, "##")
        else:
            values.append((member, value))
    if values:
        lines += ["## Values", "", "| name | type |", "|---|---|"]
        lines += [f"| `{member}` | `{type(value).__name__}` |" for member, value in values]
    return "\n".join(lines) + "\n"


def _class(name: str, cls: type) -> Iterator[str]:
    yield from _function(name, cls, "##")
    for member, value in sorted(vars(cls).items()):
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield from (f"### {cls.__name__}.{member}", "", _text(inspect.getdoc(value) or ""), "")
        elif inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod)):
            yield from _function(f"{cls.__name__}.{member}", getattr(cls, member), "###")


def _function(name: str, value: Any, heading: str) -> Iterator[str]:
    yield from (f"{heading} {name.rpartition('.')[2] if heading == '##' else name}", "")
    yield from ("```python", f"{name}{_signature(value)}", "```", "")
    yield from (_text(inspect.getdoc(value) or ""), "")


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    return _ADDRESS.sub("", text)


def _text(text: str) -> str:
    """A docstring as Markdown: what is no code has no markup but lists and tables."""
    lines = []
    for line in text.split("\n"):
        if line.startswith("    "):  # code
            lines.append(line)
            continue
        pieces = _CODE.split(line)
        escaped = [piece if number % 2 else _escaped(piece) for number, piece in enumerate(pieces)]
        lines.append("".join(escaped))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    plain = html.escape(text, quote=False)
    for sign in "*_[]{}#":
        plain = plain.replace(sign, f"\\{sign}")
    return plain
