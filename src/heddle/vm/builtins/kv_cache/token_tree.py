"""Token trees: several possible continuations of one sequence, computed together; one of them is accepted
later (Miao et al. 2024, SpecInfer, section 4).

A tree is the list of its nodes' parents, in the order in which the tokens were added; -1 is a root.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.support.diagnostics import Trap
from heddle.vm.codes import V0706


class TokenTree:
    """The nodes of a sequence that are not committed yet."""

    def __init__(self, seq_id: int) -> None:
        self._seq_id = seq_id
        self.parents: list[int] = []
        self.depths: list[int] = []

    def __len__(self) -> int:
        return len(self.parents)

    def extended(self, parents: Sequence[int]) -> TokenTree:
        """Return the tree with more nodes. Their parents are numbered within the whole tree. Raises: Trap
        V0706."""
        made = TokenTree(self._seq_id)
        made.parents, made.depths = list(self.parents), list(self.depths)
        for parent in parents:
            node = len(made.parents)
            if not -1 <= parent < node:
                raise Trap(
                    V0706,
                    f"sequence {self._seq_id}: node {node} of the token tree has parent {parent}, expected "
                    f"-1 to {node - 1}",
                )
            made.parents.append(parent)
            made.depths.append(0 if parent < 0 else made.depths[parent] + 1)
        return made

    @property
    def is_chain(self) -> bool:
        """Whether the parent of each node is the node before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def path(self, leaf: int) -> list[int]:
        """Return the nodes from a root to `leaf`; none for -1. Raises: Trap V0706."""
        if not -1 <= leaf < len(self.parents):
            raise Trap(
                V0706,
                f"sequence {self._seq_id}: expected a leaf from -1 to {len(self.parents) - 1}, got {leaf}",
            )
        found = []
        while leaf >= 0:
            found.append(leaf)
            leaf = self.parents[leaf]
        return found[::-1]

    def order(self) -> list[tuple[int, int]]:
        """Return for each node the half-open interval of depth-first numbers of the node and its
        descendants.
        """
        count = len(self.parents)
        sizes = [1] * count
        for node in range(count - 1, -1, -1):
            if self.parents[node] >= 0:
                sizes[self.parents[node]] += sizes[node]
        intervals: list[tuple[int, int]] = []
        next_root, next_child = 0, [0] * count
        for node, parent in enumerate(self.parents):
            if parent < 0:
                first, next_root = next_root, next_root + sizes[node]
            else:
                first = next_child[parent]
                next_child[parent] += sizes[node]
            next_child[node] = first + 1
            intervals.append((first, first + sizes[node]))
        return intervals
