"""Builtins for values of algebraic data types, for references, and for the error when no match clause
applies."""

from __future__ import annotations

from typing import Any, NoReturn

from heddle.runtime.data import ConstructorValue, RefValue
from heddle.support.diagnostics import Trap, TrapIndexError, TrapTypeError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0404, V0411


def _data(value: Any) -> ConstructorValue:
    if not isinstance(value, ConstructorValue):
        raise TrapTypeError(V0402, f"expected a value of a data type, got {type(value).__name__}")
    return value


def _reference(value: Any) -> RefValue:
    if not isinstance(value, RefValue):
        raise TrapTypeError(V0402, f"expected a reference, got {type(value).__name__}")
    return value


@builtin("make_data")
def make_data(tag: int, *fields: Any) -> ConstructorValue:
    """Make a value of a data type from its constructor's tag and its fields."""
    return ConstructorValue(tag, fields)


@builtin("has_tag")
def has_tag(value: Any, tag: int) -> bool:
    """Whether a value of a data type has this tag. Raises: TrapTypeError V0402 for another value."""
    return _data(value).tag == tag


@builtin("get_field")
def get_field(value: Any, index: int) -> Any:
    """Return a field of a value of a data type. Raises: TrapTypeError V0402, TrapIndexError V0404."""
    fields = _data(value).fields
    if not 0 <= index < len(fields):
        raise TrapIndexError(
            V0404, f"field {index} is out of range: the value of a data type has {len(fields)} fields"
        )
    return fields[index]


@builtin("make_ref")
def make_ref(value: Any) -> RefValue:
    """Make a new reference that holds a value."""
    return RefValue(value)


@builtin("read_ref")
def read_ref(ref: Any) -> Any:
    """Return the value that a reference holds. Raises: TrapTypeError V0402 for another value."""
    return _reference(ref).value


@builtin("write_ref")
def write_ref(ref: Any, value: Any) -> None:
    """Store a value in a reference. Raises: TrapTypeError V0402 if it is not a reference."""
    _reference(ref).value = value


@builtin("fatal")
def fatal(message: str) -> NoReturn:
    """End the program with an error. Raises: Trap V0411, always."""
    raise Trap(V0411, message)
