"""Builtins for tuples."""

from __future__ import annotations

from math import prod
from typing import Any

from heddle.runtime.layout import layout_of
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor, allocated
from heddle.support.diagnostics import TrapIndexError, TrapTypeError, TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403, V0404
from heddle.vm.placement import MachineMemory


@builtin("make_tuple")
def make_tuple(*elements: Any) -> Array:
    """Return a tuple of the arguments."""
    return Array(elements)


def _check(value: Any, index: int) -> None:
    if not isinstance(value, tuple):
        raise TrapTypeError(V0402, f"expected a tuple, got {type(value).__name__}")
    if not 0 <= index < len(value):
        raise TrapIndexError(
            V0404, f"tuple index {index} is out of range: the tuple has {len(value)} elements"
        )


@builtin("stack_chain", allocates=True)
def stack_chain(
    chain: Any,
    *,
    memory: MachineMemory = MachineMemory(None),  # noqa: B008 (it is never changed)
) -> Tensor:
    """Concatenate the tensor `first` and the rows of a chain `(((first, row), row), row)`. The result has
    shape (rows of first + rows of the chain, ...).

    A loop that collects rows builds one pair per iteration, in constant time. Raises: TrapTypeError V0402 for
    another value; TrapValueError V0403 for a row of another dtype or shape.
    """
    rows: list[Tensor] = []
    while isinstance(chain, tuple) and len(chain) == 2 and isinstance(chain[1], Tensor):
        chain, row = chain
        rows.append(row)
    if not isinstance(chain, Tensor) or not chain.ndim or not chain.is_contiguous:
        found = type(chain).__name__
        raise TrapTypeError(
            V0402, f"expected a chain of rows, (((tensor, tensor), tensor), ...), got {found}"
        )
    count, *inner = chain.shape
    layout = layout_of((count + len(rows), *inner))
    made = allocated(memory.allocator_of(chain.device), layout, chain.dtype)
    values, size = made.numpy(), prod(inner) * chain.dtype.itemsize
    values[:count] = chain.numpy()
    for place, row in zip(reversed(range(count, layout.shape[0])), rows, strict=True):
        if row.dtype != chain.dtype or row.size_bytes != size or not row.is_contiguous:
            raise TrapValueError(
                V0403,
                f"rows of a chain differ: expected a dense one of {size} bytes, "
                f"got one of {row.size_bytes} bytes",
            )
        values[place] = row.numpy().reshape(values.shape[1:])
    return made


@builtin("stack_rows", allocates=True)
def stack_rows(
    chain: Any,
    *,
    memory: MachineMemory = MachineMemory(None),  # noqa: B008 (it is never changed)
) -> Tensor:
    """Like `stack_chain`, for rows whose sizes are known only at run time. `first` has no rows; it is the
    result's form if the chain has no rows.

    Raises: TrapTypeError V0402 for another value; TrapValueError V0403 for rows that differ.
    """
    rows: list[Tensor] = []
    while isinstance(chain, tuple) and len(chain) == 2 and isinstance(chain[1], Tensor):
        chain, row = chain
        rows.append(row)
    if not isinstance(chain, Tensor):
        raise TrapTypeError(V0402, f"expected a chain of rows, got {type(chain).__name__}")
    if not rows:
        return chain
    shape, dtype = tuple(rows[0].shape), chain.dtype
    made = allocated(memory.allocator_of(chain.device), layout_of((len(rows), *shape)), dtype)
    values = made.numpy()
    for place, row in enumerate(reversed(rows)):
        if row.dtype != dtype or tuple(row.shape) != shape:
            raise TrapValueError(V0403, f"rows of a loop differ: {shape} and {tuple(row.shape)}")
        values[place] = row.numpy()
    return made


@builtin("tuple_getitem")
def tuple_getitem(value: Array, index: int) -> Any:
    """Return an element of a tuple. Raises: TrapTypeError V0402, TrapIndexError V0404."""
    _check(value, index)
    return value[index]


@builtin("tuple_reset_item")
def tuple_reset_item(value: Array, index: int) -> None:
    """Replace an element by None for every holder of the tuple, to free it. Raises: as `tuple_getitem`."""
    _check(value, index)
    if not isinstance(value, Array):
        raise TrapTypeError(V0402, f"expected a tuple of the program, got {type(value).__name__}")
    value.release_item(index)
