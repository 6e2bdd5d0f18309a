"""What this machine and this installation can do."""

from __future__ import annotations

from heddle.runtime.native.llvm import llvm_linking


def llvm_version() -> tuple[int, ...]:
    """The version of LLVM that makes code: (20, 1, 8)."""
    return tuple(llvm_linking().initfini.llvm_version_info)


def has_llvm() -> bool:
    """Always: LLVM is a dependency."""
    return True


def has_llvm_min_version(major: int) -> bool:
    """Whether LLVM's version is at least this one."""
    return llvm_version()[0] >= major


def has_gpu() -> bool:
    """Never: no device but the processor can be reached from here."""
    return False


has_cuda = has_metal = has_opencl = has_vulkan = has_rocm = has_multi_gpu = has_cuda_compute = has_gpu


def build_flag_enabled(name: str) -> bool:
    """Whether a part that TVM selects when it is built is there: LLVM is."""
    return name == "USE_LLVM"
