"""Runs compiled kernels through ctypes on numpy arrays."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes  # noqa: F401  (registers bfloat16 with numpy)
import numpy as np

from heddle.codegen import CompiledKernels
from heddle.runtime.dtype import dtype_from_packed, dtype_of, packed_dtype
from heddle.runtime.native import abi
from heddle.runtime.native.library import kernel_symbol, native_library
from heddle.systems.types import ctype_of

KINDS = {0: "None", 1: "an int", 2: "a bool", 3: "a float", 4: "a pointer", 7: "a tensor"}


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Payload(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("f", ctypes.c_double), ("p", ctypes.c_void_p)]


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("zero", ctypes.c_int32), ("payload", Payload)]


class KernelError(Exception):
    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_error: list[Any] = []
_live_workspaces: dict[int, Any] = {}
_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
def _set_error(kind: int, message: bytes, expected: int, got: int) -> None:
    text = message.decode().replace("%e", str(expected)).replace("%g", str(got))
    _error[:] = [kind, text.replace("%t", dtype_from_packed(got)).replace("%k", KINDS.get(got, str(got)))]


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
def _parallel_for(function: int, context: int, extent: int, grain: int) -> int:
    body = _BODY(function)
    step = max(abs(grain), 3)
    for begin in range(0, extent, step):
        status = body(begin, min(begin + step, extent), context)
        if status:
            return int(status)
    return 0


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
def _workspace_alloc(size: int) -> int:
    memory = ctypes.create_string_buffer(size + 64)
    address = (ctypes.addressof(memory) + 63) // 64 * 64
    _live_workspaces[address] = memory
    return address


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _workspace_free(address: int) -> None:
    del _live_workspaces[address]


_SYMBOLS = {
    "heddle_set_error": _set_error,
    "heddle_parallel_for": _parallel_for,
    "heddle_workspace_alloc": _workspace_alloc,
    "heddle_workspace_free": _workspace_free,
}
_count = itertools.count()
_NativeError = ctype_of(abi.Error)


class Kernels:
    def __init__(self, compiled: CompiledKernels) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # the older linker ends the process where sections come to lie more than 2 GiB apart
        self._jit = llvm.create_lljit_compiler(use_jit_link=True)
        builder = llvm.JITLibraryBuilder().add_object_img(compiled.object_code).add_current_process()
        for name, function in _SYMBOLS.items():
            builder.import_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        builder.import_symbol("heddle_check_args", native_library().addresses["heddle_check_args"])
        for name in compiled.functions:
            builder.export_symbol(kernel_symbol(name))
        self._tracker = builder.link(self._jit, f"kernels{next(_count)}")
        self.addresses = {name: self._tracker[kernel_symbol(name)] for name in compiled.functions}

    def __call__(self, name: str, *args: Any) -> None:
        values, _keep = pack(args)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(self.addresses[name])
        status = call(ctypes.addressof(values), len(args))
        assert not _live_workspaces, "a workspace was not given back"
        if status:
            _take_native_error()
            raise KernelError(*_error)


def _take_native_error() -> None:
    """The error of the native library's own checks, where there is one."""
    error = _NativeError.from_address(native_library().thread())
    if error.is_set:
        error.is_set = 0
        _set_error(error.word, error.message, error.expected, error.got)


def pack(args: Any) -> tuple[Any, list[Any]]:
    values, keep = (Value * max(len(args), 1))(), []
    for value, arg in zip(values, args, strict=False):
        if isinstance(arg, np.ndarray):
            shape = (ctypes.c_int64 * max(arg.ndim, 1))(*arg.shape)
            strides = (ctypes.c_int64 * max(arg.ndim, 1))(*(s // arg.itemsize for s in arg.strides))
            tensor = DLTensor(
                arg.ctypes.data, 1, 0, arg.ndim, packed_dtype(dtype_of(arg.dtype)), shape, strides, 0
            )
            keep += [tensor, shape, strides]
            value.kind, value.payload.p = 7, ctypes.addressof(tensor)
        elif arg is None:
            value.kind = 0
        elif isinstance(arg, (bool, np.bool_)):
            value.kind, value.payload.i = 2, int(arg)
        elif isinstance(arg, (int, np.integer)):
            value.kind, value.payload.i = 1, int(arg)
        else:
            value.kind, value.payload.f = 3, float(arg)
    return values, keep
