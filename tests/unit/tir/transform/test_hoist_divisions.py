"""HoistDivisions: what moves, what stays, and that neither an empty loop nor a divisor of 0 traps."""

import numpy as np
import pytest

from heddle.codegen import as_module, build
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm
from heddle.script import tir as T
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import Bind, For, PrimFunc, SeqStmt
from heddle.tir.transform import HoistDivisions

INT32 = "int32"


def hoisted(func: PrimFunc) -> PrimFunc:
    step = HoistDivisions()
    (after,) = step(as_module(func)).functions.values()
    assert isinstance(after, PrimFunc)
    assert next(iter(step(as_module(after)).functions.values())) is after  # nothing is left to move
    return after


def compiled(func):
    return build(as_module(func), "llvm")[func.attrs["global_symbol"]]


def divisions_below(stmt):
    return [
        node
        for node in walk(stmt)
        if isinstance(node, (FloorDiv, FloorMod)) and not isinstance(node.b, IntImm)
    ]


def innermost(func):
    return [node for node in walk(func.body) if isinstance(node, For)][-1]


def agree(func, *args):
    """Interpreter before and after, and machine code with the pass and without."""
    results = []
    for run in (
        lambda *given: run_primfunc(func, *given),
        lambda *given: run_primfunc(hoisted(func), *given),
        compiled(func),
        _without(func),
    ):
        given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        run(*given)
        results.append(given)
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(one, other)


def _without(func):
    with PassContext(disabled_pass=["HoistDivisions"]):
        return compiled(func)


@T.prim_func
def padded(a: T.handle, b: T.handle):
    h, w, n = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, h, w), INT32)
    B = T.match_buffer(b, (n * (h + 2), w + 2), INT32)
    for f in T.parallel(n * (h + 2)):
        for i in range(w + 2):
            B[f, i] = T.if_then_else(
                f % (h + 2) >= 1 and f % (h + 2) <= h and i >= 1 and i <= w,
                A[f // (h + 2), f % (h + 2) - 1, i - 1],
                0,
            )


@T.prim_func
def nested(a: T.handle, b: T.handle, p: T.int64, q: T.int64):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n,), INT32)
    B = T.match_buffer(b, (n, m), INT32)
    for i in range(n):
        for j in range(m):
            B[i, j] = A[i] + T.Cast(INT32, i // p // q + i % p + i // p % q + j // p + p // q)


@T.prim_func
def dependent(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), INT32)
    B = T.match_buffer(b, (n,), INT32)
    for i in range(n):
        B[i] = (T.Cast(INT32, i) + A[i]) // A[i] + A[0] // A[1]


def test_divisions_of_a_row_are_done_once_a_row():
    after = hoisted(padded)
    assert not divisions_below(innermost(after).body)
    outer = next(node for node in walk(after.body) if isinstance(node, For))
    assert isinstance(outer.body, SeqStmt)
    assert [type(bind.value) for bind in outer.body.seq[:-1]] in ([FloorMod, FloorDiv], [FloorDiv, FloorMod])


def test_a_division_moves_out_of_all_loops_that_leave_it_alone():
    after = hoisted(nested)
    assert isinstance(after.body, SeqStmt)
    first, loop = after.body.seq
    assert isinstance(first, Bind) and isinstance(loop, For)  # p // q
    assert len(divisions_below(innermost(after).body)) == 1  # j // p
    binds = [node for node in walk(loop) if isinstance(node, Bind)]
    assert len(binds) == 4
    assert all(
        len(divisions_below(bind.value)) == 1 for bind in binds
    )  # each holds the ones before it as variables


def test_what_reads_memory_or_changes_in_the_loop_stays():
    assert hoisted(dependent) is dependent


def test_functions_without_such_divisions_are_the_same():
    @T.prim_func
    def main(A: T.Buffer((12,), INT32)):
        for i in range(12):
            A[i] = A[i // 3 * 3] + A[i % 4]

    assert hoisted(main) is main


@pytest.mark.parametrize(
    "shape", [(1, 3, 4), (2, 5, 7), (3, 1, 1), (2, 0, 3), (0, 3, 3), (2, 3, 0), (1, 224, 40)]
)
def test_padding_agrees(shape):
    n, h, w = shape
    rng = np.random.default_rng(h)
    agree(padded, rng.integers(-9, 9, shape, INT32), np.zeros((n * (h + 2), w + 2), INT32))


@pytest.mark.parametrize("p", [0, 1, 3, -2])
@pytest.mark.parametrize("q", [0, 2, -1])
@pytest.mark.parametrize("sizes", [(7, 5), (0, 5), (7, 0)])
def test_any_divisor_agrees(p, q, sizes):
    n, m = sizes
    rng = np.random.default_rng(n)
    agree(nested, rng.integers(-9, 9, n, INT32), np.zeros((n, m), INT32), p, q)
