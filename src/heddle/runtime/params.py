"""Serialise named tensors (the parameters of a model) to bytes, in TVM's format.

    u64 magic, u64 0, u64 count, texts (names), u64 count, tensor records

A tensor record is

    u64 magic, u64 0, i32 1, i32 0 (the host), i32 rank, u8 code, u8 bits, u16 lanes (of the dtype),
    i64 sizes, u64 bytes, data

All numbers are little-endian.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from math import prod
from typing import Any

from heddle.runtime.codes import F0106
from heddle.runtime.device import CPU
from heddle.runtime.dtype import DataType, dtype_from_packed, packed_dtype
from heddle.runtime.tensor import Tensor, empty, tensor
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import FormatError, IRTypeError

_LIST_MAGIC = 0xF7E58D4F05049CB7
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_MAX_RANK = 64


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Serialise a dictionary of named tensors or arrays."""
    writer = Writer()
    writer.u64(_LIST_MAGIC)
    writer.u64(0)
    writer.texts(list(params))
    writer.u64(len(params))
    for value in params.values():
        write_tensor(writer, value if isinstance(value, Tensor) else tensor(value))
    return writer.bytes()


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, Tensor]:
    """Read the bytes that `save_param_dict` wrote. Raises: FormatError F0106."""
    if not isinstance(param_bytes, (bytes, bytearray, memoryview)):
        raise FormatError(F0106, f"expected the bytes of parameters, got {type(param_bytes).__name__}")
    reader = Reader(memoryview(param_bytes), "parameters")
    if (reader.u64(), reader.u64()) != (_LIST_MAGIC, 0):
        raise reader.fail("Invalid parameters file format: they begin with another number")
    names = reader.texts()
    tensors = reader.items(44, lambda: read_tensor(reader))
    reader.done()
    if len(names) != len(tensors) or len(set(names)) != len(names):
        raise reader.fail(f"Invalid parameters file format: {len(names)} names, {len(tensors)} tensors")
    return dict(zip(names, tensors, strict=True))


def write_tensor(writer: Writer, value: Tensor) -> None:
    """Write the record of one tensor."""
    word = packed_dtype(value.dtype)
    writer.u64(_TENSOR_MAGIC)
    writer.u64(0)
    for number in (CPU, 0, value.ndim, word):
        writer.i32(number)
    for size in value.shape:
        writer.i64(size)
    writer.blob(value.raw_bytes())


def read_tensor(reader: Reader) -> Tensor:
    """Read one record and return a tensor with its own memory. Raises: FormatError F0106."""
    if (reader.u64(), reader.u64()) != (_TENSOR_MAGIC, 0):
        raise reader.fail("a tensor begins with another number")
    reader.i32(), reader.i32()
    rank, word = reader.i32(), reader.i32()
    if not 0 <= rank <= _MAX_RANK:
        raise reader.fail(f"a tensor cannot have {rank} dimensions")
    shape = tuple(reader.i64() for _ in range(rank))
    dtype = _dtype(reader, word & 0xFFFFFFFF)
    data = reader.blob()
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(data):
        raise reader.fail(f"a tensor of shape {shape} and dtype {dtype} does not have {len(data)} bytes")
    made = empty(shape, dtype)
    ctypes.memmove(made.address, bytes(data), len(data))
    return made


def _dtype(reader: Reader, word: int) -> DataType:
    try:
        dtype = DataType(dtype_from_packed(word))
    except IRTypeError:
        raise reader.fail(f"a tensor has an unknown dtype: {dtype_from_packed(word)}") from None
    if dtype.code in ("handle", "void"):
        raise reader.fail(f"a tensor cannot have dtype {dtype}")
    return dtype
