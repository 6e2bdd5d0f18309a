"""Memory of the interpreter: blocks far from each other, which know what was written to them and when they
died. No address is used twice."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from heddle.support.diagnostics import Code
from heddle.systems.codes import Y0401, Y0402, Y0403, Y0408, Y0410

_GAP_BYTES = 1 << 16
"""Between two blocks: an index that is a little wrong meets nothing."""
_FIRST = 1 << 20

Fail = Callable[[Code, str, tuple[str, ...]], NoReturn]


@dataclass(eq=False)
class Block:
    """`kind` is heap, global, local, text or function; `made_at` and `freed_at` are places in the source."""

    start: int
    kind: str
    label: str
    data: bytearray
    made_at: str
    is_set: bytearray = field(init=False)
    freed_at: str | None = None

    def __post_init__(self) -> None:
        self.is_set = bytearray(len(self.data))

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.start + len(self.data)

    def describe(self) -> str:
        """The block's name, kind, size and origin, for a message."""
        return f"{self.label} ({self.kind}, {len(self.data)} bytes, made at {self.made_at})"


class SimulatedMemory:
    """`fail` raises the error of the access under way."""

    def __init__(self, fail: Fail) -> None:
        self._fail = fail
        self._next = _FIRST
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}

    def allocate(self, size_bytes: int, align_bytes: int, kind: str, label: str, made_at: str) -> Block:
        """A new block at a multiple of `align_bytes`; none of its bytes counts as written."""
        start = -(-self._next // align_bytes) * align_bytes
        self._next = start + size_bytes + _GAP_BYTES
        block = Block(start, kind, label, bytearray(size_bytes), made_at)
        self._blocks[start] = block
        insort(self._starts, start)
        return block

    def release(self, start: int, place: str) -> Block:
        """Mark a block of the heap as freed."""
        block = self._blocks.get(start)
        if block is None or block.kind != "heap":
            self._fail(Y0403, f"address {start:#x} is not the start of a block from the system", ())
        if block.freed_at is not None:
            notes = (f"{block.describe()} was freed at {block.freed_at}",)
            self._fail(Y0403, "memory is given back twice", notes)
        block.freed_at = place
        return block

    def at(self, address: int) -> Block | None:
        """The block that an address lies in or closely behind."""
        index = bisect_right(self._starts, address) - 1
        return self._blocks[self._starts[index]] if index >= 0 else None

    def range(self, address: int, size_bytes: int, align_bytes: int, verb: str) -> tuple[Block, int]:
        """The block of an access, and where in it. Fails with Y0401, Y0402 or Y0410."""
        block = self.at(address)
        if address == 0 or block is None:
            self._fail(Y0401, f"cannot {verb} {size_bytes} bytes at {address:#x}, which is no memory", ())
        if address + size_bytes > block.end:
            at = address - block.start
            self._fail(Y0401, f"cannot {verb} {size_bytes} bytes at byte {at} of {block.describe()}", ())
        if block.freed_at is not None:
            notes = (f"it was freed at {block.freed_at}",)
            self._fail(Y0402, f"cannot {verb} byte {address - block.start} of {block.describe()}", notes)
        if address % align_bytes:
            message = f"cannot {verb} at {address:#x}: expected a multiple of {align_bytes}"
            self._fail(Y0410, message, (block.describe(),))
        return block, address - block.start

    def read(self, address: int, size_bytes: int, align_bytes: int = 1) -> bytes:
        """Fails with Y0408 where a byte was never written."""
        block, at = self.range(address, size_bytes, align_bytes, "read")
        if block.is_set.find(0, at, at + size_bytes) >= 0:
            first = block.is_set.find(0, at, at + size_bytes)
            self._fail(Y0408, f"byte {first} of {block.describe()} was never written", ())
        return bytes(block.data[at : at + size_bytes])

    def write(self, address: int, data: bytes, align_bytes: int = 1) -> None:
        """Write bytes, which count as written from now on. Fails with Y0401, Y0402 or Y0410."""
        block, at = self.range(address, len(data), align_bytes, "write")
        if block.kind in ("text", "function"):
            self._fail(Y0401, f"cannot write to {block.describe()}, which is constant", ())
        self.set(block, at, data)

    def set(self, block: Block, at: int, data: bytes) -> None:
        """Write without a check: what a block starts with."""
        block.data[at : at + len(data)] = data
        block.is_set[at : at + len(data)] = b"\1" * len(data)

    def copy(self, to: int, source: int, size_bytes: int) -> None:
        """Copy bytes, whether or not they were written: padding never is."""
        origin, begin = self.range(source, size_bytes, 1, "read")
        target, at = self.range(to, size_bytes, 1, "write")
        target.data[at : at + size_bytes] = origin.data[begin : begin + size_bytes]
        target.is_set[at : at + size_bytes] = origin.is_set[begin : begin + size_bytes]

    def alive(self, kind: str) -> Iterator[Block]:
        """The blocks of a kind that nobody has freed."""
        for block in self._blocks.values():
            if block.kind == kind and block.freed_at is None:
                yield block
