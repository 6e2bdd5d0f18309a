"""Data types of tensor elements. A DataType is a string with parsed parts; it equals its plain spelling and
has the same hash.

`DataType("float32x8").lanes == 8` and `DataType("float32") == "float32"`. A `bool` has one byte in memory and
1 significant bit. `handle` is an opaque pointer. `void` has no values.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from heddle.runtime.codes import U0101
from heddle.support.diagnostics import IRTypeError, did_you_mean

_SPELLING = re.compile(r"(float[48]_\w+?|bfloat|float|uint|int|handle|void|bool)(\d*)(?:x(\d+))?")
_MAX_SPELLING = 64  # longer than any valid spelling; hostile longer text must not reach the regex
_MAX_LANES = (1 << 16) - 1  # the largest value of DLPack's field
_BITS = {
    "int": (1, 2, 4, 8, 16, 32, 64),
    "uint": (1, 2, 4, 8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
}
_FLOAT8 = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
_SMALL_FLOATS = {**_FLOAT8, "float4_e2m1fn": ml_dtypes.float4_e2m1fn}
SCALAR_NAMES = (
    "bool",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    *_SMALL_FLOATS,
    "handle",
    "void",
)


class DataType(str):
    """An interned element type, by its spelling or by numpy's type for it. Attributes: `code` (bool, int,
    uint, float, bfloat, float4_*, float8_*, handle, void), `bits` of one lane, `lanes`.

    Raises: IRTypeError U0101 for an unknown spelling.
    """

    __slots__ = ("bits", "code", "lanes")
    code: str
    bits: int
    lanes: int
    _interned: dict[str, DataType] = {}  # noqa: RUF012 (a class-level intern table, never an instance default)

    def __new__(cls, spelling: Any) -> DataType:
        if not isinstance(spelling, str):
            return dtype_of(spelling)
        found = cls._interned.get(spelling)
        if found is not None:
            return found
        code, bits, lanes = _parse(spelling)
        made = super().__new__(cls, spelling)
        made.code, made.bits, made.lanes = code, bits, lanes
        cls._interned[spelling] = made
        return made

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)

    @property
    def element(self) -> DataType:
        """The type of one lane."""
        return self if self.lanes == 1 else DataType(str(self).rsplit("x", 1)[0])

    def with_lanes(self, lanes: int) -> DataType:
        """The vector type with this many lanes of the element type. One lane gives the element type."""
        base = self.element
        return base if lanes == 1 else DataType(f"{base}x{lanes}")

    @property
    def itemsize(self) -> int:
        """Bytes of one value in memory, including all lanes."""
        return -(-self.bits // 8) * self.lanes

    @property
    def is_int(self) -> bool:
        """Whether elements are signed or unsigned integers. False for bool."""
        return self.code in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether elements are signed integers."""
        return self.code == "int"

    @property
    def is_unsigned(self) -> bool:
        """Whether elements are unsigned integers. False for bool."""
        return self.code == "uint"

    @property
    def may_index(self) -> bool:
        """Whether elements are integers of at least 32 bits, which often are positions in tensors. Compiled
        programs rely on the values of constants of these dtypes.
        """
        return self.is_int and self.bits >= 32

    @property
    def is_float(self) -> bool:
        """Whether elements are floats of any format."""
        return self.code in ("float", "bfloat") or self.is_small_float

    @property
    def is_small_float(self) -> bool:
        """Whether elements are floats of 8 bits or fewer. Such values are only converted; no arithmetic is
        done in these types.
        """
        return self.code in _SMALL_FLOATS

    @property
    def is_bool(self) -> bool:
        """Whether elements are booleans."""
        return self.code == "bool"

    @property
    def is_handle(self) -> bool:
        """Whether this is the type of an opaque pointer."""
        return self.code == "handle"

    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype that stores one lane. An element of fewer than 8 bits takes one byte."""
        return _numpy_of(self)


@cache
def _numpy_of(dtype: DataType) -> np.dtype[Any]:
    base = dtype.element
    if base in _SMALL_FLOATS:
        small: np.dtype[Any] = np.dtype(_SMALL_FLOATS[base])
        return small
    if base == "bfloat16":
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if base == "bool":
        return np.dtype(np.bool_)
    if base in ("int2", "uint2", "int4", "uint4"):
        return np.dtype(base[:-1] + "8")
    if base in ("handle", "void"):
        raise IRTypeError(U0101, f"dtype {base!r} has no numpy equivalent")
    return np.dtype(str(base))


def _parse(spelling: str) -> tuple[str, int, int]:
    matched = _SPELLING.fullmatch(spelling) if len(spelling) <= _MAX_SPELLING else None
    if matched is None:
        raise _unknown(spelling[:_MAX_SPELLING])
    code, bits_text, lanes_text = matched.groups()
    lanes = int(lanes_text) if lanes_text else 1
    if not 1 <= lanes <= _MAX_LANES:
        raise _unknown(spelling)
    if code + bits_text in _SMALL_FLOATS:
        return code + bits_text, 8 if code + bits_text in _FLOAT8 else 4, lanes
    if code in ("bool", "handle", "void"):
        if bits_text:
            raise _unknown(spelling)
        return code, {"bool": 1, "handle": 64, "void": 0}[code], lanes
    if not bits_text or int(bits_text) not in _BITS.get(code, ()):
        raise _unknown(spelling)
    return code, int(bits_text), lanes


def _unknown(spelling: str) -> IRTypeError:
    return IRTypeError(U0101, f"unknown dtype {spelling!r}", help=did_you_mean(spelling, SCALAR_NAMES))


def dtype_of(value: Any) -> DataType:
    """Return the DataType of a numpy dtype, a numpy scalar type, a spelling, or an object with a `dtype`
    attribute.

    Raises: IRTypeError U0101 if there is no such type.
    """
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        return DataType(value)
    if value is None:
        raise _unknown("None")  # numpy takes it for float64
    if hasattr(value, "dtype") and not isinstance(value, type):
        return dtype_of(value.dtype)
    try:
        return DataType(np.dtype(value).name)
    except TypeError:
        raise _unknown(str(value)) from None


# ---- as DLPack's tensors hold them: code | bits << 8 | lanes << 16

DTYPE_CODES = {
    "int": 0,
    "uint": 1,
    "float": 2,
    "handle": 3,
    "void": 3,
    "bfloat": 4,
    "bool": 6,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
    "float4_e2m1fn": 17,
}
CODE_NAMES = {code: name for name, code in DTYPE_CODES.items() if name != "void"}


def packed_dtype(dtype: DataType) -> int:
    """Return the DLPack word of a dtype: code | bits << 8 | lanes << 16. A bool has 8 bits."""
    bits = 8 if dtype.is_bool else dtype.bits
    return DTYPE_CODES[dtype.code] | bits << 8 | dtype.lanes << 16


def dtype_from_packed(word: int) -> str:
    """Return the spelling of a DLPack word; `dtype(code, bits, lanes)` if the word has none."""
    code, bits, lanes = word & 0xFF, word >> 8 & 0xFF, word >> 16 & 0xFFFF
    name = CODE_NAMES.get(code)
    if name is None:
        return f"dtype({code}, {bits}, {lanes})"
    plain = name if name in ("bool", "handle") or name.startswith(("float4", "float8")) else f"{name}{bits}"
    return plain if lanes == 1 else f"{plain}x{lanes}"
