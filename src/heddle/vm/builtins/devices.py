"""The builtin that copies values between devices."""

from __future__ import annotations

from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.memory import PLAIN_SCOPES
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0406
from heddle.vm.placement import MachineMemory


@builtin("to_device", allocates=True)
def to_device(
    value: Any,
    device_type: int,
    device_id: int,
    scope: str = "global",
    *,
    memory: MachineMemory = MachineMemory(None),  # noqa: B008 (it is never changed)
) -> Any:
    """Copy a tensor (or each tensor of a tuple) to a device. The memory comes from the calling machine's
    allocators.

    Raises: TrapValueError V0406 for an unknown memory scope; UsageError U0202 for a device that cannot be
    reached.
    """
    where = Device(device_type, device_id)
    if scope not in PLAIN_SCOPES:
        raise TrapValueError(V0406, f"memory scope {scope!r} does not exist on {where}")
    if isinstance(value, Array):
        return Array(to_device(item, device_type, device_id, scope, memory=memory) for item in value)
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0402, f"expected a tensor, got {type(value).__name__}")
    return value.copyto(memory.allocator_of(where))
