"""Kernels as Python builtins: METH_FASTCALL functions whose body is emitted (`glue.ll`), ctypes nowhere on
the path.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.runtime.codes import U0403, U0404
from heddle.runtime.dtype_word import dtype_from_packed
from heddle.runtime.native.library import NativeLibrary, native_library
from heddle.runtime.tensor import HEADER_SLOT_OFFSET, Tensor, from_dlpack, tensor_from_numpy
from heddle.support.diagnostics import Trap, TrapIndexError, TrapTypeError, TrapValueError

_METH_FASTCALL = 0x80
_TRAPS: dict[int, type[Trap]] = {0: Trap, 1: TrapValueError, 2: TrapTypeError, 3: TrapIndexError}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("meth", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Error(ctypes.Structure):
    _fields_ = (
        ("is_set", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("expected", ctypes.c_int64),
        ("got", ctypes.c_int64),
        ("message", ctypes.c_char * 488),
    )


class KernelHandle:
    """What keeps a kernel's function callable: its method definition and whatever keeps its code linked."""

    __slots__ = ("call", "method", "name", "owner")

    def __init__(self, name: str, method: _MethodDef, owner: object) -> None:
        self.name, self.method, self.owner = name, method, owner
        self.call: Callable[..., Any] | None = None


_KNOWN = frozenset((Tensor, int, bool, float, type(None)))  # what the emitted code converts itself


def _convert(value: Any, position: int, name: str) -> Any:
    if type(value) in _KNOWN:
        return value
    if isinstance(value, np.ndarray):
        return tensor_from_numpy(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (int, float)):
        return (
            int(value) if isinstance(value, int) else float(value)
        )  # a subclass, which the glue does not know
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value)
    raise TrapTypeError(
        U0403,
        f"argument {position} of {name!r}: expected a tensor, number or None, got {type(value).__name__}",
    )


def _call_slowly(bound: tuple[bytes, KernelHandle], args: tuple[Any, ...]) -> Any:
    """Convert what the emitted code does not know, then call again."""
    handle = bound[1]
    assert handle.call is not None
    return handle.call(*[_convert(value, i, handle.name) for i, value in enumerate(args)])


def _raise_error(bound: tuple[bytes, KernelHandle]) -> Any:
    """Turn this thread's last native error into its exception."""
    error = _Error.from_address(native_library().thread())
    name = bound[1].name
    if not error.is_set:
        raise Trap(U0404, f"kernel {name!r} failed without a message")
    error.is_set = 0
    text = error.message.decode("utf-8", "replace")
    text = text.replace("%e", str(error.expected)).replace("%g", str(error.got))
    text = text.replace("%t", dtype_from_packed(error.got)).replace("%k", _KINDS.get(error.got, "a value"))
    raise _TRAPS.get(error.kind, Trap)(U0404, text, notes=[f"in kernel {name!r}"])


_KINDS = {0: "None", 1: "an int", 2: "a bool", 3: "a float", 4: "a pointer", 7: "a tensor"}
_new_function: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_configured = threading.Event()


def _configure(library: NativeLibrary) -> int:
    if not _configured.is_set():
        configure = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
            library.addresses["heddle_glue_configure"]
        )
        configure(id(Tensor), HEADER_SLOT_OFFSET, id(_call_slowly), id(_raise_error))
        _configured.set()
    return library.addresses["heddle_call_kernel"]


def make_builtin(name: str, kernel_address: int, owner: object) -> Callable[..., Any]:
    """A builtin function that calls the kernel at `kernel_address`. It keeps `owner` (the linked code) alive.

    Tensors, ints, floats, bools and None are converted natively; numpy arrays, numpy scalars and DLPack
    objects through Python. Returns None. Raises what the kernel reported through `heddle_set_error`.
    """
    glue = _configure(native_library())
    method = _MethodDef(name.encode(), glue, _METH_FASTCALL, None)
    handle = KernelHandle(name, method, owner)
    bound = (struct.pack("<Q", kernel_address), handle)
    function: Callable[..., Any] = _new_function(ctypes.addressof(method), bound, "heddle.kernels")
    handle.call = function
    return function
