"""Memory for tensors: storages, the allocators that lend them, and their books.

One allocator serves a (device, kind) pair for the whole process, Python's requests and those of compiled
programs alike: it is a pool of the native library (`native/objects.ll`). A `Storage` gives its block back
when the last reference dies; tensors on it hold such a reference. Blocks start at a multiple of `ALIGN_BYTES`
and are not cleared.

Blocks come in classes, eight to a power of two from 64 bytes up, so that the slightly different sizes of
dynamic shapes meet the same block again at a cost of at most 12.5%. The pooled kind keeps freed blocks, the
warmest on top: a fresh page costs about as much as 4 KiB of arithmetic. The naive kind returns them.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from heddle.runtime.codes import U0202, U0601, U0602
from heddle.runtime.device import CPU, Device, cpu
from heddle.runtime.native.errors import raise_native_error
from heddle.runtime.native.library import native_library
from heddle.runtime.native.methods import make_fast_method
from heddle.support.diagnostics import Trap, TrapValueError, UsageError

ALIGN_BYTES = 64
_NUM_CLASSES = 512
_NO_LIMIT = -1
_MAX_BYTES = 1 << 56


class Pool(ctypes.Structure):
    """A pool as native code has it, counters first. `cached_bytes` lie free in it; units: bytes, counts."""

    _fields_ = (
        ("bytes_in_use", ctypes.c_int64),
        ("peak_bytes", ctypes.c_int64),
        ("cached_bytes", ctypes.c_int64),
        ("limit_bytes", ctypes.c_int64),
        ("num_allocations", ctypes.c_int64),
        ("failing_allocation", ctypes.c_int64),
        ("num_fresh_blocks", ctypes.c_int64),
        ("keeps_blocks", ctypes.c_int32),
        ("lock", ctypes.c_int32),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("free_blocks", ctypes.c_void_p * _NUM_CLASSES),
    )


class Storage:
    """A block on loan. `size_bytes` is the size that was asked for; `address` is a multiple of 64; `payload`
    names it in native code, where it is counted."""

    __slots__ = ("__weakref__", "_allocator", "_drop", "address", "payload", "size_bytes")

    def __init__(self, allocator: Allocator, payload: int, size_bytes: int) -> None:
        """Takes over one count of the native storage."""
        self._allocator = allocator
        self._drop = allocator._drop
        self.payload = payload
        self.address = payload + _HEAD_BYTES
        self.size_bytes = size_bytes

    @property
    def device(self) -> Device:
        return self._allocator.device

    def __del__(self) -> None:
        self._drop(self.payload)

    def __repr__(self) -> str:
        return f"Storage({self.size_bytes} bytes on {self.device})"


_HEAD_BYTES = 32  # between a storage's payload and its memory


class Allocator:
    """A pool and its books. `memory_limit_bytes` caps what it has from the system, None for no cap.

    `kind` is "pooled" or "naive".
    """

    def __init__(self, device: Device, kind: str) -> None:
        if device.device_type != CPU:
            raise UsageError(U0202, f"no memory can be allocated on {device}: only the cpu is available")
        self.device = device
        self.kind = kind
        self.books = Pool(
            limit_bytes=_NO_LIMIT,
            failing_allocation=-1,
            keeps_blocks=int(kind == POOLED),
            device_type=device.device_type,
            device_id=device.device_id,
        )
        self.address = ctypes.addressof(self.books)
        self._lock = threading.Lock()
        self._listeners: tuple[AllocationListener, ...] = ()
        addresses, record = native_library().addresses, struct.pack("<q", self.address)
        self._take = make_fast_method("take", addresses["heddle_take_storage"], record, self.books)
        self._drop = make_fast_method("drop", addresses["heddle_drop_storage"], record, self.books)
        _by_address[self.address] = self

    @property
    def memory_limit_bytes(self) -> int | None:
        limit: int = self.books.limit_bytes
        return None if limit == _NO_LIMIT else limit

    @memory_limit_bytes.setter
    def memory_limit_bytes(self, limit: int | None) -> None:
        self.books.limit_bytes = _NO_LIMIT if limit is None else limit

    def alloc(self, size_bytes: int) -> Storage:
        """Lend at least `size_bytes`.

        Raises: Trap U0601 where the limit would be exceeded or the system has no memory; TrapValueError U0602
        for a negative size.
        """
        if not 0 <= size_bytes < _MAX_BYTES:
            raise _absurd(size_bytes, self.device)
        payload: int = self._take(size_bytes)
        if not payload:
            raise_native_error([f"on {self.device}: {self.books.bytes_in_use} bytes are in use"])
        return Storage(self, payload, size_bytes)

    def fail_allocation(self, number: int) -> None:
        """Let the allocation fail that is `number`-th from now, as if the system had no memory: for tests."""
        self.books.failing_allocation = self.books.num_allocations + number

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
        storage = type(self).alloc(self, size_bytes)
        for listener in self._listeners:
            listener(self, storage)
        return storage

    def reset_peak(self) -> None:
        self.books.peak_bytes = self.books.bytes_in_use

    def clear(self) -> None:
        """Give unused blocks back to the system."""
        _trimmer()(self.address)


def _absurd(size_bytes: int, device: Device) -> Trap:
    if size_bytes < 0:
        return TrapValueError(U0602, f"storage size must not be negative, got {size_bytes} bytes")
    return Trap(U0601, f"the system has no {size_bytes} bytes of memory for {device}")


@cache
def _trimmer() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native_library().addresses["heddle_pool_trim"])


AllocationListener = Callable[[Allocator, Storage], None]
"""Gets the allocator and the storage that it lent."""

POOLED, NAIVE = "pooled", "naive"
KINDS = (POOLED, NAIVE)
_allocators: dict[tuple[Device, str], Allocator] = {}
_by_address: dict[int, Allocator] = {}


def allocator_for(device: Device | None = None, kind: str = POOLED) -> Allocator:
    """The process's allocator of a device. `kind`: "pooled" or "naive".

    Raises: UsageError U0202 where the device cannot be reached; U0602 for an unknown kind.
    """
    where = device if device is not None else cpu(0)
    found = _allocators.get((where, kind))
    if found is not None:
        return found
    if kind not in KINDS:
        raise UsageError(U0602, f"unknown allocator kind {kind!r}: expected one of {', '.join(KINDS)}")
    return _allocators.setdefault((where, kind), Allocator(where, kind))


def allocator_at(address: int) -> Allocator:
    """The allocator of a native pool."""
    return _by_address[address]


def clear_allocators() -> None:
    """Drop every pool's unused memory."""
    for allocator in list(_allocators.values()):
        allocator.clear()
