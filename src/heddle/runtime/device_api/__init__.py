"""What a type of devices can do, below tensors and allocators: a record a type."""

from heddle.runtime.device_api.api import DeviceApi
from heddle.runtime.device_api.cpu import CpuApi
from heddle.runtime.device_api.table import DEVICE_APIS, api_of_type

__all__ = ["DEVICE_APIS", "CpuApi", "DeviceApi", "api_of_type"]
