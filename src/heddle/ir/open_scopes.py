"""The scopes around a place in a program, for work on a program whose nodes are shared."""

from __future__ import annotations

from typing import Any

from heddle.ir.node import Node


class OpenScopes:
    """The scopes that are open, and what the open nodes below which work goes on look at in them.

    What was found of a node holds as long as the scopes do whose variables it looks at; so it is kept with
    the innermost of these. A mask has a bit for each scope, from 1 on; the outermost scope never ends.
    `found`: what was found of nodes, by keys of its user.
    """

    def __init__(self, found: dict[Any, Any]) -> None:
        self._found = found
        self._defined: list[list[Node]] = [[]]
        self._kept: list[list[Any]] = [[]]
        self._masks = [0]
        self.levels: dict[Node, int] = {}
        """In which scope a variable was defined."""

    def enter(self, opens_scope: bool) -> None:
        """A node is looked at."""
        self._masks.append(0)
        if opens_scope:
            self._defined.append([])
            self._kept.append([])

    def leave(self, opens_scope: bool) -> tuple[int, list[Node]]:
        """All of that node was looked at. The result is the mask of what it looks at outside, and the
        variables that end."""
        mask, ended = self._masks.pop(), []
        if opens_scope:
            ended = self._defined.pop()
            for var in ended:
                del self.levels[var]
            for key in self._kept.pop():
                self._found.pop(key, None)
            mask &= ~(1 << len(self._defined))
        self._masks[-1] |= mask
        return mask, ended

    def define(self, var: Node, is_free: bool) -> None:
        """A variable has a meaning from now on: to the end of the scope, or everywhere if it is free."""
        level = 0 if is_free else len(self._defined) - 1
        self._defined[level].append(var)
        self.levels[var] = level
        self.use(var)

    def use(self, var: Node) -> None:
        """The node that is open looks at a variable."""
        self.look(1 << self.levels[var] if self.levels[var] else 0)

    def look(self, mask: int) -> None:
        """It looks at all that a mask says."""
        self._masks[-1] |= mask

    def keep(self, key: Any, mask: int) -> None:
        """What was found under a key goes when the innermost scope of a mask ends."""
        level = mask.bit_length() - 1
        if level > 0:
            self._kept[level].append(key)
