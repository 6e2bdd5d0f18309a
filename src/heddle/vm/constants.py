"""The constant pool of a program: which values it accepts, when two constants are the same, and how they are
stored.

Section `constants` is a table of tagged entries. Tensors store their bytes in section `constant.<i>`, so that
they can be used in the mapped file without a copy. Scalars are stored bit-exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from math import prod
from typing import Any

import numpy as np

from heddle.runtime.artefact import Section, require
from heddle.runtime.dtype import SCALAR_NAMES, DataType
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor, tensor_from_bytes
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0203, V0309


@frozen
class LateConstant:
    """A tensor that is not stored in the program. The loader supplies it by name before a machine is
    created.
    """

    name: str


def not_loaded(value: LateConstant) -> UsageError:
    """Return the error (V0309) for a program that is used before such a constant was supplied."""
    return UsageError(
        V0309,
        f"constant {value.name!r} was not loaded",
        help="load_late_bound_consts(path) of the executable loads them",
    )


Constant = Tensor | Shape | str | int | float | DataType | LateConstant


class ConstantKind(Enum):
    """The kind of a constant. Each file format numbers the kinds in its own order."""

    TENSOR = auto()
    LATE = auto()
    DTYPE = auto()
    SHAPE = auto()
    TEXT = auto()
    INT = auto()
    FLOAT = auto()


_TYPES: tuple[
    tuple[type, ConstantKind], ...
] = (  # a DataType is a text, a Shape and a bool others of these, too
    (Tensor, ConstantKind.TENSOR),
    (LateConstant, ConstantKind.LATE),
    (DataType, ConstantKind.DTYPE),
    (Shape, ConstantKind.SHAPE),
    (str, ConstantKind.TEXT),
    (int, ConstantKind.INT),
    (float, ConstantKind.FLOAT),
)
_TAGS = (
    ConstantKind.TENSOR,
    ConstantKind.SHAPE,
    ConstantKind.TEXT,
    ConstantKind.INT,
    ConstantKind.FLOAT,
    ConstantKind.DTYPE,
    ConstantKind.LATE,
)
"""The kinds by their tags in the table."""
_MAX_RANK = 64
_MAX_DIGITS = 40
_SAMPLE_BYTES = 128


def kind_of(value: Any) -> ConstantKind:
    """Return the kind of a constant. Raises: UsageError V0203 for a value that cannot be one."""
    for kind_type, kind in _TYPES:
        if isinstance(value, kind_type):
            return kind
    raise UsageError(V0203, f"a value of type {type(value).__name__} cannot be a constant")


def constant_key(value: Constant) -> Hashable:
    """Return a key that is equal for constants that may share a pool entry (see `is_same_constant`). For a
    tensor, only a sample of the bytes is hashed, because weights may have gigabytes.

    Raises: UsageError V0203 for a value that cannot be a constant.
    """
    kind = kind_of(value)
    if isinstance(value, Tensor):
        data = value.raw_bytes()
        return (kind, value.shape, value.dtype, bytes(data[:: 1 + len(data) // _SAMPLE_BYTES]))
    if isinstance(value, Shape):
        return (kind, tuple(value))
    if isinstance(value, float):
        return (kind, struct.pack("<d", value))
    if isinstance(value, LateConstant):
        return (kind, value.name)
    return (kind, str(value) if isinstance(value, str) else int(value))


def write_plain(writer: Writer, value: Constant) -> None:
    """Write a constant that is neither a tensor nor a shape. (Formats differ in how they store those.)"""
    if isinstance(value, LateConstant):
        writer.text(value.name)
    elif isinstance(value, str):
        writer.text(value)
    elif isinstance(value, int):
        writer.text(str(int(value)))
    else:
        assert isinstance(value, float)
        writer.f64(value)


def read_plain(reader: Reader, kind: ConstantKind) -> Constant:
    """Read a constant that `write_plain` wrote. Raises: FormatError F0106."""
    if kind is ConstantKind.FLOAT:
        return reader.f64()
    if kind is ConstantKind.DTYPE:
        return _read_dtype(reader)
    text = reader.text()
    if kind is ConstantKind.INT:
        return parse_integer(reader, text)
    return LateConstant(text) if kind is ConstantKind.LATE else text


def parse_integer(reader: Reader, text: str) -> int:
    """Parse an integer from a file. Raises: FormatError F0106."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        raise reader.fail(f"expected an integer, got {text[:40]!r}")
    return int(text)


def is_same_constant(a: Constant, b: Constant) -> bool:
    """Whether two constants with equal `constant_key` can share a pool entry. For tensors, their bits must be
    equal."""
    if a is b or not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return True
    return np.array_equal(np.frombuffer(a.raw_bytes(), np.uint8), np.frombuffer(b.raw_bytes(), np.uint8))


def constant_section(number: int) -> str:
    """Return the name of the section with a tensor's bytes."""
    return f"constant.{number}"


def write_constants(constants: Sequence[Constant]) -> dict[str, bytes | memoryview]:
    """Return the sections of a constant pool."""
    table, sections = Writer(), {}
    table.u64(len(constants))
    for number, value in enumerate(constants):
        table.u8(_TAGS.index(kind_of(value)))
        if isinstance(value, Tensor):
            table.text(value.dtype)
            table.words(value.shape)
            sections[constant_section(number)] = value.raw_bytes()
        elif isinstance(value, Shape):
            table.words(value)
        else:
            write_plain(table, value)
    return {"constants": table.bytes(), **sections}


def read_constants(sections: Mapping[str, Section]) -> list[Constant]:
    """Read the pool that `write_constants` wrote. Raises: FormatError F0105 or F0106."""
    table = require(sections, "constants").reader()
    constants: list[Constant] = []
    for number in range(table.count(1)):
        constants.append(_read_one(table, number, sections))
    table.done()
    return constants


def _read_one(table: Reader, number: int, sections: Mapping[str, Section]) -> Constant:
    tag = table.u8()
    if tag >= len(_TAGS):
        raise table.fail(f"constant {number} has unknown tag {tag}")
    kind = _TAGS[tag]
    if kind is ConstantKind.TENSOR:
        return _read_tensor(table, require(sections, constant_section(number)))
    return Shape(table.words()) if kind is ConstantKind.SHAPE else read_plain(table, kind)


def _read_dtype(table: Reader) -> DataType:
    text = table.text()
    try:
        return DataType(text)
    except IRTypeError:
        raise table.fail(
            f"unknown dtype {text[:40]!r}: expected one of {', '.join(SCALAR_NAMES[:6])}, ..."
        ) from None


def _read_tensor(table: Reader, data: Section) -> Tensor:
    dtype, shape = _read_dtype(table), tuple(table.words())
    if len(shape) > _MAX_RANK or any(size < 0 for size in shape) or dtype.code in ("handle", "void"):
        raise table.fail(f"a constant cannot have shape {shape[:8]} and dtype {dtype}")
    expected = prod(shape) * dtype.itemsize
    if expected != len(data.data):
        raise table.fail(
            f"a constant of shape {shape} and dtype {dtype} needs {expected} bytes, got {len(data.data)}"
        )
    return tensor_from_bytes(data.data, shape, dtype)
