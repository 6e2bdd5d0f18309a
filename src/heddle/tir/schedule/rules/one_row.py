"""Products of one row with weights that are not packed: strips of columns, by the rule of row passes.

    for j, k in grid(n, k):                   for strips of columns, on threads:
        C[0, j] += A[0, k] * B[k, j]    →         for k:  sums[strip] += A[0, k] * B[k, strip]

Each weight is read once, so that nothing pays for a copy; the longer a strip, the fewer pages of memory a row
of it touches. A register tile would go down a few columns, with another page at every step. The steps of
a sum are in the same order either way. Where the number of rows is free, one row has loops of its own
(`one_column.either`), with packed weights, too: a tile of one row is wider, and asks for no weights ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.nodes import IterType, PrimFunc, SBlock
from heddle.tir.schedule.rules.register_tile import Axes, classify, operands
from heddle.tir.schedule.rules.rule import block_of, extent_of, is_reduction
from heddle.tir.schedule.schedule import SBlockRV, Schedule

FEWEST_COLUMNS = 128
"""Columns that are worth strips: of fewer a register tile takes all, or nearly."""


def has_one_row(sch: Schedule, handle: SBlockRV, axes: Axes) -> bool:
    """Whether one row is multiplied by plain weights with any number of columns, or many."""
    return _may_be_strips(sch, handle, axes) and all(
        extent_of(extent) == 1 for extent in _rows(block_of(sch, handle), axes)
    )


def size_of_one_row(func: PrimFunc) -> Var | None:
    """The free size that alone says how many rows a product with plain or packed weights has; None where
    a function is something else, or where the weights have this size, too."""
    sch = Schedule(func)
    reductions = [handle for handle in sch.blocks() if is_reduction(block_of(sch, handle))]
    if len(reductions) != 1 or not is_contraction(block_of(sch, reductions[0])):
        return None
    handle, block = reductions[0], block_of(sch, reductions[0])
    axes = classify(block)
    if axes is None or not (axes.packed is not None or _may_be_strips(sch, handle, axes)):
        return None
    others = [extent for extent in _rows(block, axes) if extent_of(extent) != 1]
    size = others[0] if len(others) == 1 else None
    _, weights = operands(block, axes)
    return size if isinstance(size, Var) and size not in free_vars(*weights.buffer.shape) else None


def _may_be_strips(sch: Schedule, handle: SBlockRV, axes: Axes) -> bool:
    """Whether a product's weights are read as they were given, along enough columns."""
    block = block_of(sch, handle)
    columns = next(extent_of(axis.dom.extent) for axis in block.iter_vars if axis.var is axes.n)
    is_narrow = columns is not None and columns < FEWEST_COLUMNS
    return axes.packed is None and not is_narrow and len(axes.reduce) == 1 and not sch.get_producers(handle)


def _rows(block: SBlock, axes: Axes) -> Sequence[PrimExpr]:
    """How many values each axis of the result has that the weights lack."""
    _, weights = operands(block, axes)
    used = free_vars(*weights.indices)
    spatial = [axis for axis in block.iter_vars if axis.iter_type is IterType.DataPar]
    return [axis.dom.extent for axis in spatial if axis.var not in used]
