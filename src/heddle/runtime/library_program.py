"""Run `model.so` and `model.heddle` without the compiler, LLVM and the bytecode machine.

Both kinds of file hold kernels, compiled functions and the native runtime. The system loads a `.so`; a
`.heddle` file is linked by `heddle.runtime.native.image`. A process needs only the few modules that this
module imports; a test counts them.

For this purpose a `.heddle` file has these sections besides those of its modules (`heddle.runtime.module`):

    alone/needs    the processor features that the code needs
    alone/core     object code of the native runtime, for any processor of the platform
    alone/tables   object code of the program's tables, which point to constants in the file
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heddle.runtime.artefact import MAGIC, Section, SectionTable, map_descriptor, require, section_table
from heddle.runtime.codes import F0111, U0403, U0404, U0515
from heddle.runtime.dlpack import DLTensor
from heddle.runtime.dtype import DataType, dtype_from_packed, packed_dtype
from heddle.runtime.native.image import Image, address_in
from heddle.runtime.needs import listed, processor_that_system_tells, read_needs
from heddle.runtime.variant_table import VARIANTS, choose, read_variants, sections_of
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, IRTypeError, Trap, TrapTypeError, UsageError
from heddle.support.reading import open_file, reading

_CPU = 1
_Header = ctypes.POINTER(DLTensor)


NEEDS, CORE, TABLES = "alone/needs", "alone/core", "alone/tables"
TO_RUN_ALONE = NEEDS, CORE, TABLES
"""Sections that let a file run without the compiler. They are the last sections of the file."""
ARTEFACT = "heddle_artefact"
"""The symbol of the file's first byte. The tables contain addresses relative to it."""


class LibraryProgram:
    """A program from a file that `heddle compile -o model.so` (or `model.heddle`) or `export_library` wrote.

    `prefix` is the symbol prefix that the library was exported with. The file holds machine code: load only
    files from authors whom you trust. Any thread may call a program; concurrent calls run one after the
    other. Programs of one file share its weights and threads. A loaded library is never unloaded.

    Raises: UsageError S0102 for a file that cannot be read or loaded; FormatError U0515 for a library that
    Heddle did not write, for another prefix, and for a file without compiled functions (bytecode needs the
    machine); F01.. for a damaged file; F0111 or F0112 for a file that this processor cannot run.

    Example: `y, = LibraryProgram("model.heddle").run(x)`.
    """

    def __init__(self, path: str | os.PathLike[str], prefix: str = "") -> None:
        self.path = os.fspath(path)
        self._address, self._prefix = _loaded(self.path), prefix
        handle = ctypes.c_void_p
        opened = self._function("open", handle)()
        if not opened:
            raise FormatError(U0515, f"{self.path} holds no compiled program, or there is no memory for it")
        self._program = handle(opened)
        close = self._function("close", None, handle)
        self._close = weakref.finalize(self, close, self._program)
        self._close.atexit = False  # not unloaded at exit: other threads may still run the program
        self._run = self._function(
            "run", ctypes.c_int, handle, ctypes.c_char_p, ctypes.POINTER(_Header), ctypes.c_int
        )
        self._num_outputs = self._function("num_outputs", ctypes.c_int, handle)
        self._output = self._function("output", _Header, handle, ctypes.c_int)
        self._error = self._function("error", ctypes.c_char_p, handle)
        self._lock = threading.Lock()

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        symbol = f"{self._prefix}heddle_{name}"
        address = self._address(symbol)
        if address is None:
            raise FormatError(
                U0515,
                f"{self.path} is no program of heddle: it has no function {symbol}",
                help="a library with a prefix is opened with LibraryProgram(path, prefix)",
            )
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    def run(self, *arrays: Any, function: str = "main") -> tuple[np.ndarray[Any, Any], ...]:
        """Call a function and return its outputs as new numpy arrays. A tuple gives one array per field.

        Dtypes: all with at least one byte per element. Arrays need not be contiguous.

        Raises: TrapTypeError U0403 for an argument or output that is not such an array (a nested tuple, a
        shape, a string); Trap U0404 with the program's own message for an error in the program.
        """
        kept = [_as_array(array, index) for index, array in enumerate(arrays)]
        headers = [_header_of(array) for array in kept]
        pointers = (_Header * len(headers))(*map(ctypes.pointer, headers))
        with self._lock:
            if not self._close.alive:
                raise UsageError(U0515, f"the program of {self.path} is closed")
            if self._run(self._program, _name_in_c(function), pointers, len(headers)) != 0:
                raise Trap(U0404, (self._error(self._program) or b"").decode(errors="replace"))
            return tuple(_copied(self._output(self._program, i)) for i in range(self._count()))

    def _count(self) -> int:
        count: int = self._num_outputs(self._program)
        return count

    def close(self) -> None:
        """Free the program's memory. The program cannot run after that. The library stays loaded."""
        with self._lock:
            self._close()


Addresses = Callable[[str], int | None]
"""Returns the address of a function of a file; None if the file has no such function."""


def _loaded(path: str) -> Addresses:
    with reading(path), open_file(path) as file:
        if file.read(len(MAGIC)) == MAGIC:
            return _image_of(path, file.fileno()).address
    try:
        library = load_library(path)
    except (OSError, ValueError) as error:
        raise UsageError(S0102, f"cannot load {path}: {error}") from error

    return partial(address_in, library)


_libraries: dict[Path, dict[tuple[int, ...], ctypes.CDLL | None]] = {}
"""Libraries that `load_library` has loaded, by file name and identity. The value is None if the system
returned an older library.
"""
_libraries_lock = threading.Lock()


def load_library(path: str | os.PathLike[str]) -> ctypes.CDLL:
    """Load a shared library with its present contents.

    The dynamic loader returns the old library for a file name that it knows. So a file that replaced another
    one is loaded by another spelling of its path ("folder/./model.so").

    Raises: OSError if the file cannot be read or loaded, or was overwritten while it was loaded; ValueError
    for a name with a zero byte.
    """
    file = Path(path).absolute()
    identity = _identity(file)
    with _libraries_lock:
        known = _libraries.setdefault(file, {})
        if identity not in known:
            found = ctypes.CDLL(os.path.join(file.parent, "./" * len(known) + file.name))
            is_new = all(other is None or found._handle != other._handle for other in known.values())
            known[identity] = found if is_new else None
        library = known[identity]
    if library is None:
        raise OSError(errno.EBUSY, "it was written over while it was loaded; replace files instead")
    return library


def _identity(file: str | Path | int) -> tuple[int, ...]:
    """Return numbers that identify the file behind a name or descriptor, so that a file that replaced it
    differs.
    """
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_images: dict[tuple[int, ...], tuple[Image, SectionTable]] = {}
"""Linked images by the identity of their file, each with the mapping that its code points into."""
_images_lock = threading.Lock()


def _image_of(path: str, descriptor: int) -> Image:
    """Link the file behind an open descriptor, even if another file stands at its path by now."""
    identity = _identity(descriptor)
    with _images_lock:
        if identity not in _images:
            table = section_table(map_descriptor(descriptor))
            _images[identity] = _linked(path, table), table
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(table))  # threads read it after the interpreter's end
        return _images[identity][0]


def _linked(path: str, table: SectionTable) -> Image:
    """Link the code of a file, or of the variant that this processor runs."""
    processor = processor_that_system_tells()
    sections: Mapping[str, Section] = (
        sections_of(table, choose(read_variants(table), processor)) if VARIANTS in table else dict(table)
    )
    if TABLES not in sections:
        raise FormatError(
            U0515,
            f"{path} holds no compiled program with its native runtime",
            help="compile a Relax program or an ONNX model anew, for Linux, in the mode 'compiled'; "
            "load_module reads any file, for its own machine",
        )
    needs = read_needs(require(sections, NEEDS).reader())
    if not processor.runs(needs):
        lacks = processor.lacks(needs) if processor.is_for(needs) else (needs.platform,)
        raise FormatError(F0111, f"{path} needs what this {processor} is not or lacks: {listed(lacks)}")
    names = [name for name in sections if name.partition("/")[2].startswith("object.")]
    objects = dict.fromkeys(bytes(require(sections, name).data) for name in (*names, CORE, TABLES))
    tables = sections[TABLES]
    start = np.frombuffer(tables.data, np.uint8).ctypes.data - tables.offset
    return Image(list(objects), {ARTEFACT: start})


def _name_in_c(name: str) -> bytes:
    """Return a name as a C string. A zero byte would end it, so it is replaced by a byte that no name
    contains.
    """
    return name.encode(errors="surrogatepass").replace(b"\0", b"\xff")


def _as_array(value: Any, index: int) -> np.ndarray[Any, Any]:
    """Return an array that C code can read: row-major, without gaps, in native byte order."""
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
    """Return a DLTensor header for an array. The array must outlive the header."""
    word = packed_dtype(DataType(array.dtype.name))
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return DLTensor(
        array.ctypes.data, _CPU, 0, array.ndim, word & 0xFF, word >> 8 & 0xFF, word >> 16, shape, None, 0
    )


def _copied(header: Any) -> np.ndarray[Any, Any]:
    """Copy a tensor of the library to an array that does not depend on the library."""
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
