"""Tensors inside nodes: how they are compared, and how they are written to JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any

from heddle.ir.json_codec import register_value_codec
from heddle.ir.structural import register_value_key
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, tensor_from_bytes


def tensor_key(value: Tensor) -> bytes:
    """Equal for tensors of equal element type, shape and bits."""
    head = f"{value.dtype}{tuple(value.shape)}".encode()
    return b"t" + sha256(value.raw_bytes()).digest() + head  # processors have instructions for it


def _encode(value: Tensor) -> dict[str, Any]:
    data = b64encode(value.raw_bytes()).decode()
    return {"dtype": str(value.dtype), "shape": list(value.shape), "data": data}


def _decode(content: dict[str, Any]) -> Tensor:
    data = bytearray(b64decode(content["data"], validate=True))
    return tensor_from_bytes(data, [int(size) for size in content["shape"]], DataType(content["dtype"]))


register_value_key(Tensor, tensor_key)
register_value_codec(Tensor, "tensor", _encode, _decode, is_large=True)
