"""The loop interpreter: blocks, views, checks and their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.prim import ops
from heddle.prim.nodes import Range, Var
from heddle.support.diagnostics import HeddleError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IterType,
    IterVar,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
)

SERIAL = ForKind.SERIAL
n, i, j, k = (Var(name, "int64") for name in "nijk")


def region(buffer: Any, *points: Any) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(p, ops.const(1, "int64")) for p in points))


def row_sum(declared: Any = None, predicate: Any = True) -> PrimFunc:
    """B[v] = sum of A[v, r], as a block with an init statement."""
    a, b = decl_buffer((n, 4), "float32", "A"), decl_buffer((n,), "float32", "B")
    v, r = Var("v", "int64"), Var("r", "int64")
    zero = ops.const(0, "int64")
    axes = (
        IterVar(Range(zero, n), v, IterType.DataPar),
        IterVar(Range(zero, ops.const(4, "int64")), r, IterType.CommReduce),
    )
    update = BufferStore(b, b[v] + a[v, r], (v,))
    reads = (region(a, v, r) if declared is None else region(a, v, ops.const(declared, "int64")),)
    block = SBlock(axes, reads, (region(b, v),), "sum", update, BufferStore(b, 0.0, (v,)))
    body = SBlockRealize((i, j), ops.as_expr(predicate), block)
    return PrimFunc((a, b), For(i, 0, n, SERIAL, For(j, 0, 4, SERIAL, body)))


def test_block_initialises_at_the_first_reduction_step() -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.full(3, 99, np.float32)
    run_primfunc(row_sum(), a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


def test_predicate_guards_a_block() -> None:
    a, b = np.ones((3, 4), np.float32), np.full(3, 99, np.float32)
    run_primfunc(row_sum(predicate=i < 2), a, b)
    np.testing.assert_array_equal(b, [4, 4, 99])


def test_undeclared_read_is_reported() -> None:
    with pytest.raises(HeddleError) as caught:
        run_primfunc(row_sum(declared=0), np.ones((3, 4), np.float32), np.zeros(3, np.float32))
    assert caught.value.code == "T0603"
    assert "block 'sum' does not declare its read of A[0, 1]" in str(caught.value)


def store_at(index: Any) -> PrimFunc:
    a = decl_buffer((n,), "float32", "A")
    return PrimFunc((a,), For(i, 0, n, SERIAL, BufferStore(a, 1.0, (index,))))


def test_access_outside_names_buffer_and_loops() -> None:
    with pytest.raises(IndexError) as caught:
        run_primfunc(store_at(i + 1), np.zeros(3, np.float32))
    text = str(caught.value)
    assert "error[T0601]: write of A[3] is outside its shape (3)" in text
    assert "in loops i = 2" in text


@pytest.mark.parametrize(
    ("args", "part"),
    [
        ((np.zeros(3, np.float64),), "expected float32, got float64"),
        ((np.zeros((3, 1), np.float32),), "expected rank 1, got 2"),
        ((), "expected 1 arguments, got 0"),
        ((3,), "expected an array, got int"),
    ],
)
def test_arguments_are_checked(args: Any, part: str) -> None:
    with pytest.raises(HeddleError) as caught:
        run_primfunc(store_at(i), *args)
    assert caught.value.code == "T0602"
    assert part in str(caught.value)


def test_match_buffer_binds_strides_and_offset() -> None:
    a = decl_buffer((4, 6), "float32", "A")
    s, offset = Var("s", "int64"), Var("o", "int64")
    view = decl_buffer((2, 3), "float32", "W", strides=(s, 1), elem_offset=offset)
    zero = ops.const(0, "int64")
    source = BufferRegion(a, (Range.from_min_extent(i, ops.const(2, "int64")), Range(zero + 1, zero + 4)))
    fill: Stmt = For(j, 0, 2, SERIAL, For(k, 0, 3, SERIAL, BufferStore(view, 7.0, (j, k))))
    block = SBlock((), (), (source,), "fill", fill, None, (), (MatchBufferRegion(view, source),))
    func = PrimFunc((a,), For(i, 1, 1, SERIAL, SBlockRealize((), ops.as_expr(True), block)))
    data, expected = np.zeros((4, 6), np.float32), np.zeros((4, 6), np.float32)
    expected[1:3, 1:4] = 7
    run_primfunc(func, data)
    np.testing.assert_array_equal(data, expected)


def test_views_share_memory_across_dtypes() -> None:
    a = decl_buffer((2,), "float32", "A")
    bits = decl_buffer((2,), "int32", "bits", data=a.data)
    func = PrimFunc((a,), seq(DeclBuffer(bits), BufferStore(bits, bits[0] + 0x00800000, (0,))))
    data = np.array([1.5, 1.5], np.float32)
    run_primfunc(func, data)
    np.testing.assert_array_equal(data, [3.0, 1.5])


def test_fresh_memory_shows() -> None:
    a, t = decl_buffer((1,), "float32", "A"), decl_buffer((1,), "float32", "T")
    data = np.zeros(1, np.float32)
    run_primfunc(PrimFunc((a,), seq(AllocBuffer(t), BufferStore(a, t[0], (0,)))), data)
    assert np.isnan(data[0])


def test_failed_assertion_has_its_message() -> None:
    a = decl_buffer((n,), "float32", "A")
    check = AssertStmt(n < 3, "expected at most %e rows, got %g", "ValueError", ops.const(2), n)
    with pytest.raises(ValueError, match="expected at most 2 rows, got 5"):
        run_primfunc(PrimFunc((a,), check), np.zeros(5, np.float32))
