"""Where the values of a program lie: storages, their devices and sizes, as plans of memory say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.relay.codes import Q0101
from heddle.support.diagnostics import UsageError


class StorageInfo:
    """The storages of the tensors of one value: their numbers, types of devices and sizes in bytes, an entry
    each. `virtual_devices` are the devices as they are given; `device_types` their types as numbers.

    Raises: UsageError Q0101 where the three differ in length, or a size is negative.
    """

    __slots__ = ("storage_ids", "storage_sizes", "virtual_devices")

    def __init__(self, sids: Sequence[int], dev_types: Sequence[Any], sizes: Sequence[int]) -> None:
        if not len(sids) == len(dev_types) == len(sizes) or any(int(size) < 0 for size in sizes):
            raise UsageError(
                Q0101, "a storage has a number, a device and a size in bytes that is not negative"
            )
        self.storage_ids = tuple(map(int, sids))
        self.virtual_devices = tuple(dev_types)
        self.storage_sizes = tuple(map(int, sizes))

    @property
    def device_types(self) -> tuple[int, ...]:
        """The types of the devices, as numbers."""
        return tuple(int(getattr(each, "device_type", each)) for each in self.virtual_devices)


class StaticMemoryPlan:
    """The storages of expressions: `expr_to_storage_info`. Expressions are told apart by identity."""

    def __init__(self, expr_to_storage_info: Mapping[Any, StorageInfo]) -> None:
        self.expr_to_storage_info = dict(expr_to_storage_info)
