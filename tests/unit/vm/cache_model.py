"""What a paged cache means, in numpy: a sequence is a list of tokens, attention looks at all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heddle.runtime import get_global_func
from heddle.vm.relax import register_builtins

register_builtins()


def builtin(name):
    return get_global_func(f"vm.builtin.{name}")


def attention(q, k, v, scale, seen):
    """q (n, h_q, d), k and v (m, h_kv, d), seen (n, m)."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = np.where(seen, np.einsum("qhd,khd->hqk", q, k) * scale, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def rotate(x, positions, theta, scale):
    half = x.shape[-1] // 2
    angle = np.asarray(positions, "f8")[:, None, None] * scale * theta ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


@dataclass
class Token:
    """`k` and `v`: (layers, heads, features); `position` is where it stood when it came."""

    k: np.ndarray
    v: np.ndarray
    position: int


@dataclass
class Sequence:
    tokens: list[Token] = field(default_factory=list)
    window: int | None = None
    sink: int = 0
    parents: list[int] | None = None

    @property
    def committed(self):
        return len(self.tokens) - len(self.parents or ())

    def depth(self, node):
        parent = self.parents[node]
        return 0 if parent < 0 else self.depth(parent) + 1

    def path(self, node):
        return [] if node < 0 else [*self.path(self.parents[node]), node]

    def slide(self):
        if self.window is not None and len(self.tokens) > self.window:
            del self.tokens[self.sink : self.sink + len(self.tokens) - self.window]


class Model:
    """The same operations as the cache, and what attention must give. `rope` is "none", "normal" or
    "inline"."""

    theta, rope_scale = 50.0, 0.7

    def __init__(self, rng, layers, h_q, h_kv, dim, rope="none", dtype="float32", layer_windows=None):
        self.rng, self.layers, self.h_q, self.h_kv, self.dim = rng, layers, h_q, h_kv, dim
        self.rope, self.dtype, self.scale = rope, dtype, dim**-0.5
        self.layer_windows = layer_windows or [None] * layers
        self.sequences: dict[int, Sequence] = {}

    def fork(self, parent, child, position):
        tokens = self.sequences[parent].tokens
        self.sequences[child] = Sequence(tokens[: len(tokens) if position == -1 else position])

    def stored_key(self, token, layer):
        """A key as it lies in the page."""
        k = token.k[layer].astype("f8")
        if self.rope != "normal":
            return k
        return rotate(k[None], [token.position], self.theta, self.rope_scale)[0]

    def forward(self, cache, ids, lengths, parents=None, spare_rows=0):
        """Run a step on the cache and check all layers."""
        batch, starts = [self.sequences[i] for i in ids], []
        for seq, new_parents in zip(batch, parents or [None] * len(ids), strict=True):
            starts.append(len(seq.tokens))
            if new_parents is not None:
                seq.parents = [*(seq.parents or []), *new_parents]
        total = sum(lengths)
        shape = (self.layers, total, self.h_q + 2 * self.h_kv, self.dim)
        fused = self.rng.standard_normal(shape).astype(self.dtype)
        positions = self._append(batch, lengths, starts, fused)
        np.testing.assert_array_equal(cache.query_positions.numpy(), positions)
        attend = builtin("attention_kv_cache_attention_with_fused_qkv")
        for layer in range(self.layers):
            spare = np.full((spare_rows, *shape[2:]), np.nan, self.dtype)
            out = np.full((total + spare_rows, self.h_q, self.dim), 9, self.dtype)
            attend(cache, layer, self.scale, np.concatenate([fused[layer], spare]), out)
            assert (out[total:] == 9).all()
            self._check(batch, lengths, starts, positions, fused[layer, :, : self.h_q], layer, out)

    def _append(self, batch, lengths, starts, fused):
        positions, row = [], 0
        for seq, length, start in zip(batch, lengths, starts, strict=True):
            for i in range(length):
                position = start + i
                if seq.parents is not None:
                    older = len(seq.parents) - length
                    position = start - older + seq.depth(older + i)
                k, v = np.split(fused[:, row, self.h_q :], 2, axis=1)
                seq.tokens.append(Token(k, v, position))
                positions.append(position)
                row += 1
        return positions

    def _seen(self, seq, length, start, layer):
        """(length, tokens): what each new token may look at."""
        count = len(seq.tokens)
        seen = np.arange(count)[None] <= np.arange(start, count)[:, None]
        window = self.layer_windows[layer]
        if window is not None:
            seen &= np.arange(count)[None] > np.arange(start, count)[:, None] - window
        if seq.parents is not None:
            first = seq.committed
            for i in range(length):
                seen[i, first:] = False
                seen[i, [first + node for node in seq.path(start - first + i)]] = True
        return seen

    def _check(self, batch, lengths, starts, positions, q, layer, out):
        row = 0
        for seq, length, start in zip(batch, lengths, starts, strict=True):
            rows = slice(row, row + length)
            k = np.stack([self.stored_key(token, layer) for token in seq.tokens])
            v = np.stack([token.v[layer].astype("f8") for token in seq.tokens])
            mine = q[rows].astype("f8")
            if self.rope == "inline":
                k = rotate(k, range(len(k)), self.theta, self.rope_scale)
            if self.rope != "none":
                mine = rotate(mine, positions[rows], self.theta, self.rope_scale)
            expected = attention(mine, k, v, self.scale, self._seen(seq, length, start, layer))
            tolerance = 1e-4 if self.dtype == "float32" else 1e-2
            np.testing.assert_allclose(out[rows].astype("f8"), expected, rtol=tolerance, atol=tolerance)
            row += length

    def check_stored(self, cache, seq_id, start=0, end=None):
        """Read tokens of a sequence back."""
        tokens = self.sequences[seq_id].tokens[start:end]
        shape = (self.layers, len(tokens), self.h_kv, self.dim)
        k, v = np.zeros(shape, self.dtype), np.zeros(shape, self.dtype)
        builtin("attention_kv_cache_debug_get_kv")(cache, seq_id, start, start + len(tokens), k, v)
        for at, token in enumerate(tokens):
            for layer in range(self.layers):
                tolerance = 1e-5 if self.dtype == "float32" else 1e-2
                expected = self.stored_key(token, layer)
                np.testing.assert_allclose(k[layer, at], expected, rtol=tolerance, atol=tolerance)
                np.testing.assert_array_equal(v[layer, at], token.v[layer])


def check_pages(cache):
    """Each page is free or belongs to one block; sharing leaves no block with one child."""
    forest, blocks = cache.sequences.forest, {}
    for seq in cache.sequences.by_id.values():
        for block in seq.leaf.path():
            blocks[id(block)] = block
    held = [page for block in blocks.values() for page in block.pages]
    assert len(set(held)) == len(held)
    assert len(held) + forest.pool.num_free == forest.pool.num_pages
    for block in blocks.values():
        assert len(block.pages) == -(-block.num_slots // forest.page_size)
        assert all(id(child) in blocks and child.parent is block for child in block.children)
        if block.children:
            assert len(block.children) > 1
            assert block.num_slots == len(block.pages) * forest.page_size
