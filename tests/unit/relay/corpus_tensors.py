"""Programs whose values are mostly tensors: what they are called with, and what they give by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle import relay
from tests.unit.relay.corpus_functional import Row, _flag, _some
from tests.unit.relay.programs import floats


def _convolved(x: Any, w: Any, strides: Any = 1, padding: int = 0, dilation: int = 1) -> Any:
    """A product with taps over all axes behind channels: data NC..., weights OI..."""
    rank = x.ndim - 2
    steps = np.broadcast_to(strides, rank)
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank])
    sizes = [
        (n - dilation * (k - 1) - 1) // s + 1 for n, k, s in zip(x.shape[2:], w.shape[2:], steps, strict=True)
    ]
    total = np.zeros((x.shape[0], w.shape[0], *sizes), "float32")
    for tap in np.ndindex(*w.shape[2:]):
        part = x[
            (
                ...,
                *(
                    slice(dilation * t, dilation * t + (n - 1) * s + 1, s)
                    for t, n, s in zip(tap, sizes, steps, strict=True)
                ),
            )
        ]
        total += np.einsum("ni...,oi->no...", part, w[(..., *tap)])
    return total


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _away(x: Any) -> Any:
    """Rounded to integers, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def _windows(x: Any, size: int, step: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::step, ::step]


def _convnet(x: Any, w: Any, k: Any, s: Any, d: Any) -> Any:
    y = _convolved(x, w) + s[:, None, None]
    y = np.where(y > 0, y, y * np.float32(0.1))
    for _ in range(2):
        z = (_convolved(y, k, padding=1) - s[:, None, None]) / np.sqrt(s * s + 0.1)[:, None, None]
        y = np.maximum(z * s[:, None, None] + s[:, None, None], 0) + y
    y = _windows(y, 2, 2).max((-1, -2))
    padded, ones = (np.pad(each, [(0, 0), (0, 0), (1, 1), (1, 1)]) for each in (y, np.ones_like(y)))
    means = _windows(padded, 3, 2).sum((-1, -2)) / _windows(ones, 3, 2).sum((-1, -2))
    return _softmax(means.reshape(1, 16) @ d.T), y.max((2, 3), keepdims=True)


def _channels_last(x: Any, d: Any, p: Any) -> Any:
    y = np.concatenate(
        [_convolved(x[:, c : c + 1], d[:, :, c].transpose(2, 0, 1)[None], (2, 1), 1) for c in range(3)], 1
    )
    z = _convolved(np.clip(y, 0, 6), p.transpose(3, 2, 0, 1))
    return z, z.mean((2, 3))


def _convolutions_of_ranks(n: int, x: Any, w: Any, v: Any) -> Any:
    for _ in range(n):
        x = np.tanh(_convolved(x, w, padding=2, dilation=2))
    full = np.zeros((2, 19), "float32")
    for place, tap in np.ndindex(9, 3):
        full[:, 2 * place + tap] += x[0, :, place] @ w[:, :, tap]
    up = full[None, :, 1:]
    return x, up, _convolved(up.reshape(1, 2, 3, 3, 2), v)


def _normalisations(x: Any, g: Any, b: Any) -> Any:
    def norm(y: Any, axes: Any) -> Any:
        return (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + 0.001)

    parts = [norm(x, 1), norm(x, 2), norm(x.reshape(2, 2, 2, 3), (2, 3)).reshape(2, 4, 3)]
    parts = [part * g[:, None] + b[:, None] for part in parts]
    parts.append(x / np.sqrt(np.maximum((x * x).sum(2, keepdims=True), 0.001)))
    y = x[None]
    squares = (y * y).sum(1, keepdims=True)
    return np.concatenate(parts), y / (2 + 0.00001 * squares / 3) ** 0.75


def _between(x: Any, row: float, column: float) -> Any:
    """The pixels of x (c, h, w) at a place between them; zero outside."""
    total = np.zeros(x.shape[0], "float32")
    for r in (int(np.floor(row)), int(np.floor(row)) + 1):
        for c in (int(np.floor(column)), int(np.floor(column)) + 1):
            if 0 <= r < x.shape[1] and 0 <= c < x.shape[2]:
                total += x[:, r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return total


def _spatial_transformer(x: Any, theta: Any, boxes: Any) -> Any:
    turned, crops = np.zeros((1, 2, 3, 5), "float32"), np.zeros((2, 2, 2, 2), "float32")
    for i, j in np.ndindex(3, 5):
        column, row = theta[0] @ (j / 2 - 1, i - 1, 1)
        turned[0, :, i, j] = _between(x[0], (row + 1) * 1.5, (column + 1) * 1.5)
    for box, i, j in np.ndindex(2, 2, 2):
        row, column = boxes[box, 2 * i] * 3, boxes[box, 2 * j + 1] * 3
        crops[box, :, i, j] = _between(x[0], row, column)
    return turned, crops, 4 * x.sum()


def _boxes() -> Any:
    rng = np.random.default_rng()
    corners = rng.integers(0, 4, (4, 2))
    scores = rng.permutation(4)[:, None] / 4 + 0.1
    return np.concatenate([rng.integers(0, 2, (4, 1)), scores, corners, corners + 2], 1)[None].astype(
        "float32"
    )


def _detection(boxes: Any) -> Any:
    valid = sorted((row for row in boxes[0] if row[1] > 0.3), key=lambda row: -row[1])
    kept: list[Any] = []
    for row in valid:
        shared = [
            np.maximum(np.minimum(row[4:], k[4:]) - np.maximum(row[2:4], k[2:4]), 0).prod() for k in kept
        ]
        same = [k[0] == row[0] and area / (8 - area) >= 0.5 for k, area in zip(kept, shared, strict=True)]
        if not any(same):
            kept.append(row)
    rest = np.full((4 - len(kept), 6), -1, "float32")
    return np.array([len(valid)], "int32"), np.concatenate([np.reshape(kept, (-1, 6)), rest])[None]


def _dynamic_sizes(x: Any, n: int) -> Any:
    flat = x.reshape(-1)
    padded = np.pad(x, [(0, 0), (n, 1)], constant_values=7)
    return (
        np.tile(flat, n),
        np.full(len(x), n, "int32"),
        padded,
        np.concatenate([np.full(n, 2), np.ones(len(flat))]),
    )


def _quantised_network(x: Any, w: Any, b: Any) -> Any:
    def layer(q: Any) -> Any:
        sums = (q.astype("int32") - 3) @ w.T.astype("int32") + b
        return np.clip(_away(sums * 0.25) + 3, -128, 127)

    y = np.maximum(layer(np.clip(_away(x / 0.5) + 3, -128, 127)), 3)
    return (layer(y) - 3) * 0.5, y


def _quantised_elements(x: Any, y: Any) -> Any:
    a, b = x.astype("int64") - 10, y.astype("int64") - 20
    added = np.clip(np.floor(a * 0.5 + 0.5) + np.floor(b * 0.25 + 0.5) + 5, 0, 255)
    product = np.clip(np.floor(a * b / 16 + 0.5) + 5, 0, 255)
    both = np.concatenate([added, np.clip((product - 5) * 2 + 5, 0, 255)])
    table = np.clip(_away(np.tanh(a * 0.5) * 128) + 128, 0, 255)
    return added, product, both, (table - 128) / 128


def _indices(x: Any, i: Any, j: Any) -> Any:
    rows = np.take_along_axis(x, i, 1)
    added = x.copy()
    np.add.at(added, (np.arange(3)[:, None], i), rows)
    cut = x.copy()
    cut[2] = 0
    hot = (np.arange(4)[:, None] == j).astype("int8")
    taken = np.take(x, j, 1, mode="wrap"), np.take(x, j, 0, mode="clip")
    return rows, x[i[:, 0], i[:, 1]], taken, added, (hot, cut)


def _orders(x: Any, v: Any, k: Any) -> Any:
    order, ordered = np.argsort(-x, 1), np.sort(x, 1)
    values, counts = np.unique(k, return_counts=True)
    sums = np.cumsum(np.pad(ordered, [(0, 0), (1, 0)])[:, :-1], 1)
    best = (ordered[:, :-3:-1], order[:, :2])
    return order, sums, best, np.searchsorted(ordered[0], v), (values, counts), np.argsort(order[1])


def _integer_types(a: Any, b: Any, c: Any, n: int) -> Any:
    cut = np.trunc(c / n).astype("int64")
    wide = a.astype("int16") * b.astype("int16")
    return (
        a * a,
        wide,
        (b & 15) ^ ~b,
        (c // n, cut),
        (c % n, c - cut * n),
        c << abs(n),
        a.astype("int32") >> 1,
    )


def _nothing(x: Any, n: int) -> Any:
    y = np.concatenate([x] * 2**n)
    mean = y.mean(0) if len(y) else np.zeros(2, "float32")
    order = np.argsort(y, 0, kind="stable")
    return mean, y.sum(), (_softmax(y), np.sort(y, 0)), (True, bool(y.size)), y.T, order


def _either_size(x: Any, n: int, c: bool) -> Any:
    part = x[:n] if c else x[len(x) - n :]
    both = np.concatenate([part, x]) if n > 1 else part
    return part, both.sum(), np.array(both.shape)


def _life(b: Any, n: int) -> Any:
    for left in range(n, 0, -1):
        p = np.pad(b, 1)
        sums = sum(p[i : i + 6, j : j + 6] for i in range(3) for j in range(3))
        c = ((sums == 3) | ((sums == 4) & (b == 1))).astype("int32")
        if (b == c).all():
            return left, b
        b = c
    return 0, b


def _heat(u: Any, n: int) -> Any:
    path = []
    for _ in range(n + 1):
        p = np.pad(u, 1, mode="edge")
        u = u + np.float32(0.25) * (p[:-2] - 2 * u + p[2:])
        path.append(u[0])
    return u, np.array(path)


def _descent(n: int, x: Any, y: Any) -> Any:
    w, losses = np.zeros((1, 3), "float32"), np.float32(0)
    for _ in range(n):
        error = x @ w.T - y
        losses += (error * error).sum()
        w = w - np.float32(0.1) * error.T @ x
    return w, losses


def _viterbi(x: Any, m: Any) -> Any:
    score, back = np.zeros(3, "float32"), []
    for row in x:
        total = score[:, None] + m
        score = total.max(0) + row
        back.append(total.argmax(0))
    path = [int(score.argmax())]
    for places in reversed(back):
        path.insert(0, int(places[path[0]]))
    return score.max(), np.array(path)


def _seq2seq(a: Any, b: Any, w: Any, n: int) -> Any:
    def gru(x: Any, h: Any) -> Any:
        z, p, q = np.split(np.concatenate([x, h], 1) @ w.T, 3, 1)
        return (1 - _sigmoid(z)) * h + _sigmoid(z) * np.tanh(p * _sigmoid(q))

    h, kept = np.zeros((1, 2), "float32"), []
    for x in (a, b, a):
        h = gru(x, h)
        kept.append(h)
    rows, out = np.concatenate(kept), [np.zeros((0, 2), "float32")]
    for _ in range(n):
        h = gru(_softmax(h @ rows.T) @ rows, h)
        out.append(h)
    return np.concatenate(out)


def _tuples_of_tuples(x: Any, n: int) -> Any:
    first = ((x, (2 * x, n)), (n, (2.0**n,)))
    return (first, ((), (x + 1, (7, (0.5,))))), (x, (x,)) if n > 2 else (3 * x, (4 * x,))


def _bytes(*shape: int, dtype: str = "int8") -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng().integers(info.min, info.max + 1, shape).astype(dtype)


def _ints(low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng().integers(low, high, shape).astype("int32")


def _samples() -> tuple[Any, Any]:
    number = _some(0, 4)
    return floats(number, 3), floats(number, 1)


ROWS: dict[str, Row] = {
    "convnet": (
        lambda: (floats(1, 3, 8, 8), floats(4, 3, 1, 1), floats(4, 4, 3, 3) / 4, floats(4), floats(5, 16)),
        _convnet,
    ),
    "channels_last": (
        lambda: (floats(2, 3, 6, 5), floats(3, 3, 3, 1), floats(1, 1, 3, 4)),
        _channels_last,
    ),
    "convolutions_of_ranks": (
        lambda: (_some(0, 4), floats(1, 2, 9), floats(2, 2, 3), floats(1, 2, 3, 2, 2)),
        _convolutions_of_ranks,
    ),
    "normalisations": (lambda: (floats(2, 4, 3), floats(4), floats(4)), _normalisations),
    "spatial_transformer": (
        lambda: (floats(1, 2, 4, 4), floats(1, 2, 3) / 2, np.abs(np.tanh(floats(2, 4)))),
        _spatial_transformer,
    ),
    "detection": (lambda: (_boxes(),), _detection),
    "dynamic_sizes": (lambda: (floats(_some(0, 4), 2), _some(0, 4)), _dynamic_sizes),
    "random_keys": (
        lambda: (relay.random.threefry_key(_some(0, 99)).data.numpy(), _some(0, 3)),
        lambda key, n: (True, False, True, True, n == 0),
    ),
    "quantised_network": (
        lambda: (floats(_some(0, 4), 4) * 3, _bytes(4, 4) // 16, _ints(-9, 9, 4)),
        _quantised_network,
    ),
    "quantised_elements": (
        lambda: (_bytes(2, 5, dtype="uint8"), _bytes(2, 5, dtype="uint8")),
        _quantised_elements,
    ),
    "indices": (lambda: (floats(3, 4), _ints(0, 3, 3, 2), _ints(-3, 7, 5)), _indices),
    "orders": (lambda: (floats(2, 5), floats(3), _ints(0, 4, 7)), _orders),
    "integer_types": (
        lambda: (_bytes(4), _bytes(4, dtype="uint8"), _ints(-99, 99, 4).astype("int64"), _some(1, 9) - 10),
        _integer_types,
    ),
    "bits": (
        lambda: (_some(0, 1 << 16),),
        lambda x: (bin(x).count("1"), int(f"{x:016b}"[::-1], 2)),
    ),
    "nothing": (lambda: (floats(_some(0, 3), 2), _some(0, 3)), _nothing),
    "either_size": (lambda: (floats(5), _some(0, 6), _flag()), _either_size),
    "life": (lambda: (_ints(0, 2, 6, 6), _some(0, 9)), _life),
    "heat": (lambda: (floats(_some(1, 7)), _some(0, 5)), _heat),
    "descent": (lambda: (_some(0, 4), *_samples()), _descent),
    "viterbi": (lambda: (floats(_some(0, 5), 3), floats(3, 3)), _viterbi),
    "seq2seq": (lambda: (floats(1, 2), floats(1, 2), floats(6, 4), _some(0, 4)), _seq2seq),
    "devices": (lambda: (floats(3), _flag()), lambda x, c: np.tanh(x) * (1 if c else 2)),
    "checkpoints": (
        lambda: (floats(3), _flag()),
        lambda x, c: (lambda f: (f(x), 2 * f(x)) if c else (f(f(x * 0.1)), 2 * f(f(x * 0.1))))(
            lambda a: np.exp(a) + a
        ),
    ),
    "tuples_of_tuples": (lambda: (floats(_some(0, 4)), _some(0, 5)), _tuples_of_tuples),
}
