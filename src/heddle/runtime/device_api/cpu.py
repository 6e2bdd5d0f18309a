"""The host as a device type. Its kernels have finished when they return, so there is nothing to wait for.

Host tensors do not use these functions: their memory comes from the pools of the native library, and compiled
code calls kernels directly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.codes import U0601
from heddle.runtime.device_api.api import DeviceApi
from heddle.support.diagnostics import Trap

_ALIGN_BYTES = 64


class CpuApi(DeviceApi):
    """The device API of the CPU. Every device number is valid; all of them share one memory."""

    device_type = 1
    is_host = True

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}

    def exists(self, device_id: int) -> bool:
        return True

    def allocate(self, device_id: int, size_bytes: int) -> int:
        try:
            block = ctypes.create_string_buffer(max(size_bytes, 1) + _ALIGN_BYTES)
        except (MemoryError, OverflowError) as error:
            raise Trap(
                U0601, f"the system has no {size_bytes} bytes of memory for cpu:{device_id}"
            ) from error
        start = ctypes.addressof(block)
        address = start + -start % _ALIGN_BYTES
        self._blocks[address] = block
        return address

    def free(self, device_id: int, address: int) -> None:
        del self._blocks[address]

    def copy_in(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    copy_out = copy_in

    def copy_across(self, from_to: tuple[int, int], source: int, target: int, size_bytes: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    def launch(self, device_id: int, kernel: Callable[..., Any], args: Sequence[Any], stream: int) -> None:
        kernel(*args)

    def synchronise(self, device_id: int, stream: int | None = None) -> None:
        """Do nothing: no work is pending."""
