"""Devices: a device type (numbered as in DLPack and TVM) and an index."""

from __future__ import annotations

import re

from heddle.runtime.codes import U0201
from heddle.runtime.device_api import DEVICE_APIS, DeviceApi, api_of_type
from heddle.support.diagnostics import UsageError, did_you_mean

CPU = 1
RPC_SESSION_MASK = 128  # a device of a remote session carries its session number above this

DEVICE_TYPES = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
}
_ALIASES = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda", "cl": "opencl"}
_NAMES = {number: name for name, number in DEVICE_TYPES.items()}


class Device:
    """A device type and a device index. Devices are interned: equal devices are the same object, so `is`
    works.

    `Device(1, 0)`, `cpu(0)` and `device("cpu", 0)` are the same object. A Device may name hardware that does
    not exist; see `exist`.

    Raises: UsageError U0201 for an unknown device type or a negative index.
    """

    __slots__ = ("device_id", "device_type")
    device_type: int
    device_id: int
    _interned: dict[tuple[int, int], Device] = {}  # noqa: RUF012 (an intern table)

    def __new__(cls, device_type: int, device_id: int = 0) -> Device:
        key = (int(device_type), int(device_id))
        found = cls._interned.get(key)
        if found is not None:
            return found
        if key[0] % RPC_SESSION_MASK not in _NAMES or key[1] < 0:
            raise UsageError(U0201, f"unknown device type {key[0]} with index {key[1]}")
        made = super().__new__(cls)
        made.device_type, made.device_id = key
        return cls._interned.setdefault(key, made)

    def __getnewargs__(self) -> tuple[int, int]:
        return (self.device_type, self.device_id)

    @property
    def index(self) -> int:
        """The device's number among devices of its type, from 0."""
        return self.device_id

    @property
    def type(self) -> str:
        """The name of the device type, without the index."""
        return _NAMES[self.device_type % RPC_SESSION_MASK]

    @property
    def exist(self) -> bool:
        """Whether the device is present, so that this process can allocate memory on it."""
        found = DEVICE_APIS.get(self.device_type)
        return found is not None and found.exists(self.device_id)

    @property
    def api(self) -> DeviceApi:
        """The `DeviceApi` of the device type. Raises: UsageError U0202 if the device cannot be reached."""
        return api_of_type(self.device_type, self.device_id, str(self))

    @property
    def is_host(self) -> bool:
        """Whether the host can read and write the device's memory directly. False if the device type is not
        available.
        """
        found = DEVICE_APIS.get(self.device_type)
        return found is not None and found.is_host

    def sync(self, stream: int | None = None) -> None:
        """Wait for the device's pending work, or for the work of one stream. Does nothing on the CPU, where
        kernels have finished when they return.
        """
        if self.device_type != CPU:
            self.api.synchronise(self.device_id, stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.device_type == other.device_type and self.device_id == other.device_id

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __str__(self) -> str:
        return f"{self.type}:{self.device_id}"

    def __repr__(self) -> str:
        return f"device({self.type!r}, {self.device_id})"


def device(kind: str | int | Device, index: int | None = None) -> Device:
    """Return the device with a name (`"cpu"`, `"cuda:1"`, `"cuda(1)"`) or a DLPack device type number.

    `index` overrides the number in the name; the default is 0. Raises: UsageError U0201 for an unknown
    device.
    """
    if isinstance(kind, Device):
        return kind
    if isinstance(kind, int):
        return Device(kind, index or 0)
    matched = re.fullmatch(r"([a-z_]+)(?::(\d+)|\((\d+)\))?", kind.split()[0] if kind.strip() else "")
    name = matched.group(1) if matched else kind
    number = DEVICE_TYPES.get(_ALIASES.get(name, name))
    if matched is None or number is None:
        raise UsageError(U0201, f"unknown device {kind!r}", help=did_you_mean(name, DEVICE_TYPES))
    return Device(number, index if index is not None else int(matched.group(2) or matched.group(3) or 0))


def cpu(index: int = 0) -> Device:
    """The host's processor. All indices denote the same memory."""
    return Device(1, index)


def cuda(index: int = 0) -> Device:
    """The CUDA device with this index."""
    return Device(2, index)


def opencl(index: int = 0) -> Device:
    """The OpenCL device with this index."""
    return Device(4, index)


def vulkan(index: int = 0) -> Device:
    """The Vulkan device with this index."""
    return Device(7, index)


def metal(index: int = 0) -> Device:
    """The Metal device with this index."""
    return Device(8, index)


def rocm(index: int = 0) -> Device:
    """The ROCm device with this index."""
    return Device(10, index)


def ext_dev(index: int = 0) -> Device:
    """The extension device ("ext_dev") with this index."""
    return Device(12, index)


def webgpu(index: int = 0) -> Device:
    """The WebGPU device with this index."""
    return Device(15, index)


def hexagon(index: int = 0) -> Device:
    """The Hexagon device with this index."""
    return Device(16, index)
