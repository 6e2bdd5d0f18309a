"""Kernels that move, rotate and merge, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.frontend.nn.llm import page_kernels as kernels
from heddle.frontend.nn.llm.rope import Rope
from heddle.frontend.nn.llm.rotary_kernel import llama_rope_with_position_map
from heddle.support.diagnostics import UsageError

from .reference import TOLERANCE, attention, rotate
from .test_attention_kernels import compiled, normal

PAGE = 4


@pytest.mark.fact("10.10")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_append_then_read_back(dtype):
    rng, n, heads, dim = np.random.default_rng(1), 11, 3, 20
    pages = normal(rng, dtype, 6, 2, heads, PAGE, dim)
    before, k, v = pages.copy(), normal(rng, dtype, n, heads, dim), normal(rng, dtype, n, heads, dim)
    slots = rng.permutation(6 * PAGE)[:n].astype("i4")
    slots[[2, 7]] = -1
    compiled(kernels.kv_cache_transpose_append(heads, dim, dtype, PAGE))(pages, k, v, slots)
    for token, slot in enumerate(slots):
        if slot >= 0:
            before[slot // PAGE, :, :, slot % PAGE] = np.stack([k[token], v[token]])
    np.testing.assert_array_equal(pages, before)
    kept = slots >= 0
    got_k, got_v = (np.zeros((2, kept.sum(), heads, dim), dtype) for _ in range(2))
    read = compiled(kernels.kv_cache_debug_get_kv(2, heads, dim, dtype))
    read(pages, np.ascontiguousarray(slots[kept]), got_k, got_v, 1)
    np.testing.assert_array_equal(got_k[1], k[kept])
    np.testing.assert_array_equal(got_v[1], v[kept])
    assert not got_k[0].any() and not got_v[0].any()


def test_append_then_read_back_compressed():
    rng, n, dim = np.random.default_rng(2), 9, 24
    pages, data = normal(rng, "f4", 5, PAGE, dim), normal(rng, "f4", n, dim)
    slots = rng.permutation(5 * PAGE)[:n].astype("i4")
    compiled(kernels.kv_cache_transpose_append_mla(dim, "float32", PAGE))(pages, data, slots)
    got = np.zeros((3, n, dim), "f4")
    compiled(kernels.kv_cache_debug_get_kv_mla(3, dim, "float32"))(pages, slots, got, 2)
    np.testing.assert_array_equal(got[2], data)
    assert not got[:2].any()


def test_copies_of_pages():
    rng = np.random.default_rng(3)
    pages = normal(rng, "f4", 5, 2, 3, PAGE, 10)
    expected = pages.copy()
    expected[4, :, :, :3] = pages[1, :, :, :3]
    compiled(kernels.copy_single_page(3, PAGE, 10, "float32"))(pages, 1, 4, 3)
    np.testing.assert_array_equal(pages, expected)
    flat = normal(rng, "f4", 5, PAGE, 10)
    expected = flat.copy()
    expected[0, :2] = flat[3, :2]
    compiled(kernels.copy_single_page_mla(PAGE, 10, "float32"))(flat, 3, 0, 2)
    np.testing.assert_array_equal(flat, expected)


def test_compact_copy_moves_in_order():
    rng = np.random.default_rng(4)
    pages = normal(rng, "f4", 4, 2, 3, PAGE, 10)
    moves, at = np.array([[5, 9, 6, 15], [4, 5, 0, 1]], "i4"), np.array([0, 2, 2, 4], "i4")
    expected = pages.copy()
    for source, target in moves.T:
        expected[target // PAGE, :, :, target % PAGE] = expected[source // PAGE, :, :, source % PAGE]
    compiled(kernels.compact_kv_copy(3, 10, "float32", PAGE))(pages, at, moves, 3)
    np.testing.assert_array_equal(pages, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_merge_is_attention_over_both(dtype):
    rng = np.random.default_rng(5)
    q, k, v = normal(rng, dtype, 9, 4, 8), normal(rng, dtype, 12, 2, 8), normal(rng, dtype, 12, 2, 8)
    parts = [attention(q, k[own], v[own], 0.5) for own in (slice(0, 5), slice(5, 12))]
    (out, lse), (other, other_lse) = ((o.astype(dtype), s.astype("f4")) for o, s in parts)
    compiled(kernels.merge_state_inplace(dtype))(out, lse, other, other_lse)
    expected, expected_lse = attention(q, k, v, 0.5)
    np.testing.assert_allclose(out, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5)


def test_merge_with_nothing_changes_nothing():
    rng = np.random.default_rng(6)
    out, lse = normal(rng, "f4", 3, 2, 8), normal(rng, "f4", 3, 2)
    other, empty = np.zeros_like(out), np.full_like(lse, -1e30)
    merge = compiled(kernels.merge_state_inplace("float32"))
    got, got_lse = out.copy(), lse.copy()
    merge(got, got_lse, other, empty)
    np.testing.assert_array_equal(got, out)
    merge(other, empty, out, lse)
    np.testing.assert_array_equal(other, out)
    np.testing.assert_array_equal(empty, lse)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}


def llama3_frequency(plain):
    """Dubey et al. 2024, as Hugging Face's `rope_utils` states it."""
    wave = 2 * np.pi / plain
    smooth = (256 / wave - 1.0) / (4.0 - 1.0)
    blended = (1 - smooth) * plain / 8.0 + smooth * plain
    return np.where(wave > 256, plain / 8.0, np.where(wave < 64, plain, blended))


@pytest.mark.parametrize(
    ("scaling", "rotary_dim", "options"),
    [
        ({}, None, {}),
        ({}, 12, {}),
        ({"rope_type": "gptj"}, 8, {"kind": "gptj"}),
        (LLAMA3, None, {"frequency": llama3_frequency}),
    ],
)
def test_split_and_rotate(scaling, rotary_dim, options):
    rng, n, h_q, h_kv, dim = np.random.default_rng(7), 13, 4, 2, 20
    kernel = compiled(llama_rope_with_position_map(5e3, 1.5, dim, h_q, h_kv, "float32", scaling, rotary_dim))
    qkv, positions = normal(rng, "f4", n, h_q + 2 * h_kv, dim), rng.integers(0, 300, n).astype("i4")
    parts = np.split(qkv, [h_q, h_q + h_kv], axis=1)
    for apply in (0, 1):
        q, k, v = (np.zeros_like(part) for part in parts)
        kernel(qkv, positions, q, k, v, apply)
        for got, part in ((q, parts[0]), (k, parts[1])):
            turned = rotate(part, positions, 5e3, 1.5, rotary_dim, **options) if apply else part
            np.testing.assert_allclose(got, turned, rtol=2e-4, atol=2e-4)
        np.testing.assert_array_equal(v, parts[2])


@pytest.mark.parametrize(("n", "half"), [(9, 0), (8, 1)])
def test_longrope_takes_the_long_factors_beyond_the_original_length(n, half):
    rng, dim = np.random.default_rng(8), 12
    scaling = {
        "rope_type": "longrope",
        "original_max_position_embeddings": 8,
        "max_position_embeddings": 64,
    }
    factors = rng.uniform(1, 3, dim).astype("f4")
    qkv, positions = normal(rng, "f4", n, 3, dim), np.arange(n, dtype="i4")
    q, k, v = (np.zeros((n, 1, dim), "f4") for _ in range(3))
    compiled(llama_rope_with_position_map(1e4, 1.0, dim, 1, 1, "float32", scaling))(
        qkv, positions, q, k, v, factors
    )
    mine = factors.reshape(2, -1)[half]
    magnitude = np.sqrt(1 + np.log(8) / np.log(8))
    for got, part in ((q, qkv[:, :1]), (k, qkv[:, 1:2])):
        expected = rotate(part, positions, frequency=lambda plain: plain / mine, magnitude=magnitude)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scaling", "rotary_dim", "message"),
    [
        ({"rope_type": "lama3"}, 8, "unknown rope_type 'lama3'"),
        ({"rope_type": "llama3", "factor": 2.0}, 8, "lacks low_freq_factor, high_freq_factor"),
        ({}, 7, "even rotary_dim of at most 8 features, got 7"),
        ({}, 10, "even rotary_dim of at most 8 features, got 10"),
    ],
)
def test_rotations_that_are_refused(scaling, rotary_dim, message):
    with pytest.raises(UsageError, match=f"N0401.*{message}"):
        Rope(8, rotary_dim, scaling)
