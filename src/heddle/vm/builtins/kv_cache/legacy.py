"""The simple attention cache: one tensor that grows by rows, or a ring buffer of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.runtime.layout import layout_of
from heddle.runtime.tensor import Tensor, empty, make_tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.kv_cache.state import check_tensor
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0408, V0703, V0708


class AttentionKVCache:
    """A cache tensor `data` of shape (rows, ...). The first `num_filled` rows are valid. `position` is the
    next row of the ring."""

    __slots__ = ("data", "num_filled", "position")

    def __init__(self, data: Tensor) -> None:
        self.data = data
        self.num_filled = 0
        self.position = 0

    def _rows(self, value: Any) -> np.ndarray[Any, Any]:
        """Check that a value has rows of the cache's shape and dtype, and return it as an array."""
        return check_tensor("rows", value, (None, *self.data.shape[1:]), self.data.dtype).numpy()

    def _reserve(self, num_rows: int) -> None:
        """Double the capacity until there are enough rows. Filled rows are kept."""
        size = max(self.data.shape[0], 1)
        while size < num_rows:
            size *= 2
        if size > self.data.shape[0]:
            old, self.data = self.data, empty((size, *self.data.shape[1:]), self.data.dtype, self.data.device)
            self.data.numpy()[: self.num_filled] = old.numpy()[: self.num_filled]

    def append(self, value: Any) -> None:
        """Add rows at the end; the memory grows by doubling."""
        rows = self._rows(value)
        self._reserve(self.num_filled + len(rows))
        self.data.numpy()[self.num_filled : self.num_filled + len(rows)] = rows
        self.num_filled += len(rows)

    def update(self, value: Any) -> None:
        """Replace the cache's rows by `value`."""
        rows = self._rows(value)
        self._reserve(len(rows))
        self.data.numpy()[: len(rows)] = rows
        self.num_filled = len(rows)

    def override_window(self, value: Any, max_rows: int, num_sinks: int = 0) -> None:
        """Write to a ring of `max_rows` rows. The first `num_sinks` rows are written once and then kept."""
        rows = self._rows(value)
        if not 0 <= num_sinks < max_rows:
            raise TrapValueError(V0703, f"expected fewer sinks than {max_rows} rows, got {num_sinks}")
        if self.data.shape[0] < max_rows:
            message = f"expected a cache of at least {max_rows} rows, got {self.data.shape[0]}"
            raise TrapValueError(V0703, message)
        data, done = self.data.numpy(), 0
        while done < len(rows):
            if self.position >= max_rows:
                self.position = num_sinks
            count = min(max_rows - self.position, len(rows) - done)
            data[self.position : self.position + count] = rows[done : done + count]
            self.position += count
            done += count
        self.num_filled = min(self.num_filled + len(rows), max_rows)

    def view(self, shape: tuple[int, ...] | None) -> Tensor:
        """Return the filled rows. The result shares the cache's memory."""
        filled = (self.num_filled, *self.data.shape[1:])
        wanted = filled if shape is None else tuple(shape)
        if not wanted or wanted[0] != self.num_filled:
            raise TrapValueError(
                V0708, f"expected a view of the {self.num_filled} rows in the cache, got shape {wanted}"
            )
        layout = layout_of(wanted)
        if layout.num_elements != layout_of(filled).num_elements:
            raise TrapValueError(V0708, f"expected a view with the elements of {filled}, got {wanted}")
        return make_tensor(self.data.address, layout, self.data.dtype, self.data.device, self.data)

    def pop(self, count: int) -> None:
        """Remove the last rows. Raises: TrapValueError V0703 if there are fewer."""
        if not 0 <= count <= self.num_filled:
            raise TrapValueError(V0703, f"expected to pop 0 to {self.num_filled} rows, got {count}")
        self.num_filled -= count

    def clear(self) -> None:
        """Remove all rows. Their memory is kept."""
        self.num_filled = 0
        self.position = 0


def _cache(value: Any) -> AttentionKVCache:
    if not isinstance(value, AttentionKVCache):
        raise TrapTypeError(V0402, f"expected an attention cache, got {type(value).__name__}")
    return value


def _caches(values: Any) -> list[AttentionKVCache]:
    if not isinstance(values, (tuple, list)):
        raise TrapTypeError(V0402, f"expected an array of caches, got {type(values).__name__}")
    return [_cache(value) for value in values]


@builtin("attention_kv_cache_create")
def attention_kv_cache_create(init: Tensor, reserve_shape: Any, init_fill: int) -> AttentionKVCache:
    """Create a cache of shape `reserve_shape` that starts with the rows of `init`. If `init_fill` ≥ 0, only
    that many rows are valid. The ring starts after them."""
    if not isinstance(init, Tensor):
        raise TrapTypeError(V0402, f"expected a tensor, got {type(init).__name__}")
    if not isinstance(reserve_shape, (tuple, list)) or not reserve_shape:
        raise TrapTypeError(V0408, f"expected a shape to reserve, got {reserve_shape!r}")
    cache = AttentionKVCache(empty(tuple(reserve_shape), init.dtype, init.device))
    cache.append(init)
    if init_fill >= 0:
        if init_fill > cache.data.shape[0]:
            message = f"expected at most {cache.data.shape[0]} filled rows, got {init_fill}"
            raise TrapValueError(V0703, message)
        cache.num_filled = cache.position = init_fill
    return cache


@builtin("attention_kv_cache_append")
def attention_kv_cache_append(cache: AttentionKVCache, value: Tensor) -> AttentionKVCache:
    """Append rows; the memory grows by doubling. Return the cache."""
    _cache(cache).append(value)
    return cache


@builtin("attention_kv_cache_update")
def attention_kv_cache_update(cache: AttentionKVCache, value: Tensor) -> AttentionKVCache:
    """Replace the cache's rows by `value`. Return the cache."""
    _cache(cache).update(value)
    return cache


@builtin("attention_kv_cache_window_override")
def attention_kv_cache_window_override(
    cache: AttentionKVCache, value: Tensor, max_rows: int
) -> AttentionKVCache:
    """Write rows into a ring of `max_rows`. Return the cache."""
    _cache(cache).override_window(value, max_rows)
    return cache


@builtin("attention_kv_cache_window_override_with_sinks")
def attention_kv_cache_window_override_with_sinks(
    cache: AttentionKVCache, value: Tensor, max_rows: int, num_sinks: int
) -> AttentionKVCache:
    """Like `attention_kv_cache_window_override`, but keep the first `num_sinks` rows. Return the cache."""
    _cache(cache).override_window(value, max_rows, num_sinks)
    return cache


@builtin("attention_kv_cache_view")
def attention_kv_cache_view(cache: AttentionKVCache, shape: Any = None) -> Tensor:
    """Return the filled rows without a copy. `shape` must have as many rows."""
    return _cache(cache).view(shape)


@builtin("attention_kv_cache_array_popn")
def attention_kv_cache_array_popn(caches: Any, count: int) -> Any:
    """Remove the last rows of every cache, or of none if one has too few. Return the array."""
    listed = _caches(caches)
    for cache in listed:
        if cache.num_filled < count:
            cache.pop(count)
    for cache in listed:
        cache.pop(count)
    return caches


@builtin("attention_kv_cache_array_clear")
def attention_kv_cache_array_clear(caches: Any) -> Any:
    """Remove all rows of each cache. Return the array."""
    for cache in _caches(caches):
        cache.clear()
    return caches
