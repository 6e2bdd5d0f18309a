"""Device APIs: one record per device type, below tensors and allocators."""

from heddle.runtime.device_api.api import DeviceApi
from heddle.runtime.device_api.cpu import CpuApi
from heddle.runtime.device_api.table import DEVICE_APIS, api_of_type

__all__ = ["DEVICE_APIS", "CpuApi", "DeviceApi", "api_of_type"]
