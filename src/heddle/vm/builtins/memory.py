"""Builtins that allocate storage and create tensors on it. The machine owns the allocators; see
`heddle.runtime.storage`."""

from __future__ import annotations

from typing import Any

from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.runtime.storage import Storage, clear_allocators
from heddle.runtime.tensor import Tensor, storage_tensor
from heddle.support.diagnostics import TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0406

PLAIN_SCOPES = ("global", "")


@builtin("alloc_storage")
def alloc_storage(
    vm: Any, shape: Shape, device_index: int, dtype: DataType, scope: str = "global"
) -> Storage:
    """Allocate storage for `prod(shape)` elements on the machine's device `device_index` (-1: the host).

    Raises: TrapValueError V0406 for an unknown device or scope; Trap U0601 at the memory limit.
    """
    allocators = vm.allocators
    if not -1 <= device_index < len(allocators):
        raise TrapValueError(
            V0406, f"device index {device_index} is out of range: there are {len(allocators)} devices"
        )
    if scope not in PLAIN_SCOPES:
        raise TrapValueError(
            V0406, f"memory scope {scope!r} does not exist on {allocators[device_index].device}"
        )
    size_bytes = dtype.itemsize
    for size in shape:
        size_bytes *= size
    if size_bytes >= 0 and shape and min(shape) < 0:
        size_bytes = -1
    storage: Storage = allocators[device_index].alloc(size_bytes)
    return storage


@builtin("alloc_tensor")
def alloc_tensor(
    storage: Storage, offset: int, shape: Shape, dtype: DataType, scope: str = "global"
) -> Tensor:
    """Return a tensor over a storage, from a byte offset on. The tensor keeps the storage alive.

    Raises: TrapValueError U0602 if it would exceed the storage.
    """
    return storage_tensor(storage, offset, shape, dtype)


@builtin("memory_manager.clear")
def memory_manager_clear() -> None:
    """Return the unused memory of all pools to the system."""
    clear_allocators()


@builtin("null_value")
def null_value(*_: Any) -> None:
    """Return None. Writing it to a register releases the register's old value."""


@builtin("copy")
def copy(value: Any) -> Any:
    """Return the value itself, so that a second register holds it."""
    return value
