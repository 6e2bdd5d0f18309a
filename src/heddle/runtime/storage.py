"""Memory for tensors: storages, and the allocators that lend them and count what is lent.

There is one allocator per (device, kind) for the whole process. Python code and compiled programs share it.
For the host, it is a pool of the native library (`native/source/memory.py`); for other memory, it takes
blocks from the device API (`device_api`). A `Storage` returns its block when its last reference dies. Tensors
on a storage hold such a reference. Blocks start at a multiple of `ALIGN_BYTES` and are not zeroed.

Block sizes fall into eight classes per power of two, from 64 bytes up. So the slightly different sizes of
dynamic shapes can reuse the same block, at a cost of at most 12.5%.

The "pooled" kind keeps freed blocks and reuses the most recent one first, because the first touch of a fresh
page costs about as much as arithmetic on 4 KiB. The "naive" kind returns blocks to the system. The "poisoned"
kind returns them too and, for debugging, fills blocks with one bits (NaN, -1) when they are lent and when
they are returned. Blocks from 4 MiB up ask for huge pages (2 MiB): reading weights from them is a tenth
faster.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

from heddle.runtime.codes import U0601, U0602
from heddle.runtime.device import Device, cpu
from heddle.runtime.device_api.api import DEFAULT_STREAM
from heddle.runtime.native import abi
from heddle.runtime.native.errors import raise_native_error
from heddle.runtime.native.library import native_library
from heddle.runtime.native.memory import record_of
from heddle.runtime.native.methods import make_fast_method, slot_offset
from heddle.runtime.size_class import block_bytes
from heddle.support.diagnostics import Trap, TrapValueError, UsageError
from heddle.support.forks import ForkLock, Rank
from heddle.support.settings import system_memory_bytes
from heddle.systems.types import ctype_of

ALIGN_BYTES = 64
_NO_LIMIT = -1
_MAX_BYTES = 1 << 56


Pool = ctype_of(abi.Pool)
"""The native structure of a pool; see `abi.Pool`."""


class Storage:
    """A lent block of memory. `size_bytes` is the requested size; `address` is a multiple of 64; `payload`
    identifies the storage in native code, which counts its references.
    """

    # Native code creates this object and fills the first two slots. The lease returns the block when it dies.
    __slots__ = ("__weakref__", "_allocator", "_lease", "address", "payload", "size_bytes")
    _allocator: Allocator
    address: int
    payload: int
    size_bytes: int

    def __getattr__(self, name: str) -> Any:
        if name not in ("address", "payload", "size_bytes"):
            raise AttributeError(f"storage has no attribute {name!r}", name=name, obj=self)
        payload: int = self._allocator.payload_of(self)
        self.payload, self.address = payload, payload + _HEAD_BYTES
        self.size_bytes = ctypes.c_int64.from_address(payload).value
        return getattr(self, name)

    @property
    def device(self) -> Device:
        """The device of the memory."""
        return self._allocator.device

    def __repr__(self) -> str:
        return f"Storage({self.size_bytes} bytes on {self.device})"


_HEAD_BYTES = abi.Storage.layout.size_bytes  # from a storage's payload to its memory


class Allocator:
    """A memory pool and its counters. `memory_limit_bytes` limits the memory that the pool takes from the
    system. None means the memory of the machine: systems promise more than that, and kill the process that
    uses it.

    `kind` is "pooled", "naive" or "poisoned".
    """

    def __init__(self, device: Device, kind: str) -> None:
        self.device = device
        self.kind = kind
        self.books = Pool(
            limit_bytes=_machine_limit(),
            failing_allocation=-1,
            keeps_blocks=int(kind == POOLED),
            poisons=int(kind == POISONED),
            device_type=device.device_type,
            device_id=device.device_id,
        )
        self.address = ctypes.addressof(self.books)
        # Blocks that die during interpreter exit, after modules are cleared, are returned too.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.books))
        self._own_limit: int | None = None
        self._lock = ForkLock(Rank.LEAF)
        self._listeners: tuple[AllocationListener, ...] = ()
        self._prepare()

    def _prepare(self) -> None:
        """Register the pool with native code, which allocates from it."""
        self.payload_of, self._share = _storage_methods()
        self._take = self._taker(0)
        register = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(
            native_library().addresses["heddle_pool_register"]
        )
        if register(self.address):
            self.refuse()
        _by_address[self.address] = self

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit in bytes of the memory that the pool takes from the system; None for the memory of the
        machine.
        """
        return self._own_limit

    @memory_limit_bytes.setter
    def memory_limit_bytes(self, limit: int | None) -> None:
        self._own_limit = limit
        self.books.limit_bytes = _machine_limit() if limit is None else limit

    def alloc(self, size_bytes: int) -> Storage:
        """Allocate a storage of at least `size_bytes` bytes.

        Raises: Trap U0601 if the limit would be exceeded or the system has no memory; TrapValueError U0602
        for a negative size.
        """
        if not 0 <= size_bytes < _MAX_BYTES:
            raise _absurd(size_bytes, self.device)
        made: Storage | None = self._take(size_bytes)
        return self.refuse() if made is None else made

    def refuse(self) -> NoReturn:
        """Raise the error of a failed allocation."""
        raise_native_error([f"on {self.device}: {self.books.bytes_in_use} bytes are in use"])

    def _taker(self, size_bytes: int) -> Callable[..., Any]:
        """Return a builtin function that allocates as many bytes as its argument says, or `size_bytes`
        without one. It returns None if that fails.
        """
        record = record_of(abi.LenderRecord, self.address, size_bytes)
        return make_fast_method("take", native_library().addresses["heddle_take_storage"], record, self)

    def lender(self, size_bytes: int) -> Callable[[], Storage | None]:
        """Return a function that allocates storages of one size. It is faster than `alloc`, returns None
        instead of raising, and does not notify listeners of `watched`.

        Raises: as `alloc` for an invalid size.
        """
        if not 0 <= size_bytes < _MAX_BYTES:
            raise _absurd(size_bytes, self.device)
        return self._taker(size_bytes)

    def share(self, payload: int) -> Storage:
        """Return a Storage object for a native storage of this pool, and count one more reference to it."""
        made: Storage = self._share(payload, self)
        return made

    def fail_allocation(self, number: int) -> None:
        """For tests: make the `number`-th allocation from now fail as if the system had no memory."""
        self.books.failing_allocation = self.books.num_allocations + number

    @contextmanager
    def watched(self, listener: AllocationListener) -> Iterator[None]:
        """In the `with` block, call `listener` for every successful allocation in any thread.

        This replaces `alloc` on this one object, so an allocator without listeners has no extra cost.
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
        """Reset the peak to the bytes that are allocated now."""
        self.books.peak_bytes = self.books.bytes_in_use

    def clear(self) -> None:
        """Return unused blocks to the system."""
        _trimmer()(self.address)


def _machine_limit() -> int:
    """Return the limit of a pool without a limit of its own: the memory of the machine."""
    known = system_memory_bytes()
    return _NO_LIMIT if known is None else known


def _absurd(size_bytes: int, device: Device) -> Trap:
    if size_bytes < 0:
        return TrapValueError(U0602, f"storage size must not be negative, got {size_bytes} bytes")
    return Trap(U0601, f"the system has no {size_bytes} bytes of memory for {device}")


class DeviceStorage(Storage):
    """A lent block of a device's own memory. It has no payload, because compiled host code never uses it."""

    __slots__ = ()
    _allocator: DeviceAllocator

    def __init__(self, allocator: DeviceAllocator, address: int, size_bytes: int) -> None:
        self._allocator, self.address, self.size_bytes = allocator, address, size_bytes

    def __del__(self) -> None:
        self._allocator.give_back(self.address, self.size_bytes)


class DeviceAllocator(Allocator):
    """An allocator for memory of a device other than the host, through its device API. Kinds, counters and
    limits are as for the host.

    Free blocks are kept by size class. A block is returned in the device's stream order, so it may be lent
    again while work on it is pending.
    """

    def _prepare(self) -> None:
        self._api, self._number = self.device.api, self.device.device_id
        self._free: dict[int, list[int]] = {}

    def alloc(self, size_bytes: int) -> Storage:
        if not 0 <= size_bytes < _MAX_BYTES:
            raise _absurd(size_bytes, self.device)
        amount = block_bytes(size_bytes)
        with self._lock:
            address = self._take_block(amount)
            self.books.bytes_in_use += amount
            self.books.peak_bytes = max(self.books.peak_bytes, self.books.bytes_in_use)
        if self.kind == POISONED:
            self._poison(address, amount)
        return DeviceStorage(self, address, size_bytes)

    def _take_block(self, amount: int) -> int:
        """Return the address of a kept block of the class, or of a new one. The caller holds the lock."""
        books = self.books
        books.num_allocations += 1
        if books.num_allocations - 1 == books.failing_allocation:
            raise Trap(U0601, f"the system has no {amount} bytes of memory left on {self.device}")
        kept = self._free.get(amount)
        if kept:
            books.cached_bytes -= amount
            return kept.pop()
        limit = self._own_limit
        if limit is not None and books.bytes_in_use + books.cached_bytes + amount > limit:
            self._clear_locked()
            if books.bytes_in_use + amount > limit:
                raise Trap(
                    U0601,
                    f"memory limit of {limit} bytes reached: {amount} more bytes do not fit into it",
                    notes=[f"on {self.device}: {books.bytes_in_use} bytes are in use"],
                )
        books.num_fresh_blocks += 1
        return self._api.allocate(self._number, amount)

    def _poison(self, address: int, amount: int) -> None:
        ones = ctypes.create_string_buffer(b"\xff" * amount, amount)
        self._api.copy_in(self._number, ctypes.addressof(ones), address, amount, DEFAULT_STREAM)

    def give_back(self, address: int, size_bytes: int) -> None:
        """Take back a lent block."""
        amount = block_bytes(size_bytes)
        if self.kind == POISONED:
            self._poison(address, amount)
        with self._lock:
            self.books.bytes_in_use -= amount
            if self.kind == POOLED:
                self._free.setdefault(amount, []).append(address)
                self.books.cached_bytes += amount
                return
        self._api.free(self._number, address)

    def lender(self, size_bytes: int) -> Callable[[], Storage | None]:
        if not 0 <= size_bytes < _MAX_BYTES:
            raise _absurd(size_bytes, self.device)
        return lambda: self.alloc(size_bytes)

    def clear(self) -> None:
        with self._lock:
            self._clear_locked()

    def _clear_locked(self) -> None:
        for blocks in self._free.values():
            for address in blocks:
                self._api.free(self._number, address)
        self._free.clear()
        self.books.cached_bytes = 0


@cache
def _storage_methods() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return two builtin functions: one gives the payload of a storage, the other makes a storage for a
    payload.
    """
    addresses = native_library().addresses
    configure = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        addresses["heddle_storage_configure"]
    )
    configure(id(Storage), slot_offset(Storage, "_lease"), slot_offset(Storage, "_allocator"))
    return (
        make_fast_method("payload", addresses["heddle_storage_payload"], b"", None),
        make_fast_method("share", addresses["heddle_share_storage"], b"", None),
    )


@cache
def _trimmer() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native_library().addresses["heddle_pool_trim"])


AllocationListener = Callable[[Allocator, Storage], None]
"""Called with the allocator and the storage that it lent."""

POOLED, NAIVE, POISONED = "pooled", "naive", "poisoned"
KINDS = (POOLED, NAIVE, POISONED)
_allocators: dict[tuple[Device, str], Allocator] = {}
_by_address: dict[int, Allocator] = {}


def allocator_for(device: Device | None = None, kind: str = POOLED) -> Allocator:
    """Return the process-wide allocator of a device. `kind`: "pooled", "naive" or "poisoned".

    Raises: UsageError U0202 if the device cannot be reached; U0602 for an unknown kind.
    """
    where = device if device is not None else cpu(0)
    found = _allocators.get((where, kind))
    if found is not None:
        return found
    if kind not in KINDS:
        raise UsageError(U0602, f"unknown allocator kind {kind!r}: expected one of {', '.join(KINDS)}")
    made = Allocator if where.api.is_host else DeviceAllocator
    return _allocators.setdefault((where, kind), made(where, kind))


def allocator_at(address: int) -> Allocator:
    """Return the allocator of the native pool at an address."""
    return _by_address[address]


def clear_allocators() -> None:
    """Return the unused memory of all pools to the system."""
    for allocator in list(_allocators.values()):
        allocator.clear()
