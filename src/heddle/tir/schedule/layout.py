"""Another layout for a temporary buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.arith import Analyzer, IntervalSet
from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr, Var, as_expr, constant
from heddle.prim.substitute import substitute
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.codes import T0408
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, decl_buffer
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import blocks_in, find_block, replace_stmt
from heddle.tir.substitute import StmtSubstituter

IndexMap = Callable[..., Sequence[Any]]


def transform_layout(func: PrimFunc, block_name: str, buffer_index: int, index_map: IndexMap) -> PrimFunc:
    """B[i, j]   →   B[index_map(i, j)]   for all accesses of the temporary buffer that a block writes

    The map must be injective on the buffer's indices.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    old = block.writes[buffer_index].buffer
    if old in func.buffers:
        raise ScheduleError(T0408, f"buffer {old.name!r} belongs to the caller", func, block)
    axes = [Var(f"i{k}", dim.dtype) for k, dim in enumerate(old.shape)]
    mapped = [as_expr(index) for index in index_map(*axes)]
    new = decl_buffer(_extents(axes, mapped, old), old.dtype, old.name, scope=old.scope)
    func = _swap_allocation(func, old, new)
    for realize in blocks_in(func.body):
        touched = [region.buffer for region in (*realize.block.reads, *realize.block.writes)]
        if old in touched:
            inner = _Remap(old, new, axes, mapped).visit(realize.block)
            func = replace_stmt(func, realize.block, with_access_regions(inner))
    return func


def _extents(axes: list[Var], mapped: list[PrimExpr], old: Buffer) -> list[PrimExpr]:
    """For every new dimension one more than its greatest index."""
    analyzer = Analyzer()
    domain = {
        axis: IntervalSet(constant(0, dim.dtype), dim - 1) for axis, dim in zip(axes, old.shape, strict=True)
    }
    return [analyzer.simplify(analyzer.int_set(index, domain).max_value + 1) for index in mapped]


def _swap_allocation(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    for realize in blocks_in(func.body):
        owner = realize.block
        if old in owner.alloc_buffers:
            kept = tuple(new if buffer is old else buffer for buffer in owner.alloc_buffers)
            return replace_stmt(func, owner, replace(owner, alloc_buffers=kept))
    raise ScheduleError(T0408, f"buffer {old.name!r} is allocated by no block", func)


class _Remap(StmtSubstituter):
    def __init__(self, old: Buffer, new: Buffer, axes: list[Var], mapped: list[PrimExpr]) -> None:
        super().__init__({})
        self._old, self._new, self._axes, self._mapped = old, new, axes, mapped

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        values = dict(zip(self._axes, indices, strict=True))
        return tuple(substitute(index, values) for index in self._mapped)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer is not self._old:
            return super().visit_BufferLoad(node)
        return BufferLoad(
            self._new, self._indices(tuple(self.visit(i) for i in node.indices)), span=node.span
        )

    def visit_BufferStore(self, node: BufferStore) -> Any:
        value = self.visit(node.value)
        indices = tuple(self.visit(index) for index in node.indices)
        if node.buffer is not self._old:
            return BufferStore(node.buffer, value, indices, node.predicate, span=node.span)
        return BufferStore(self._new, value, self._indices(indices), span=node.span)

    def visit_BufferRegion(self, node: Any) -> Any:
        return node
