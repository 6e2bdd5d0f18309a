"""Find the dtypes with which a function computes."""

from __future__ import annotations

from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import BufferStore, Stmt


def dtypes_in(stmt: Stmt) -> set[str]:
    """The element dtypes of all expressions at or below, and of what is stored to."""
    found: set[DataType] = set()
    for node in walk_distinct(stmt):
        if isinstance(node, PrimExpr):
            found.add(node.dtype)
        elif isinstance(node, BufferStore):
            found.add(node.buffer.dtype)
    return {str(dtype.element) for dtype in found}
