"""CountRows: which loops are counted, and that the places are those of the divisions."""

import numpy as np
import pytest

from heddle.codegen import as_module, build
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm
from heddle.runtime import tensor
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.script import tir as T
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import For
from heddle.tir.transform import CountRows


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


@T.prim_func
def turned(a: T.handle, b: T.handle):
    """Four axes, of which one has a known size."""
    T.func_attr({"global_symbol": "turned"})
    n, h, w, k = T.int64(), T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, h, 3, w, k), "int32")
    B = T.match_buffer(b, (w, 3, h, n, k), "int32")
    for f in T.parallel(n * h * 3 * w, annotations={"grain": T.max(1000 // T.max(k, 1), 1)}):
        for i in range(k):
            B[f % w, f // w % 3, f // w // 3 % h, f // w // 3 // h, i] = A[
                f // w // 3 // h, f // w // 3 % h, f // w % 3, f % w, i
            ]


@T.prim_func
def alone(a: T.handle, b: T.handle):
    """A task is a row, so that there is nothing to count."""
    T.func_attr({"global_symbol": "alone"})
    n, h = T.int64(), T.int64()
    A = T.match_buffer(a, (n, h), "int32")
    B = T.match_buffer(b, (h, n), "int32")
    for f in T.parallel(n * h, annotations={"grain": 1}):
        B[f % h, f // h] = A[f // h, f % h]


@T.prim_func
def by_an_inner_name(a: T.handle, b: T.handle):
    """The divisor changes within the loop."""
    T.func_attr({"global_symbol": "by_an_inner_name"})
    n, h = T.int64(), T.int64()
    A = T.match_buffer(a, (n, h), "int64")
    B = T.match_buffer(b, (n, h), "int64")
    for f in T.parallel(n, annotations={"grain": 8}):
        for i in range(h):
            B[f, i] = A[f, i] + f // (i + 1) + f % (i + 1)


def counted(func):
    (after,) = CountRows()(as_module(func)).functions.values()
    return after


def free_divisions(stmt):
    divisions = [node for node in walk(stmt) if isinstance(node, (FloorDiv, FloorMod))]
    return [node for node in divisions if not isinstance(node.b, IntImm)]


def test_rows_are_not_divided():
    innermost = [node for node in walk(counted(turned).body) if isinstance(node, For)][-1]
    assert not free_divisions(innermost)
    assert free_divisions([node for node in walk(turned.body) if isinstance(node, For)][-1])


@pytest.mark.parametrize("func", [alone, by_an_inner_name])
def test_loops_that_stay(func):
    (before,) = as_module(func).functions.values()
    assert counted(func) is before


@pytest.mark.parametrize(
    "sizes", [(5, 7, 3, 2), (1, 1, 1, 1), (0, 3, 2, 4), (2, 0, 3, 1), (3, 2, 1, 0), (2, 13, 31, 5)]
)
def test_places_of_any_sizes(sizes):
    n, h, w, k = sizes
    a = np.random.default_rng(0).integers(0, 1000, (n, h, 3, w, k)).astype("int32")
    wanted = a.transpose(3, 2, 1, 0, 4)
    for func in (turned, counted(turned)):
        made = np.zeros(wanted.shape, "int32")
        run_primfunc(func, a, made)
        np.testing.assert_array_equal(made, wanted)
    kernel = build(as_module(turned), "llvm")["turned"]
    with PassContext(disabled_pass=["CountRows"]):
        plain = build(as_module(turned), "llvm")["turned"]
    for run in (kernel, plain):
        for threads in (1, 2):
            set_num_threads(threads)
            result = tensor(np.zeros(wanted.shape, "int32"))
            run(tensor(a), result)
            np.testing.assert_array_equal(result.numpy(), wanted)
