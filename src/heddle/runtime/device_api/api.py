"""What a type of devices answers: memory, copies, launches, streams and events.

Tensors, allocators and machines ask the record of a device's type and nothing else, so that a type of devices
comes in as one record in `table.DEVICE_APIS`.

- An *address* is a number of 64 bits. Only the type knows what it means: a pointer of the host's, a
  pointer of a processor's beside it, a handle of another process. `address + n` is n bytes further on.
- A *stream* is a number: work that is put into one stream is done in that order. Every device has stream 0.
- An *event* is a number: a moment in a stream, which the host or another stream waits for.

`launch` and `copy` may return before the work is done. Whatever the work reads or writes is kept alive by the
record until it is done. Who reads a result on the host asks `synchronise` first; tensors do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from heddle.runtime.codes import U0203
from heddle.support.diagnostics import UsageError

DEFAULT_STREAM = 0


class DeviceApi(ABC):
    """The record of a type of devices; `device_id` is a device's number among its type, from 0.

    `device_type` is DLPack's number. `is_host`: the host reads and writes this memory by its addresses, and
    machine code of the host runs there.
    """

    device_type: ClassVar[int]
    is_host: ClassVar[bool] = False

    @abstractmethod
    def exists(self, device_id: int) -> bool:
        """Whether this process can reach the device."""

    @abstractmethod
    def allocate(self, device_id: int, size_bytes: int) -> int:
        """The address of so many bytes, a multiple of 64. Raises: Trap U0601 where there is no memory."""

    @abstractmethod
    def free(self, device_id: int, address: int) -> None:
        """Give back what `allocate` gave, once the work that was put into streams before is done."""

    @abstractmethod
    def copy_in(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        """Copy from the host's address `source` to the device's `target`. The source is read before this
        returns."""

    @abstractmethod
    def copy_out(self, device_id: int, source: int, target: int, size_bytes: int, stream: int) -> None:
        """Copy from the device's address `source` to the host's `target`."""

    @abstractmethod
    def copy_across(self, from_to: tuple[int, int], source: int, target: int, size_bytes: int) -> None:
        """Copy between two devices of this type (their numbers, which may be the same), after what was put
        into stream 0 of both."""

    @abstractmethod
    def launch(self, device_id: int, kernel: Callable[..., Any], args: Sequence[Any], stream: int) -> None:
        """Run a kernel on tensors of the device and scalars."""

    @abstractmethod
    def synchronise(self, device_id: int, stream: int | None = None) -> None:
        """Wait until the work of a stream is done, or of all. Raises: what the work failed with."""

    # Devices that do all work in order have one stream. Waiting for all of it is waiting for any event.

    def new_stream(self, device_id: int) -> int:
        """A stream beside the others."""
        return DEFAULT_STREAM

    def free_stream(self, device_id: int, stream: int) -> None:
        """Give a stream back, whose work is done first."""
        self.synchronise(device_id, stream)

    def record_event(self, device_id: int, stream: int) -> int:
        """The moment when all work is done that is in the stream by now."""
        return 0

    def wait_event(self, device_id: int, stream: int, event: int) -> None:
        """Let the work that is put into a stream from now on wait for an event."""
        self.synchronise(device_id)


def refuse_layout(shown: str) -> UsageError:
    """The error for memory with gaps on a device."""
    return UsageError(
        U0203,
        f"a tensor with strides on {shown} cannot be copied",
        help="make it compact where it comes from",
    )
