"""Primitives on what buffers are made of and how blocks reach them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.tir.codes import T0408
from heddle.tir.index_map import IndexMap
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.handles import LoopRV, SBlockRV
from heddle.tir.schedule.staging.access import buffer_of, temporary_of
from heddle.tir.schedule.staging.buffers import storage_align, unsafe_set_dtype
from heddle.tir.schedule.staging.cache import cache_inplace, cache_read, cache_write, set_scope
from heddle.tir.schedule.staging.prefetch import FAR, map_of_loops, prefetch
from heddle.tir.schedule.staging.rolling_buffer import rolling_buffer
from heddle.tir.schedule.staging.share_output import share_output


class BufferMethods(ScheduleBase):
    """Primitives that stage buffers, and change their scope, type, strides and size.

    A buffer is meant by a number (of a block's reads or writes), by name, or itself.
    """

    @recorded(rewrite=cache_read)
    def cache_read(
        self,
        block: SBlockRV | str,
        read_buffer_index: Any,
        storage_scope: str,
        consumer_blocks: Sequence[SBlockRV | str] | None = None,
    ) -> SBlockRV:
        """Read a buffer through a copy. Return the copying block."""
        consumers = tuple(self._name(consumer) for consumer in consumer_blocks or ())
        name = self._name(block)
        buffer = buffer_of(self.func, name, read_buffer_index, writes=False)
        func, copy = cache_read(self.func, name, buffer, storage_scope, consumers)
        self._update(func)
        return SBlockRV(copy)

    @recorded(rewrite=cache_write)
    def cache_write(
        self,
        block: SBlockRV | str,
        write_buffer_index: Any,
        storage_scope: str,
        consumer_blocks: Sequence[SBlockRV | str] | None = None,
    ) -> SBlockRV:
        """Write a buffer through a copy. Return the copying block."""
        consumers = tuple(self._name(consumer) for consumer in consumer_blocks or ())
        name = self._name(block)
        buffer = buffer_of(self.func, name, write_buffer_index)
        func, copy = cache_write(self.func, name, buffer, storage_scope, consumers)
        self._update(func)
        return SBlockRV(copy)

    @recorded(rewrite=cache_inplace)
    def cache_inplace(
        self, block: SBlockRV | str, read_buffer_index: Any, storage_scope: str
    ) -> list[SBlockRV]:
        """Read and write a buffer through one copy. Return the block that copies in and the block that copies
        out."""
        name = self._name(block)
        buffer = buffer_of(self.func, name, read_buffer_index, writes=False)
        func, copies = cache_inplace(self.func, name, buffer, storage_scope)
        self._update(func)
        return [SBlockRV(copy) for copy in copies]

    @recorded(rewrite=set_scope)
    def set_scope(self, block: SBlockRV | str, buffer_index: Any, storage_scope: str) -> None:
        """Move a temporary buffer to another storage scope."""
        buffer = temporary_of(self.func, self._name(block), buffer_index)
        self._update(set_scope(self.func, buffer, storage_scope))

    @recorded(rewrite=unsafe_set_dtype)
    def unsafe_set_dtype(self, block: SBlockRV | str, buffer_index: Any, dtype: str) -> None:
        """Store a temporary buffer's elements in another dtype. The caller accepts the loss of precision."""
        buffer = temporary_of(self.func, self._name(block), buffer_index)
        self._update(unsafe_set_dtype(self.func, buffer, dtype))

    @recorded(rewrite=storage_align, numbers=T0408)
    def storage_align(
        self, block: SBlockRV | str, buffer_index: Any, axis: int, factor: int, offset: int
    ) -> None:
        """Pad a dimension so that its stride is a multiple of `factor` plus `offset`, in elements."""
        name = self._name(block)
        buffer = temporary_of(self.func, name, buffer_index)
        self._update(storage_align(self.func, name, buffer, axis, factor, offset))

    @recorded(rewrite=rolling_buffer)
    def rolling_buffer(self, block: SBlockRV | str, write_buffer_index: Any) -> None:
        """Keep only a sliding window of a buffer, and compute only its new part in each iteration."""
        name = self._name(block)
        buffer = buffer_of(self.func, name, write_buffer_index)
        self._update(rolling_buffer(self.func, name, buffer))

    @recorded(rewrite=share_output)
    def share_output(self, block: SBlockRV | str, read_buffer_index: Any) -> None:
        """Store a temporary that a block reads in the memory of that block's result."""
        name = self._name(block)
        buffer = temporary_of(self.func, name, read_buffer_index, writes=False)
        self._update(share_output(self.func, name, buffer))

    @recorded(rewrite=prefetch, numbers=T0408)
    def prefetch(
        self,
        block: SBlockRV | str,
        read_buffer_index: int,
        loop: LoopRV,
        index_map: IndexMap | Callable[..., Sequence[Any]],
        locality: int = FAR,
    ) -> None:
        """Prefetch, in every iteration of a loop, the cache line of an element that is read later."""
        made = self._revised["index_map"] = map_of_loops(self.func, loop.var, index_map)
        self._update(prefetch(self.func, self._name(block), read_buffer_index, loop.var, made, locality))
