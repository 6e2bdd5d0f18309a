"""FitTiles: tiles of products with the rows that are there, for any number of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.codegen.pipeline import lowering_passes
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.target import Target
from heddle.te import compute, create_prim_func, placeholder, reduce_axis, var
from heddle.te import sum as te_sum
from heddle.tir.nodes import BufferStore, For, IfThenElse, PrimFunc
from heddle.tir.transform.fit_tiles import ROWS_LEFT, FitTiles, heights
from tests.unit.codegen.kernel_runner import Kernels

HOST, STEPS = Target("llvm"), 19


def product(rows: object, columns: int, epilogue: bool) -> PrimFunc:
    """A (rows, 19) times B (19, columns), plus C where there is an epilogue; scheduled."""
    rows = var("n", "int64") if rows is None else rows
    a, b = placeholder((rows, STEPS), "float32", "A"), placeholder((STEPS, columns), "float32", "B")
    c = placeholder((columns,), "float32", "C")
    k = reduce_axis((0, STEPS), "k")
    out = compute((rows, columns), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k), "P")
    if epilogue:
        summed = out
        out = compute((rows, columns), lambda i, j: summed[i, j] + c[j], "Q")
    func = create_prim_func([a, b, c, out]).with_attr("tir.noalias", True)
    mod = ApplyDefaultSchedule(HOST)(IRModule(Map({GlobalVar("f"): func})))
    made = mod["f"].with_attr("global_symbol", "f")
    assert isinstance(made, PrimFunc)
    return made


def fitted(func: PrimFunc) -> PrimFunc:
    """The function as FitTiles leaves it."""
    mod = IRModule(Map({GlobalVar("f"): func}))
    for step in lowering_passes(HOST):
        mod = step(mod)
        if isinstance(step, FitTiles):
            break
    made = mod["f"]
    assert isinstance(made, PrimFunc)
    return made


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("columns", [2, 16, 17, 64, 100])
@pytest.mark.parametrize("rows", [None, 1, 7, 13, 29, 31])
def test_any_number_of_rows(rows: int | None, columns: int, epilogue: bool) -> None:
    run = Kernels(compile_kernels(product(rows, columns, epilogue), HOST))
    rng = np.random.default_rng(columns)
    for count in (0, *range(1, 33), 100) if rows is None else (rows,):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((count, STEPS), (STEPS, columns)))
        c, out = (
            rng.standard_normal(columns).astype(np.float32),
            np.full((count, columns), np.nan, np.float32),
        )
        run("f", a, b, c, out)
        wanted = a.astype("float64") @ b + (c if epilogue else 0)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_each_height_of_a_tile_has_code_of_its_own() -> None:
    func = product(None, 64, True)
    (mark,) = (node for node in walk(func.body) if isinstance(node, For) and ROWS_LEFT in node.annotations)
    rows = int(mark.extent)
    made = fitted(func)
    assert all(ROWS_LEFT not in node.annotations for node in walk(made.body) if isinstance(node, For))
    cases = [node for node in walk(made.body) if isinstance(node, IfThenElse) and node.else_case is not None]
    assert len(cases) == len(heights(rows)) - 1
    extents = {
        int(node.extent)
        for case in cases
        for node in walk(case)
        if isinstance(node, For)
        and isinstance(node.body, (For, BufferStore))
        and node.kind.name == "UNROLLED"
    }
    assert set(heights(rows)) <= extents


def test_known_rows_have_the_heights_that_they_need() -> None:
    """31 rows in tiles of 6 need tiles of 6 and of 1, and code for no other."""
    func = product(31, 64, False)
    marks = [node for node in walk(func.body) if isinstance(node, For) and ROWS_LEFT in node.annotations]
    if not marks:
        pytest.skip("tiles divide 31 rows on this processor")
    cases = [node for node in walk(fitted(func).body) if isinstance(node, IfThenElse) and node.else_case]
    assert len(cases) <= 1


@pytest.mark.parametrize("rows", range(1, 16))
def test_heights_end_with_the_whole_tile_and_leave_no_large_gap(rows: int) -> None:
    found = heights(rows)
    assert found[-1] == rows and found == sorted(set(found)) and found[0] == 1
    assert all(
        after - before == 1 or (before >= 6 and after - before == 2) for before, after in pairwise(found)
    )
