"""Tensors inside nodes: how they are compared, and how they are written to JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from heddle.ir.json_codec import register_value_codec
from heddle.ir.value_keys import register_value_key
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, tensor_from_bytes

_LARGE_BYTES = 1 << 20
_keys: ContextVar[Mapping[int, bytes]] = ContextVar("_keys", default=MappingProxyType({}))


def tensor_key(value: Tensor) -> bytes:
    """Equal for tensors of equal element type, shape and bits."""
    return _keys.get().get(id(value)) or _key_of(value)


@contextmanager
def large_as_numbers(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Inside, the key of a large tensor is its element type, its shape and its number in the list that this
    gives: those of `tensors` that are large, in their order. So a program's key takes no time for weights;
    whoever needs their bits adds `tensor_key` of each."""
    large = {id(each): each for each in tensors if each.size_bytes >= _LARGE_BYTES}
    token = _keys.set({key: b"n%d" % number + _head(large[key]) for number, key in enumerate(large)})
    try:
        yield list(large.values())
    finally:
        _keys.reset(token)


def _key_of(value: Tensor) -> bytes:
    return b"t" + sha256(value.raw_bytes()).digest() + _head(value)  # processors have instructions for it


def _head(value: Tensor) -> bytes:
    return f"{value.dtype}{tuple(value.shape)}".encode()


def _encode(value: Tensor) -> dict[str, Any]:
    data = b64encode(value.raw_bytes()).decode()
    return {"dtype": str(value.dtype), "shape": list(value.shape), "data": data}


def _decode(content: dict[str, Any]) -> Tensor:
    data = bytearray(b64decode(content["data"], validate=True))
    return tensor_from_bytes(data, [int(size) for size in content["shape"]], DataType(content["dtype"]))


register_value_key(Tensor, tensor_key)
register_value_codec(Tensor, "tensor", _encode, _decode, is_large=True)
