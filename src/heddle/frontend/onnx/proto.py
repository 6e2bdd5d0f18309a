"""From protobuf messages to plain Python: files, tensors, attributes, element types.

Nothing in a message is trusted: sizes are compared before memory is taken, and paths of external data may not
leave the model's folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from heddle.frontend.codes import N0101, N0102, N0103, N0104, N0106, N0204
from heddle.frontend.onnx.stored_data import message_without_data
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import empty
from heddle.support.diagnostics import FormatError, HeddleError, ImportModelError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits, exceeded
from heddle.support.reading import open_file

DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.BOOL: "bool",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.INT2: "int2",
    TensorProto.UINT2: "uint2",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
}
_PACKED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}
"""Bits of elements of which a byte holds several, the first in the low bits."""
MAX_ELEMENTS = 1 << 40


@frozen
class LoadedModel:
    """A decoded model, the name that messages call it by, and the folder that its external data may lie
    in."""

    proto: ModelProto
    name: str
    folder: Path | None = None


def read_model(path: str | Path) -> LoadedModel:
    """Decode a file; large initializers stay in it, as external data. Raises: FormatError N0101, N0102."""
    place = Path(path)
    try:
        data = message_without_data(place)
        if data is None:
            with open_file(place) as file:
                size = os.fstat(file.fileno()).st_size
                if size > current_limits().message_bytes:
                    raise exceeded("message_bytes", f"{place.name} has {size} bytes to decode at once")
                data = file.read()
    except (OSError, ValueError) as error:  # a zero byte in the name
        if isinstance(error, HeddleError):
            raise
        why = getattr(error, "strerror", None) or error
        raise FormatError(N0101, f"cannot read {place}: {why}") from error
    return LoadedModel(decoded(data, place.name), place.name, place.resolve().parent)


def decoded(data: bytes, name: str) -> ModelProto:
    """The model in some bytes, which messages call `name`. Raises: FormatError N0102."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise FormatError(N0102, f"{name} is not an ONNX model: it is truncated or damaged") from error
    if not model.HasField("graph"):
        raise FormatError(N0102, f"{name} is not an ONNX model: it holds no graph")
    return model


def check_text(message: Message, what: str) -> None:
    """Raise FormatError N0102 where a damaged file has bytes that are no text in the place of a name."""
    if isinstance(message, TensorProto):  # its other fields are data, and large
        if isinstance(message.name, bytes):
            raise FormatError(N0102, f"{what} is damaged: a tensor's name is not text")
        return
    for descriptor, value in message.ListFields():
        repeated = not isinstance(value, (str, bytes, int, float, Message))
        if descriptor.type == descriptor.TYPE_STRING:
            if any(isinstance(item, bytes) for item in (value if repeated else (value,))):
                raise FormatError(N0102, f"{what} is damaged: its {descriptor.name} is not text")
        elif descriptor.type == descriptor.TYPE_MESSAGE:
            for item in value if repeated else (value,):
                check_text(item, what)


def dtype_name(elem_type: int, what: str) -> str:
    """The element type of an ONNX type number. Raises: ImportModelError N0204."""
    found = DTYPES.get(elem_type)
    if found is None:
        number = {value: key for key, value in TensorProto.DataType.items()}.get(
            elem_type, f"number {elem_type}"
        )
        raise ImportModelError(N0204, f"{what} has elements of type {number}, which is not supported")
    return found


def tensor_shape(tensor: TensorProto) -> tuple[int, ...]:
    """The dimensions, checked. Raises: FormatError N0104."""
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape) or math.prod(shape) > MAX_ELEMENTS or len(shape) > 64:
        raise FormatError(N0104, f"tensor {tensor.name!r} has impossible dimensions {shape}")
    return shape


def tensor_array(tensor: TensorProto, folder: Path | None = None) -> np.ndarray[Any, Any]:
    """A stored tensor as an array. Raises: FormatError N0103, N0104; ImportModelError N0204."""
    shape = tensor_shape(tensor)
    dtype = dtype_name(tensor.data_type, f"tensor {tensor.name!r}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_bytes(_external_bytes(tensor, folder), dtype, shape, tensor.name)
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data, dtype, shape, tensor.name)
    return _from_fields(tensor, dtype, shape)


def _from_bytes(
    data: bytes | memoryview, dtype: str, shape: tuple[int, ...], name: str
) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    bits = _PACKED.get(dtype) or numpy_dtype(dtype).itemsize * 8
    expected = -(-count * bits // 8)
    if len(data) != expected:
        raise FormatError(
            N0104, f"tensor {name!r} of {dtype}{list(shape)} has {len(data)} bytes, expected {expected}"
        )
    if bits < 8:
        return _unpacked(np.frombuffer(data, np.uint8), dtype, count).reshape(shape)
    stored = np.frombuffer(data, numpy_dtype(dtype).newbyteorder("<"))
    # Memory of our own is aligned for kernels, so a tensor can share it.
    return stored.astype(numpy_dtype(dtype), copy=not isinstance(data, memoryview)).reshape(shape)


def _unpacked(packed: np.ndarray[Any, Any], dtype: str, count: int) -> np.ndarray[Any, Any]:
    bits = _PACKED[dtype]
    parts = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    found = np.stack(parts, axis=-1).reshape(-1)[:count]
    if DataType(dtype).is_float:
        return found.view(numpy_dtype(dtype))
    if DataType(dtype).is_unsigned:
        return found
    sign = 1 << (bits - 1)
    return (found ^ sign).astype(np.int8) - np.int8(sign)


def _from_fields(tensor: TensorProto, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    stored = max(
        len(tensor.float_data),
        len(tensor.int32_data),
        len(tensor.int64_data),
        len(tensor.double_data),
        len(tensor.uint64_data),
    )
    expected = -(-count * _PACKED.get(dtype, 8) // 8)
    if stored != expected:
        raise FormatError(
            N0104, f"tensor {tensor.name!r} of {dtype}{list(shape)} has {stored} values, expected {expected}"
        )
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(N0104, f"tensor {tensor.name!r} is malformed: {error}") from error
    return np.asarray(array).astype(numpy_dtype(dtype)).reshape(shape)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy type that stores elements of a dtype; integers of fewer than 8 bits take a byte each."""
    return DataType(dtype).numpy()


def _external_bytes(tensor: TensorProto, folder: Path | None) -> memoryview:
    """The data of a tensor from its file, in new memory aligned as tensors are."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise FormatError(
            N0103,
            f"tensor {tensor.name!r} lies in the file {location!r}, and the model has no folder",
            help="give from_onnx the path of the model, or load the external data before",
        )
    try:
        target = (folder / location).resolve()
    except (OSError, ValueError) as error:  # a zero byte, or links in a circle
        raise FormatError(N0103, f"tensor {tensor.name!r}: bad location {location!r}: {error}") from error
    if not location:
        raise FormatError(N0103, f"tensor {tensor.name!r}: its external data names no file")
    if not target.is_relative_to(folder.resolve()):
        raise FormatError(N0103, f"tensor {tensor.name!r}: {location!r} lies outside the model's folder")
    offset, length = (_stated_bytes(tensor, entries, key) for key in ("offset", "length"))
    try:
        with open_file(target) as file:
            size = os.fstat(file.fileno()).st_size
            begin = offset or 0
            count = max(0, size - begin) if length is None else length
            if begin + count > size:
                raise FormatError(N0103, f"tensor {tensor.name!r}: {location!r} has only {size} bytes")
            file.seek(begin)
            data = empty((count,), "uint8").numpy().data
            if file.readinto(data) != len(data):
                raise FormatError(N0103, f"tensor {tensor.name!r}: {location!r} changed while it was read")
            return data
    except OSError as error:
        raise FormatError(
            N0103, f"tensor {tensor.name!r}: cannot read {location!r}: {error.strerror or error}"
        ) from error


def _stated_bytes(tensor: TensorProto, entries: Mapping[str, str], key: str) -> int | None:
    """A number of bytes in the description of external data; None where there is none."""
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise FormatError(
            N0103,
            f"tensor {tensor.name!r}: bad {key} {text!r} in its external data: expected a number of bytes",
        )
    return int(text)


# ---- attributes and nodes


@frozen
class Node:
    """A node as plain values: names of inputs ("" for one left out), outputs, and attributes by name.
    `tensor_dtypes` are the element types of tensors among them: arrays store fewer bits in a byte."""

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    tensor_dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What messages call the node: its name, else its first output."""
        return self.name or next((name for name in self.outputs if name), self.op_type)


def plain_domain(domain: str) -> str:
    """A domain's short name: ONNX's own is the empty one."""
    return "" if domain == "ai.onnx" else domain


def node_of(proto: NodeProto, given: Mapping[str, Any] | None = None, folder: Path | None = None) -> Node:
    """A node message as a Node. `given` are the attributes of the enclosing function, for references to
    them."""
    attrs: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for attr in proto.attribute:
        if attr.ref_attr_name:
            if given is not None and attr.ref_attr_name in given:
                attrs[attr.name] = given[attr.ref_attr_name]
            continue
        attrs[attr.name] = attr_value(attr, folder)
        if attr.type == AttributeProto.TENSOR:
            dtypes[attr.name] = DTYPES.get(attr.t.data_type, "")
    inputs = tuple(proto.input)
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return Node(
        proto.op_type, plain_domain(proto.domain), proto.name, inputs, tuple(proto.output), attrs, dtypes
    )


def attr_value(attr: AttributeProto, folder: Path | None = None) -> Any:
    """Ints, floats, strings, arrays, graphs and lists of these. Raises: FormatError N0106."""
    kind = attr.type
    if kind == AttributeProto.INT:
        return int(attr.i)
    if kind == AttributeProto.FLOAT:
        return float(attr.f)
    if kind == AttributeProto.STRING:
        return _text(attr.s, attr.name)
    if kind == AttributeProto.TENSOR:
        if attr.t.data_type == TensorProto.STRING:
            return _strings(attr.t)
        return tensor_array(attr.t, folder)
    if kind == AttributeProto.GRAPH:
        return attr.g
    if kind == AttributeProto.INTS:
        return tuple(int(value) for value in attr.ints)
    if kind == AttributeProto.FLOATS:
        return tuple(float(value) for value in attr.floats)
    if kind == AttributeProto.STRINGS:
        return tuple(_text(value, attr.name) for value in attr.strings)
    if kind == AttributeProto.GRAPHS:
        return tuple(attr.graphs)
    if kind == AttributeProto.TENSORS:
        return tuple(tensor_array(tensor, folder) for tensor in attr.tensors)
    if kind in (AttributeProto.TYPE_PROTO, AttributeProto.SPARSE_TENSOR):
        return attr.tp if kind == AttributeProto.TYPE_PROTO else attr.sparse_tensor
    raise FormatError(N0106, f"attribute {attr.name!r} has no kind")


def _strings(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """A stored tensor of strings. Raises: FormatError N0104, N0106."""
    shape = tensor_shape(tensor)
    if math.prod(shape) != len(tensor.string_data):
        raise FormatError(N0104, f"tensor {tensor.name!r} has {len(tensor.string_data)} strings for {shape}")
    made = np.empty(len(tensor.string_data), dtype=object)
    made[:] = [_text(data, tensor.name) for data in tensor.string_data]
    return made.reshape(shape)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(N0106, f"attribute {name!r} is not text") from error


def subgraphs(node: Node) -> list[GraphProto]:
    """The graphs among a node's attributes."""
    found: list[GraphProto] = []
    for value in node.attrs.values():
        items = value if isinstance(value, tuple) else (value,)
        found.extend(item for item in items if isinstance(item, GraphProto))
    return found
