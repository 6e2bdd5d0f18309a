"""Parts of parallel loops, as a profile records them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from heddle.codegen import build
from heddle.runtime import thread_parts
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.native.source.fork_join import PARTS_OF_A_THREAD
from heddle.runtime.thread_parts import recorded_parts
from heddle.script import from_source

SCALE = """
@T.prim_func
def scale(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for i in T.parallel(n):
        with T.sblock("Y"):
            v = T.axis.spatial(n, i)
            Y[v] = X[v] * T.float32(2)
"""
SIZE = 100_000
NUM_PARTS = 2 * PARTS_OF_A_THREAD


@pytest.fixture
def scale() -> object:
    """A new kernel: the pool shares the first loop of a body that it does not know."""
    return build(from_source(SCALE), "llvm")["scale"]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = native_library().num_threads
    set_num_threads(2)
    yield
    set_num_threads(before)


def run(scale, times: int) -> None:  # type: ignore[no-untyped-def]
    x, y = np.arange(SIZE, dtype="float32"), np.empty(SIZE, "float32")
    for _ in range(times):
        scale(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_the_parts_of_a_loop_make_the_whole(scale) -> None:  # type: ignore[no-untyped-def]
    with recorded_parts() as record:
        run(scale, 20)
    run(scale, 3)
    size = SIZE // NUM_PARTS
    ranges = [(0, SIZE), *((first, size) for first in range(0, SIZE, size))]
    counts = [[(part.begin, part.size) for part in record.parts].count(each) for each in ranges]
    assert counts[0] + counts[1] == 20 and len(set(counts[1:])) == 1 and counts[1] > 0
    assert len(record.parts) == sum(counts) and record.num_dropped == 0
    assert all(part.thread >= 0 for part in record.parts)
    starts = [part.start_ns for part in record.parts]
    assert starts == sorted(starts) and all(part.duration_ns >= 0 for part in record.parts)


def test_one_record_at_a_time(scale) -> None:  # type: ignore[no-untyped-def]
    with recorded_parts() as outer, recorded_parts() as inner:
        run(scale, 20)
    assert outer.parts and not inner.parts


def test_loops_of_other_threads_are_not_ours(scale) -> None:  # type: ignore[no-untyped-def]
    with recorded_parts() as record:
        other = threading.Thread(target=run, args=(scale, 20))
        other.start()
        other.join()
    assert not record.parts


def test_parts_beyond_the_limit_are_counted(scale, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(thread_parts, "MAX_PARTS", 1)
    logs: list[object] = []
    monkeypatch.setattr(thread_parts, "_logs", logs)
    try:
        with recorded_parts() as record:
            run(scale, 1)
    finally:
        KEPT.extend(logs)
    assert len(record.parts) == 1 and record.num_dropped == NUM_PARTS - 1


KEPT: list[object] = []
"""Memory that the pool was given: it stays."""
