"""Programs of Relay in tests/cases/relay: what they are called with, and what they give by numpy."""

from __future__ import annotations

import re
from math import factorial, gcd
from pathlib import Path
from typing import Any

import numpy as np

from heddle import relay
from heddle.ir.module import IRModule
from tests.unit.relay import corpus_functional, corpus_tensors
from tests.unit.relay.programs import floats

FOLDER = Path(__file__).parents[2] / "cases" / "relay"


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _loop(n: int, x: Any) -> Any:
    acc = x
    for _ in range(n):
        acc = acc * np.float32(0.5) + x
    return acc


def _ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return _ackermann(m - 1, 1 if n == 0 else _ackermann(m, n - 1))


def _rnn(x: Any, y: Any, w: Any, u: Any) -> Any:
    h = np.zeros((1, 2), "float32")
    for item in (x, y):
        h = np.tanh(item @ w.T + h @ u.T)
    return h


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(n: int, x: Any, w: Any) -> Any:
    h = c = np.zeros((1, 2), "float32")
    for _ in range(n):
        i, f, g, o = np.split(np.concatenate([x, h], 1) @ w.T, 4, 1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h, x = _sigmoid(o) * np.tanh(c), x * np.float32(0.5)
    return h, c


def _mlp(x: Any, w: Any, b: Any) -> Any:
    y = x
    for _ in range(2):
        y = np.maximum(y @ w.T + b, 0)
    return y + x


def _map_filter(n: int, k: int) -> Any:
    odd = [x for x in range(n, 0, -1) if x % 2]
    value = n
    for x in odd:
        value = value * 2 - x
    return float(sum(odd) * k), value


def _list_of_any(x: Any, y: Any) -> Any:
    whole = np.concatenate([y, np.tanh(x), np.tanh(y), np.tanh(x)])
    return whole, whole.sum(0)


def _forest(n: int) -> int:
    return 1 if n == 0 else n + 4 * _forest(n - 1)


def _beam_search(n: int, width: int, table: Any) -> Any:
    beams = [(np.float32(0), [0])]
    for _ in range(n):
        longer = [(s + table[t[-1], k], [*t, k]) for s, t in beams for k in range(4)]
        beams = sorted(longer, key=lambda beam: -beam[0])[:width]
    return beams[0][0], np.array(beams[0][1], "int32")


def _tree_lstm(x: Any, y: Any, w: Any, u: Any) -> Any:
    def leaf(v: Any) -> Any:
        i, g, o, _ = np.split(v @ w.T, 4, 1)
        c = _sigmoid(i) * np.tanh(g)
        return _sigmoid(o) * np.tanh(c), c

    def node(a: Any, b: Any) -> Any:
        i, g, f, e, o = np.split(np.concatenate([a[0], b[0]], 1) @ u.T, 5, 1)
        c = _sigmoid(i) * np.tanh(g) + _sigmoid(f) * a[1] + _sigmoid(e) * b[1]
        return _sigmoid(o) * np.tanh(c), c

    return node(node(leaf(x), leaf(y)), node(leaf(x), node(leaf(y), leaf(y))))


def _while_loop(n: int, x: Any) -> Any:
    acc = x
    for _ in range(n):
        acc = np.concatenate([acc, x]) * np.float32(0.5)
    return n, acc


def _closures(c: bool, x: Any, y: float) -> Any:
    def add(a: Any, b: float) -> Any:
        return a * (b if c else b + y) + x

    a = x if c else x + x
    return add(a, y), add(add(a, 1), 2)


def _collatz(n: int) -> int:
    return 0 if n <= 1 else 1 + _collatz(3 * n + 1 if n % 2 else n // 2)


def _newton(n: int, x: Any) -> Any:
    y = x + 1
    for _ in range(n):
        y = np.float32(0.5) * (y + x / y)
    return y


def _quotients(a: float, b: float, c: float) -> Any:
    return (True, a / b / c) if b and c else (False, -1.0)


def _halves(n: int, x: Any) -> Any:
    for _ in range(n):
        x = x * np.float32(0.5) + 1
    return x


def _even_sizes(x: Any, y: Any) -> Any:
    sums = x.sum(1, keepdims=True)
    twice = np.concatenate([sums, sums])
    return twice, np.maximum(y, 0), np.array(twice.shape, "int32")


def _rising(*items: float) -> Any:
    best, total, rises = np.float32(0), np.float32(0), 0
    for item in items:
        rises += item > best
        best = max(best, np.float32(item))
        total += best
    return total, rises


def _doubled(x: float, limit: float) -> Any:
    for _ in range(3):
        if x >= limit:
            return -1.0, False
        x *= 2
    return x, True


ROWS: dict[str, corpus_functional.Row] = {
    "running_maximum": (lambda: (1.5, float(np.random.default_rng().integers(3)), 4.0), _rising),
    "memo_of_options": (lambda: (1.5, float(np.random.default_rng().integers(2, 9))), _doubled),
    "sizes_that_are_computed": (
        lambda: (floats(4, 3), int(np.random.default_rng().integers(1, 5))),
        lambda x, n: (x[n:], np.ones(4, "float32"), -np.sort(-x.sum(1))[:n]),
    ),
    "prefix_sums": (lambda: (5, floats(2, 3)), lambda n, x: n * x),
    "expression_values": (lambda: (1.5,), lambda x: (x * x - x, 2 * x - 1)),
    "even_sizes": (lambda: (floats(int(np.random.default_rng().integers(4)), 3), floats(0, 4)), _even_sizes),
    "composed": (lambda: (3, floats(3)), lambda n, x: (_halves(n, x), _halves(n + 1, x))),
    "collatz": (lambda: (int(np.random.default_rng().integers(30)),), _collatz),
    "fibonacci_pair": (lambda: (9,), lambda n: (34, 55)),
    "newton_root": (lambda: (5, np.abs(floats(4)) + 1), _newton),
    "option_chain": (lambda: (3.0, float(np.random.default_rng().integers(2)), 4.0), _quotients),
    "insertion_sort": (
        lambda: tuple(map(int, np.random.default_rng().integers(1, 10, 4))),
        lambda *items: int("".join(map(str, sorted(items)))),
    ),
    "counter_in_closure": (lambda: (floats(3),), lambda x: (x, 2 * x, 4 * x)),
    "attention": (
        lambda: (floats(1, 3, 4), floats(1, 5, 4), floats(1, 5, 4)),
        lambda q, k, v: _softmax(q @ k.transpose(0, 2, 1) * 0.5) @ v,
    ),
    "mlp_any_batch": (lambda: (floats(7, 3), floats(3, 3), floats(3)), _mlp),
    "lstm_loop": (lambda: (6, floats(1, 3), floats(8, 5)), _lstm),
    "nested_closures": (
        lambda: (bool(np.random.default_rng().integers(2)), floats(3), 1.5),
        _closures,
    ),
    "generic_local": (
        lambda: (floats(3, 2), 4),
        lambda x, k: ((np.concatenate([x] * 4), k), ((k, k), k)),
    ),
    "arithmetic": (lambda: (floats(2, 3), floats(3)), lambda x, y: (x + y) * x - y / 2),
    "sharing": (lambda: (floats(4),), lambda x: 4 * np.tanh(x) ** 2 - np.tanh(x)),
    "branch": (
        lambda: (bool(np.random.default_rng().integers(2)), floats(3)),
        lambda c, x: np.exp(x) if c else -x,
    ),
    "factorial": (lambda: (15,), factorial),
    "mutual_recursion": (lambda: (17,), lambda n: (n % 2 == 0, n % 2 == 1)),
    "local_loop": (lambda: (5, floats(3)), _loop),
    "closure": (lambda: (0.5, floats(2)), lambda k, x: x * k * k),
    "closure_in_data": (lambda: (2.0,), lambda x: x * 3),
    "polymorphism": (lambda: (1.5, np.array([1, 2], "int32")), lambda x, y: (x * 9, y * 4)),
    "let_polymorphism": (lambda: (1.5,), lambda x: (x, x)),
    "list_fold": (lambda: (floats(2), floats(2)), lambda x, y: (x * 2 + y) * 2 + x),
    "tree_sum": (lambda: (floats(2), floats(2)), lambda x, y: np.tanh(np.tanh(x + y) + x)),
    "nested_patterns": (lambda: (7,), lambda n: n * (2 + 3 * n)),
    "tuple_patterns": (lambda: ((1.5, (3, 0.25)),), lambda x: x[0] - x[1][1]),
    "partial_match": (lambda: (1.5,), lambda x: x + 1),
    "references": (lambda: (10,), lambda n: n * (n - 1) // 2),
    "shared_reference": (lambda: (1.5,), lambda x: 4.0),
    "any_shapes": (lambda: (floats(2, 3), floats(0, 3)), lambda x, y: np.concatenate([x, np.maximum(y, 0)])),
    "any_reduction": (
        lambda: (floats(2, 5),),
        lambda x: (x.sum(1, keepdims=True), x.max(0), np.array(x.shape, "int32")),
    ),
    "dense_network": (
        lambda: (floats(4, 3), floats(5, 3), floats(5)),
        lambda x, w, b: _softmax(np.maximum(x @ w.T + b, 0)),
    ),
    "higher_order": (lambda: (1.5,), lambda x: (x * x + 1) ** 2 + 1),
    "gcd": (lambda: (84, 36), gcd),
    "casts": (
        lambda: (np.array([1.7, -2.2, 0.0, 3.0], "float32"),),
        lambda x: (x.astype("int32"), x != 0, x.astype("int8").astype("float64")),
    ),
    "empty": (lambda: (floats(0, 3),), lambda x: (x, np.zeros(3, "float32"), ())),
    "where_and_compare": (lambda: (floats(3), floats(3)), lambda x, y: np.where(x < y, x, y * 2)),
    "slices": (lambda: (floats(5, 4),), lambda x: (x[1:5:2, ::3], x[:, 1:3], x[::-1])),
    "ackermann": (lambda: (2, 3), _ackermann),
    "queue": (lambda: (1.5,), lambda x: x - x * 2),
    "state_machine": (lambda: (), lambda: 12),
    "rnn": (lambda: (floats(1, 3), floats(1, 3), floats(2, 3), floats(2, 2)), _rnn),
    "map_filter": (lambda: (9, 3), _map_filter),
    "constructors_as_functions": (lambda: (1.5, 4.0), lambda x, y: (x - y, x - y)),
    "first_clause_wins": (lambda: (), lambda: (1, 2, 3, 4, 5, 6, 7, 7)),
    "list_of_any": (lambda: (floats(3, 2), floats(0, 2)), _list_of_any),
    "references_in_data": (
        lambda: (1.5, 4.0),
        lambda x, y: (3, x + 20, (y + 10) * 2, (y + 10) * 2),
    ),
    "forest": (lambda: (5,), _forest),
    "lambda_terms": (lambda: (3,), lambda n: n * 16),
    "beam_search": (lambda: (5, 3, floats(4, 4)), _beam_search),
    "tree_lstm": (lambda: (floats(1, 3), floats(1, 3), floats(8, 3), floats(10, 4)), _tree_lstm),
    "while_loop": (lambda: (3, floats(2)), _while_loop),
    **corpus_functional.ROWS,
    **corpus_tensors.ROWS,
}


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert np.shape(found) == np.shape(wanted)


def text_of(name: str) -> str:
    """The text of a program."""
    return (FOLDER / f"{name}.relay").read_text()


def read(text: str, name: str = "corpus") -> IRModule:
    """The program of a text. One whose first comment says that it uses a file of the standard library is read
    beside that."""
    mod = IRModule()
    for file in re.findall(r"^// Uses (\w+\.rly)\.$", text, re.MULTILINE):
        mod.import_from_std(file)
    return relay.parse(text, name, mod)


def parsed(name: str) -> IRModule:
    """A program of the corpus."""
    return read(text_of(name), name)
