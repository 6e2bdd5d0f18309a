"""Disjoint sets of keys, which grow by union."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class DisjointSets(Generic[K]):
    """Every key is in a set of its own until `join` puts it into another's. A set is named by its root, one
    of its keys."""

    def __init__(self) -> None:
        self._above: dict[K, K] = {}

    def root(self, key: K) -> K:
        """The root of a key's set."""
        while (above := self._above.get(key)) is not None:
            self._above[key] = self._above.get(above, above)  # ways become shorter as they are gone
            key = above
        return key

    def join(self, key: K, root: K) -> None:
        """Put the set of `key` into the set whose root is `root`. Nothing changes where it is the same."""
        if (old := self.root(key)) != root:
            self._above[old] = root
