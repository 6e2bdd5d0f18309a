"""tile_rows: rows of a result and of its temporaries in tiles."""

import pytest

from heddle import te
from heddle.prim import intrinsics as prim
from heddle.prim.nodes import is_const_int
from heddle.tir.schedule import Schedule, ScheduleError
from tests.unit.schedule.programs import check, dim, matmul, window


def rows_and_columns(n="n", m=6):
    """M = max of rows; E = exp(A - M); S = sum of rows; W = a table of columns; D = E / S + W."""
    A = te.placeholder((dim(n), dim(m)), name="A")
    r, s = (te.reduce_axis((dim(0), dim(m)), name=name) for name in "rs")
    M = te.compute((A.shape[0],), lambda i: te.max(A[i, r], axis=r), name="M")
    E = te.compute(A.shape, lambda i, j: prim.exp(A[i, j] - M[i]), name="E")
    S = te.compute((A.shape[0],), lambda i: te.sum(E[i, s], axis=s), name="S")
    W = te.compute((dim(m),), lambda j: prim.exp(j.astype("float32") * 0.1), name="W")
    D = te.compute(A.shape, lambda i, j: E[i, j] / S[i] + W[j], name="D")
    return te.create_prim_func([A, D])


@pytest.mark.parametrize("n", ["n", 1, 4, 7])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_all_that_a_row_needs_is_tiled(n, rows):
    before = rows_and_columns(n)
    sch = Schedule(before)
    sch.tile_rows("D", 0, rows)
    axes = {name: len(sch.get_loops(name)) for name in "MESWD"}
    assert axes == {"M": 3, "E": 3, "S": 3, "W": 1, "D": 3}
    divides = n != "n" and n % rows == 0
    assert is_const_int(sch.realization(sch.get_block("D")).predicate, 1) is (divides or rows == 1)
    check(before, sch)


def test_a_result_that_others_read_keeps_its_form():
    A = te.placeholder((dim(7), dim(6)), name="A")
    E = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="E")
    D = te.compute(A.shape, lambda i, j: E[i, j] + 1.0, name="D")
    readers = [te.compute(A.shape, lambda i, j: D[i, j] * 3.0, name="F")]
    readers.append(te.compute(A.shape, lambda i, j: D[6 - i, j] - 3.0, name="G"))
    before = te.create_prim_func([A, *readers])
    sch = Schedule(before)
    sch.tile_rows("D", 0, 4)
    assert [len(sch.get_loops(name)) for name in "EDFG"] == [3, 3, 2, 2]
    check(before, sch)


def test_columns_can_be_tiled_too():
    before = matmul()
    sch = Schedule(before)
    sch.tile_rows("D", 1, 3)
    assert [len(sch.get_loops(name)) for name in "CD"] == [4, 3]
    check(before, sch)


def _neighbours(n=4):
    A = te.placeholder((dim(n), dim(3)), name="A")
    E = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="E")
    D = te.compute(A.shape, lambda i, j: E[i, j] + E[n - 1 - i, j], name="D")
    return te.create_prim_func([A, D])


def _shared(n=4):
    """Rows of E are rows of D and columns of it."""
    A = te.placeholder((dim(n), dim(n)), name="A")
    E = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="E")
    D = te.compute(A.shape, lambda i, j: E[i, j] + E[j, i], name="D")
    return te.create_prim_func([A, D])


def _split_first(n=4):
    sch = Schedule(rows_and_columns(n))
    sch.split(sch.get_loops("E")[0], [None, 2])
    return sch.func


REFUSED = {
    "a row from the other end": (_neighbours, 0, 2),
    "rows that are columns too": (_shared, 0, 2),
    "several rows of a temporary": (window, 0, 2),
    "no such axis": (rows_and_columns, 2, 2),
    "no rows": (rows_and_columns, 0, 0),
    "no plain nests": (_split_first, 0, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_do_not_stay_apart(name):
    make, axis, rows = REFUSED[name]
    sch = Schedule(make())
    before, last = sch.func, sch.blocks()[-1]
    with pytest.raises(ScheduleError, match="T0426"):
        sch.tile_rows(last, axis, rows)
    assert sch.func is before
