"""Large tensors joined and split by several threads give what one thread gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from heddle.runtime import Array, set_num_threads, tensor
from heddle.runtime.native.library import native_library

from . import programs
from .programs import builder

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = native_library().num_threads
    set_num_threads(request.param)
    yield
    set_num_threads(before)


def call(name, operands, count, *inputs):
    made = builder()
    with made.function("main", count):
        made.emit_call(f"vm.builtin.{name}", operands(made), dst=made.r(count))
        made.emit_ret(made.r(count))
    return programs.run_machine(made)["main"](*inputs)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((700_001,), 0, (1, 400_000, 0, 300_000)),
        ((3, 400_001), 1, (200_000, 200_001)),
        ((400_001, 3), 1, (1, 2)),
        ((900, 1201), 0, (300, 299, 301)),
        ((5, 40, 7001), 1, (1,) * 40),
        ((5, 40, 7001), 2, (7000, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_large_tensors_are_joined_and_split(shape, axis, sizes, dtype):
    whole = (np.arange(np.prod(shape), dtype=np.int64) * 7 % 251 - 125).reshape(shape).astype(dtype)
    parts = np.split(whole, np.cumsum(sizes)[:-1], axis)
    given = Array([tensor(part) for part in parts])
    for place in (axis, axis - len(shape)):
        joined = call("sequence_concat", lambda m, p=place: [m.r(0), m.imm(p), m.imm(0)], 1, given)
        assert np.array_equal(joined.numpy(), whole)
    found = call(
        "sequence_split", lambda m: [m.r(0), m.r(1), m.imm(axis), m.imm(1)], 2, whole, np.array(sizes)
    )
    assert len(found) == len(parts)
    assert all(np.array_equal(got.numpy(), part) for got, part in zip(found, parts, strict=True))
    if len(set(sizes)) == 1:
        new = [tensor(part.squeeze(axis)) for part in parts]
        joined = call("sequence_concat", lambda m: [m.r(0), m.imm(axis), m.imm(1)], 1, Array(new))
        assert np.array_equal(joined.numpy(), whole)
        one = np.array(1)
        found = call("sequence_split", lambda m: [m.r(0), m.r(1), m.imm(axis), m.imm(0)], 2, whole, one)
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(found, new, strict=True))
