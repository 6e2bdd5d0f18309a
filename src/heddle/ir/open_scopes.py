"""The scopes around a place in a program, for work on a program whose nodes are shared.

What was found of a node holds as long as the scopes do whose variables it names; so it is kept with the
innermost of these. A *mask* says in which scopes a node looks: it has a bit for each, from 1 on. The
outermost scope never ends, and has none.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.node import Node


class OpenScopes:
    """The scopes that are open. `found`: what was found of nodes, by keys of its user."""

    def __init__(self, found: dict[Any, Any]) -> None:
        self._found = found
        self._defined: list[list[Node]] = [[]]
        self._kept: list[list[Any]] = [[]]

    def open(self) -> None:
        """A scope begins."""
        self._defined.append([])
        self._kept.append([])

    def close(self, mask: int) -> tuple[int, list[Node]]:
        """The innermost scope ends, of a node that looks as `mask` says. The result is how it looks outside,
        and the variables that end."""
        for key in self._kept.pop():
            self._found.pop(key, None)
        ended = self._defined.pop()
        return mask & ~(1 << len(self._defined)), ended

    def define(self, var: Node, is_free: bool) -> int:
        """A variable has a meaning from now on: to the end of the scope, or everywhere if it is free. The
        result is the mask of what names it."""
        level = 0 if is_free else len(self._defined) - 1
        self._defined[level].append(var)
        return 1 << level if level else 0

    def keep(self, key: Any, mask: int) -> None:
        """What was found under a key goes when the innermost scope of a mask ends."""
        level = mask.bit_length() - 1
        if level > 0:
            self._kept[level].append(key)
