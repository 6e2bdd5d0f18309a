"""Programs that change what they read: primitives that move, repeat or pad their blocks see it. The cases are
those of random programs, made small."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.ir.module import IRModule
from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.verify import verify_prim_func
from tests.unit.schedule.programs import check

ROWS_OF_ROWS = """
@T.prim_func
def f(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6, 4), "float32")):
    S = T.sblock_alloc_buffer((6, 4), "float32")
    B = T.sblock_alloc_buffer((6, 4), "float32")
    for i, j in T.grid(6, 4):
        with T.sblock("begin"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = A[vi, vj]
    for i in range(6):
        for j in range(4):
            with T.sblock("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                S[vi, vj] = S[vi, vj] * T.float32(2)
        for j in range(4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[{row}, vj] + T.float32(1)
    for i, j in T.grid(6, 4):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(3)
"""


def _parsed(text: str) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def test_rows_that_later_iterations_change_are_not_inlined():
    sch = Schedule(_parsed(ROWS_OF_ROWS.format(row="5 - vi")))
    with pytest.raises(ScheduleError, match=r"T0406.*'S' may change what block 'B' reads"):
        sch.compute_inline("B")


def test_rows_that_no_other_iteration_changes_are_inlined():
    before = _parsed(ROWS_OF_ROWS.format(row="vi"))
    sch = Schedule(before)
    sch.compute_inline("B")
    check(before, sch)


IN_BETWEEN = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    S = T.sblock_alloc_buffer((8,), "float32")
    B = T.sblock_alloc_buffer((8,), "float32")
    for i in range(8):
        with T.sblock("S"):
            vi = T.axis.spatial(8, i)
            S[vi] = A[vi]
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = S[vi] + T.float32(1)
    for i in range(8):
        with T.sblock("again"):
            vi = T.axis.spatial(8, i)
            S[vi] = S[vi] * T.float32(5)
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + S[vi]
"""


def test_what_is_changed_before_a_reader_is_not_inlined():
    sch = Schedule(_parsed(IN_BETWEEN))
    with pytest.raises(ScheduleError, match=r"T0406.*'again' may change what block 'B' reads"):
        sch.compute_inline("B")


SUMS_OF_SUMS = """
@T.prim_func
def f(A: T.Buffer((7, 6), "int32"), C: T.Buffer((7, 6), "int32")):
    for i, j in T.grid(7, 6):
        with T.sblock("begin"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
    for i, j, k in T.grid(7, 6, 6):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 3
            C[vi, vj] = C[vi, vj] + C[vi, vk]
"""


def test_sums_of_elements_that_are_sums_are_not_made_twice():
    """A row that is made again finds what it made before."""
    sch = Schedule(_parsed(SUMS_OF_SUMS))
    with pytest.raises(ScheduleError, match="T0403"):
        sch.split_overlapping(sch.get_loops("C")[0], 3)


SQUARES = """
@T.prim_func
def f(a: T.handle):
    n = T.int64(is_size_var=True)
    C = T.match_buffer(a, (n, 7), "float32")
    for i, j in T.grid(n, 7):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C[vi, vj] * C[vi, vj]
"""


@pytest.mark.parametrize("padding", [[1, 2], [3, 1], [3, 2], [1, 1]])
def test_what_a_block_changes_in_place_is_padded_once(padding: list[int]) -> None:
    sch = Schedule(_parsed(SQUARES))
    sch.pad_einsum("C", padding)
    assert not verify_prim_func(sch.func, IRModule.from_expr(sch.func))
    for n in (0, 1, 3, 4):
        x = np.random.default_rng(n).integers(-5, 6, (n, 7)).astype(np.float32)
        got = x.copy()
        run_primfunc(sch.func, got)
        np.testing.assert_array_equal(got, x * x)
