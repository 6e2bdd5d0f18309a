"""The attention kernels that a paged cache calls, each with the parameters that TVM's kernel of that name
has.

Sizes: b sequences, n query tokens of all of them, p pages, z listed pages. Arrays of numbers are int32; lse
is float32 and counts in base 2. Queries, keys, values and outputs have the `dtype` asked for (float32,
float16 or bfloat16). `rotary_mode` 1 rotates queries and keys while they are read. `sm_scale` multiplies
the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.frontend.nn.llm.attention import PREFILL, Attention, decode_tiling
from heddle.frontend.nn.llm.signature import Signature, checked_heads, consecutive, paged_keys, size_var
from heddle.frontend.nn.llm.sources import Causal, RaggedKeys
from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import cast
from heddle.tir.nodes import PrimFunc


def attention_prefill(
    h_kv: int,
    h_q: int,
    d: int,
    dtype: str,
    sliding_window: bool,
    rope_scaling: Mapping[str, Any],
    page_size: int = 16,
) -> PrimFunc:
    """Attention of any number of query tokens a sequence over pages.

    Parameters: q (n, h_q, d), q_indptr (b + 1), pages (p, 2, h_kv, page_size, d), page_indptr (b + 1),
    page_values (z), length_info ((b) or (3, b), see `PagedKeys`), k_rope_pos_offset (b), q_rope_position
    (n), output (n, h_q, d), lse (n, h_q), causal, rotary_mode, rope_scale, rope_theta, sm_scale.
    """
    sig = Signature(checked_heads(h_kv, h_q, d, d, dtype), dtype)
    q, q_indptr = sig.queries(sig.total), sig.numbers("q_indptr", sig.batch + 1)
    keys = paged_keys(sig, page_size, sliding_window, sig.batch)
    offset, position = sig.numbers("k_rope_pos_offset", sig.batch), sig.numbers("q_rope_position", sig.total)
    output, lse = sig.outputs(sig.total)
    sig.numbers_and_scales("causal", "rotary_mode")
    rotation = sig.rotation(rope_scaling, position, consecutive(offset))
    attention = Attention(
        sig.heads, PREFILL, sig.batch, q, q_indptr, sig.total, keys, Causal(sig.scalars["causal"]),
        output, lse, sig.scalars["sm_scale"], rotation,
    )  # fmt: skip
    suffix = "_sliding_window" if sliding_window else ""
    return sig.build(f"batch_prefill_paged_kv_cpu{suffix}", attention)


def attention_decode(
    num_kv_heads: int,
    num_qo_heads: int,
    head_dim: int,
    qkv_dtype: str,
    sliding_window: bool,
    rope_scaling: Mapping[str, Any],
    page_size: int = 16,
) -> PrimFunc:
    """Attention of one query token a sequence over pages; it sees all of them.

    Parameters: q (b, h_q, d), then as `attention_prefill` without q_indptr and causal.
    """
    heads = checked_heads(num_kv_heads, num_qo_heads, head_dim, head_dim, qkv_dtype)
    sig = Signature(heads, qkv_dtype)
    q = sig.queries(sig.batch)
    keys = paged_keys(sig, page_size, sliding_window, sig.batch)
    offset, position = sig.numbers("k_rope_pos_offset", sig.batch), sig.numbers("q_rope_position", sig.batch)
    output, lse = sig.outputs(sig.batch)
    sig.numbers_and_scales("rotary_mode")
    rotation = sig.rotation(rope_scaling, position, consecutive(offset))
    attention = Attention(
        heads, decode_tiling(heads), sig.batch, q, None, cast("int64", 1), keys, Causal(None), output, lse,
        sig.scalars["sm_scale"], rotation,
    )  # fmt: skip
    suffix = "_sliding_window" if sliding_window else ""
    return sig.build(f"batch_decode_paged_kv_cpu{suffix}", attention)


def attention_prefill_ragged(
    h_kv: int, h_q: int, d_qk: int, d_v: int, dtype: str, rope_scaling: Mapping[str, Any]
) -> PrimFunc:
    """Attention among tokens that are not in pages.

    Parameters: q (n, h_q, d_qk), q_indptr (b + 1), k (m, h_kv, d_qk), v (m, h_kv, d_v), kv_indptr (b + 1),
    q_rope_position (n), k_rope_pos_offset (b), output (n, h_q, d_v), lse (n, h_q), causal, rotary_mode,
    rope_scale, rope_theta, sm_scale.
    """
    sig = Signature(checked_heads(h_kv, h_q, d_qk, d_v, dtype), dtype)
    q, q_indptr, tokens = sig.queries(sig.total), sig.numbers("q_indptr", sig.batch + 1), size_var("tokens")
    k, v = sig.data("k", tokens, h_kv, d_qk), sig.data("v", tokens, h_kv, d_v)
    keys = RaggedKeys(k, v, sig.numbers("kv_indptr", sig.batch + 1))
    position, offset = sig.numbers("q_rope_position", sig.total), sig.numbers("k_rope_pos_offset", sig.batch)
    output, lse = sig.outputs(sig.total)
    sig.numbers_and_scales("causal", "rotary_mode")
    # An odd number of features cannot be rotated; such a kernel never rotates.
    rotation = None if d_qk % 2 else sig.rotation(rope_scaling, position, consecutive(offset))
    attention = Attention(
        sig.heads, PREFILL, sig.batch, q, q_indptr, sig.total, keys, Causal(sig.scalars["causal"]),
        output, lse, sig.scalars["sm_scale"], rotation,
    )  # fmt: skip
    return sig.build("batch_prefill_ragged_kv_cpu", attention)


def attention_prefill_mla(
    h_q: int, d_latent: int, d_rope: int, dtype: str, sliding_window: bool, page_size: int = 16
) -> PrimFunc:
    """Latent attention (DeepSeek-V2, section 2.1, with absorbed projections) over pages of compressed keys.

    A cached token has d_latent + d_rope features, shared by all heads; its value is the first d_latent.
    Parameters: q (n, h_q, d_latent + d_rope), q_indptr (b + 1), pages (p, page_size, d_latent + d_rope),
    page_indptr (b + 1), page_values (z), length_info, output (n, h_q, d_latent), lse (n, h_q), causal,
    sm_scale.
    """
    sig = Signature(checked_heads(1, h_q, d_latent + d_rope, d_latent, dtype), dtype)
    q, q_indptr = sig.queries(sig.total), sig.numbers("q_indptr", sig.batch + 1)
    keys = paged_keys(sig, page_size, sliding_window, sig.batch, is_latent=True)
    output, lse = sig.outputs(sig.total)
    sig.numbers_and_scales("causal", rotary=False)
    sight = Causal(sig.scalars["causal"])
    scale: PrimExpr = sig.scalars["sm_scale"]
    attention = Attention(
        sig.heads, PREFILL, sig.batch, q, q_indptr, sig.total, keys, sight, output, lse, scale
    )
    suffix = "_sliding_window" if sliding_window else ""
    return sig.build(f"batch_prefill_paged_kv_mla_cpu{suffix}", attention)
