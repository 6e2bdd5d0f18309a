"""dtypes as LLVM types, and constants as LLVM text.

In registers a bool is i1, int4 is i4; bfloat16 and the floats of 8 bits and fewer are plain integers that
are only moved and converted. In memory every element fills whole bytes.
"""

from __future__ import annotations

import struct

import numpy as np

from heddle.runtime.dtype import DataType

INT64 = DataType("int64")
_FLOATS = {16: "half", 32: "float", 64: "double"}


def element_type(dtype: DataType) -> str:
    """The register type of one lane."""
    if dtype.is_bool:
        return "i1"
    if dtype.code == "float":
        return _FLOATS[dtype.bits]
    if dtype.is_handle:
        return "ptr"
    return "void" if dtype.code == "void" else f"i{dtype.bits}"


def register_type(dtype: DataType) -> str:
    """`float32x16` → `<16 x float>`."""
    element = element_type(dtype.element)
    return element if dtype.lanes == 1 else f"<{dtype.lanes} x {element}>"


def memory_type(dtype: DataType) -> str:
    """The type under which a value lies in memory: whole bytes a lane."""
    element = dtype.element
    name = f"i{element.itemsize * 8}" if is_widened(element) else element_type(element)
    return name if dtype.lanes == 1 else f"<{dtype.lanes} x {name}>"


def is_widened(dtype: DataType) -> bool:
    """Whether memory and register types differ (bool, and what has 2 or 4 bits)."""
    return dtype.bits < 8 and (dtype.is_bool or dtype.is_int or dtype.is_float)


def int_constant(value: int, dtype: DataType) -> str:
    """An integer, or a bool as `true` or `false`, without its type."""
    if dtype.is_bool:
        return "true" if value else "false"
    return str(value)


def float_constant(value: float, dtype: DataType) -> str:
    """A float of a dtype by its bits; LLVM writes `float` constants as doubles."""
    stored = np.asarray(value).astype(dtype.numpy())
    if dtype.code != "float":
        return str(int(stored.view(f"uint{max(dtype.bits, 8)}")))
    if dtype.bits == 16:
        return f"0xH{int(stored.view(np.uint16)):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(stored)))[0]:016X}"


def splat(element: str, constant: str, lanes: int) -> str:
    """A constant vector with equal lanes."""
    return f"splat ({element} {constant})" if lanes > 1 else constant


def vector_constant(element: str, values: list[str]) -> str:
    """A vector of constants: `<i32 0, i32 1>`."""
    return "<" + ", ".join(f"{element} {value}" for value in values) + ">"


def string_constant(text: str) -> str:
    """`c"..."` with a final zero byte."""
    data = text.encode() + b"\0"
    body = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in data
    )
    return f'[{len(data)} x i8] c"{body}"'
