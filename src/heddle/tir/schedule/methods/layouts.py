"""Primitives that take an index map. The trace holds the map that a function gave."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import common_dtype
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import SBlock
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.blocks.block_layout import transform_block_layout
from heddle.tir.schedule.handles import SBlockRV
from heddle.tir.schedule.staging.access import buffer_of
from heddle.tir.schedule.staging.layout import transform_layout
from heddle.tir.schedule.staging.reindex import reindex, reindex_cache
from heddle.tir.schedule.tree import find_block

Mapping = IndexMap | Callable[..., Any]


class LayoutMethods(ScheduleBase):
    """Primitives on the order of elements and of iterations."""

    @recorded(rewrite=transform_layout)
    def transform_layout(
        self,
        block: SBlockRV | str,
        buffer: Any,
        index_map: Mapping,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Change the layout of a buffer by an index map."""
        name = self._name(block)
        target = buffer_of(self.func, name, buffer)
        chosen = self._map(index_map, list(target.shape))
        func = transform_layout(self.func, name, target, chosen, pad_value, assume_injective_transform)
        self._update(func)

    @recorded(rewrite=transform_block_layout)
    def transform_block_layout(self, block: SBlockRV | str, index_map: Mapping) -> None:
        """Change the axes of a block by an index map, and make new loops over them."""
        name = self._name(block)
        self._update(transform_block_layout(self.func, name, self._map(index_map, self._axes(name))))

    @recorded(rewrite=reindex)
    def reindex(self, block: SBlockRV | str, buffer: Any) -> SBlockRV:
        """Access a buffer through a copy that is indexed by the block's axes. Return the copying block."""
        name = self._name(block)
        func, copy = reindex(self.func, name, buffer_of(self.func, name, buffer))
        self._update(func)
        return SBlockRV(copy)

    @recorded(rewrite=reindex_cache)
    def reindex_cache_read(
        self, block: SBlockRV | str, read_buffer_index: Any, storage_scope: str, index_map: Mapping
    ) -> SBlockRV:
        """Read through a copy that is indexed by an index map. Return the copying block."""
        return self._reindex(self._name(block), read_buffer_index, storage_scope, index_map, writes=False)

    @recorded(rewrite=reindex_cache)
    def reindex_cache_write(
        self, block: SBlockRV | str, write_buffer_index: Any, storage_scope: str, index_map: Mapping
    ) -> SBlockRV:
        """Write through a copy that is indexed by an index map. Return the copying block."""
        return self._reindex(self._name(block), write_buffer_index, storage_scope, index_map, writes=True)

    def _reindex(self, name: str, which: Any, scope: str, index_map: Mapping, writes: bool) -> SBlockRV:
        buffer = buffer_of(self.func, name, which, writes)
        chosen = self._map(index_map, self._axes(name))
        func, copy = reindex_cache(self.func, name, buffer, scope, chosen, scope)
        self._update(func)
        return SBlockRV(copy)

    def _axes(self, name: str) -> list[PrimExpr]:
        block: SBlock = find_block(self.func, name).stmt.block
        return [axis.dom.extent for axis in block.iter_vars]

    def _map(self, given: Mapping, dims: list[PrimExpr]) -> IndexMap:
        """The map that a function is, which the trace will hold. Its indices are as wide as the widest of
        the dimensions."""
        if isinstance(given, IndexMap):
            return given
        dtype = reduce(common_dtype, (dim.dtype for dim in dims)) if dims else "int64"
        made = IndexMap.from_func(given, len(dims), str(dtype))
        self._revised["index_map"] = made
        return made
