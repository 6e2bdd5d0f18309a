"""Access paths: the path from a root node to a part of it, as structural mismatches report it:
`.body.args[1]`."""

from __future__ import annotations

from heddle.support.frozen import frozen

Step = str | int | tuple[str, str]


@frozen
class AccessPath:
    """Immutable; steps are attribute names (str), item indices (int) or map keys (("key", text))."""

    steps: tuple[Step, ...] = ()

    @staticmethod
    def root() -> AccessPath:
        """The path to the structure itself."""
        return AccessPath()

    def attr(self, name: str) -> AccessPath:
        """Return the path to a field of the node at this path."""
        return AccessPath((*self.steps, name))

    def array_item(self, index: int) -> AccessPath:
        """Return the path to an item of a tuple, by its index from 0."""
        return AccessPath((*self.steps, index))

    def map_item(self, key: object) -> AccessPath:
        """Return the path to the value of a key."""
        return AccessPath((*self.steps, ("key", str(key))))

    @property
    def parent(self) -> AccessPath | None:
        """The path without its last step; None for the root."""
        return AccessPath(self.steps[:-1]) if self.steps else None

    def is_prefix_of(self, other: AccessPath) -> bool:
        """Whether another path begins with this one. Each path is a prefix of itself."""
        return other.steps[: len(self.steps)] == self.steps

    def __str__(self) -> str:
        parts = ["<root>"]
        for step in self.steps:
            if isinstance(step, str):
                parts.append(f".{step}")
            elif isinstance(step, int):
                parts.append(f"[{step}]")
            else:
                parts.append(f"[{step[1]}]")
        return "".join(parts)
