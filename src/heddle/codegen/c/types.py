"""dtypes as C types, and constants as C text.

In an expression a bool is C's bool, an integer of 2 or 4 bits is an int8_t or uint8_t in its range, and a
float of 16 bits or fewer is the unsigned integer of its bits, which is only moved and converted. In memory
every element fills whole bytes, as for all targets; a bool is one byte.
"""

from __future__ import annotations

import math

import numpy as np

from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType

_FLOATS = {32: "float", 64: "double"}
_INT32 = DataType("int32")


def element_type(dtype: DataType) -> str:
    """The type of one lane in an expression."""
    dtype = dtype.element
    if dtype.is_bool:
        return "bool"
    if dtype.is_handle:
        return "void *"
    if dtype.code == "void":
        return "void"
    return memory_type(dtype)


def memory_type(dtype: DataType) -> str:
    """The type of one lane in memory."""
    dtype = dtype.element
    if dtype.is_bool:
        return "uint8_t"
    if dtype.is_handle:
        return "void *"
    if dtype.code == "float" and dtype.bits in _FLOATS:
        return _FLOATS[dtype.bits]
    return f"{'int' if dtype.is_signed else 'uint'}{8 * dtype.itemsize}_t"


def suffix(dtype: DataType) -> str:
    """What names of helper functions end with: i32, u8, f64."""
    dtype = dtype.element
    if dtype.code == "float" and dtype.bits in _FLOATS:
        return f"f{dtype.bits}"
    return f"{'i' if dtype.is_signed else 'u'}{8 * dtype.itemsize}"


def int_literal(value: int, dtype: DataType) -> str:
    """An integer constant whose C type holds it; small ones have type int."""
    if dtype.is_bool:
        return "true" if value else "false"
    low = int_range(dtype)[0]
    if dtype.bits == 64:
        if value == low < 0:
            return "INT64_MIN"
        if int_range(_INT32)[0] < value <= int_range(_INT32)[1]:
            return _negative(str(value))
        return _negative(f"{'INT64_C' if dtype.is_signed else 'UINT64_C'}({value})")
    if value == low < 0 and dtype.bits == 32:
        return "INT32_MIN"
    return _negative(f"{value}u" if dtype.is_unsigned and value > 0x7FFFFFFF else str(value))


def _negative(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def float_literal(value: float, dtype: DataType) -> str:
    """A float constant, rounded to its dtype: the shortest digits that give it back."""
    stored = dtype.numpy().type(value)
    if dtype.code != "float" or dtype.bits not in _FLOATS:
        return str(int(np.asarray(stored).view(f"uint{max(dtype.bits, 8)}")))
    if math.isnan(stored):
        return "HEDDLE_NAN" if dtype.bits == 32 else "(double)HEDDLE_NAN"
    if math.isinf(stored):
        return "HEDDLE_INFINITY" if stored > 0 else "(-HEDDLE_INFINITY)"
    text = np.format_float_positional(stored, unique=True, trim="0")
    if len(text) > 24:
        text = np.format_float_scientific(stored, unique=True, trim="0")
    return _negative(text + ("f" if dtype.bits == 32 else ""))


def text_literal(text: str) -> str:
    """A string constant; bytes beyond ASCII as octal escapes."""
    pieces = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\?':
            pieces.append("\\" + char)
        else:
            pieces.append(char if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(pieces) + '"'
