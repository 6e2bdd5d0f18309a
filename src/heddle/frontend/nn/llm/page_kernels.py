"""Kernels that move tokens into, between and out of pages, and that merge attention over different tokens.
Parameters are those of TVM's kernels of these names; numbers are int32.
"""

from __future__ import annotations

from typing import Any

from heddle.frontend.nn.llm.signature import array, checked_heads, scalar, size_var
from heddle.frontend.nn.llm.vectors import as_float32, lanes_of, ramp, store
from heddle.prim.intrinsics import exp2, log2
from heddle.prim.nodes import Var
from heddle.prim.ops import cast, floordiv, floormod, greater_equal, maximum
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, BufferLoad, ForKind, PrimFunc, decl_buffer

_COARSE = {"grain": 16}
"""Copying a token takes less than waking a thread."""


def kv_cache_transpose_append(
    num_key_value_heads: int, head_dim: int, dtype: str, page_size: int = 16
) -> PrimFunc:
    """Write new tokens to their slots; a token at position -1 is skipped.

    Parameters: pages (p, 2, heads, page_size, head_dim), k_data and v_data (n, heads, head_dim),
    position_map (n): page * page_size + offset.
    """
    checked_heads(num_key_value_heads, num_key_value_heads, head_dim, head_dim, dtype)
    b, tokens = StmtBuilder(), size_var("tokens")
    pages = _paged(num_key_value_heads, page_size, head_dim, dtype)
    data = [
        decl_buffer((tokens, num_key_value_heads, head_dim), dtype, name) for name in ("k_data", "v_data")
    ]
    position_map = array("position_map", tokens)
    with b.loop("token", tokens, ForKind.PARALLEL, notes=_COARSE) as token:
        position = b.let("position", position_map[token], "int64")
        with b.when(greater_equal(position, 0)):
            page, offset = _split(b, position, page_size)
            with b.loop("head", num_key_value_heads, notes={"disable_unroll": True}) as head:
                for which, source in enumerate(data):
                    copy_row(b, pages, (page, which, head, offset), source, (token, head), head_dim)
    return b.func("tir_kv_cache_transpose_append", [pages, *data, position_map])


def kv_cache_transpose_append_mla(d_qk: int, dtype: str, page_size: int = 16) -> PrimFunc:
    """Write compressed tokens to their slots; a token at position -1 is skipped.

    Parameters: pages (p, page_size, d_qk), kv_data (n, d_qk), position_map (n).
    """
    checked_heads(1, 1, d_qk, d_qk, dtype)
    b, tokens = StmtBuilder(), size_var("tokens")
    pages = decl_buffer((size_var("num_pages"), page_size, d_qk), dtype, "pages")
    data, position_map = decl_buffer((tokens, d_qk), dtype, "kv_data"), array("position_map", tokens)
    with b.loop("token", tokens, ForKind.PARALLEL, notes=_COARSE) as token:
        position = b.let("position", position_map[token], "int64")
        with b.when(greater_equal(position, 0)):
            copy_row(b, pages, _split(b, position, page_size), data, (token,), d_qk)
    return b.func("tir_kv_cache_transpose_append_mla", [pages, data, position_map])


def kv_cache_debug_get_kv(
    num_hidden_layers: int, num_key_value_heads: int, head_dim: int, dtype: str
) -> PrimFunc:
    """Read tokens back.

    Parameters: pages (p, 2, heads, page size, head_dim), position_map (n), k_data and v_data
    (layers, n, heads, head_dim), layer_id: where in k_data and v_data the tokens go.
    """
    checked_heads(num_key_value_heads, num_key_value_heads, head_dim, head_dim, dtype)
    b, tokens, page_size = StmtBuilder(), size_var("tokens"), size_var("page_size")
    pages = _paged(num_key_value_heads, page_size, head_dim, dtype)
    position_map, layer = array("position_map", tokens), scalar("layer_id", "int64")
    shape = (num_hidden_layers, tokens, num_key_value_heads, head_dim)
    data = [decl_buffer(shape, dtype, name) for name in ("k_data", "v_data")]
    with b.loop("token", tokens) as token:
        page, offset = _split(b, b.let("position", position_map[token], "int64"), page_size)
        with b.loop("head", num_key_value_heads, notes={"disable_unroll": True}) as head:
            for which, target in enumerate(data):
                copy_row(b, target, (layer, token, head), pages, (page, which, head, offset), head_dim)
    return b.func("tir_kv_cache_debug_get_kv", [pages, position_map, *data, layer])


def kv_cache_debug_get_kv_mla(num_hidden_layers: int, d_qk: int, dtype: str) -> PrimFunc:
    """Read compressed tokens back.

    Parameters: pages (p, page size, d_qk), position_map (n), kv_data (layers, n, d_qk), layer_id.
    """
    checked_heads(1, 1, d_qk, d_qk, dtype)
    b, tokens, page_size = StmtBuilder(), size_var("tokens"), size_var("page_size")
    pages = decl_buffer((size_var("num_pages"), page_size, d_qk), dtype, "pages")
    position_map, layer = array("position_map", tokens), scalar("layer_id", "int64")
    data = decl_buffer((num_hidden_layers, tokens, d_qk), dtype, "kv_data")
    with b.loop("token", tokens) as token:
        place = _split(b, b.let("position", position_map[token], "int64"), page_size)
        copy_row(b, data, (layer, token), pages, place, d_qk)
    return b.func("tir_kv_cache_debug_get_kv_mla", [pages, position_map, data, layer])


def copy_single_page(num_heads: int, page_size: int, head_dim: int, dtype: str) -> PrimFunc:
    """Copy the first tokens of a page to another page.

    Parameters: pages (p, 2, num_heads, page_size, head_dim), src_page_id, tgt_page_id, copy_length
    (tokens).
    """
    b, pages = StmtBuilder(), _paged(num_heads, page_size, head_dim, dtype)
    source, target, count = (scalar(name, "int64") for name in ("src_page_id", "tgt_page_id", "copy_length"))
    with b.loop("part", 2 * num_heads) as part, b.loop("token", count) as token:
        which, head = b.let("which", floordiv(part, num_heads)), b.let("head", floormod(part, num_heads))
        copy_row(b, pages, (target, which, head, token), pages, (source, which, head, token), head_dim)
    return b.func("copy_single_page_cpu", [pages, source, target, count])


def copy_single_page_mla(page_size: int, head_dim: int, dtype: str) -> PrimFunc:
    """As `copy_single_page`, for pages (p, page_size, head_dim)."""
    b = StmtBuilder()
    pages = decl_buffer((size_var("num_pages"), page_size, head_dim), dtype, "pages")
    source, target, count = (scalar(name, "int64") for name in ("src_page_id", "tgt_page_id", "copy_length"))
    with b.loop("token", count) as token:
        copy_row(b, pages, (target, token), pages, (source, token), head_dim)
    return b.func("copy_single_page_mla_cpu", [pages, source, target, count])


def compact_kv_copy(num_heads: int, head_dim: int, dtype: str, page_size: int = 16) -> PrimFunc:
    """Move tokens between slots, for each sequence in the given order.

    Parameters: pages (p, 2, num_heads, page_size, head_dim), copy_length_indptr (batch_size + 1),
    copy_src_dst_pos (2, n): slots to read and slots to write, batch_size.
    """
    b, batch = StmtBuilder(), scalar("batch_size", "int32")
    pages = _paged(num_heads, page_size, head_dim, dtype)
    indptr, moves = array("copy_length_indptr", batch + 1), array("copy_src_dst_pos", 2, size_var("total"))
    with b.loop("part", cast("int64", batch) * num_heads) as part:
        seq, head = b.let("seq", floordiv(part, num_heads)), b.let("head", floormod(part, num_heads))
        first = b.let("first", indptr[seq], "int64")
        with b.loop("step", cast("int64", indptr[seq + 1]) - first) as step:
            source = _split(b, b.let("source", moves[0, first + step], "int64"), page_size)
            target = _split(b, b.let("target", moves[1, first + step], "int64"), page_size)
            for which in range(2):
                read, write = ((page, which, head, offset) for page, offset in (source, target))
                copy_row(b, pages, write, pages, read, head_dim)
    return b.func("compact_kv_copy_cpu", [pages, indptr, moves, batch])


def merge_state_inplace(v_dtype: str) -> PrimFunc:
    """Attention over two disjoint sets of tokens → attention over both, in the first pair of arguments.

    With w = 2^(s − max(s, s')) and w' likewise: v ← (w v + w' v') / (w + w'), s ← max(s, s') + log2(w +
    w'). Parameters: v (n, h, d), s (n, h), v_other (n, h, d), s_other (n, h); s in float32.
    """
    checked_heads(1, 1, 1, 1, v_dtype)
    b, (n, h, d) = StmtBuilder(), (size_var(name) for name in ("rows", "heads", "features"))
    v, other = (decl_buffer((n, h, d), v_dtype, name) for name in ("v", "v_other"))
    s, s_other = (decl_buffer((n, h), "float32", name) for name in ("s", "s_other"))
    with b.loop("row", n, ForKind.PARALLEL, notes=_COARSE) as row, b.loop("head", h) as head:
        mine, others = b.let("mine", s[row, head]), b.let("others", s_other[row, head])
        top = b.let("top", maximum(mine, others))
        weight, other_weight = b.let("w", exp2(mine - top)), b.let("w_other", exp2(others - top))
        total = b.let("total", weight + other_weight)
        keep, take = b.let("keep", weight / total), b.let("take", other_weight / total)
        with b.loop("feature", d) as feature:  # innermost and plain: LLVM vectorises it
            here = (row, head, feature)
            mixed = as_float32(v[here]) * keep + as_float32(other[here]) * take
            b.store(v, here, mixed)
        b.store(s, (row, head), top + log2(total))
    return b.func("merge_state_inplace_cpu", [v, s, other, s_other])


def _paged(num_heads: int, page_size: Any, head_dim: int, dtype: str) -> Buffer:
    return decl_buffer((size_var("num_pages"), 2, num_heads, page_size, head_dim), dtype, "pages")


def _split(b: StmtBuilder, slot: Var, page_size: Any) -> tuple[Var, Var]:
    """Page and offset of a slot."""
    return b.let("page", floordiv(slot, page_size)), b.let("offset", floormod(slot, page_size))


def copy_row(b: StmtBuilder, target: Buffer, write_at: Any, source: Buffer, read_at: Any, dim: int) -> None:
    """Copy one row of `dim` elements, whole vectors at a time."""
    lanes = lanes_of(dim)
    with b.loop("step", dim // lanes, notes={"disable_unroll": True}) as step:
        index = ramp(step * lanes, lanes)
        store(b, target, [*write_at, index], BufferLoad(source, (*read_at, index)))
