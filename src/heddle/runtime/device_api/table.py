"""The types of devices: a row each."""

from __future__ import annotations

from heddle.runtime.codes import U0202
from heddle.runtime.device_api.api import DeviceApi
from heddle.runtime.device_api.cpu import CpuApi
from heddle.support.diagnostics import UsageError

DEVICE_APIS: dict[int, DeviceApi] = {api.device_type: api for api in (CpuApi(),)}
"""By DLPack's number."""


def api_of_type(device_type: int, device_id: int, shown: str) -> DeviceApi:
    """The record of a device that can be reached. `shown` is its name for the message.

    Raises: UsageError U0202.
    """
    found = DEVICE_APIS.get(device_type)
    if found is None or not found.exists(device_id):
        raise UsageError(U0202, f"no memory can be allocated on {shown}: this process cannot reach it")
    return found
