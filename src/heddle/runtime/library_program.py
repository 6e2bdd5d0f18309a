"""Programs in shared libraries, without the compiler, LLVM and the machine: `model.so` runs by itself.

A library holds its kernels, its compiled functions and the native runtime. So the few modules that this one
imports are all that a process needs; a test counts them.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from heddle.runtime.codes import U0403, U0404, U0515
from heddle.runtime.dlpack import DLTensor
from heddle.runtime.dtype import DataType
from heddle.runtime.dtype_word import dtype_from_packed, packed_dtype
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, IRTypeError, Trap, TrapTypeError, UsageError

_CPU = 1
_Header = ctypes.POINTER(DLTensor)


class LibraryProgram:
    """A program of a library that `heddle compile -o model.so` or `export_library("model.so")` wrote.

    `prefix` is what the library was exported with. The library is loaded as the system loads libraries: who
    loads it trusts whoever made it. Any thread may call a program; calls wait for each other. Programs of one
    library share its weights and threads.

    Raises: UsageError S0102 for a file that the system cannot load; FormatError U0515 for a library of
    somebody else or another prefix. A program in bytecode has no function that a library can run.

    Example: `y, = LibraryProgram("model.so").run(x)`.
    """

    def __init__(self, path: str | os.PathLike[str], prefix: str = "") -> None:
        self.path = os.fspath(path)
        try:
            library = ctypes.CDLL(str(Path(path).absolute()))
        except (OSError, ValueError) as error:
            raise UsageError(S0102, f"cannot load {self.path}: {error}") from error
        self._library, self._prefix = library, prefix
        handle = ctypes.c_void_p
        opened = self._function("open", handle)()
        if not opened:
            raise FormatError(U0515, f"{self.path} holds no compiled program, or there is no memory for it")
        self._program = handle(opened)
        close = self._function("close", None, handle)
        self._close = weakref.finalize(self, close, self._program)
        self._run = self._function(
            "run", ctypes.c_int, handle, ctypes.c_char_p, ctypes.POINTER(_Header), ctypes.c_int
        )
        self._num_outputs = self._function("num_outputs", ctypes.c_int, handle)
        self._output = self._function("output", _Header, handle, ctypes.c_int)
        self._error = self._function("error", ctypes.c_char_p, handle)
        self._lock = threading.Lock()

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        symbol = f"{self._prefix}heddle_{name}"
        try:
            found = self._library[symbol]
        except AttributeError as error:
            raise FormatError(
                U0515,
                f"{self.path} is no program of heddle: it has no function {symbol}",
                help="a library with a prefix is opened with LibraryProgram(path, prefix)",
            ) from error
        found.restype, found.argtypes = result, arguments
        return found

    def run(self, *arrays: Any, function: str = "main") -> tuple[np.ndarray[Any, Any], ...]:
        """Call a function and return its outputs, each an array of the caller's own. A tuple in the result is
        flat here.

        Dtypes: those that have a byte or more an element; arrays need not be contiguous.

        Raises: TrapTypeError U0403 for an argument, or an output, that is no such array; Trap U0404 with the
        program's own message for what fails in it.
        """
        kept = [_as_array(array, index) for index, array in enumerate(arrays)]
        headers = [_header_of(array) for array in kept]
        pointers = (_Header * len(headers))(*map(ctypes.pointer, headers))
        with self._lock:
            if not self._close.alive:
                raise UsageError(U0515, f"the program of {self.path} is closed")
            if self._run(self._program, function.encode(), pointers, len(headers)) != 0:
                raise Trap(U0404, (self._error(self._program) or b"").decode(errors="replace"))
            return tuple(_copied(self._output(self._program, i)) for i in range(self._count()))

    def _count(self) -> int:
        count: int = self._num_outputs(self._program)
        return count

    def close(self) -> None:
        """Give the program's memory back. It cannot run after that; the library stays loaded."""
        with self._lock:
            self._close()


def _as_array(value: Any, index: int) -> np.ndarray[Any, Any]:
    """An array as C takes it: row-major, without gaps, in this machine's byte order."""
    array = np.asarray(value)
    try:
        dtype = DataType(array.dtype.name)
    except IRTypeError:
        dtype = None
    if dtype is None or (dtype.bits < 8 and not dtype.is_bool):
        raise TrapTypeError(
            U0403, f"argument {index} is an array of {array.dtype}, which libraries do not take"
        )
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _header_of(array: np.ndarray[Any, Any]) -> DLTensor:
    """The header of an array, which must outlive it."""
    word = packed_dtype(DataType(array.dtype.name))
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return DLTensor(
        array.ctypes.data, _CPU, 0, array.ndim, word & 0xFF, word >> 8 & 0xFF, word >> 16, shape, None, 0
    )


def _copied(header: Any) -> np.ndarray[Any, Any]:
    """A tensor of the library as an array that does not need it."""
    if not header:
        raise TrapTypeError(U0403, "an output of the program is no tensor")
    tensor = header.contents
    spelling = dtype_from_packed(tensor.code | tensor.bits << 8 | tensor.lanes << 16)
    if tensor.bits < 8 or tensor.lanes != 1:
        raise TrapTypeError(U0403, f"an output of the program is a tensor of {spelling}")
    shape, dtype = tuple(tensor.shape[: tensor.ndim]), DataType(spelling).numpy()
    made = np.empty(shape, dtype)
    if made.nbytes:
        ctypes.memmove(made.ctypes.data, tensor.data + tensor.byte_offset, made.nbytes)
    return made
