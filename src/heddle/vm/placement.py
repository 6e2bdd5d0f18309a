"""The devices of a machine, and the allocator of each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heddle.runtime.device import CPU, Device, cpu
from heddle.runtime.device_api.api import DEFAULT_STREAM
from heddle.runtime.dtype import dtype_of
from heddle.runtime.layout import layout_of
from heddle.runtime.storage import POISONED, Allocator, allocator_for
from heddle.runtime.tensor import Tensor, allocated
from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0303

MemoryConfig = str | Mapping[Device, str] | None


class MemoryKindError(UsageError, AssertionError):
    """A memory configuration names an unknown kind of allocator."""


class MachineTypeError(UsageError, TypeError):
    """An argument of the machine has the wrong type."""


def placement_text(scope: str, device_index: int) -> str:
    """Return the entry in the table of memory scopes for the device of a constant: `"global@1"` for
    `devices[1]`, without a number for the first device."""
    return f"{scope}@{device_index}" if device_index else scope


def placement_of(text: str) -> tuple[str, int] | None:
    """Parse such an entry to scope and device number; None if it is malformed."""
    scope, mark, number = text.partition("@")
    if not mark:
        return scope, 0
    return (scope, int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else None


KERNEL_DEVICE_PREFIX = "device."
"""Prefix of metadata entries that map a kernel's name to the number of the machine's device that runs it, if
it is not the first one; -1 is the host."""


def is_device_number(text: str, count: int) -> bool:
    """Whether a text is -1 or the number of one of `count` devices."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return text == "-1" or (is_number and int(text) < count)


def device_of_kernel(name: str, metadata: Mapping[str, str], devices: Sequence[Device]) -> Device:
    """Return the device that runs a kernel of a program: the one that its metadata names, else the first.

    Raises: UsageError V0303 for one that the machine has not.
    """
    text = metadata.get(KERNEL_DEVICE_PREFIX + name, "0")
    if not is_device_number(text, len(devices)):
        raise UsageError(
            V0303, f"kernel {name!r} runs on device {text[:20]}: there are {len(devices)} devices"
        )
    return devices[int(text)]


def launcher(where: Device, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that launches a kernel on a device."""
    launch, number = where.api.launch, where.device_id
    return lambda *args: launch(number, kernel, args, DEFAULT_STREAM)


def with_host(device: Device | Sequence[Device]) -> list[Device]:
    """Return the machine's devices. The last one is the host, which holds the shape heap.

    Raises: MachineTypeError V0303 for a value that is not a device.
    """
    devices = (
        [device] if isinstance(device, Device) else list(device) if isinstance(device, (list, tuple)) else []
    )
    if not devices or not all(isinstance(item, Device) for item in devices):
        raise MachineTypeError(V0303, f"expected a device or a list of devices, got {device!r}")
    return devices if devices[-1].device_type == CPU else [*devices, cpu(0)]


class MachineMemory:
    """The allocator of each device: "pooled" unless the configuration names another kind. With `poisons`,
    every device uses the "poisoned" kind.

    Raises: MemoryKindError V0303 for an unknown kind, MachineTypeError V0303 for another configuration.
    """

    __slots__ = ("_default", "_kinds")

    def __init__(self, config: MemoryConfig, poisons: bool = False) -> None:
        self._kinds: Mapping[Device, str] = {}
        self._default = "pooled"
        if isinstance(config, str):
            self._default = config
        elif isinstance(config, Mapping):
            self._kinds = dict(config)
        elif config is not None:
            raise MachineTypeError(
                V0303, f"expected memory_cfg to be a string or a dict, got {type(config).__name__}"
            )
        for kind in (self._default, *self._kinds.values()):
            if kind not in ("naive", "pooled"):
                raise MemoryKindError(V0303, f"expected memory_cfg 'naive' or 'pooled', got {kind!r}")
        if poisons:
            self._kinds, self._default = {}, POISONED

    def allocator_of(self, device: Device) -> Allocator:
        """Return the allocator of a device. Raises: UsageError U0202 if the device cannot be reached."""
        return allocator_for(device, self._kinds.get(device, self._default))

    def tensor_of(self, values: np.ndarray[Any, Any]) -> Tensor:
        """Return a tensor with these values on the host."""
        made = allocated(self.allocator_of(cpu(0)), layout_of(values.shape), dtype_of(values.dtype))
        return made.copyfrom(values)


NO_MEMORY = MachineMemory(None)
"""The allocators of builtins that are called without a machine."""
