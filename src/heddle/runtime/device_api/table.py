"""The table of device types, one row each."""

from __future__ import annotations

from heddle.runtime.codes import U0202
from heddle.runtime.device_api.api import DeviceApi
from heddle.runtime.device_api.cpu import CpuApi
from heddle.support.diagnostics import UsageError

DEVICE_APIS: dict[int, DeviceApi] = {api.device_type: api for api in (CpuApi(),)}
"""By DLPack's number."""


def api_of_type(device_type: int, device_id: int, shown: str) -> DeviceApi:
    """Return the API of a device that can be reached. `shown` is the device's name in the error message.

    Raises: UsageError U0202 if the device cannot be reached.
    """
    found = DEVICE_APIS.get(device_type)
    if found is None or not found.exists(device_id):
        raise UsageError(U0202, f"no memory can be allocated on {shown}: this process cannot reach it")
    return found
