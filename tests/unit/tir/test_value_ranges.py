"""Ranges of values: whatever a loop function stores lies in the range that the analysis gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import (
    bitwise_and,
    cast,
    equal,
    floordiv,
    floormod,
    if_then_else,
    less,
    maximum,
    minimum,
    select,
    shift_left,
    shift_right,
)
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.script.parser import parse
from heddle.tir.analysis.value_ranges import value_ranges
from heddle.tir.interpreter import run_primfunc

DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
KINDS = ("add", "subtract", "multiply", "min", "max", "div", "mod", "and", "right", "left", "select", "cast")


def operation(kind: str, a: PrimExpr, b: PrimExpr, number: int, other: str) -> PrimExpr:
    """One of KINDS, of two expressions and a number."""
    given, one = constant(number, a.dtype), constant(1, a.dtype)
    match kind:
        case "add":
            return a + given
        case "subtract":
            return a - b
        case "multiply":
            return a * b
        case "min":
            return minimum(a, given)
        case "max":
            return maximum(a, b)
        case "div":
            return floordiv(a, constant(number or 3, a.dtype))
        case "mod":
            return floormod(a, constant(number or 3, a.dtype))
        case "and":
            return bitwise_and(a, given)
        case "right":
            return shift_right(a, bitwise_and(b, one))
        case "left":
            return shift_left(a, bitwise_and(b, one))
        case "select":
            return select(less(a, b), given, if_then_else(equal(a, given), b, a))
    return cast(str(a.dtype), cast(other, a))


def grown(rng: Any, leaves: list[PrimExpr], size: int) -> PrimExpr:
    """A random expression of so many operations."""
    exprs = list(leaves)
    low, high = int_range(leaves[0].dtype)
    for _ in range(size):
        a, b = (exprs[int(rng.integers(len(exprs)))] for _ in range(2))
        number = int(rng.integers(max(low, -9), min(high, 20)))
        other = str(rng.choice(["int8", "bool", "uint16", "int64"]))
        exprs.append(operation(str(rng.choice(KINDS)), a, b, number, other))
    return exprs[-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_expressions_stay_in_their_ranges(dtype: str) -> None:
    rng = np.random.default_rng()
    narrow, low_high = 0, int_range(DataType(dtype))
    for _ in range(40):
        ends = sorted(int(x) for x in rng.integers(max(low_high[0], -100), min(low_high[1], 200), 2))
        if rng.random() < 0.2:
            ends[1] = low_high[1]
        x = te.placeholder((30,), dtype, "x")
        y = te.compute((30,), lambda i, x=x: grown(rng, [x[i], x[29 - i]], int(rng.integers(1, 7))), name="y")
        func = te.create_prim_func([x, y])
        found = value_ranges(func, {func.buffers[0]: (ends[0], ends[1])})
        assert found is not None
        low, high = found.buffers[func.buffers[1]]
        data = rng.integers(ends[0], ends[1], 30, dtype=dtype, endpoint=True)
        data[:2] = ends
        out = np.zeros(30, dtype)
        run_primfunc(func, data, out)
        assert low <= int(out.min()) and int(out.max()) <= high, (func, ends, out)
        narrow += (low, high) != low_high
    assert narrow > 4  # else nothing was shown


def ranges_of(body: str, given: dict[str, tuple[int, int]], params: str) -> Any:
    """The range of `y` in a function of script text."""
    func = parse(
        f"from heddle.script import tir as T\n@T.prim_func\ndef f({params}):\n"
        + "\n".join(f"    {line}" for line in body.strip().splitlines())
    )
    found = value_ranges(func, {b: given[b.name] for b in func.buffers if b.name in given})
    return None if found is None else next(r for b, r in found.buffers.items() if b.name == "y")


FLAT = 'x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in range(8):\n    y[i] = i", (0, 7)),
        ("for i in range(8):\n    y[i] = x[i] * 2 + 1", (7, 21)),
        ("for i in range(8):\n    y[i] = 100\nfor i in range(8):\n    y[i] = T.min(y[i], x[i])", (3, 100)),
        ("y[0] = 0\nfor i in range(8):\n    y[0] = y[0] + x[i]", int_range(DataType("int32"))),  # grows
        ("y[0] = 0\nfor i in range(8):\n    y[0] = T.max(y[0], x[i])", (0, 10)),
        ("for i in range(8):\n    y[i] = x[i] * 1000000000", int_range(DataType("int32"))),  # wraps
        ("for i in range(8):\n    y[i] = (x[i] * 1000000000) % 7", (0, 6)),
        ("for i in range(8):\n    if x[i] > 5:\n        y[i] = 20\n    else:\n        y[i] = -1", (-1, 20)),
    ],
)
def test_range(body: str, expected: tuple[int, int]) -> None:
    assert ranges_of(body, {"x": (3, 10)}, FLAT) == expected


def test_a_buffer_that_is_read_and_written_keeps_what_it_was_given() -> None:
    body = "for i in range(8):\n    y[i] = y[i] % 4"
    assert ranges_of(body, {"y": (-7, 90)}, FLAT) == (-7, 90)


def test_memory_that_is_used_by_address_has_no_ranges() -> None:
    body = 'T.evaluate(T.call_extern("int32", "fill", y.data))\nfor i in range(8):\n    y[i] = 1'
    assert ranges_of(body, {"x": (3, 10)}, FLAT) is None


def test_what_nobody_says_may_be_anything() -> None:
    assert ranges_of("for i in range(8):\n    y[i] = x[i]", {}, FLAT) == int_range(DataType("int32"))


def test_shared_expressions_are_looked_at_once() -> None:
    x = te.placeholder((4,), "int64", "x")

    def doubled(i: Any) -> PrimExpr:
        made: PrimExpr = x[i]
        for _ in range(200):
            made = minimum(made, made + 1)
        return made

    func = te.create_prim_func([x, te.compute((4,), doubled, name="y")])
    found = value_ranges(func, {func.buffers[0]: (0, 5)})
    assert found is not None and found.buffers[func.buffers[1]] == (0, 5)
