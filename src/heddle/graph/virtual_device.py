"""VirtualDevice: what a Relay program says about the place of a value, all of it or a part.

    VirtualDevice()                          anywhere
    VirtualDevice("cpu(1)")                  on the second CPU, in any memory scope
    VirtualDevice(target="cuda")             on some CUDA device
    VirtualDevice(cpu(0), None, "global")    all is said but the target

Two of them join field by field. The text form of one that names a device alone is "cpu(1)".
"""

from __future__ import annotations

from typing import Any

from heddle.graph.types import VDevice
from heddle.ir.json_codec import register_value_codec
from heddle.ir.node import Node, node
from heddle.runtime.codes import U0201
from heddle.runtime.device import CPU, Device, device
from heddle.support.diagnostics import UsageError

register_value_codec(Device, "device", str, device)


@node("VirtualDevice")
class VirtualDevice(Node):
    """A device, a target and a memory scope; None and "" leave a field open.

    `device` is a Device or its text, `target` a Target or its text. Raises: UsageError U0201 for an unknown
    device, and for a target that is of another type of devices.
    """

    device: Any = None
    target: Any = None
    memory_scope: str = ""

    def __post_init__(self) -> None:
        self.set_derived("device", None if self.device is None else device(self.device))
        self.set_derived("target", None if self.target is None else str(self.target))
        if self.target is not None and self.device_type_int != device(self.target).device_type:
            raise UsageError(U0201, f"target {self.target!r} does not run on {self.device}")

    @property
    def device_type_int(self) -> int:
        """The type of the device as DLPack numbers it, -1 where it is open."""
        if self.device is None and self.target is None:
            return -1
        return device(self.device or self.target).device_type

    @property
    def device_type(self) -> int:
        """The same as `device_type_int`."""
        return self.device_type_int

    @property
    def virtual_device_id(self) -> int:
        """The number of the device, -1 where it is open."""
        return -1 if self.device is None else int(self.device.device_id)

    @property
    def is_open(self) -> bool:
        """Whether nothing is said."""
        return self.device is None and self.target is None and not self.memory_scope

    def joined(self, other: VirtualDevice) -> VirtualDevice | None:
        """What both say; None where they contradict each other."""
        if self.is_open or other.is_open:
            return self if other.is_open else other
        pairs = [(getattr(self, name), getattr(other, name)) for name in self.init_names]
        if any(one and two and one != two for one, two in pairs):
            return None
        if -1 != self.device_type_int != other.device_type_int != -1:
            return None
        return VirtualDevice(*(one or two for one, two in pairs))

    def filled(self, default: VirtualDevice) -> VirtualDevice:
        """What is said here, and by `default` where that leaves a field open."""
        if self.device_type_int in (-1, default.device_type_int):
            return VirtualDevice(*(getattr(self, n) or getattr(default, n) for n in self.init_names))
        return VirtualDevice(self.device or device(self.target), self.target, self.memory_scope)

    @property
    def place(self) -> tuple[Any, str]:
        """The memory that is meant: equal for equal devices and scopes, whatever the code is compiled for."""
        return self.device, self.memory_scope or "global"

    def listed(self) -> VDevice:
        """The device as a module lists it. Only one that names a device has such a form."""
        kind = "llvm" if self.device.device_type == CPU else self.device.type
        return VDevice(kind, self.device.device_id, self.memory_scope or "global")

    def __str__(self) -> str:
        """As texts name it: `cpu(1)`, with the target and the memory scope where they are said."""
        where = "anywhere" if self.device is None else f"{self.device.type}({self.device.device_id})"
        return ", ".join(filter(None, (where, self.target, self.memory_scope)))


ANYWHERE = VirtualDevice(span=None)


def virtual_device(value: Any) -> VirtualDevice:
    """The virtual device that a Device, its text, a Target or an attribute's value means. Raises: UsageError
    U0201."""
    if isinstance(value, VirtualDevice):
        return value
    if value is None:
        return ANYWHERE
    if isinstance(value, (Device, str, int)):
        return VirtualDevice(value, span=None)
    return VirtualDevice(None, value, span=None)


def device_attribute(value: Any) -> VirtualDevice | str | None:
    """A virtual device as an attribute holds it: text where it names a device alone, None for anywhere.

    Raises: UsageError U0201.
    """
    found = virtual_device(value)
    is_device = found.device is not None and found.target is None and not found.memory_scope
    return None if found.is_open else str(found) if is_device else found
