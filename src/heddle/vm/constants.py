"""The constant pool: which values it takes, when two are the same, and how they are stored.

Stored form: section `constants` is a table of tagged entries; tensors keep their bytes in section
`constant.<i>`, so that they can be used in the mapped file. Scalars are stored with all their bits.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from heddle.runtime.artefact import Section, require
from heddle.runtime.dtype import SCALAR_NAMES, DataType
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor, tensor_from_bytes
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.vm.codes import V0203, V0309


@dataclass(frozen=True, slots=True)
class LateConstant:
    """A tensor that lies elsewhere: whoever loads the program gives it, by its name, before a machine is
    made."""

    name: str


def not_loaded(value: LateConstant) -> UsageError:
    """The error of a program that is used without one of its constants (V0309)."""
    return UsageError(
        V0309,
        f"constant {value.name!r} was not loaded",
        help="load_late_bound_consts(path) of the executable loads them",
    )


Constant = Tensor | Shape | str | int | float | DataType | LateConstant
_TENSOR, _SHAPE, _STRING, _INT, _FLOAT, _DTYPE, _LATE = range(7)
_MAX_RANK = 64
_SAMPLE_BYTES = 128


def constant_key(value: Constant) -> Hashable:
    """Equal for constants that may share a pool entry (see `is_same_constant`): of tensors, only a sample of
    the bytes is looked at, as weights may be gigabytes.

    Raises: UsageError V0203 for a value that cannot be a constant.
    """
    if isinstance(value, Tensor):
        data = value.raw_bytes()
        return (_TENSOR, value.shape, value.dtype, bytes(data[:: 1 + len(data) // _SAMPLE_BYTES]))
    if isinstance(value, LateConstant):
        return (_LATE, value.name)
    if isinstance(value, DataType):
        return (_DTYPE, str(value))
    if isinstance(value, Shape):
        return (_SHAPE, tuple(value))
    if isinstance(value, str):
        return (_STRING, value)
    if isinstance(value, int):
        return (_INT, int(value))
    if isinstance(value, float):
        return (_FLOAT, struct.pack("<d", value))
    raise UsageError(V0203, f"a value of type {type(value).__name__} cannot be a constant")


def is_same_constant(a: Constant, b: Constant) -> bool:
    """Whether constants of equal `constant_key` share a pool entry: tensors do where their bits are equal."""
    if a is b or not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return True
    return np.array_equal(np.frombuffer(a.raw_bytes(), np.uint8), np.frombuffer(b.raw_bytes(), np.uint8))


def constant_section(number: int) -> str:
    """Where a tensor's bytes are stored."""
    return f"constant.{number}"


def write_constants(constants: Sequence[Constant]) -> dict[str, bytes | memoryview]:
    """The sections of a pool."""
    table, sections = Writer(), {}
    table.u64(len(constants))
    for number, value in enumerate(constants):
        if isinstance(value, Tensor):
            table.u8(_TENSOR)
            table.text(value.dtype)
            table.words(value.shape)
            sections[constant_section(number)] = value.raw_bytes()
        elif isinstance(value, LateConstant):
            table.u8(_LATE)
            table.text(value.name)
        elif isinstance(value, DataType):
            table.u8(_DTYPE)
            table.text(value)
        elif isinstance(value, Shape):
            table.u8(_SHAPE)
            table.words(value)
        elif isinstance(value, str):
            table.u8(_STRING)
            table.text(value)
        elif isinstance(value, int):
            table.u8(_INT)
            table.text(str(int(value)))
        else:
            table.u8(_FLOAT)
            table.f64(value)
    return {"constants": table.bytes(), **sections}


def read_constants(sections: Mapping[str, Section]) -> list[Constant]:
    """The pool that `write_constants` wrote. Raises: FormatError F0105 or F0106."""
    table = require(sections, "constants").reader()
    constants: list[Constant] = []
    for number in range(table.count(1)):
        constants.append(_read_one(table, number, sections))
    table.done()
    return constants


def _read_one(table: Reader, number: int, sections: Mapping[str, Section]) -> Constant:
    tag = table.u8()
    if tag == _TENSOR:
        return _read_tensor(table, require(sections, f"constant.{number}"))
    if tag == _SHAPE:
        return Shape(table.words())
    if tag == _STRING:
        return table.text()
    if tag == _INT:
        text = table.text()
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 40:
            raise table.fail(f"constant {number} is no integer: {text[:40]!r}")
        return int(text)
    if tag == _FLOAT:
        return table.f64()
    if tag == _DTYPE:
        return _read_dtype(table)
    if tag == _LATE:
        return LateConstant(table.text())
    raise table.fail(f"constant {number} has unknown tag {tag}")


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
