"""Faster forms of frequent instructions, chosen when bytecode is decoded.

    null_value                        (CLEAR, None, None, dst)        frame[dst] = None
    alloc_storage of a constant size  (DO0, lend, None, dst)          frame[dst] = lend()
    alloc_tensor of a constant shape  (DO1, place, storage, dst)      frame[dst] = place(frame[storage])
    other calls with one operand      (DO1, f, operand, dst)

They behave like the builtins. On failure they call the builtin, which raises the error. Machines that are
observed use the plain form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native import abi
from heddle.runtime.native.glue import configure_glue
from heddle.runtime.native.memory import record_of
from heddle.runtime.native.methods import make_fast_method
from heddle.runtime.shape import Shape
from heddle.runtime.storage import Allocator
from heddle.vm.builtins.memory import PLAIN_SCOPES, alloc_storage, alloc_tensor, null_value
from heddle.vm.steps import CLEAR, DO0, DO1, UNKNOWN

_MAX_BYTES = 1 << 56


def shortcut(
    call: Callable[..., Any], operands: Sequence[Any], allocators: Sequence[Allocator]
) -> tuple[int, Callable[..., Any] | None] | None:
    """Return the faster form of a call of a builtin or kernel: DO0 or DO1 with the callable, or CLEAR.

    `operands` are the values that are known, UNKNOWN elsewhere. The operand of DO1 is the first one.
    """
    if call is null_value:
        return CLEAR, None
    found: Callable[..., Any] | None = None
    if call is alloc_storage:
        found = fixed_storage(allocators, operands)
        return None if found is None else (DO0, found)
    if call is alloc_tensor:
        found = fixed_tensor(operands)
        return None if found is None else (DO1, found)
    return (DO1, call) if len(operands) == 1 else None


def fixed_storage(allocators: Sequence[Allocator], operands: Sequence[Any]) -> Callable[[], Any] | None:
    """What lends the storage of an `alloc_storage` whose operands are all known, else None."""
    if len(operands) not in (4, 5) or any(operand is UNKNOWN for operand in operands[1:]):
        return None
    _, shape, index, dtype, *scope = operands
    known = isinstance(shape, Shape) and isinstance(index, int) and isinstance(dtype, DataType)
    if not known or not -1 <= index < len(allocators) or (scope and scope[0] not in PLAIN_SCOPES):
        return None
    size_bytes = prod(shape) * dtype.itemsize
    if not all(size >= 0 for size in shape) or size_bytes >= _MAX_BYTES:
        return None
    allocator = allocators[index]
    lend = allocator.lender(size_bytes)
    return lambda: lend() or allocator.refuse()


def fixed_tensor(operands: Sequence[Any]) -> Callable[[Any], Any] | None:
    """What places the tensor of an `alloc_tensor` on its storage, where all else is known, else None."""
    if len(operands) not in (4, 5) or any(operand is UNKNOWN for operand in operands[1:]):
        return None
    _, offset, shape, dtype, *scope = operands
    known = isinstance(shape, Shape) and isinstance(offset, int) and isinstance(dtype, DataType)
    if not known or offset < 0 or any(size < 0 for size in shape) or (scope and scope[0] not in PLAIN_SCOPES):
        return None
    end = offset + prod(shape) * dtype.itemsize
    if end >= _MAX_BYTES:
        return None
    form = record_of(abi.TensorRecord, offset, end, packed_dtype(dtype), len(shape))
    record = form + struct.pack(f"<{len(shape)}q", *shape)
    given = (offset, shape, dtype, *scope)
    code = configure_glue().addresses["heddle_place_tensor"]
    return make_fast_method("alloc_tensor", code, record, lambda _bound, args: alloc_tensor(*args, *given))
