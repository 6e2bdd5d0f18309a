"""Programs of functions and data: what they are called with, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

from tests.unit.relay.programs import floats

Row = tuple[Callable[[], tuple[Any, ...]], Callable[..., Any]]


def _some(low: int, high: int) -> int:
    return int(np.random.default_rng().integers(low, high))


def _flag() -> bool:
    return bool(_some(0, 2))


def _digits(base: int, items: Any) -> int:
    value = 0
    for item in items:
        value = value * base + item
    return value


def _let_global(x: float, c: bool) -> Any:
    return x + 1, x - 3, x + 2 if c else x - 6


def _prelude_lists(x: Any, n: int) -> Any:
    numbers = list(range(n, 0, -1))
    odd = [k for k in numbers if k % 2]
    pairs = list(zip(numbers[::-1], odd, strict=False))
    scaled = [np.float32(a) * np.float32(b) * x for a, b in pairs]
    changed = [*numbers[:1], 100, *numbers[2:]]
    return np.max(scaled, axis=0), sum(odd + changed), len(pairs), numbers[2]


def _accumulated(items: list[int], start: int) -> tuple[int, list[int]]:
    acc, made = start, []
    for item in items:
        made.append(acc * item)
        acc += item
    return acc, made


def _prelude_accumulators(n: int) -> Any:
    items = list(range(n, 0, -1))
    last, right = _accumulated(items[::-1], 0)
    end, left = _accumulated(items, 1)
    return _digits(100, items), last, _digits(100, right[::-1]), end, _digits(100, left)


def _grown(n: int) -> tuple[int, int]:
    if n == 0:
        return 1, 7
    parts = [_grown(k) for k in range(n)]
    return 1 + sum(size for size, _ in parts), n + sum(total for _, total in parts)


def _prelude_functions(x: Any, k: float, n: int) -> Any:
    return x - k, 2 * x - k, x - 1, x - 2 * n * k


def _continuation_passing(n: int, x: int) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return (n * 15 * x + 1 if n and x else -1), (a, float(b))


def _nested_options(x: float, c: bool) -> Any:
    return (x, 3.0, x, 6.0) if c else (2.0, 4.0, 5.0, 6.0)


def _search_tree(x: Any, a: int, b: int, c: int) -> Any:
    held = {a: x, b: 2 * x}
    held[c], held[b] = 3 * x, 4 * x
    depths = {a: 1}
    for key in (b, c):  # a place below the last one that the way to it passes
        if key not in depths:
            low = max((k for k in depths if k < key), default=None)
            high = min((k for k in depths if k > key), default=None)
            depths[key] = 1 + max(depths[k] for k in (low, high) if k is not None)
    return np.concatenate([held[k] for k in sorted(held)]), max(depths.values()), held[c]


def _machine(x: Any, n: int) -> Any:
    stack, pc, left = [], 0, 0
    code = ["push", "dup", "mul", "dup", "push", "swap", "add", "push", "add", "jump"]
    while pc < len(code):
        step = code[pc]
        pc += 1
        if step == "push":
            stack.append(x)
        elif step == "dup":
            stack.append(stack[-1])
        elif step == "swap":
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif step == "jump":
            if left < n:
                pc, left = 3, left + 1
        else:
            a, b = stack.pop(), stack.pop()
            stack.append(a + b if step == "add" else a * b)
    return stack[-1]


def _zipper(a: int, b: int) -> Any:
    return a, b * 10 + 12


def _quicksort(*items: Any) -> Any:
    order = sorted(range(3), key=lambda k: items[k].sum())
    return np.concatenate([items[k] * (k + 1) for k in order])


def _primes(n: int) -> Any:
    primes = [k for k in range(2, n + 1) if all(k % d for d in range(2, k))]
    return len(primes), (_digits(31, primes) + 2**63) % 2**64 - 2**63


def _queens(n: int) -> int:
    fits = lambda p: len({a + k for k, a in enumerate(p)}) == len({a - k for k, a in enumerate(p)}) == n  # noqa: E731
    return sum(fits(p) for p in permutations(range(n)))


def _edit_distance(x: Any, y: Any) -> int:
    table = np.add.outer(np.arange(len(x) + 1), np.arange(len(y) + 1))
    for i, a in enumerate(x, 1):
        for j, b in enumerate(y, 1):
            table[i, j] = min(table[i - 1, j - 1] + (a != b), table[i - 1, j] + 1, table[i, j - 1] + 1)
    return int(table[-1, -1])


def _memo_fibonacci(n: int) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, n + 1 if n > 1 else 1  # 0 and 1 are answered by one call, which is the first


def _account(n: int, x: Any, c: bool) -> Any:
    total, part = x, x
    for _ in range(n):
        total, part = 2 * total + part, part * np.float32(0.5)
    first = 2 * total + total if c else total
    return (total, first), (n + c, (0 * x if c else total, int(not c)))


def _stack_in_reference(x: Any, n: int) -> Any:
    return np.concatenate([x, *(np.concatenate([x] * 2**k) for k in range(n - 1, -1, -1))]), True


def _shadowing(x: float, c: bool) -> Any:
    f = (lambda v: 3 * (v + 1)) if c else (lambda v: v - 5)
    z = f(x) - x
    return z, x, f(f(z))


def _either(x: Any, n: int) -> Any:
    flipped = 0.0
    for value in (n, x[0, 1], x[1, 0], 2 * n):
        flipped = flipped * 2 + value
    return n * 12, x @ x @ x.T, flipped


def _generic_rings(a: int, x: float) -> Any:
    # even places are a, 3, 5 with 10, 30; odd ones 2, 4 with x, 10
    return 2 * a * 10.0 + 6 * 30.0, 4 * x + 8 * 10.0


def _hanoi(n: int) -> Any:
    return 0, 0, _digits(10, range(1, n + 1)), 2**n - 1


def _tensor_array(x: Any, n: int) -> Any:
    row = np.array([1, 2, 3], "float32")
    row[n] = 9
    return np.stack([row, row]), np.concatenate([x[2:3], x[:2]])


ROWS: dict[str, Row] = {
    "quicksort": (lambda: (floats(2), floats(2), floats(2)), _quicksort),
    "primes": (lambda: (_some(0, 60),), _primes),
    "queens": (lambda: (_some(0, 6),), _queens),
    "fixed_point": (
        lambda: (_some(0, 6), floats(2)),
        lambda n, x: (factorial(n), x * np.float32(0.5) ** n),
    ),
    "lazy_stream": (
        lambda: (_some(0, 8), 1.5),
        lambda n, x: sum((2 * k + 1) * (k + 1) * x for k in range(n)),
    ),
    "edit_distance": (
        lambda: tuple(np.random.default_rng().integers(0, 3, _some(0, 6)).astype("int32") for _ in range(2)),
        _edit_distance,
    ),
    "memo_fibonacci": (lambda: (_some(0, 30),), _memo_fibonacci),
    "account": (lambda: (_some(0, 4), floats(2), _flag()), _account),
    "stack_in_reference": (lambda: (floats(_some(0, 3), 2), _some(0, 4)), _stack_in_reference),
    "shadowing": (lambda: (float(_some(-5, 5)), _flag()), _shadowing),
    "either": (lambda: (floats(2, 2), _some(-3, 4)), _either),
    "generic_rings": (lambda: (_some(-5, 6), 1.5), _generic_rings),
    "generic_in_itself": (lambda: (1.5, _some(0, 9)), lambda x, n: (3 * (1 + n) + 4, 3)),
    "hanoi": (lambda: (_some(0, 6),), _hanoi),
    "tensor_array": (lambda: (floats(3), _some(0, 3)), _tensor_array),
    "let_global": (lambda: (1.5, _flag()), _let_global),
    "prelude_lists": (lambda: (floats(2), _some(3, 9)), _prelude_lists),
    "prelude_accumulators": (lambda: (_some(2, 5),), _prelude_accumulators),
    "prelude_trees": (lambda: (3, 1.5), lambda n, x: (_grown(n)[0], _grown(n)[1] * x)),
    "naturals": (lambda: (1.5,), lambda x: (18, -x, x * 8 + 7)),
    "prelude_functions": (lambda: (floats(3), 0.5, _some(0, 4)), _prelude_functions),
    "church_numerals": (lambda: (_some(-3, 9),), lambda k: 1 + 12 * k),
    "continuation_passing": (lambda: (_some(0, 9), _some(0, 3)), _continuation_passing),
    "nested_options": (lambda: (1.5, _flag()), _nested_options),
    "three_states": (lambda: (_some(0, 500),), lambda n: (n % 3, (n + 1) % 3)),
    "search_tree": (lambda: (floats(_some(0, 4)), *(_some(0, 4) for _ in range(3))), _search_tree),
    "leftist_heap": (
        lambda: tuple(float(_some(0, 10)) for _ in range(4)),
        lambda *items: float(_digits(10, sorted(items, reverse=True))),
    ),
    "stack_machine": (lambda: (floats(2), _some(0, 4)), _machine),
    "zipper": (lambda: (_some(1, 5), _some(1, 5)), _zipper),
}
