"""Allocations enter a loop whose iterations read from the buffer only what they wrote themselves."""

import numpy as np
import pytest

from heddle.ir.module import IRModule
from heddle.script import from_source
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import AllocBuffer, For, IfThenElse, PrimFunc
from heddle.tir.transform.lower_blocks import LowerBlocks
from heddle.tir.transform.place_allocations import PlaceAllocations

INSIDE = {
    "a row of its own": """
for i in range(6):
    for j in range(6): B[i, j] = A[i, j]
    for j in range(6): C[i, j] = B[i, 5 - j]
""",
    "the same elements each time": """
for i in range(6):
    for j in range(6): B[0, j] = A[i, j]
    for j in range(6): C[i, j] = B[0, 5 - j]
""",
    "fewer than were written": """
for i in range(6):
    for j in range(6): B[0, j] = A[i, j]
    for j in range(i + 1): C[i, j] = B[0, j]
    for j in range(5 - i): C[i, i + 1 + j] = T.float32(0)
""",
    "tiles that reach beyond the end": """
for i in range(6):
    for t in range(2):
        for k in range(4):
            if t * 4 + k < 6: B[0, t * 4 + k] = A[i, t * 4 + k]
    for j in range(6): C[i, j] = B[0, j]
""",
    "stores side by side": """
for i in range(6):
    for j in range(6):
        B[0, j] = A[i, j]
        B[1, j] = A[i, j] * T.float32(2)
    for j in range(6): C[i, j] = B[j % 2, j]
""",
    "two buffers under one condition": """
for i in range(6):
    for t in range(2):
        for k in range(4):
            if t * 4 + k < 6:
                C[i, t * 4 + k] = T.float32(0)
                B[0, t * 4 + k] = A[i, t * 4 + k]
    for j in range(6): C[i, j] = B[0, j]
""",
}
OUTSIDE = {
    "what other iterations wrote": """
for i in range(6):
    B[0, i] = A[0, i]
    for j in range(6):
        if j <= i: C[i, j] = B[0, j]
        if j > i: C[i, j] = T.float32(0)
""",
    "what the first iterations wrote": """
for i in range(12):
    if i < 6:
        for j in range(6): B[i, j] = A[i, j]
    if i >= 6:
        for j in range(6): C[i - 6, j] = B[i - 6, j]
""",
    "more than was written": """
for i in range(6):
    for j in range(6 - i): B[0, j] = A[i, j]
    for j in range(6): C[i, j] = B[0, j]
""",
    "holes": """
for i in range(6):
    for j in range(3): B[0, (i * 3 + j * 2) % 6] = A[i, j]
    for j in range(6):
        if i > 0: C[i, j] = B[0, j]
        if i == 0: C[i, j] = T.float32(0)
""",
    "what the last round of a loop around threads wrote": """
for i in range(6):
    for j in T.parallel(6):
        B[j, 0] = A[i, j]
        if i > 0: C[i, j] = B[j, 0] + B[j, 1]
        if i == 0: C[i, j] = B[j, 0]
        B[j, 1] = A[i, j]
""",
    "what is written later": """
for i in range(6):
    B[0, 0] = A[i, 0]
    for j in range(6):
        if i > 0: C[i, j] = B[0, j]
        if i == 0: C[i, j] = T.float32(0)
    for j in range(6): B[0, j] = A[i, j]
""",
}


def program(body: str) -> PrimFunc:
    lines = "\n        ".join(body.strip("\n").split("\n"))
    source = f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
        B = T.alloc_buffer((6, 6), "float32")
        {lines}
"""
    return from_source(source)["main"]


def placed(func: PrimFunc) -> PrimFunc:
    lowered = LowerBlocks()(IRModule.from_expr(func))
    [result] = PlaceAllocations()(lowered).functions.values()
    return result


def is_inside(func: PrimFunc) -> bool:
    loops = [stmt for stmt in walk_stmts(func.body) if isinstance(stmt, For)]
    return any(isinstance(inner, AllocBuffer) for loop in loops for inner in walk_stmts(loop.body))


@pytest.mark.parametrize("name", [*INSIDE, *OUTSIDE])
def test_where_an_allocation_goes(name):
    func = program((INSIDE | OUTSIDE)[name])
    assert is_inside(placed(func)) is (name in INSIDE)


@pytest.mark.parametrize("name", INSIDE)
def test_fresh_memory_in_each_iteration_changes_nothing(name):
    func = program(INSIDE[name])
    given = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")
    want, got = np.zeros((6, 6), "float32"), np.zeros((6, 6), "float32")
    run_primfunc(func, given, want)
    run_primfunc(placed(func), given, got)
    assert np.array_equal(want, got)


def test_one_inside_a_loop_stays_inside():
    """Nothing is proved of the loop around it, whose iterations may leave elements unwritten."""
    func = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
        for i in range(6):
            B = T.alloc_buffer((6,), "float32")
            for k in range(2):
                if A[i, 0] > T.float32(0): B[k] = A[i, k]
            if A[i, 0] > T.float32(0): C[i, 0] = B[0] + B[1]
""")["main"]
    assert is_inside(placed(func))
    with_loop_inside = next(stmt for stmt in walk_stmts(placed(func).body) if isinstance(stmt, For))
    assert not is_inside(func.with_body(with_loop_inside.body)), "uses in two statements: not further in"
    given = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")
    want, got = np.zeros((6, 6), "float32"), np.zeros((6, 6), "float32")
    run_primfunc(func, given, want)
    run_primfunc(placed(func), given, got)
    assert np.array_equal(want, got) and want.any()


def test_what_one_branch_uses_is_allocated_there() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32"), n: T.int64):
    B = T.sblock_alloc_buffer((6,), "float32")
    if n == 1:
        for i in range(6): C[i] = A[i]
    else:
        for i in range(6): B[i] = A[i]
        for i in range(6): C[i] = B[5 - i]
""")
    mod = PlaceAllocations()(LowerBlocks()(IRModule({"main": func})))
    (placed,) = mod.functions.values()
    (branch,) = (stmt for stmt in walk_stmts(placed.body) if isinstance(stmt, IfThenElse))
    assert not isinstance(placed.body, AllocBuffer) and branch is placed.body
    assert any(isinstance(stmt, AllocBuffer) for stmt in walk_stmts(branch.else_case))
    data = np.arange(6, dtype="float32")
    for n, expected in ((1, data), (2, data[::-1])):
        got = np.zeros(6, "float32")
        run_primfunc(placed, data, got, n)
        np.testing.assert_array_equal(got, expected)
