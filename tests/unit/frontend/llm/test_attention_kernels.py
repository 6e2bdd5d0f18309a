"""Attention kernels against numpy, on odd sizes: empty sequences, part-filled pages, one row, many."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.frontend.nn.llm.attention_kernels import (
    attention_decode,
    attention_prefill,
    attention_prefill_mla,
    attention_prefill_ragged,
)
from heddle.frontend.nn.llm.signature import checked_heads
from heddle.frontend.nn.llm.tree_kernels import tree_attn, tree_attn_with_paged_kv_cache
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.kv_cache import EMPTY_LSE

from .reference import TOLERANCE, Pages, ancestors, attention, causal, depth_first, rotate

LENGTHS = [5, 1, 70, 0, 33]
SCALE = 0.3
ROPE = (1.5, 5e3)


def compiled(func):
    return heddle.build(func)[func.attrs["global_symbol"]]


def indptr(lengths):
    return np.cumsum([0, *lengths]).astype("int32")


def normal(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


def outputs(rows, heads, dim, dtype):
    return np.full((rows, heads, dim), 7, dtype), np.full((rows, heads), 7, "float32")


def check(got, lse, expected, expected_lse, dtype):
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(got.astype("f8"), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_ragged(dtype):
    rng, h_kv, h_q, d_qk, d_v = np.random.default_rng(1), 2, 6, 24, 40
    kernel = compiled(attention_prefill_ragged(h_kv, h_q, d_qk, d_v, dtype, {}))
    at = indptr(LENGTHS)
    n = int(at[-1])
    q, k, v = (
        normal(rng, dtype, n, h_q, d_qk),
        normal(rng, dtype, n, h_kv, d_qk),
        normal(rng, dtype, n, h_kv, d_v),
    )
    for is_causal, rotary in ((0, 0), (1, 0), (1, 1)):
        out, lse = outputs(n, h_q, d_v, dtype)
        position, offset = rng.integers(0, 50, n).astype("i4"), rng.integers(0, 50, len(LENGTHS)).astype("i4")
        kernel(q, at, k, v, at, position, offset, out, lse, is_causal, rotary, *ROPE, SCALE)
        for i, length in enumerate(LENGTHS):
            own = slice(at[i], at[i + 1])
            mine, keys = q[own], k[own]
            if rotary:
                mine = rotate(mine, position[own], ROPE[1], ROPE[0])
                keys = rotate(keys, offset[i] + np.arange(length), ROPE[1], ROPE[0])
            if length:
                seen = causal(length, length) if is_causal else None
                check(out[own], lse[own], *attention(mine, keys, v[own], SCALE, seen), dtype)


def paged_case(rng, is_sliding, page_size, heads, dim, dtype):
    """Sequences of several fillings; with a window, some slots are forgotten."""
    pages = Pages(rng, 40, heads, page_size, dim, dtype)
    lengths = [0, 1, page_size, page_size + 1, 5 * page_size - 1, 37]
    drops = [(0, 0), (0, 0), (1, 2), (0, 0), (3, 5), (0, 17)] if is_sliding else [(0, 0)] * 6
    return pages, [pages.add(length, *drop) for length, drop in zip(lengths, drops, strict=True)]


def gather(pages, places, which):
    heads = pages.data.shape[2]
    found = [pages.data[page, which, :, offset] for page, offset in places]
    return np.array(found).reshape(len(places), heads, pages.data.shape[-1]).astype("f8")


@pytest.mark.parametrize("is_sliding", [False, True])
@pytest.mark.parametrize(("dtype", "h_kv", "h_q", "dim"), [("float32", 2, 6, 24), ("float16", 1, 4, 32)])
@pytest.mark.parametrize("is_decode", [False, True])
def test_paged(is_sliding, dtype, h_kv, h_q, dim, is_decode):
    rng, page_size = np.random.default_rng(2), 4
    build = attention_decode if is_decode else attention_prefill
    kernel = compiled(build(h_kv, h_q, dim, dtype, is_sliding, {}, page_size))
    pages, places = paged_case(rng, is_sliding, page_size, h_kv, dim, dtype)
    q_lens = [1] * len(places) if is_decode else [2, 1, 3, 5, 9, 20]
    at = indptr(q_lens)
    n = int(at[-1])
    q = normal(rng, dtype, n, h_q, dim)
    position, offset = rng.integers(0, 90, n).astype("i4"), rng.integers(0, 9, len(places)).astype("i4")
    for is_causal, rotary in ((0, 0), (0, 1)) if is_decode else ((0, 0), (1, 0), (0, 1)):
        out, lse = outputs(n, h_q, dim, dtype)
        head = (q,) if is_decode else (q, at)
        flags = (rotary,) if is_decode else (is_causal, rotary)
        kernel(*head, *pages.arguments(is_sliding), offset, position, out, lse, *flags, *ROPE, SCALE)
        for i, mine in enumerate(places):
            own = slice(at[i], at[i + 1])
            keys, queries = gather(pages, mine, 0), q[own]
            if rotary:
                queries = rotate(queries, position[own], ROPE[1], ROPE[0])
                keys = rotate(keys, offset[i] + np.arange(len(mine)), ROPE[1], ROPE[0])
            if not mine:
                assert (out[own] == 0).all() and (lse[own] == np.float32(EMPTY_LSE)).all()
            elif not is_causal or len(mine) >= q_lens[i]:
                seen = causal(q_lens[i], len(mine)) if is_causal else None
                check(
                    out[own], lse[own], *attention(queries, keys, gather(pages, mine, 1), SCALE, seen), dtype
                )


def random_forest(rng, size):
    return [int(rng.integers(-1, node)) for node in range(size)]


def test_tree_among_new_nodes():
    rng, dtype = np.random.default_rng(3), "float32"
    kernel = compiled(tree_attn(2, 4, 16, dtype, {}))
    trees = [random_forest(rng, size) for size in (7, 1, 40, 3)]
    at = indptr([len(tree) for tree in trees])
    n = int(at[-1])
    q, k, v = normal(rng, dtype, n, 4, 16), normal(rng, dtype, n, 2, 16), normal(rng, dtype, n, 2, 16)
    order = np.concatenate([depth_first(tree) for tree in trees])
    position = rng.integers(0, 90, n).astype("i4")
    for rotary in (0, 1):
        out, lse = outputs(n, 4, 16, dtype)
        kernel(q, at, k, v, at, position, at, order, out, lse, rotary, *ROPE, SCALE)
        for i, tree in enumerate(trees):
            own = slice(at[i], at[i + 1])
            mine, keys = q[own], k[own]
            if rotary:
                mine, keys = (rotate(x, position[own], ROPE[1], ROPE[0]) for x in (mine, keys))
            check(out[own], lse[own], *attention(mine, keys, v[own], SCALE, ancestors(tree)), dtype)


def test_tree_in_pages():
    """The queries are the last nodes of trees that lie at the end of their sequences."""
    rng, dtype, page_size = np.random.default_rng(4), "float32", 4
    kernel = compiled(tree_attn_with_paged_kv_cache(2, 4, 16, dtype, {}, page_size))
    pages, cases = Pages(rng, 40, 2, page_size, 16, dtype), []
    for length, size, count in ((12, 5, 5), (30, 17, 4), (3, 3, 1), (40, 33, 33)):
        cases.append((pages.add(length), random_forest(rng, size), count))
    at = indptr([count for _, _, count in cases])
    n = int(at[-1])
    q = normal(rng, dtype, n, 4, 16)
    tree_at = indptr([len(tree) for _, tree, _ in cases])
    order = np.concatenate([depth_first(tree) for _, tree, _ in cases])
    out, lse = outputs(n, 4, 16, dtype)
    zeros = np.zeros(max(n, 4), "i4")
    kernel(q, at, *pages.arguments(False), zeros[:4], zeros[:n], out, lse, 0, *ROPE, SCALE, tree_at, order)
    for i, (places, tree, count) in enumerate(cases):
        own = slice(at[i], at[i + 1])
        seen = np.ones((count, len(places)), bool)
        seen[:, len(places) - len(tree) :] = ancestors(tree)[len(tree) - count :]
        keys, values = gather(pages, places, 0), gather(pages, places, 1)
        check(out[own], lse[own], *attention(q[own], keys, values, SCALE, seen), dtype)


@pytest.mark.parametrize("is_sliding", [False, True])
def test_latent(is_sliding):
    rng, dtype, page_size, heads, latent, rotary = np.random.default_rng(5), "float32", 4, 6, 32, 16
    kernel = compiled(attention_prefill_mla(heads, latent, rotary, dtype, is_sliding, page_size))
    pages, places = paged_case(rng, is_sliding, page_size, None, latent + rotary, dtype)
    q_lens = [1, 1, 1, 3, 9, 20]
    at = indptr(q_lens)
    q = normal(rng, dtype, int(at[-1]), heads, latent + rotary)
    for is_causal in (0, 1):
        out, lse = outputs(int(at[-1]), heads, latent, dtype)
        kernel(q, at, *pages.arguments(is_sliding), out, lse, is_causal, SCALE)
        for i, mine in enumerate(places):
            own = slice(at[i], at[i + 1])
            if mine and len(mine) >= q_lens[i]:
                keys = np.array([pages.data[place] for place in mine])[:, None]
                seen = causal(q_lens[i], len(mine)) if is_causal else None
                check(out[own], lse[own], *attention(q[own], keys, keys[..., :latent], SCALE, seen), dtype)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 4, 8, 8, "float32"), "at least one of key heads, got 0"),
        ((3, 4, 8, 8, "float32"), "multiple of 3 query heads, got 4"),
        ((2, 4, 8, 8, "int8"), "dtypes float32, float16, bfloat16, got int8"),
    ],
)
def test_sizes_that_no_kernel_has(sizes, message):
    with pytest.raises(UsageError, match=f"N0402.*{message}"):
        checked_heads(*sizes)


def test_wrong_arguments_are_refused_with_the_kernels_own_names():
    kernel = compiled(attention_prefill_ragged(1, 1, 8, 8, "float32", {}))
    with pytest.raises(TypeError, match="batch_prefill_ragged_kv_cpu: expected 14 arguments, got 0"):
        kernel()
    at, some = np.zeros(2, "i4"), np.zeros((1, 1, 8), "f4")
    with pytest.raises(TypeError, match=r"argument 2 \('k'\): expected dtype float32, got float16"):
        kernel(some, at, some.astype("f2"), some, at, at[:1], at[:1], some, some[0], 1, 0, 1.0, 1.0, 1.0)
