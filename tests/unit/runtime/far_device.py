"""A type of devices for tests: memory that the host may not touch, and work that waits until somebody asks.

The memory is pages of this process that can be read and written only while the device works, so that code
which takes an address of the device for one of the host's ends the process. Copies, launches
and what is given back wait in a queue; `synchronise` does them in order.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from heddle.runtime.codes import U0601
from heddle.runtime.device import Device, cpu
from heddle.runtime.device_api import DEVICE_APIS, DeviceApi
from heddle.runtime.storage import KINDS, _allocators
from heddle.runtime.tensor import Tensor, make_tensor
from heddle.support.diagnostics import Trap

ARENA_BYTES = 32 << 20
_NO_ACCESS = 0
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class FarApi(DeviceApi):
    """Two devices of the kind `ext_dev`. `launches` are the names and devices of what ran."""

    device_type = 12

    def __init__(self) -> None:
        self._pages = mmap.mmap(-1, ARENA_BYTES)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._next = self._start
        self._sizes: dict[int, int] = {}
        self._queue: list[Callable[[], object]] = []
        self.launches: list[tuple[str, int]] = []
        self._allow(_NO_ACCESS)

    def _allow(self, access: int) -> None:
        assert _protect(self._start, ARENA_BYTES, access) == 0

    @property
    def live_blocks(self) -> int:
        """How many blocks were not given back."""
        self.synchronise(0)
        return len(self._sizes)

    def exists(self, device_id: int) -> bool:
        return device_id < 2

    def allocate(self, device_id: int, size_bytes: int) -> int:
        address = self._next
        if address + size_bytes > self._start + ARENA_BYTES:
            raise Trap(U0601, f"ext_dev:{device_id} has no {size_bytes} bytes left")
        self._next += -(-size_bytes // 64) * 64
        self._sizes[address] = size_bytes
        return address

    def free(self, device_id: int, address: int) -> None:
        self._queue.append(lambda: self._sizes.pop(address))

    def copy_in(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        content = ctypes.string_at(source, size_bytes)
        self._queue.append(lambda: ctypes.memmove(target, content, size_bytes))

    def copy_out(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        self._queue.append(lambda: ctypes.memmove(target, source, size_bytes))

    def copy_across(self, from_to: tuple[int, int], source: int, target: int, size_bytes: int) -> None:
        self._queue.append(lambda: ctypes.memmove(target, source, size_bytes))

    def launch(self, device_id: int, kernel: Callable[..., Any], args: Sequence[Any], stream: int) -> None:
        for arg in args:
            assert not isinstance(arg, Tensor) or arg.device == Device(self.device_type, device_id)
        self.launches.append((getattr(kernel, "__name__", "?"), device_id))
        self._queue.append(lambda: kernel(*map(_as_host, args)))

    def synchronise(self, device_id: int, stream: int | None = None) -> None:
        waiting, self._queue = self._queue, []
        self._allow(mmap.PROT_READ | mmap.PROT_WRITE)
        try:
            for work in waiting:
                work()
        finally:
            self._allow(_NO_ACCESS)


def _as_host(arg: Any) -> Any:
    """What code of the host takes for an argument, while it may touch the memory."""
    if not isinstance(arg, Tensor):
        return arg
    return make_tensor(arg.address, arg.layout, arg.dtype, cpu(0), arg)


@contextmanager
def far_devices(made: FarApi | None = None) -> Iterator[FarApi]:
    """Let there be two such devices."""
    made = made or FarApi()
    DEVICE_APIS[made.device_type] = made
    try:
        yield made
    finally:
        for number in range(2):
            for kind in KINDS:
                _allocators.pop((Device(made.device_type, number), kind), None)
        del DEVICE_APIS[made.device_type]
