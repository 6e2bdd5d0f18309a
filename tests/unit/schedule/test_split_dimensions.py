"""Blocks of one buffer's dimension, where another buffer has no room for what fills up the last block."""

from __future__ import annotations

import numpy as np

from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule.blocks.split_dimension import DimensionSplit, split_dimensions

TEXT = """
@T.prim_func
def k(A: T.Buffer((3, 6), "float32"), B: T.Buffer((3, 6), "float32"), C: T.Buffer((3, 10), "float32")):
    for i, j in T.grid(3, 6):
        with T.sblock("b"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            B[v_i, v_j] = A[v_i, v_j] * T.float32(2)
    for i, j in T.grid(3, 6):
        with T.sblock("c"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            C[v_i, v_j + 4] = A[v_i, v_j] + T.float32(1)
"""


def test_stores_have_room_only_along_the_dimension_that_is_split() -> None:
    """A lies in blocks of its 6 columns, B in blocks of its rows: columns 6 and 7 exist in A alone. In C,
    what fills up the last block of A would be written over other columns."""
    func = from_source(TEXT)
    a, b, c = func.buffers
    splits = {a: DimensionSplit(1, 8), b: DimensionSplit(0, 2), c: DimensionSplit(1, 16)}
    made, grown = split_dimensions(func, splits)
    assert not grown
    x = np.random.default_rng(1).standard_normal((3, 6)).astype("float32")
    filled = np.full((3, 1, 8), 77, "float32")
    filled[:, 0, :6] = x
    rows, columns = np.zeros((2, 6, 2), "float32"), np.full((3, 1, 16), 5, "float32")
    run_primfunc(made, filled, rows, columns)
    np.testing.assert_array_equal(rows.transpose(0, 2, 1).reshape(4, 6)[:3], x * 2)
    np.testing.assert_array_equal(columns[:, 0, 4:10], x + 1)
    assert (columns[:, 0, :4] == 5).all() and (columns[:, 0, 10:] == 5).all()
