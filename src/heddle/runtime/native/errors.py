"""Convert the last error of this thread's native code to an exception.

The error word of `heddle_set_error` has the exception class in the low byte and the number of the diagnostic
above it; 0 means U0404, a failed check in a kernel. In a message, `%e` and `%g` are the expected and the
actual number, `%t` is a dtype (packed in the actual number), `%k` the kind of a kernel argument, and `%v` the
type of a value.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NoReturn

from heddle.runtime.codes import U0404
from heddle.runtime.dtype import dtype_from_packed
from heddle.runtime.native import abi
from heddle.runtime.native.abi import Family, Kind
from heddle.runtime.native.library import native_library
from heddle.support.diagnostics import CODES, Trap, TrapIndexError, TrapTypeError, TrapValueError
from heddle.systems.types import ctype_of

_TRAPS: dict[int, type[Trap]] = {
    Family.TRAP: Trap,
    Family.VALUE: TrapValueError,
    Family.TYPE: TrapTypeError,
    Family.INDEX: TrapIndexError,
}
_ARGUMENT_KINDS: dict[int, str] = {
    Kind.NONE: "None",
    Kind.INT: "an int",
    Kind.BOOL: "a bool",
    Kind.FLOAT: "a float",
    Kind.POINTER: "a pointer",
    Kind.TENSOR: "a tensor",
}
_VALUE_TYPES: dict[int, str] = {
    Kind.NONE: "NoneType",
    Kind.INT: "int",
    Kind.BOOL: "bool",
    Kind.FLOAT: "float",
    Kind.TENSOR: "Tensor",
    Kind.SHAPE: "Shape",
    Kind.TUPLE: "Array",
    Kind.CLOSURE: "VMClosure",
    Kind.STORAGE: "Storage",
    Kind.DATA: "ConstructorValue",
    Kind.REFERENCE: "RefValue",
}
_FIRST_RUNTIME_NUMBER = (
    600  # smaller numbers are diagnostics of the machine, larger ones those of the runtime
)
_LARGEST_KIND = 64


_Error = ctype_of(abi.Error)


def take_native_error(notes: Sequence[str] = ()) -> Trap | None:
    """Return the last error as an exception and clear it; None if there is none."""
    error = _Error.from_address(native_library().thread())
    if not error.is_set:
        return None
    error.is_set = 0
    text = error.message.decode("utf-8", "replace")
    text = text.replace("%e", str(error.expected)).replace("%g", str(error.got))
    if "%t" in text:
        text = text.replace("%t", dtype_from_packed(error.got))
    text = text.replace("%k", _ARGUMENT_KINDS.get(error.got, "a value"))
    if "%v" in text:
        text = text.replace("%v", _type_name(error.got))
    number = error.word >> 8
    letter = "V" if number < _FIRST_RUNTIME_NUMBER else "U"
    code = CODES[f"{letter}{number:04}"] if number else U0404
    return _TRAPS.get(error.word & 0xFF, Trap)(code, text, notes=list(notes))


def native_error(notes: Sequence[str] = ()) -> Trap:
    """Return the error of native code that failed. `notes` are added to its message."""
    return take_native_error(notes) or Trap(U0404, "native code failed without a message", notes=list(notes))


def raise_native_error(notes: Sequence[str] = ()) -> NoReturn:
    """Raise the error of native code that failed. `notes` are added to its message."""
    raise native_error(notes)


def _type_name(got: int) -> str:
    """Return the name of a value's type, from a kind or from the address of a Python type."""
    if got < _LARGEST_KIND:
        return _VALUE_TYPES.get(got, "a value")
    name: str = ctypes.cast(got, ctypes.py_object).value.__name__
    return name
