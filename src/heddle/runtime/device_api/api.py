"""The interface of a device type: memory, copies, kernel launches, streams and events.

Tensors, allocators and machines use only this interface, so a new device type is one record in
`table.DEVICE_APIS`.

- An *address* is a 64-bit number. Only the device type knows its meaning: a pointer on the host, a pointer on
  an accelerator, or a handle in another process. `address + n` is n bytes after `address`.
- A *stream* is a number. Work in one stream runs in the order in which it was submitted. Every device has
  stream 0.
- An *event* is a number. It marks a point in a stream for which the host or another stream can wait.

`launch` and `copy` may return before the work is done. The record keeps the memory that the work uses alive
until then. Call `synchronise` before you read a result on the host; tensors do this themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from heddle.runtime.codes import U0203
from heddle.support.diagnostics import UsageError

DEFAULT_STREAM = 0


class DeviceApi(ABC):
    """The operations of one device type. `device_id` is the number of a device of that type, from 0.

    `device_type` is DLPack's number. `is_host` says that the host can read and write this memory by its
    addresses, and that compiled host code runs there.
    """

    device_type: ClassVar[int]
    is_host: ClassVar[bool] = False

    @abstractmethod
    def exists(self, device_id: int) -> bool:
        """Whether this process can reach the device."""

    @abstractmethod
    def allocate(self, device_id: int, size_bytes: int) -> int:
        """Allocate memory and return its address, a multiple of 64. Raises: Trap U0601 if there is not enough
        memory.
        """

    @abstractmethod
    def free(self, device_id: int, address: int) -> None:
        """Free memory from `allocate`, after the work that was submitted before this call is done."""

    @abstractmethod
    def copy_in(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        """Copy from the host address `source` to the device address `target`. The source is read before this
        call returns.
        """

    @abstractmethod
    def copy_out(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        """Copy from the device address `source` to the host address `target`."""

    @abstractmethod
    def copy_across(self, from_to: tuple[int, int], source: int, target: int, size_bytes: int) -> None:
        """Copy between two devices of this type, after all earlier work in stream 0 of both. `from_to` holds
        the two device numbers, which may be equal.
        """

    @abstractmethod
    def launch(self, device_id: int, kernel: Callable[..., Any], args: Sequence[Any], stream: int) -> None:
        """Run a kernel. `args` are tensors of the device and scalars."""

    @abstractmethod
    def synchronise(self, device_id: int, stream: int | None = None) -> None:
        """Wait until the work of a stream is done; without a stream, the work of all streams. Raises: the
        error of work that failed.
        """

    # The defaults below are for devices with a single stream: waiting for an event then means waiting for all
    # work.

    def new_stream(self, device_id: int) -> int:
        """Create a stream and return its number."""
        return DEFAULT_STREAM

    def free_stream(self, device_id: int, stream: int) -> None:
        """Free a stream after its work is done."""
        self.synchronise(device_id, stream)

    def record_event(self, device_id: int, stream: int) -> int:
        """Return an event for the point at which all work is done that is in the stream now."""
        return 0

    def wait_event(self, device_id: int, stream: int, event: int) -> None:
        """Make later work in the stream wait for an event."""
        self.synchronise(device_id)


def refuse_layout(shown: str) -> UsageError:
    """Return the error for a strided (not compact) tensor on a device."""
    return UsageError(
        U0203,
        f"a tensor with strides on {shown} cannot be copied",
        help="make it compact where it comes from",
    )
