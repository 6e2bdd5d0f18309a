"""The paged key-value cache (Kwon et al. 2023, PagedAttention). Keys and values are stored in pages, so
sequences grow without copies and share common tokens.

A layer's step: rotate, store the new keys and values, compute attention. New tokens are stored *first* if
attention can then read everything from pages: when each sequence gets one token and no window can slide, and
when nodes of token trees are pending. Otherwise, attention among the new tokens and attention over the cached
tokens are computed separately and merged, and the new tokens are stored afterwards.
"""

from __future__ import annotations

from typing import Any

from heddle.runtime.layout import layout_of
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor, empty, make_tensor
from heddle.support.diagnostics import Trap, TrapValueError
from heddle.vm.builtins.kv_cache.config import (
    EMPTY_LSE,
    AttnKind,
    CacheConfig,
    CacheKernels,
    RopeMode,
)
from heddle.vm.builtins.kv_cache.forward import Part
from heddle.vm.builtins.kv_cache.paged_sequences import PagedSequences
from heddle.vm.builtins.kv_cache.state import check_tensor
from heddle.vm.codes import V0703, V0707


class PagedKVCache(PagedSequences):
    """A paged cache with attention."""

    def __init__(self, config: CacheConfig, kernels: CacheKernels) -> None:
        super().__init__(config, kernels)
        self._scratch: dict[str, Tensor] = {}

    def attention_with_fused_qkv(self, layer: int, scale: float, qkv: Tensor, out: Tensor) -> None:
        """Store a layer's new keys and values, and compute attention.

        Shapes: qkv (rows, query heads + 2 · key heads, features), out (rows, query heads, features). Only the
        leading rows are used, as many as the step has tokens.
        """
        plan, config = self._current(), self.config
        pages, kind = self._layer(layer)
        if kind is AttnKind.MLA:
            raise TrapValueError(V0707, f"layer {layer} has latent attention: use self and cross attention")
        heads, fused = config.num_qo_heads, config.num_qo_heads + 2 * config.num_kv_heads
        qkv = self._rows("qkv", qkv, (fused, config.qk_dim), config.dtype)
        out = self._rows("out", out, (heads, config.v_dim), config.dtype)
        q = self._temporary("q", (heads, config.qk_dim))
        k, v = (self._temporary(name, (config.num_kv_heads, config.qk_dim)) for name in "kv")
        turns = int(config.rope_mode is RopeMode.NORMAL)
        last = turns if config.rope_factors is None else config.rope_factors
        self.kernels.need("split_rotary")(qkv, plan.q_position, q, k, v, last)
        append = self.kernels.need("append")
        lse = self._temporary("lse", (heads,), "float32")
        if kind is AttnKind.MHA_SLIDING:
            append(pages, k, v, plan.slots)
            assert plan.windows is not None
            self._over_part(plan.windows, pages, q, out, lse, scale)
        elif plan.appends_first:
            append(pages, k, v, plan.slots)
            self._over_pages(kind, pages, q, out, lse, scale)
        else:
            self._among_new(q, k, v, out, lse, scale)
            self._over_pages(kind, pages, q, out, lse, scale, merge=True)
            append(pages, k, v, plan.slots)

    def self_attention(
        self, layer: int, scale: float, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor
    ) -> None:
        """Compute attention among the new tokens only. The kernel determines the sizes, because latent
        attention has other sizes here."""
        self._layer(layer)
        dtype = self.config.dtype
        q, k, v, out = (
            self._rows(name, value, (None, None), dtype)
            for name, value in (("q", q), ("k", k), ("v", v), ("out", out))
        )
        self._among_new(q, k, v, out, self._rows("lse", lse, (None,), "float32"), scale)

    def cross_attention(self, layer: int, scale: float, q: Tensor, out: Tensor, lse: Tensor) -> None:
        """Compute attention over the tokens in pages. If the step stores tokens first, these include the new
        tokens."""
        pages, kind = self._layer(layer)
        config = self.config
        if kind is AttnKind.MHA_SLIDING:
            raise TrapValueError(V0707, f"layer {layer} has a window: use attention with fused qkv")
        q = self._rows("q", q, (config.num_qo_heads, config.qk_dim), config.dtype)
        out = self._rows("out", out, (config.num_qo_heads, config.v_dim), config.dtype)
        self._over_pages(
            kind, pages, q, out, self._rows("lse", lse, (config.num_qo_heads,), "float32"), scale
        )

    def append_mla_kv(self, layer: int, kv: Tensor) -> None:
        """Store a layer's new compressed keys (rows, features)."""
        pages, kind = self._layer(layer)
        if kind is not AttnKind.MLA:
            raise TrapValueError(V0707, f"layer {layer} has no latent attention")
        kv = self._rows("kv", kv, (self.config.qk_dim,), self.config.dtype)
        self.kernels.need("append_mla")(pages, kv, self._current().slots)

    def merge_outputs(self, out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> Array:
        """Merge attention over two sets of tokens into the first pair (output, log-sum-exp), and return
        it.
        """
        name = "merge_values" if self.kernels.merge_values is not None else "merge"
        self.kernels.need(name)(out, lse, other, other_lse)
        return Array((out, lse))

    def _among_new(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float) -> None:
        plan, config = self._current(), self.config
        at, rope = plan.q_indptr, (config.rotary_mode, config.rope_scale, config.rope_theta)
        if plan.tree_indptr is None:
            self.kernels.need("ragged")(
                q, at, k, v, at, plan.q_position, plan.key_offset, out, lse, 1, *rope, scale
            )
        else:
            self.kernels.need("tree_ragged")(
                q, at, k, v, at, plan.q_position, plan.tree_indptr, plan.tree_order, out, lse, *rope, scale
            )

    def _over_pages(
        self,
        kind: AttnKind,
        pages: Tensor,
        q: Tensor,
        out: Tensor,
        lse: Tensor,
        scale: float,
        merge: bool = False,
    ) -> None:
        """Compute attention over the parts in pages. With `merge`, `out` already holds attention over other
        tokens."""
        plan = self._current()
        other, other_lse = out, lse
        if merge or len(plan.parts) > 1:
            other = self._temporary("out", tuple(out.shape[1:]))
            other_lse = self._temporary("out_lse", tuple(lse.shape[1:]), "float32")
        for part in plan.parts:
            target, target_lse = (other, other_lse) if merge else (out, lse)
            if kind is AttnKind.MLA:
                self.kernels.need("mla_prefill")(
                    q, part.q_indptr, pages, part.page_indptr, part.page_values, part.length_info,
                    target, target_lse, 0, scale,
                )  # fmt: skip
            else:
                self._over_part(part, pages, q, target, target_lse, scale)
            if merge:
                self.kernels.need("merge")(out, lse, other, other_lse)
            merge = True
        if not merge:  # nothing is cached
            out.numpy()[...] = 0
            lse.numpy()[...] = EMPTY_LSE

    def _over_part(
        self, part: Part, pages: Tensor, q: Tensor, out: Tensor, lse: Tensor, scale: float
    ) -> None:
        plan, config, kernels = self._current(), self.config, self.kernels
        is_tree = plan.tree_indptr is not None and plan.appends_first and part is plan.own
        info = part.last_page_length if is_tree else part.length_info
        place = (pages, part.page_indptr, part.page_values, info, part.key_offset, plan.q_position)
        rope = (config.rotary_mode, config.rope_scale, config.rope_theta)
        is_sliding = config.is_sliding or part is plan.windows
        if is_tree:
            tree = (plan.tree_indptr, plan.tree_order)
            kernels.need("tree_paged")(q, part.q_indptr, *place, out, lse, *rope, scale, *tree)
        elif part.is_decode:
            decode = kernels.need("decode_sliding" if is_sliding else "decode")
            decode(q, *place, out, lse, *rope, scale)
        else:
            prefill = kernels.need("prefill_sliding" if is_sliding else "prefill")
            prefill(q, part.q_indptr, *place, out, lse, 0, *rope, scale)

    # ---- tensors

    def _layer(self, layer: int) -> tuple[Tensor, AttnKind]:
        begin = self.config.layer_begin
        if not begin <= layer < begin + len(self.pages):
            raise Trap(V0703, f"expected a layer from {begin} to {begin + len(self.pages) - 1}, got {layer}")
        return self.pages[layer - begin], self.config.kinds[layer - begin]

    def _rows(self, what: str, value: Tensor, rest: tuple[int | None, ...], dtype: Any) -> Tensor:
        """Return the leading rows of a tensor, as many as the step has tokens."""
        total = self._current().total
        check_tensor(what, value, (None, *rest), dtype)
        rows = value.shape[0]
        if rows < total:
            raise TrapValueError(V0703, f"{what}: expected at least {total} rows, got {rows}")
        return value if rows == total else _leading(value, total)

    def _temporary(self, name: str, rest: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return rows of a buffer that all layers and steps share."""
        key = f"{name}{rest}"
        if key not in self._scratch:
            shape = (self.config.prefill_chunk, *rest)
            self._scratch[key] = empty(shape, dtype or self.config.dtype, self.config.device)
        return _leading(self._scratch[key], self._current().total)


def _leading(value: Tensor, rows: int) -> Tensor:
    layout = layout_of((rows, *value.shape[1:]))
    return make_tensor(value.address, layout, value.dtype, value.device, value)
