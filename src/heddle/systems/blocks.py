"""Basic blocks of the text being written, and the values that locals have in them."""

from __future__ import annotations

from dataclasses import dataclass, field

Env = dict[str, str]


@dataclass(eq=False)
class Block:
    """`incoming` are the blocks that jump here, each with what locals were there. `phis` maps locals to the
    values that stand for them here."""

    label: str
    incoming: list[tuple[str, Env]] = field(default_factory=list)
    phis: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    end: str = ""


class BlockWriter:
    """Keeps the current block, None where control does not come, and the locals' values in it."""

    def __init__(self) -> None:
        self.block: Block | None = Block("entry")
        self.env: Env = {}
        self.types: dict[str, str] = {}
        self._written = [self.block]
        self._rooms: list[str] = []
        self._count = 0

    def fresh(self, hint: str) -> str:
        """A name that no other value or block has."""
        self._count += 1
        return f"{hint}.{self._count}"

    def new_block(self, hint: str) -> Block:
        """A block that nothing jumps to yet; its label begins with `hint`."""
        return Block(self.fresh(hint))

    def add(self, line: str) -> None:
        """Append an instruction to the current block; it is dropped where control does not come."""
        if self.block is not None:
            self.block.lines.append(line)

    def define(self, text: str, hint: str = "v") -> str:
        """Add an instruction that gives a value."""
        name = "%" + self.fresh(hint)
        self.add(f"{name} = {text}")
        return name

    def room(self, line: str) -> str:
        """Memory of the call's, taken at its beginning."""
        name = "%" + self.fresh("room")
        self._rooms.append(f"{name} = {line}")
        return name

    def end(self, line: str) -> None:
        """End the current block."""
        if self.block is not None:
            self.block.end = line
        self.block = None

    def arrive(self, target: Block) -> None:
        """Note that the current block jumps to another."""
        if self.block is not None:
            target.incoming.append((self.block.label, dict(self.env)))

    def jump(self, target: Block) -> None:
        """End the current block with a jump."""
        self.arrive(target)
        self.end(f"br label %{target.label}")

    def start(self, block: Block, changing: set[str] | None = None) -> None:
        """Go on in a block. `changing` are the locals that a loop assigns to, where it is a loop's head: more
        jumps to it will follow."""
        self.block = None
        if not block.incoming:
            return
        if len(block.incoming) == 1 and changing is None and self._go_on(block):
            return
        envs = [env for _, env in block.incoming]
        merged: Env = {}
        for key, value in envs[0].items():
            if any(key not in env for env in envs):
                continue
            if (changing is not None and key in changing) or any(env[key] != value for env in envs):
                block.phis[key] = merged[key] = "%" + self.fresh(key.rpartition(":")[2])
            else:
                merged[key] = value
        self.block, self.env = block, merged
        self._written.append(block)

    def _go_on(self, block: Block) -> bool:
        """Make a block the rest of the only one that leads to it, if that one leads nowhere else."""
        label, env = block.incoming[0]
        before = next(item for item in self._written if item.label == label)
        if before.end != f"br label %{block.label}":
            return False
        before.end, self.block, self.env = "", before, dict(env)
        return True

    def lines(self) -> list[str]:
        """The text of all blocks."""
        text: list[str] = []
        for block in self._written:
            text.append(f"{block.label}:")
            for key, name in block.phis.items():
                ways = ", ".join(f"[ {env[key]}, %{label} ]" for label, env in block.incoming)
                text.append(f"  {name} = phi {self.types[key]} {ways}")
            rooms = self._rooms if block is self._written[0] else []
            text += [f"  {line}" for line in (*rooms, *block.lines, block.end)]
        return text
