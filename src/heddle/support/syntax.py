"""Python's syntax trees of texts, made by any number of threads at once.

CPython 3.11 counts the depth of the trees that are being made in one place for all threads. Where two make
one at the same time, a text that is right may end in a SystemError (python/cpython#106905); it is read again
then.
"""

from __future__ import annotations

import ast
from typing import Any

_TRIES = 100


def parse_module(text: str) -> ast.Module:
    """The tree of statements. Raises: as `ast.parse`."""
    tree: ast.Module = _parsed(text, "exec")
    return tree


def parse_expression(text: str) -> ast.expr:
    """The tree of one expression. Raises: as `ast.parse`."""
    tree: ast.expr = _parsed(text, "eval").body
    return tree


def _parsed(text: str, mode: str) -> Any:
    for _ in range(_TRIES):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)
