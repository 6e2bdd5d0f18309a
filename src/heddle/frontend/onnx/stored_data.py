"""Reading a model file without its weights.

A message is parsed whole, and then its bytes are copied out: a model's weights would be in memory three times
before they are tensors, and on a fresh page a copy costs more than reading the file does. So the large
`raw_data` of a file's initializers is left where it is: each such tensor is decoded as if it had been stored
as external data, at its place in this very file.

    TensorProto { name, dims, raw_data: <2 MB> }    →    TensorProto { name, dims, data_location: EXTERNAL,
                                                             external_data: { location, offset, length } }

**Source**: Protocol Buffers, "Encoding": tags, varints, wire types; onnx.proto3 for the field numbers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from onnx import StringStringEntryProto, TensorProto

from heddle.support.limits import current_limits
from heddle.support.reading import open_file

LEAST_BYTES = 4096
"""Smaller data is read with the message."""
_GRAPH, _INITIALIZER = 7, 5
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10


class _NotReadable(Exception):
    """The file is no message that this module reads; the decoder says what is wrong with it."""


def message_without_data(path: Path) -> bytes | None:
    """The bytes of a file's ModelProto, with large data of the graph's initializers as external data in this
    file; None where the file is damaged or its name is no text. Raises: OSError."""
    resolved = path.resolve()
    try:
        resolved.name.encode()
        with open_file(resolved) as file:
            return _Splitter(file, resolved.name).model(os.fstat(file.fileno()).st_size)
    except (_NotReadable, UnicodeEncodeError):
        return None


class _Splitter:
    """Copies messages field by field; `end` is where the message around a field ends in the file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._fields_left = current_limits().nodes

    def model(self, end: int) -> bytes:
        made = bytearray()
        while self._file.tell() < end:
            tag, body = self._field(end)
            if tag == (_GRAPH << 3 | _LENGTH):
                _put_message(made, tag, self._graph(body))
            else:
                self._copy(made, tag, body)
        return bytes(made)

    def _graph(self, end: int) -> bytes:
        made = bytearray()
        while self._file.tell() < end:
            tag, body = self._field(end)
            if tag == (_INITIALIZER << 3 | _LENGTH) and body - self._file.tell() >= LEAST_BYTES:
                _put_message(made, tag, self._tensor(body))
            else:
                self._copy(made, tag, body)
        return bytes(made)

    def _tensor(self, end: int) -> bytes:
        start, made = self._file.tell(), bytearray()
        place: tuple[int, int] | None = None
        while self._file.tell() < end:
            tag, body = self._field(end)
            number, size = tag >> 3, body - self._file.tell()
            if number in (_EXTERNAL_DATA, _DATA_LOCATION) or (number == _RAW_DATA and place):
                self._file.seek(start)  # it says itself where its data is, or says it twice
                return self._take(end)
            if tag == (_RAW_DATA << 3 | _LENGTH) and size >= LEAST_BYTES:
                place = self._file.tell(), size
                self._file.seek(body)
            else:
                self._copy(made, tag, body)
        return bytes(made) + (self._external(*place) if place else b"")

    def _external(self, offset: int, length: int) -> bytes:
        entries = {"location": self._name, "offset": str(offset), "length": str(length)}
        tensor = TensorProto(
            data_location=TensorProto.EXTERNAL,
            external_data=[StringStringEntryProto(key=key, value=text) for key, text in entries.items()],
        )
        data: bytes = tensor.SerializeToString()
        return data

    def _field(self, end: int) -> tuple[int, int]:
        """Read a field's tag; give it and where the field's content ends. The file stands at the content."""
        self._fields_left -= 1
        if self._fields_left < 0:  # millions of small fields: the decoder is quicker with them
            raise _NotReadable
        tag = self._varint()
        if tag >> 3 == 0:
            raise _NotReadable
        wire = tag & 7
        if wire == _LENGTH:
            size = self._varint()
        elif wire == _VARINT:
            start = self._file.tell()
            self._varint()
            size = self._file.tell() - start
            self._file.seek(start)
        elif wire in _FIXED_BYTES:
            size = _FIXED_BYTES[wire]
        else:
            raise _NotReadable
        body = self._file.tell() + size
        if body > end:
            raise _NotReadable
        return tag, body

    def _copy(self, made: bytearray, tag: int, body: int) -> None:
        content = self._take(body)
        if tag & 7 == _LENGTH:
            _put_message(made, tag, content)
        else:
            made += _varint_bytes(tag) + content

    def _take(self, end: int) -> bytes:
        return self._file.read(end - self._file.tell())

    def _varint(self) -> int:
        value = 0
        for position in range(_MAX_VARINT_BYTES):
            byte = self._file.read(1)
            if not byte:
                break
            value |= (byte[0] & 127) << 7 * position
            if byte[0] < 128:
                return value
        raise _NotReadable


def _put_message(made: bytearray, tag: int, content: bytes) -> None:
    made += _varint_bytes(tag) + _varint_bytes(len(content)) + content


def _varint_bytes(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
