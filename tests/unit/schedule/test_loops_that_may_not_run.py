"""Loops of a free extent of at most 1, as those of x[:1]: they run once or not at all, and what they drive
still knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule
from heddle.tir.schedule.error import ScheduleError

SIZES = [(m, n, k) for m in (0, 1, 5) for n in (0, 1, 4) for k in (0, 1, 3)]


def product(rows: str, columns: str, steps: str) -> PrimFunc:
    """C = A @ B over the first so many rows, columns and steps."""
    made = from_source(f"""
@T.prim_func
def f(a: T.handle, b: T.handle, c: T.handle):
    m = T.int64(is_size_var=True)
    n = T.int64(is_size_var=True)
    o = T.int64(is_size_var=True)
    A = T.match_buffer(a, (m, o), "float32")
    B = T.match_buffer(b, (o, n), "float32")
    C = T.match_buffer(c, (m, n), "float32")
    for i, j, k in T.grid({rows}, {columns}, {steps}):
        with T.sblock("matmul"):
            vi = T.axis.spatial({rows}, i)
            vj = T.axis.spatial({columns}, j)
            vk = T.axis.reduce({steps}, k)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    assert isinstance(made, PrimFunc)
    return made


def _split_rows(sch: Schedule) -> None:
    i, j, k = sch.get_loops("matmul")
    outer, inner = sch.split(i, [None, 3])
    sch.reorder(outer, k, inner, j)
    sch.decompose_reduction("matmul", k)


def _split_columns_raggedly(sch: Schedule) -> None:
    i, j, k = sch.get_loops("matmul")
    outer, inner = sch.split_ragged(j, 4)
    sch.reorder(i, outer, k, inner)
    sch.decompose_reduction("matmul", k)


def _split_steps(sch: Schedule) -> None:
    _, _, k = sch.get_loops("matmul")
    outer, _ = sch.split(k, [None, 2])
    sch.decompose_reduction("matmul", outer)


def _fuse_rows_and_columns(sch: Schedule) -> None:
    i, j, k = sch.get_loops("matmul")
    sch.parallel(sch.fuse(i, j))
    sch.decompose_reduction("matmul", k)


STEPS = (_split_rows, _split_columns_raggedly, _split_steps, _fuse_rows_and_columns)
EXTENTS = {"rows": "m", "columns": "n", "steps": "o"}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("short", ["rows", "columns", "steps"])
def test_a_product_of_first_rows_columns_or_steps_is_scheduled(short: str, step: Any) -> None:
    extents = EXTENTS | {short: f"T.min({EXTENTS[short]}, T.int64(1))"}
    sch = Schedule(product(**extents))
    step(sch)
    rng = np.random.default_rng(0)
    for m, n, o in SIZES:
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, o), (o, n)))
        counts = {name: min(size, 1 if name == short else size) for name, size in
                  (("rows", m), ("columns", n), ("steps", o))}  # fmt: skip
        expected, got = np.full((m, n), 7, np.float32), np.full((m, n), 7, np.float32)
        rows, columns, steps = counts.values()
        expected[:rows, :columns] = a[:rows, :steps] @ b[:steps, :columns]
        run_primfunc(sch.func, a, b, got)
        np.testing.assert_array_equal(got, expected)


def test_fused_loops_that_never_run_are_not_blockized() -> None:
    """Of one that joins no columns with two steps nothing says which axis is empty."""
    made = from_source("""
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int64(is_size_var=True)
    A = T.match_buffer(a, (n, 0), "int32")
    C = T.match_buffer(c, (n, 0), "int32")
    for i, j, k in T.grid(n, 0, 2):
        with T.sblock("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vj]
""")
    assert isinstance(made, PrimFunc)
    sch = Schedule(made)
    _, j, k = sch.get_loops("sum")
    sch.fuse(j, k)
    with pytest.raises(ScheduleError, match=r"T0414.*a loop runs no times"):
        sch.blockize(sch.get_loops("sum")[0])
    run_primfunc(sch.func, *(np.zeros((3, 0), "int32") for _ in range(2)))
