"""Attention, rotations and pages in plain numpy."""

from __future__ import annotations

import numpy as np

LOG2E = float(np.log2(np.e))
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}


def attention(q, k, v, scale, seen=None):
    """q (n, h_q, d), k (m, h_kv, d), v (m, h_kv, d_v), seen (n, m) → output (n, h_q, d_v), lse (n, h_q) in
    base 2."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype("f8"), group, 1) for x in (k, v))
    scores = np.einsum("qhd,khd->hqk", q.astype("f8"), k) * scale
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights / total, v), ((top + np.log(total))[..., 0].T * LOG2E)


def causal(n, m):
    return np.arange(m)[None, :] <= np.arange(n)[:, None] + m - n


def rotate(x, positions, theta=1e4, scale=1.0, rotary_dim=None, kind=None, frequency=None, magnitude=1.0):
    """x (n, h, d) turned by positions (n); `frequency` maps the plain frequencies to others."""
    dim = x.shape[-1] if rotary_dim is None else rotary_dim
    pairs = np.arange(dim // 2)
    plain = theta ** (-2.0 * pairs / dim)
    angle = (
        np.asarray(positions, "f8")[:, None, None]
        * scale
        * (plain if frequency is None else frequency(plain))
    )
    first, second = (2 * pairs, 2 * pairs + 1) if kind == "gptj" else (pairs, pairs + dim // 2)
    out = x.astype("f8").copy()
    a, b = out[..., first].copy(), out[..., second].copy()
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def ancestors(parents):
    """(n, n): whether node j is node i or an ancestor of it."""
    seen = np.eye(len(parents), dtype=bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            seen[node] |= seen[parent]
    return seen


def depth_first(parents):
    """The interval of depth-first numbers of each node with its descendants, (n, 2) int32."""
    seen = ancestors(parents)
    size = seen.sum(0)
    order = np.zeros((len(parents), 2), "int32")
    after: dict[int, int] = {-1: 0}
    for node, parent in enumerate(parents):
        order[node] = after[parent], after[parent] + size[node]
        after[parent] += size[node]
        after[node] = order[node, 0] + 1
    return order


class Pages:
    """Pages (p, 2, h, page_size, d), or (p, page_size, d) where `heads` is None, in a random order."""

    def __init__(self, rng, num_pages, heads, page_size, dim, dtype):
        shape = (num_pages, page_size, dim) if heads is None else (num_pages, 2, heads, page_size, dim)
        self.data = rng.standard_normal(shape).astype(dtype)
        self.page_size, self.free = page_size, list(rng.permutation(num_pages))
        self.indptr, self.values, self.info = [0], [], []

    def add(self, length, sink=0, dropped=0):
        """A sequence of `length` slots, of which those from `sink` to `sink + dropped` are forgotten."""
        mine = [int(self.free.pop()) for _ in range(-(-length // self.page_size))]
        self.values += mine
        self.indptr.append(len(self.values))
        last = length - (len(mine) - 1) * self.page_size if mine else 0
        self.info.append((last, sink + dropped, sink))
        slots = [s for s in range(length) if not sink <= s < sink + dropped]
        return [(mine[s // self.page_size], s % self.page_size) for s in slots]

    def arguments(self, is_sliding):
        info = np.array(self.info, "int32").T
        listed = np.array(self.values or [0], "int32")
        lengths = np.ascontiguousarray(info if is_sliding else info[0])
        return self.data, np.array(self.indptr, "int32"), listed, lengths
