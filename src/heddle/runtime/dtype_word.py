"""dtypes as DLPack's tensors hold them: code | bits << 8 | lanes << 16."""

from __future__ import annotations

from heddle.runtime.dtype import DataType

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
    """The word of a dtype; a bool has 8 bits."""
    bits = 8 if dtype.is_bool else dtype.bits
    return DTYPE_CODES[dtype.code] | bits << 8 | dtype.lanes << 16


def dtype_from_packed(word: int) -> str:
    """The spelling of a word; `dtype(code, bits, lanes)` where it has none."""
    code, bits, lanes = word & 0xFF, word >> 8 & 0xFF, word >> 16 & 0xFFFF
    name = CODE_NAMES.get(code)
    if name is None:
        return f"dtype({code}, {bits}, {lanes})"
    plain = name if name in ("bool", "handle") or name.startswith(("float4", "float8")) else f"{name}{bits}"
    return plain if lanes == 1 else f"{plain}x{lanes}"
