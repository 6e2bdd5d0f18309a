"""Read and write the fields of a section: little-endian numbers and length-prefixed strings.

The reader does not trust its input: every length is compared with the remaining bytes before memory is
allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from heddle.runtime.codes import F0106
from heddle.support.diagnostics import FormatError

T = TypeVar("T")
Buffer = bytes | memoryview


class Writer:
    """Appends fields to a byte string."""

    def __init__(self) -> None:
        self._parts: list[Buffer] = []

    def u8(self, value: int) -> None:
        """One byte, 0 to 255."""
        self._parts.append(struct.pack("<B", value))

    def i32(self, value: int) -> None:
        """Write a signed 4-byte integer, little-endian."""
        self._parts.append(struct.pack("<i", value))

    def i64(self, value: int) -> None:
        """Write a signed 8-byte integer, little-endian."""
        self._parts.append(struct.pack("<q", value))

    def u64(self, value: int) -> None:
        """Write an unsigned 8-byte integer, little-endian."""
        self._parts.append(struct.pack("<Q", value))

    def f64(self, value: float) -> None:
        """Write a float64, little-endian."""
        self._parts.append(struct.pack("<d", value))

    def blob(self, data: Buffer) -> None:
        """Write a length in bytes, then the bytes."""
        self.u64(len(data))
        self._parts.append(data)

    def text(self, value: str) -> None:
        """Write a text in UTF-8. Lone surrogates are escaped; Python uses them for file names that are not
        UTF-8.
        """
        self.blob(value.encode("utf-8", "backslashreplace"))

    def numbers(self, values: Sequence[int]) -> None:
        """Write a count, then signed 8-byte integers."""
        self.u64(len(values))
        self._parts.append(np.asarray(values, "<i8").tobytes())

    def words(self, values: Sequence[int]) -> None:
        """Write a length in bytes, then signed 8-byte integers."""
        self.blob(np.asarray(values, "<i8").tobytes())

    def texts(self, values: Sequence[str]) -> None:
        """Write a count, then the texts."""
        self.u64(len(values))
        for value in values:
            self.text(value)

    def bytes(self) -> bytes:
        """Return everything that was written."""
        return b"".join(self._parts)


class Reader:
    """Reads the fields of a section. Every failure is a FormatError F0106 with the section's name and the
    file offset.
    """

    def __init__(self, data: Buffer, name: str, file_offset: int = 0) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._name = name
        self._base = file_offset

    def fail(self, message: str) -> FormatError:
        """Return the error for the last field that was read, with the section and its file offset."""
        return FormatError(F0106, f"section {self._name!r} at byte {self._base + self._at}: {message}")

    def enter(self, name: str) -> None:
        """Use the name of another section in errors from here on."""
        self._name = name

    def _take(self, size_bytes: int) -> memoryview:
        if size_bytes > len(self._data) - self._at:
            raise self.fail(f"expected {size_bytes} more bytes, got {len(self._data) - self._at}")
        piece = self._data[self._at : self._at + size_bytes]
        self._at += size_bytes
        return piece

    def u8(self) -> int:
        """Read one byte."""
        return self._take(1)[0]

    def i32(self) -> int:
        """Read a signed 4-byte integer."""
        return int.from_bytes(self._take(4), "little", signed=True)

    def i64(self) -> int:
        """Read a signed 8-byte integer."""
        return int.from_bytes(self._take(8), "little", signed=True)

    def u64(self) -> int:
        """Read an unsigned 8-byte integer."""
        return int.from_bytes(self._take(8), "little")

    def f64(self) -> float:
        """Read a float64."""
        value: float = struct.unpack("<d", self._take(8))[0]
        return value

    def blob(self) -> memoryview:
        """Read a length, then that many bytes, without a copy."""
        return self._take(self.u64())

    def text(self) -> str:
        """Read a length in bytes, then a UTF-8 text."""
        data = self.blob()
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"text is not utf-8: {error.reason}") from None

    def numbers(self) -> list[int]:
        """Read a count, then signed 8-byte integers."""
        found: list[int] = np.frombuffer(self._take(8 * self.count(8)), "<i8").tolist()
        return found

    def words(self) -> list[int]:
        """Read a length in bytes, then signed 8-byte integers."""
        data = self.blob()
        if len(data) % 8:
            raise self.fail(f"expected whole 8-byte words, got {len(data)} bytes")
        values: list[int] = np.frombuffer(data, "<i8").tolist()
        return values

    def count(self, min_item_bytes: int) -> int:
        """Read a count of items of at least `min_item_bytes` each. The items must fit into the remaining
        bytes.
        """
        value = self.u64()
        if value * min_item_bytes > len(self._data) - self._at:
            raise self.fail(f"expected {value} items, got {len(self._data) - self._at} bytes")
        return value

    def texts(self) -> list[str]:
        """Read a count, then texts."""
        return [self.text() for _ in range(self.count(8))]

    def items(self, min_item_bytes: int, read: Callable[[], T]) -> list[T]:
        """Read a count, then call `read` for each item. Return the results."""
        return [read() for _ in range(self.count(min_item_bytes))]

    def done(self) -> None:
        """Raise an error if bytes remain."""
        if self._at != len(self._data):
            raise self.fail(f"{len(self._data) - self._at} bytes are left over")
