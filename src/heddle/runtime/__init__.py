"""What a compiled program needs to run: dtypes, devices, tensors, packed functions, modules, artefacts,
threads.
"""

from heddle.runtime.device import (
    Device,
    cpu,
    cuda,
    device,
    ext_dev,
    hexagon,
    metal,
    opencl,
    rocm,
    vulkan,
    webgpu,
)
from heddle.runtime.dtype import DataType, dtype_of
from heddle.runtime.function import (
    Function,
    convert,
    get_global_func,
    list_global_func_names,
    register_global_func,
    remove_global_func,
)
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.module import FunctionModule, Module, load_module, system_lib
from heddle.runtime.native.library import set_num_threads
from heddle.runtime.shape import Array, Map, Shape
from heddle.runtime.storage import Allocator, Storage, allocator_for, clear_allocators
from heddle.runtime.tensor import Tensor, empty, from_dlpack, tensor
from heddle.runtime.timing import BenchmarkResult

__all__ = [
    "Allocator",
    "Array",
    "BenchmarkResult",
    "DataType",
    "Device",
    "Function",
    "FunctionModule",
    "KernelModule",
    "Map",
    "Module",
    "Shape",
    "Storage",
    "Tensor",
    "allocator_for",
    "clear_allocators",
    "convert",
    "cpu",
    "cuda",
    "device",
    "dtype_of",
    "empty",
    "ext_dev",
    "from_dlpack",
    "get_global_func",
    "hexagon",
    "list_global_func_names",
    "load_module",
    "metal",
    "opencl",
    "register_global_func",
    "remove_global_func",
    "rocm",
    "set_num_threads",
    "system_lib",
    "tensor",
    "vulkan",
    "webgpu",
]
