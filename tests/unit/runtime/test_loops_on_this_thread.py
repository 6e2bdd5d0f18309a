"""A thread may keep its loops to itself, for as long as it says."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from heddle.codegen import build
from heddle.runtime.native import abi
from heddle.runtime.native.library import loops_on_this_thread, native_library, set_num_threads
from heddle.script import from_source
from heddle.systems.types import ctype_of

WHO = """
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


def is_alone() -> bool:
    thread = ctype_of(abi.Thread).from_address(native_library().thread())
    return bool(thread.is_inside)


def test_loops_run_here_and_workers_again_later() -> None:
    library = native_library()
    before = library.num_threads
    set_num_threads(2)
    try:
        scale = build(from_source(WHO), "llvm")["scale"]
        x, y = np.arange(100_000, dtype="float32"), np.empty(100_000, "float32")
        for _ in range(3):
            with loops_on_this_thread():
                assert is_alone()
                scale(x, y)
                np.testing.assert_array_equal(y, 2 * x)
            assert not is_alone()
            y[:] = 0
            scale(x, y)
            np.testing.assert_array_equal(y, 2 * x)
    finally:
        set_num_threads(before)


def test_an_error_ends_it_too() -> None:
    with pytest.raises(KeyError), loops_on_this_thread():
        raise KeyError
    assert not is_alone()


def test_other_threads_are_not_meant() -> None:
    found = []
    with loops_on_this_thread():
        other = threading.Thread(target=lambda: found.append(is_alone()))
        other.start()
        other.join()
    assert found == [False]
