"""A paged cache with all its kernels compiled, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.codegen.build import build
from heddle.frontend.codes import N0402
from heddle.frontend.nn.llm import attention_kernels as attention
from heddle.frontend.nn.llm import page_kernels as pages
from heddle.frontend.nn.llm import tree_kernels as trees
from heddle.frontend.nn.llm.rotary_kernel import llama_rope_with_position_map
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.runtime.function import find_global_func
from heddle.runtime.tensor import Tensor, empty
from heddle.support.diagnostics import UsageError
from heddle.tir.nodes import PrimFunc
from heddle.vm.builtins.kv_cache import AttnKind, PagedKVCache, RopeMode
from heddle.vm.relax import register_builtins

Kinds = str | AttnKind | Sequence[str | AttnKind]


def create_paged_kv_cache(
    *,
    max_batch_size: int,
    max_total_seq_len: int,
    prefill_chunk_size: int,
    num_hidden_layers: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    qk_head_dim: int,
    v_head_dim: int | None = None,
    page_size: int = 16,
    support_sliding_window: bool = False,
    layer_sliding_window: int = 1024,
    attn_kind: Kinds = AttnKind.MHA,
    layer_range: tuple[int, int] | None = None,
    mla_original_qk_head_dim: int | None = None,
    mla_original_v_head_dim: int | None = None,
    rope_mode: RopeMode = RopeMode.NORMAL,
    rope_scale: float = 1.0,
    rope_theta: float = 10000.0,
    rope_scaling: Mapping[str, Any] | None = None,
    rope_ext_factors: Tensor | None = None,
    rotary_dim: int | None = None,
    dtype: str = "float32",
    target: str = "llvm",
) -> PagedKVCache:
    """A cache for the builtins `vm.builtin.kv_state_*` and `vm.builtin.attention_kv_cache_*`.

    Sizes count sequences, tokens, layers, heads and features. `attn_kind` is one kind for all layers ("mha",
    "mla", "mha_sliding") or one for each; latent attention cannot be mixed with others. For it
    `qk_head_dim` counts the compressed features with the rotated ones, `v_head_dim` the compressed ones, and
    the two `mla_original` sizes are those of attention among new tokens.

    Kernels are found in the kernel cache when they were compiled before.
    Raises: UsageError N0401, N0402; TrapValueError V0707.
    """
    kinds = _kinds(attn_kind, num_hidden_layers)
    is_latent = AttnKind.MLA in kinds
    values = qk_head_dim if v_head_dim is None else v_head_dim
    first, last = layer_range or (0, num_hidden_layers)
    scaling = dict(rope_scaling or {})
    heads, kv_heads = num_attention_heads, num_key_value_heads
    if is_latent:
        original = (mla_original_qk_head_dim or qk_head_dim, mla_original_v_head_dim or values)
        funcs = _latent_kernels(last - first, heads, qk_head_dim, values, original, dtype, page_size)
    else:
        shape = (kv_heads, heads, qk_head_dim, dtype)
        funcs = _head_kernels(last - first, shape, scaling, page_size)
        split = (rope_theta, rope_scale, qk_head_dim, heads, kv_heads, dtype, scaling, rotary_dim)
        funcs["split"] = llama_rope_with_position_map(*split)
    kernels = _compile(funcs, target)
    sizes = [max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, int(support_sliding_window)]
    register_builtins()
    create = find_global_func("vm.builtin.paged_attention_kv_cache_create")
    assert create is not None
    listed = [["tirx", kernels[name]] if name in kernels else [] for name in _LISTED]
    cache: PagedKVCache = create(
        [*sizes, layer_sliding_window], [first, last], heads, 1 if is_latent else kv_heads, qk_head_dim,
        values, [int(kind) for kind in kinds], False, int(rope_mode), rope_scale, rope_theta,
        rope_ext_factors, empty((), dtype), kernels.get("append"), kernels.get("append_mla"), *listed,
        [kernels["merge"]], kernels.get("split"), kernels["copy"], kernels["debug"], kernels.get("compact"),
    )  # fmt: skip
    return cache


_LISTED = (
    "ragged",
    "prefill",
    "decode",
    "prefill_sliding",
    "decode_sliding",
    "tree_paged",
    "tree_ragged",
    "mla_prefill",
)


def _kinds(given: Kinds, num_layers: int) -> list[AttnKind]:
    listed = [given] * num_layers if isinstance(given, (str, AttnKind)) else list(given)
    try:
        kinds = [kind if isinstance(kind, AttnKind) else AttnKind[kind.upper()] for kind in listed]
    except KeyError as error:
        raise UsageError(N0402, f"expected an attention kind mha, mla or mha_sliding, got {error}") from None
    if len(kinds) != num_layers:
        raise UsageError(N0402, f"expected {num_layers} attention kinds, one a layer, got {len(kinds)}")
    if AttnKind.MLA in kinds and len(set(kinds)) > 1:
        raise UsageError(N0402, "latent attention cannot be mixed with other kinds in one cache")
    return kinds


def _head_kernels(
    num_layers: int,
    shape: tuple[int, int, int, str],
    scaling: Mapping[str, Any],
    page_size: int,
) -> dict[str, PrimFunc]:
    kv_heads, heads, dim, dtype = shape
    rest = (scaling, page_size)
    return {
        "append": pages.kv_cache_transpose_append(kv_heads, dim, dtype, page_size),
        "ragged": attention.attention_prefill_ragged(kv_heads, heads, dim, dim, dtype, scaling),
        "prefill": attention.attention_prefill(*shape, False, *rest),
        "decode": attention.attention_decode(*shape, False, *rest),
        "prefill_sliding": attention.attention_prefill(*shape, True, *rest),
        "decode_sliding": attention.attention_decode(*shape, True, *rest),
        "tree_paged": trees.tree_attn_with_paged_kv_cache(*shape, *rest),
        "tree_ragged": trees.tree_attn(*shape, scaling),
        "merge": pages.merge_state_inplace(dtype),
        "copy": pages.copy_single_page(kv_heads, page_size, dim, dtype),
        "debug": pages.kv_cache_debug_get_kv(num_layers, kv_heads, dim, dtype),
        "compact": pages.compact_kv_copy(kv_heads, dim, dtype, page_size),
    }


def _latent_kernels(
    num_layers: int,
    heads: int,
    qk_dim: int,
    latent: int,
    original: tuple[int, int],
    dtype: str,
    page_size: int,
) -> dict[str, PrimFunc]:
    return {
        "append_mla": pages.kv_cache_transpose_append_mla(qk_dim, dtype, page_size),
        "ragged": attention.attention_prefill_ragged(heads, heads, *original, dtype, {}),
        "mla_prefill": attention.attention_prefill_mla(
            heads, latent, qk_dim - latent, dtype, False, page_size
        ),
        "merge": pages.merge_state_inplace(dtype),
        "copy": pages.copy_single_page_mla(page_size, qk_dim, dtype),
        "debug": pages.kv_cache_debug_get_kv_mla(num_layers, qk_dim, dtype),
    }


def _compile(funcs: Mapping[str, PrimFunc], target: str) -> dict[str, Any]:
    symbols = {name: str(func.attrs["global_symbol"]) for name, func in funcs.items()}
    module = build(IRModule(Map({GlobalVar(symbols[name]): func for name, func in funcs.items()})), target)
    return {name: module[symbol] for name, symbol in symbols.items()}
