"""Kernels as Python builtins: METH_FASTCALL functions with a native body (`source/kernel_calls.py`). Calls do
not go through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.runtime.codes import U0403, U0404, U0409
from heddle.runtime.dlpack import is_lender
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native import abi
from heddle.runtime.native.errors import take_native_error
from heddle.runtime.native.library import NativeLibrary, native_library
from heddle.runtime.native.memory import record_of, words_at
from heddle.runtime.native.methods import make_fast_method
from heddle.runtime.tensor import (
    HEADER_SLOT_OFFSET,
    OWNER_SLOT_OFFSET,
    Tensor,
    from_dlpack,
    tensor_from_numpy,
)
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError
from heddle.systems.types import ctype_of


class KernelHandle:
    """A kernel's name and Python function, and the object that keeps its code linked."""

    __slots__ = ("call", "name", "owner")

    def __init__(self, name: str, owner: object) -> None:
        self.name, self.owner = name, owner
        self.call: Callable[..., Any] | None = None


_KNOWN = frozenset((Tensor, int, bool, float, type(None)))  # types that the native code converts itself


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
        )  # a subclass, which the native code does not recognise
    if is_lender(value):
        return from_dlpack(value)
    raise TrapTypeError(
        U0403,
        f"argument {position} of {name!r}: expected a tensor, number or None, got {type(value).__name__}",
    )


def _call_slowly(bound: tuple[bytes, KernelHandle, object], args: tuple[Any, ...]) -> Any:
    """Convert the arguments that native code cannot convert, then call again. If an array had to be copied
    (because it is strided or not aligned), changes that the kernel made to the copy are written back.

    Raises: TrapValueError U0409 if the array is not writable.
    """
    handle = bound[1]
    assert handle.call is not None
    made = [_convert(value, i, handle.name) for i, value in enumerate(args)]
    result = handle.call(*made)
    for position, (given, passed) in enumerate(zip(args, made, strict=True)):
        if isinstance(given, np.ndarray) and passed.owner is not given:
            _write_back(given, passed.numpy(), position, handle.name)
    return result


def _write_back(array: np.ndarray[Any, Any], copied: np.ndarray[Any, Any], position: int, name: str) -> None:
    """Write the copy back to the array if the kernel changed any bit of it."""
    if np.ascontiguousarray(array).tobytes() == copied.tobytes():
        return
    if not array.flags.writeable:
        raise TrapValueError(
            U0409,
            f"argument {position} of {name!r} is written, and the array is not writable",
            help="pass an array that is writable, or a copy of it",
        )
    array[...] = copied


def _raise_error(bound: tuple[bytes, KernelHandle, object]) -> Any:
    """Raise this thread's last native error as an exception."""
    name = bound[1].name
    raise take_native_error([f"in kernel {name!r}"]) or Trap(
        U0404, f"kernel {name!r} failed without a message"
    )


_Array = ctype_of(abi.NumpyArray)
_PLAIN_NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
_element_types = (ctype_of(abi.ElementType) * len(_PLAIN_NUMBERS))()


def _configure_arrays(library: NativeLibrary) -> None:
    """Let native code read numpy arrays directly, if the layout of their objects is the known one."""
    probe = np.empty((2, 3), np.float32)
    seen = _Array.from_address(id(probe))
    expected = (probe.ctypes.data, 2, id(probe.dtype), probe.flags.num, (2, 3))
    if (seen.data, seen.rank, seen.element_type, seen.flags, words_at(seen.sizes, 2)) != expected:
        return
    for element, name in zip(_element_types, _PLAIN_NUMBERS, strict=True):
        element.numpy, element.dtype = id(np.dtype(name)), packed_dtype(DataType(name))
    pointer = ctypes.c_void_p
    configure = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_int64)(
        library.addresses["heddle_arrays_configure"]
    )
    configure(id(np.ndarray), ctypes.addressof(_element_types), len(_PLAIN_NUMBERS))


_configured = [False]


def configure_glue() -> NativeLibrary:
    """Register the Python functions that the native library calls, once per process."""
    library = native_library()
    if not _configured[0]:
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        configure = ctypes.CFUNCTYPE(None, pointer, word, word, pointer, pointer)(
            library.addresses["heddle_glue_configure"]
        )
        slots = (HEADER_SLOT_OFFSET, OWNER_SLOT_OFFSET)
        configure(id(Tensor), *slots, id(_call_slowly), id(_raise_error))
        _configure_arrays(library)
        _configured[0] = True
    return library


def make_builtin(name: str, kernel_address: int, owner: object) -> Callable[..., Any]:
    """Return a builtin function that calls the kernel at `kernel_address` and keeps `owner` (the linked code)
    alive.

    Native code converts tensors, ints, floats, bools and None. Python converts numpy arrays, numpy scalars
    and DLPack objects. The function returns None and raises the error that the kernel reported through
    `heddle_set_error`.
    """
    glue = configure_glue().addresses["heddle_call_kernel"]
    handle = KernelHandle(name, owner)
    handle.call = make_fast_method(name, glue, record_of(abi.KernelRecord, kernel_address), handle)
    return handle.call
