"""Attention kernels for token trees: several continuations of a sequence at once. Parameters as in
`attention_kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.frontend.nn.llm.attention import PREFILL, Attention
from heddle.frontend.nn.llm.signature import Signature, checked_heads, consecutive, paged_keys, size_var
from heddle.frontend.nn.llm.sources import RaggedKeys, Tree
from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import cast
from heddle.tir.nodes import PrimFunc


def tree_attn(h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: Mapping[str, Any]) -> PrimFunc:
    """Attention among the nodes of token trees, which are not in pages.

    Parameters: q (n, h_q, d), q_indptr (b + 1), k and v (n, h_kv, d), kv_indptr (b + 1), q_rope_position
    (n), tree_order_indptr (b + 1), tree_order (nodes, 2; see `Tree`), output (n, h_q, d), lse (n, h_q),
    rotary_mode, rope_scale, rope_theta, sm_scale. With rotary_mode 1 keys are rotated by their own
    positions.
    """
    sig = Signature(checked_heads(h_kv, h_q, d, d, dtype), dtype)
    bounds, tokens = size_var("batch_plus_1"), size_var("tokens")
    q, q_indptr = sig.queries(sig.total), sig.numbers("q_indptr", bounds)
    k, v = sig.data("k", tokens, h_kv, d), sig.data("v", tokens, h_kv, d)
    kv_indptr = sig.numbers("kv_indptr", bounds)
    position = sig.numbers("q_rope_position", sig.total)
    sight = _tree(sig, bounds)
    output, lse = sig.outputs(sig.total)
    sig.numbers_and_scales("rotary_mode")
    rotation = sig.rotation(
        rope_scaling, position, lambda seq, token: position[cast("int64", kv_indptr[seq]) + token]
    )
    attention = Attention(
        sig.heads, PREFILL, bounds - 1, q, q_indptr, sig.total, RaggedKeys(k, v, kv_indptr), sight,
        output, lse, sig.scalars["sm_scale"], rotation,
    )  # fmt: skip
    return sig.build("tree_attn_cpu", attention)


def tree_attn_with_paged_kv_cache(
    h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: Mapping[str, Any], page_size: int = 16
) -> PrimFunc:
    """Attention of nodes of token trees over pages whose last tokens are the trees.

    Parameters: as `attention_prefill` up to lse, then rotary_mode, rope_scale, rope_theta, sm_scale,
    tree_order_indptr (b + 1), tree_order (nodes, 2; see `Tree`).
    """
    sig = Signature(checked_heads(h_kv, h_q, d, d, dtype), dtype)
    q, q_indptr = sig.queries(sig.total), sig.numbers("q_indptr", sig.batch + 1)
    keys = paged_keys(sig, page_size, False, sig.batch)
    offset, position = sig.numbers("k_rope_pos_offset", sig.batch), sig.numbers("q_rope_position", sig.total)
    output, lse = sig.outputs(sig.total)
    sig.numbers_and_scales("rotary_mode")
    rotation = sig.rotation(rope_scaling, position, consecutive(offset))
    attention = Attention(
        sig.heads, PREFILL, sig.batch, q, q_indptr, sig.total, keys, _tree(sig, sig.batch + 1), output, lse,
        sig.scalars["sm_scale"], rotation,
    )  # fmt: skip
    return sig.build("tree_attn_paged_kv_cpu", attention)


def _tree(sig: Signature, bounds: PrimExpr) -> Tree:
    indptr = sig.numbers("tree_order_indptr", bounds)
    return Tree(indptr, sig.numbers("tree_order", size_var("nodes"), 2))
