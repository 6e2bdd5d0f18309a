"""Another layout for a buffer."""

from __future__ import annotations

from typing import Any

from heddle.arith import Analyzer
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.prim.ops import cast
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0416
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, Stmt, decl_buffer, seq
from heddle.tir.schedule.blocks.nest import loop_nest, whole_axes
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.staging.access import AccessRewriter, exchange_buffer
from heddle.tir.schedule.tree import (
    find_block,
    fresh_block_name,
    replace_stmt,
    root_block,
    statement_before,
    writes_buffer,
)


def transform_layout(
    func: PrimFunc,
    block_name: str,
    old: Buffer,
    index_map: IndexMap,
    pad_value: Any = None,
    assume_injective: bool = False,
) -> PrimFunc:
    """B[i, j]   →   B[j // 4, i, j % 4]   for all accesses of a buffer that a block reads or writes

    The map must give different elements different places. A buffer of the caller changes its shape in the
    function's signature: the caller then passes it in the new layout. Where the new shape has more elements,
    those hold `pad_value` (written before the first store) or anything.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    if len(index_map.initial_indices) != old.ndim:
        raise ScheduleError(
            T0416,
            f"buffer {old.name!r} of block {block_name!r} has {old.ndim} dimensions, the map takes "
            f"{len(index_map.initial_indices)}",
            func,
            block,
        )
    if not assume_injective and not index_map.is_injective(old.shape):
        raise ScheduleError(
            T0416,
            f"the map may put two elements of buffer {old.name!r} of block {block_name!r} in one place",
            func,
            block,
            help="assume_injective_transform=True takes your word that it does not",
        )
    if not index_map.is_in_front(old.shape):
        raise ScheduleError(
            T0416,
            f"the map gives elements of buffer {old.name!r} of block {block_name!r} negative indices",
            func,
            block,
        )
    shape = index_map.map_shape(old.shape)
    new = decl_buffer(shape, old.dtype, old.name, scope=old.scope, align_bytes=old.align_bytes)
    func = exchange_buffer(func, old, new, lambda: _Remap(old, new, index_map))
    grows = not Analyzer().can_prove_equal(_product(shape), _product(old.shape))
    if pad_value is None or not grows:
        return func
    return _with_fill(func, new, as_expr(pad_value, new.dtype))


def _product(shape: Any) -> PrimExpr:
    total: PrimExpr = as_expr(1, "int64")
    for dim in shape:
        total = total * cast("int64", dim)
    return total


def _with_fill(func: PrimFunc, buffer: Buffer, value: PrimExpr) -> PrimFunc:
    """Store a value everywhere before the first block that writes the buffer; nothing for an input."""
    root = root_block(func)
    writers = [
        r.block for r in blocks_in(func.body) if r.block is not root and writes_buffer(r.block, buffer)
    ]
    if not writers:
        return func
    name = fresh_block_name(func, f"{buffer.name}_pad")
    axes = whole_axes(buffer)
    fill = loop_nest(axes, BufferStore(buffer, value, tuple(axis.var for axis in axes)), name)
    before = statement_before(func, writers[0].name_hint)
    return replace_stmt(func, before, seq(fill, before))


class _Remap(AccessRewriter):
    """Accesses of the old buffer become accesses of the new one."""

    def __init__(self, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        super().__init__()
        self._old, self._new, self._map = old, new, index_map

    def load(self, node: BufferLoad) -> PrimExpr:
        if node.buffer is not self._old:
            return node
        return BufferLoad(
            self._new, tuple(self._map.map_indices(node.indices, self.analyzer)), span=node.span
        )

    def store(self, node: BufferStore) -> Stmt:
        if node.buffer is not self._old:
            return node
        indices = tuple(self._map.map_indices(node.indices, self.analyzer))
        return BufferStore(self._new, node.value, indices, span=node.span)
