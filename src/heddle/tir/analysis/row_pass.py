"""Recognise functions that compute each row of a tensor from the same row of another one, such as softmax."""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, Var
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.nodes import BufferLoad, BufferStore, IterType, PrimFunc, SBlock


def is_row_pass(func: PrimFunc) -> bool:
    """Whether every block of a function of one operand and one result runs over the same rows, which all
    dimensions but the last number, and some block reduces along the last one."""
    blocks = plain_nests(func)
    if blocks is None or len(func.buffers) != 2:
        return False
    operand, result = func.buffers
    ndim = operand.ndim
    if ndim < 2 or result.ndim != ndim or not all(_stays_in_rows(block, ndim - 1) for block in blocks):
        return False
    return any(axis.iter_type is IterType.CommReduce for block in blocks for axis in block.iter_vars)


def _stays_in_rows(block: SBlock, dims: int) -> bool:
    """Whether a block stores and reads at the same indices but for the last."""
    store = block.body
    if not isinstance(store, BufferStore) or len(store.indices) not in (dims, dims + 1):
        return False
    spatial = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DataPar}
    rows = tuple(store.indices[:dims])
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    return (
        len(set(rows)) == dims
        and all(isinstance(index, Var) and index in spatial for index in rows)
        and all(_is_row(load.indices, rows) for load in loads)
    )


def _is_row(indices: tuple[PrimExpr, ...], rows: tuple[PrimExpr, ...]) -> bool:
    return len(indices) >= len(rows) and all(a is b for a, b in zip(indices, rows, strict=False))
