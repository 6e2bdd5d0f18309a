"""Decide where allocations get memory: from the stack, or from the thread's workspace."""

from __future__ import annotations

from functools import reduce

from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.ops import const, multiply
from heddle.tir.nodes import AllocBuffer, Buffer

MAX_STACK_BYTES = 16 * 1024
"""The limit for stack memory in bytes. Larger allocations, and those of unknown size, use the workspace."""
STORAGE = "storage"
"""The annotation of an allocation that overrides the rule: "stack" or "workspace"."""


def num_elements(buffer: Buffer) -> PrimExpr:
    """The product of the dimensions."""
    return reduce(multiply, buffer.shape, const(1, buffer.shape[0].dtype if buffer.shape else "int32"))


def size_bytes(buffer: Buffer) -> int | None:
    """Return the size of a dense buffer in bytes; None if a dimension is symbolic."""
    dims = [dim.value for dim in buffer.shape if isinstance(dim, IntImm)]
    if len(dims) != len(buffer.shape):
        return None
    return reduce(lambda a, b: a * b, dims, buffer.dtype.itemsize)


def is_on_stack(alloc: AllocBuffer) -> bool:
    """Whether an allocation uses the stack: it is constant and small, or its annotation says so."""
    size = size_bytes(alloc.buffer)
    wanted = alloc.annotations.get(STORAGE)
    if size is None or wanted == "workspace":
        return False
    return wanted == "stack" or size <= MAX_STACK_BYTES
