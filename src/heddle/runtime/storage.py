"""Memory for tensors: blocks, the allocators that hand them out, and their books.

One allocator serves a (device, kind) pair for the whole process. A `Storage` gives its block back when the
last reference dies; tensors on it hold such a reference. Blocks start at a multiple of `ALIGN_BYTES`, and are
not cleared.

Size classes of the pooled allocator: multiples of 4096 up to 1 MiB, above that eight steps to a power of two,
so that the slightly different sizes of dynamic shapes meet the same block again at a cost of at most 12.5%.
Pages that were touched once stay mapped: a fresh page costs about as much as 4 KiB of arithmetic.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.runtime.codes import U0202, U0601, U0602
from heddle.runtime.device import CPU, Device, cpu
from heddle.support.diagnostics import Trap, TrapValueError, UsageError

ALIGN_BYTES = 64
PAGE_BYTES = 4096
_FINE_LIMIT_BYTES = 1 << 20
_MAX_FREE_BLOCKS_A_CLASS = 64


@dataclass(slots=True)
class MemoryBooks:
    """An allocator's counters. Units: bytes, counts. `cached_bytes` lies free in the pool."""

    bytes_in_use: int = 0
    peak_bytes: int = 0
    num_allocations: int = 0
    num_fresh_blocks: int = 0
    cached_bytes: int = 0


class Block:
    """A piece of memory: `address` is aligned, `memory` owns it."""

    __slots__ = ("address", "memory", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.memory: np.ndarray[Any, Any] = np.empty(size_bytes + ALIGN_BYTES, np.uint8)
        start: int = self.memory.__array_interface__["data"][0]
        self.address = -(-start // ALIGN_BYTES) * ALIGN_BYTES
        self.size_bytes = size_bytes


class Storage:
    """A block on loan. `size_bytes` is the size that was asked for; `address` is a multiple of 64."""

    __slots__ = ("__weakref__", "_allocator", "_block", "address", "size_bytes")

    def __init__(self, allocator: Allocator, block: Block, size_bytes: int) -> None:
        self._allocator = allocator
        self._block = block
        self.address = block.address
        self.size_bytes = size_bytes

    @property
    def device(self) -> Device:
        return self._allocator.device

    def __del__(self) -> None:
        self._allocator._take_back(self._block)

    def __repr__(self) -> str:
        return f"Storage({self.size_bytes} bytes on {self.device})"


class Allocator(ABC):
    """The books and the limit that both kinds share.

    The lock is reentrant: garbage collection may return a block while this thread is taking one. Then the
    counters change under an operation that has read them; so each is changed by one statement, and none is
    kept in a local.
    """

    kind = ""

    def __init__(self, device: Device) -> None:
        if device.device_type != CPU:
            raise UsageError(U0202, f"no memory can be allocated on {device}: only the cpu is available")
        self.device = device
        self.memory_limit_bytes: int | None = None
        self.books = MemoryBooks()
        self._lock = threading.RLock()
        self._listeners: tuple[AllocationListener, ...] = ()

    def alloc(self, size_bytes: int) -> Storage:
        """Lend at least `size_bytes`.

        Raises: Trap U0601 where the limit would be exceeded or the system has no memory; TrapValueError U0602
        for a negative size.
        """
        if size_bytes < 0:
            raise TrapValueError(U0602, f"storage size must not be negative, got {size_bytes} bytes")
        with self._lock:
            block = self._block(size_bytes)
            books = self.books
            books.num_allocations += 1
            books.bytes_in_use += block.size_bytes
            if books.bytes_in_use > books.peak_bytes:
                books.peak_bytes = books.bytes_in_use
        return Storage(self, block, size_bytes)

    @contextmanager
    def watched(self, listener: AllocationListener) -> Iterator[None]:
        """Tell `listener` of every allocation that succeeds while the block lasts, in any thread.

        Watching puts another `alloc` on this one object, so that an allocator that nobody watches has
        nothing to ask.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)
            self.alloc = self._alloc_and_tell  # type: ignore[method-assign]
        try:
            yield
        finally:
            with self._lock:
                left = list(self._listeners)
                left.remove(listener)
                self._listeners = tuple(left)
                if not left:
                    del self.alloc

    def _alloc_and_tell(self, size_bytes: int) -> Storage:
        storage = Allocator.alloc(self, size_bytes)
        for listener in self._listeners:
            listener(self, storage)
        return storage

    def reset_peak(self) -> None:
        self.books.peak_bytes = self.books.bytes_in_use

    def clear(self) -> None:  # noqa: B027 (an allocator that keeps nothing has nothing to do)
        """Give unused memory back to the system."""

    @abstractmethod
    def _block(self, size_bytes: int) -> Block:
        """A block of at least this size. Called with the lock held."""

    @abstractmethod
    def _take_back(self, block: Block) -> None:
        """Keep or drop a block whose storage died."""

    def _fresh_block(self, size_bytes: int) -> Block:
        limit, books = self.memory_limit_bytes, self.books
        if limit is not None and books.bytes_in_use + books.cached_bytes + size_bytes > limit:
            self.clear()
            if books.bytes_in_use + size_bytes > limit:
                raise Trap(
                    U0601,
                    f"memory limit of {limit} bytes on {self.device} reached: "
                    f"{books.bytes_in_use} in use, {size_bytes} more needed",
                )
        try:
            block = Block(size_bytes)
        except (MemoryError, ValueError, OverflowError):
            self.clear()
            raise Trap(U0601, f"the system has no {size_bytes} bytes of memory for {self.device}") from None
        books.num_fresh_blocks += 1
        return block


class NaiveAllocator(Allocator):
    """Each request is fresh memory; each release returns it to the system."""

    kind = "naive"

    def _block(self, size_bytes: int) -> Block:
        return self._fresh_block(-(-max(size_bytes, 1) // ALIGN_BYTES) * ALIGN_BYTES)

    def _take_back(self, block: Block) -> None:
        with self._lock:
            self.books.bytes_in_use -= block.size_bytes


class PooledAllocator(Allocator):
    """Released blocks wait in their size class and are lent again, last in first out (the warmest first)."""

    kind = "pooled"

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._free: dict[int, list[Block]] = {}

    def clear(self) -> None:
        with self._lock:
            self._free = {}
            self.books.cached_bytes = 0

    def _block(self, size_bytes: int) -> Block:
        if size_bytes <= _FINE_LIMIT_BYTES:
            class_bytes = -(-(size_bytes or 1) // PAGE_BYTES) * PAGE_BYTES
        else:
            step = 1 << (size_bytes.bit_length() - 4)
            class_bytes = -(-size_bytes // step) * step
        waiting = self._free.get(class_bytes)
        if waiting:
            self.books.cached_bytes -= class_bytes
            return waiting.pop()
        return self._fresh_block(class_bytes)

    def _take_back(self, block: Block) -> None:
        size_bytes = block.size_bytes
        with self._lock:
            self.books.bytes_in_use -= size_bytes
            waiting = self._free.get(size_bytes)
            if waiting is None:
                waiting = self._free[size_bytes] = []
            if len(waiting) < _MAX_FREE_BLOCKS_A_CLASS:
                waiting.append(block)
                self.books.cached_bytes += size_bytes


AllocationListener = Callable[[Allocator, Storage], None]
"""Gets the allocator and the storage that it lent."""

_KINDS: dict[str, type[Allocator]] = {"naive": NaiveAllocator, "pooled": PooledAllocator}
_allocators: dict[tuple[Device, str], Allocator] = {}


def allocator_for(device: Device | None = None, kind: str = "pooled") -> Allocator:
    """The process's allocator of a device. `kind`: "pooled" or "naive".

    Raises: UsageError U0202 where the device cannot be reached; U0602 for an unknown kind.
    """
    where = device if device is not None else cpu(0)
    found = _allocators.get((where, kind))
    if found is not None:
        return found
    if kind not in _KINDS:
        raise UsageError(U0602, f"unknown allocator kind {kind!r}: expected one of {', '.join(_KINDS)}")
    return _allocators.setdefault((where, kind), _KINDS[kind](where))


def clear_allocators() -> None:
    """Drop every pool's unused memory."""
    for allocator in list(_allocators.values()):
        allocator.clear()
