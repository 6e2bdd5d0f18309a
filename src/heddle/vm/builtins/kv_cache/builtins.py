"""The builtins of the paged key-value cache, and those that it shares with recurrent states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.kv_cache.config import (
    CacheKernels,
    parse_attention,
    parse_config,
    parse_kernel,
)
from heddle.vm.builtins.kv_cache.paged import PagedKVCache
from heddle.vm.builtins.kv_cache.state import KVState
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0408, V0707

_ATTENTION_KERNELS = (
    "ragged prefill", "paged prefill", "decode", "sliding prefill", "sliding decode", "tree prefill (paged)",
    "tree prefill (ragged)", "MLA prefill",
)  # fmt: skip


def _state(value: Any) -> KVState:
    if not isinstance(value, KVState):
        raise TrapTypeError(V0402, f"expected a cache or state, got {type(value).__name__}")
    return value


def _paged(value: Any) -> PagedKVCache:
    if not isinstance(value, PagedKVCache):
        raise TrapTypeError(V0402, f"expected a paged cache, got {type(value).__name__}")
    return value


def _ints(what: str, values: Any) -> list[int]:
    """Convert a Shape or a list of integers to a list of ints."""
    if not isinstance(values, (tuple, list)) or not all(isinstance(value, int) for value in values):
        raise TrapTypeError(V0402, f"{what}: expected a shape, got {type(values).__name__}")
    return [int(value) for value in values]


@builtin("paged_attention_kv_cache_create")
def paged_attention_kv_cache_create(*args: Any) -> PagedKVCache:
    """Create a paged key-value cache. The positional arguments are, in this order:

    - the sizes: sequences, tokens, tokens per step, tokens per page, whether windows may slide[, a layer's
      window]
    - layer range, query heads, key heads, key features, value features, kind of each layer
    - whether keys are transferred between machines (not supported here)
    - RoPE mode, scale, theta, and its external factors or None
    - a tensor that gives dtype and device
    - kernels: append, append MLA; as lists: ragged prefill, paged prefill, decode, the last two for windows,
      tree prefill paged and ragged, MLA prefill; a list of merges
    - kernels: split and rotate, copy of a page, reading back, and (for token trees) moving tokens

    A 29th argument must be None.

    Raises: TrapTypeError V0402, V0408; TrapValueError V0707.
    """
    if len(args) not in (28, 29):
        raise TrapTypeError(
            V0408, f"paged_attention_kv_cache_create: expected 28 or 29 arguments, got {len(args)}"
        )
    if args[28:] not in ((), (None,)):
        raise TrapTypeError(V0402, f"argument 29: expected None, got {type(args[28]).__name__}")
    sizes, layers, *heads = args[:6]
    kinds, transfers, mode, scale, theta, factors, init = args[6:13]
    if transfers:
        raise TrapValueError(V0707, "transfer of keys between machines is not available")
    if factors is not None and not isinstance(factors, Tensor):
        raise TrapTypeError(V0402, f"rope factors: expected a tensor or None, got {type(factors).__name__}")
    config = parse_config(
        _ints("sizes", sizes), _ints("layer range", layers), _heads(heads), _ints("layer kinds", kinds),
        (mode, scale, theta, factors), init,
    )  # fmt: skip
    append, append_mla = (parse_kernel("append", value) for value in args[13:15])
    attention = [parse_attention(*pair) for pair in zip(_ATTENTION_KERNELS, args[15:23], strict=True)]
    if not isinstance(args[23], (tuple, list)) or len(args[23]) > 2:
        raise TrapTypeError(V0402, "merges: expected a list of at most two functions")
    merges = [parse_kernel("merge", value) for value in (*args[23], None, None)[:2]]
    rest = [parse_kernel("kernel", value) for value in args[24:28]]
    split, copy, debug, compact = rest
    kernels = (append, append_mla, *attention, *merges, split, copy, debug, compact)
    named = dict(zip((field.name for field in fields(CacheKernels)), kernels, strict=True))
    return PagedKVCache(config, CacheKernels(**named))


def _heads(values: Sequence[Any]) -> tuple[int, int, int, int]:
    a, b, c, d = _ints("heads and features", list(values))
    return a, b, c, d


# ---- sequences: any state


@builtin("kv_state_clear")
def kv_state_clear(state: KVState) -> None:
    """Remove all sequences and abort a step in progress."""
    _state(state).clear()


@builtin("kv_state_add_sequence")
def kv_state_add_sequence(state: KVState, seq_id: int) -> None:
    """Add an empty sequence. Raises: Trap V0702."""
    _state(state).add_sequence(seq_id)


@builtin("kv_state_remove_sequence")
def kv_state_remove_sequence(state: KVState, seq_id: int) -> None:
    """Remove a sequence. Raises: Trap V0701."""
    _state(state).remove_sequence(seq_id)


@builtin("kv_state_fork_sequence")
def kv_state_fork_sequence(state: KVState, parent_id: int, child_id: int, position: int = -1) -> None:
    """Add a sequence that starts with the first `position` tokens of another one (-1: all).

    Raises: Trap V0701, V0702, V0703, V0704.
    """
    _state(state).fork_sequence(parent_id, child_id, position)


@builtin("kv_state_popn")
def kv_state_popn(state: KVState, seq_id: int, count: int) -> None:
    """Remove the last `count` tokens of a sequence. Raises: Trap V0701, V0703."""
    _state(state).popn(seq_id, count)


@builtin("kv_state_begin_forward")
def kv_state_begin_forward(state: KVState, seq_ids: Any, lengths: Any, parents: Any = None) -> None:
    """Begin a step. The sequences `seq_ids` get `lengths` new tokens. `parents` are the parent indices of the
    token trees, concatenated.

    Raises: Trap V0701, V0703, V0704, V0705, V0706.
    """
    nodes = None if parents is None else _ints("token tree", parents)
    _state(state).begin_forward(_ints("sequence ids", seq_ids), _ints("lengths", lengths), nodes)


@builtin("kv_state_end_forward")
def kv_state_end_forward(state: KVState) -> None:
    """End the step. Raises: Trap V0705."""
    _state(state).end_forward()


# ---- the paged cache


@builtin("attention_kv_cache_enable_sliding_window_for_seq")
def enable_sliding_window_for_seq(cache: PagedKVCache, seq_id: int, window: int, sink: int) -> None:
    """Limit a sequence to `window` tokens: its first `sink` tokens, and the most recent ones.

    Raises: Trap V0701, V0703, V0705; TrapValueError V0707.
    """
    _paged(cache).enable_sliding_window(seq_id, window, sink)


@builtin("attention_kv_cache_commit_accepted_token_tree_nodes")
def commit_accepted_token_tree_nodes(cache: PagedKVCache, seq_ids: Any, leaves: Any) -> None:
    """In each sequence's token tree, keep the path to one node (-1: no node) and remove the rest.

    Raises: Trap V0701, V0703, V0705, V0706.
    """
    _paged(cache).commit_token_trees(_ints("sequence ids", seq_ids), _ints("leaves", leaves))


@builtin("attention_kv_cache_empty")
def attention_kv_cache_empty(cache: PagedKVCache) -> bool:
    """Whether there are no sequences and all pages are free."""
    return _paged(cache).is_empty


@builtin("attention_kv_cache_get_num_available_pages")
def get_num_available_pages(cache: PagedKVCache) -> int:
    """Return the number of free pages."""
    return _paged(cache).num_free_pages


@builtin("attention_kv_cache_get_total_sequence_length")
def get_total_sequence_length(cache: PagedKVCache) -> int:
    """Return the number of tokens of all sequences. A token that sequences share counts once for each."""
    return _paged(cache).total_length


@builtin("attention_kv_cache_get_query_positions")
def get_query_positions(cache: PagedKVCache) -> Tensor:
    """Return the position of each new token of the step in its sequence, int32."""
    return _paged(cache).query_positions


@builtin("attention_kv_cache_attention_with_fused_qkv")
def attention_with_fused_qkv(cache: PagedKVCache, layer: int, scale: float, qkv: Tensor, out: Tensor) -> None:
    """Store a layer's new keys and values, and compute attention.

    Shapes: qkv (rows, query heads + 2 · key heads, features), out (rows, query heads, features).
    """
    _paged(cache).attention_with_fused_qkv(layer, scale, qkv, out)


@builtin("attention_kv_cache_self_attention")
def self_attention(
    cache: PagedKVCache, layer: int, scale: float, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor
) -> None:
    """Compute attention among the new tokens only.

    Shapes: q, k, v and out (rows, heads, features), lse (rows, heads) float32.
    """
    _paged(cache).self_attention(layer, scale, q, k, v, out, lse)


@builtin("attention_kv_cache_cross_attention")
def cross_attention(
    cache: PagedKVCache, layer: int, scale: float, q: Tensor, out: Tensor, lse: Tensor
) -> None:
    """Compute attention over the cached tokens.

    Shapes: q and out (rows, query heads, features), lse (rows, query heads) float32.
    """
    _paged(cache).cross_attention(layer, scale, q, out, lse)


@builtin("attention_kv_cache_append_mla_kv")
def append_mla_kv(cache: PagedKVCache, layer: int, kv: Tensor) -> PagedKVCache:
    """Store a layer's new compressed keys (rows, features). Return the cache."""
    _paged(cache).append_mla_kv(layer, kv)
    return cache


@builtin("attention_kv_cache_merge_attn_output_inplace")
def merge_attn_output_inplace(
    cache: PagedKVCache, out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor
) -> Array:
    """Merge attention over two sets of tokens into the first pair (output, log-sum-exp). Return that pair."""
    return _paged(cache).merge_outputs(out, lse, other, other_lse)


@builtin("attention_kv_cache_debug_get_kv")
def debug_get_kv(cache: PagedKVCache, seq_id: int, start: int, end: int, k: Tensor, v: Tensor) -> None:
    """Copy tokens [start, end) of a sequence, all layers, to k and v: (layers, end − start, key heads,
    features)."""
    _paged(cache).debug_get(seq_id, start, end, k, v)


@builtin("attention_kv_cache_debug_get_kv_mla")
def debug_get_kv_mla(cache: PagedKVCache, seq_id: int, start: int, end: int, kv: Tensor) -> None:
    """Copy the compressed keys of tokens [start, end) of a sequence to kv: (layers, end − start,
    features).
    """
    _paged(cache).debug_get(seq_id, start, end, kv)
