"""Tuples."""

from __future__ import annotations

from typing import Any

from heddle.runtime.shape import Array
from heddle.support.diagnostics import TrapIndexError, TrapTypeError
from heddle.vm.codes import V0402, V0404
from heddle.vm.relax.builtins.table import builtin


@builtin("make_tuple")
def make_tuple(*elements: Any) -> Array:
    return Array(elements)


def _check(value: Any, index: int) -> None:
    if not isinstance(value, tuple):
        raise TrapTypeError(V0402, f"expected a tuple, got {type(value).__name__}")
    if not 0 <= index < len(value):
        raise TrapIndexError(
            V0404, f"tuple index {index} is out of range: the tuple has {len(value)} elements"
        )


@builtin("tuple_getitem")
def tuple_getitem(value: Array, index: int) -> Any:
    """Raises: TrapTypeError V0402, TrapIndexError V0404."""
    _check(value, index)
    return value[index]


@builtin("tuple_reset_item")
def tuple_reset_item(value: Array, index: int) -> None:
    """Replace an element by None for every holder of the tuple, to free it. Raises: as `tuple_getitem`."""
    _check(value, index)
    if not isinstance(value, Array):
        raise TrapTypeError(V0402, f"expected a tuple of the program, got {type(value).__name__}")
    value.release_item(index)
