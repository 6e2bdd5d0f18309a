"""A block that moves comes before and behind the others as it did: what one writes and the other touches
keeps its order, in the loops that the block leaves and in those that it enters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule, ScheduleError

Act = Callable[[Schedule], object]

LATER_WRITES = """
@T.prim_func
def main(A: T.Buffer((5,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for j in range(4):
        with T.sblock("B"):
            vj = T.axis.spatial(4, j)
            B[vj] = A[vj]
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
        with T.sblock("X"):
            vi = T.axis.spatial(4, i)
            A[vi + 1] = 0
"""
SCRATCH_ROW = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32")):
    B = T.sblock_alloc_buffer((4, 3), "int32")
    S = T.sblock_alloc_buffer((3,), "int32")
    for o in range(4):
        for j in range(3):
            with T.sblock("S"):
                vo, vj = T.axis.remap("SS", [o, j])
                S[vj] = A[vo, vj] + 1
        for j in range(3):
            with T.sblock("B"):
                vo, vj = T.axis.remap("SS", [o, j])
                B[vo, vj] = S[vj] * 2
    for i, j in T.grid(4, 3):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
READ_IN_THE_SAME_LOOP = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32"), D: T.Buffer((4, 3), "int32")):
    T1 = T.sblock_alloc_buffer((4, 3), "int32")
    for i, j in T.grid(4, 3):
        with T.sblock("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            T1[vi, vj] = A[vi, vj] + 5
    for o in range(4):
        for j in range(3):
            with T.sblock("C"):
                vo, vj = T.axis.remap("SS", [o, j])
                C[vo, vj] = T1[vo, vj] * 2
        for j in range(3):
            with T.sblock("D"):
                vo, vj = T.axis.remap("SS", [o, j])
                D[vo, vj] = C[3 - vo, vj]
"""
TWO_PRODUCERS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    E = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
        with T.sblock("E"):
            vi = T.axis.spatial(4, i)
            E[vi] = A[vi] + 2
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + E[{index}]
"""
READER_BETWEEN = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
    for i in range(4):
        with T.sblock("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi]
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * 2
"""
PRODUCER_FARTHER_OUT = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32")):
    B = T.sblock_alloc_buffer((4, 3), "int32")
    E = T.sblock_alloc_buffer((4,), "int32")
    for o in range(4):
        with T.sblock("E"):
            vo = T.axis.spatial(4, o)
            E[vo] = A[vo, 0] + 2
        for i in range(3):
            with T.sblock("B"):
                vo, vi = T.axis.remap("SS", [o, i])
                B[vo, vi] = A[vo, vi] + 1
    for o, i in T.grid(4, 3):
        with T.sblock("C"):
            vo, vi = T.axis.remap("SS", [o, i])
            C[vo, vi] = B[vo, vi] + E[{index}]
"""
MADE_AFTER_ITS_READER = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
"""
READER_IN_THE_LOOP = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((5,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
        with T.sblock("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[3 - vi]
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * 2
"""
READER_BEHIND = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * 2
        with T.sblock("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[3 - vi]
"""
ROW_USED_AGAIN = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32")):
    S = T.sblock_alloc_buffer((3,), "int32")
    for o in range(4):
        for j in range(3):
            with T.sblock("S"):
                vo, vj = T.axis.remap("SS", [o, j])
                S[vj] = A[vo, vj] + 1
        for j in range(3):
            with T.sblock("B"):
                vo, vj = T.axis.remap("SS", [o, j])
                C[vo, vj] = S[2 - vj] * 2
"""
ELEMENT_USED_AGAIN = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32")):
    S = T.sblock_alloc_buffer((1,), "int32")
    for o in range(4):
        for j in range(1):
            with T.sblock("S"):
                vo, vj = T.axis.remap("SS", [o, j])
                S[vj] = A[vo, vj] + 1
        for j in range(3):
            with T.sblock("B"):
                vo, vj = T.axis.remap("SS", [o, j])
                C[vo, vj] = S[0] * 2 + vo
"""
JOIN = """
@T.prim_func
def main(A: T.Buffer((4, {size}), "int32"), C: T.Buffer((4, 5), "int32")):
    B = T.sblock_alloc_buffer((4, {size}), "int32")
    for i, j in T.grid(4, {size}):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i, j in T.grid(4, 5):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(T.And({first} <= vj, vj < {last}), B[vi, vj - {first}], vi)
"""
SPLIT_TWICE = """
@T.prim_func
def main(A: T.Buffer((24,), "int32"), C: T.Buffer((24,), "int32")):
    B = T.sblock_alloc_buffer((24,), "int32")
    for o, m, i in T.grid(2, {middle}, 4):
        with T.sblock("B"):
            v = T.axis.spatial(24, o * 12 + m * 4 + i)
            B[v] = A[v] + 1
    for j in range(24):
        with T.sblock("C"):
            v = T.axis.spatial(24, j)
            C[v] = T.if_then_else(A[v] > 0, B[v], 7)
"""
TILES_OF_ALL_ROWS = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, {size}), "int32")
    C = T.match_buffer(c, (n, {size}), "int32")
    B = T.sblock_alloc_buffer((n, {size}), "int32")
    for f in range(n * (({size} + 2) // 3)):
        for i in range(T.min({end} - f % (({size} + 2) // 3) * 3, 3)):
            with T.sblock("B"):
                v = T.axis.spatial(n, f // (({size} + 2) // 3))
                w = T.axis.spatial({size}, f % (({size} + 2) // 3) * 3 + i)
                B[v, w] = A[v, w] + 1
    for j, k in T.grid(n, {size}):
        with T.sblock("C"):
            v, w = T.axis.remap("SS", [j, k])
            C[v, w] = T.if_then_else(A[v, w] > 0, B[v, w], 7)
"""

AXES_OF_BOTH = """vo = T.axis.spatial(4, (o + j) % 4)
                vj = T.axis.spatial(3, j)
                S["""


def _loop(sch: Schedule, name: str, depth: int) -> object:
    return sch.get_loops(sch.get_sblock(name))[depth]


def under(name: str, of: str, depth: int = 0) -> Act:
    return lambda sch: sch.compute_at(name, _loop(sch, of, depth))


def behind(name: str, of: str, depth: int = 0) -> Act:
    return lambda sch: sch.reverse_compute_at(name, _loop(sch, of, depth))


def inlined(name: str) -> Act:
    return lambda sch: sch.compute_inline(name)


def merged(name: str) -> Act:
    return lambda sch: sch.reverse_compute_inline(name)


REFUSED: list[tuple[str, str, Act, str]] = [
    ("a later iteration writes what is read", LATER_WRITES, under("B", "C"), "'B' and 'X' would touch 'A'"),
    (
        "so does it where the value is inlined",
        LATER_WRITES,
        inlined("B"),
        "'X' may change what block 'B' reads",
    ),
    ("a row that each iteration uses again", SCRATCH_ROW, under("B", "C"), "'B' and 'S' would touch 'S'"),
    ("the same, inlined", SCRATCH_ROW, inlined("B"), "'S' may change what block 'B' reads"),
    (
        "a reader in the loop that is left",
        READ_IN_THE_SAME_LOOP,
        behind("C", "P"),
        "'C' and 'D' would touch 'C'",
    ),
    ("rows that are not made yet", TWO_PRODUCERS.format(index="3 - vi"), behind("C", "B"), "'C' and 'E'"),
    ("one element of all that are made", TWO_PRODUCERS.format(index="0"), behind("C", "B"), "'C' and 'E'"),
    ("a reader that is passed", READER_BETWEEN, behind("C", "B"), "'C' and 'D' would touch 'C'"),
    ("a reader that is passed by inlining", READER_BETWEEN, merged("C"), "'C' and 'D' would touch 'C'"),
    (
        "rows of an outer loop",
        PRODUCER_FARTHER_OUT.format(index="3 - vo"),
        behind("C", "B", 1),
        "'C' and 'E'",
    ),
    (
        "a reader of what was there before",
        MADE_AFTER_ITS_READER,
        under("B", "C"),
        "'B' writes 'B', a parameter",
    ),
    (
        "a reader in the loop that is entered",
        READER_IN_THE_LOOP,
        behind("C", "B"),
        "'C' and 'D' would touch 'C'",
    ),
    ("a reader in the loop that inlining leaves", READER_BEHIND, merged("C"), "'C' and 'D' would touch 'C'"),
]


@pytest.mark.parametrize(
    ("text", "act", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_moves_that_change_an_order_are_refused(text: str, act: Act, message: str) -> None:
    sch = Schedule(parsed(text))
    with pytest.raises(ScheduleError, match=rf"T040[67].*{message}"):
        act(sch)


TAKEN: list[tuple[str, str, Act]] = [
    ("both producers at the consumer's axis", TWO_PRODUCERS.format(index="vi"), behind("C", "B")),
    ("a producer at an outer loop's axis", PRODUCER_FARTHER_OUT.format(index="vo"), behind("C", "B", 1)),
    ("the first of blocks in a loop", READ_IN_THE_SAME_LOOP, under("P", "C")),
    ("a consumer merged where it is", SCRATCH_ROW, merged("C")),
    ("a consumer behind its producer", SCRATCH_ROW, behind("C", "B")),
    ("an axis that no index tells", ROW_USED_AGAIN, under("S", "B", 1)),
    ("such an axis of a consumer", ELEMENT_USED_AGAIN, behind("B", "S", 1)),
    ("the first part of a join", JOIN.format(size=3, first=0, last=3), behind("C", "B")),
    ("the second part of a join", JOIN.format(size=3, first=2, last=5), behind("C", "B")),
    ("a producer in tiles of tiles", SPLIT_TWICE.format(middle=3), behind("C", "B")),
    ("such an axis of a producer", ELEMENT_USED_AGAIN, under("S", "B", 1)),
]


@pytest.mark.parametrize(("text", "act"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_moves_that_change_no_order(text: str, act: Act) -> None:
    """Results are those of before; loops around both places keep the values of axes."""
    before = parsed(text)
    sch = Schedule(before)
    act(sch)
    rng = np.random.default_rng()
    arrays = [
        rng.integers(-9, 9, [int(dim.value) for dim in buffer.shape], "int32") for buffer in before.buffers
    ]
    wanted, found = ([array.copy() for array in arrays] for _ in range(2))
    run_primfunc(before, *wanted)
    run_primfunc(sch.mod["main"], *found)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("rows", "size"), [(n, n) for n in (0, 1, 3, 7)] + [(0, 5), (4, 5)])
def test_tiles_of_all_rows_reach_every_point(rows: int, size: int) -> None:
    """One loop runs over rows and their tiles, the last of which is smaller; sizes may be free, or zero."""
    name = "n" if rows == size else str(size)
    sch = Schedule(parsed(TILES_OF_ALL_ROWS.format(size=name, end=name)))
    behind("C", "B")(sch)
    given = np.random.default_rng().integers(-9, 9, (rows, size), "int32")
    found = np.zeros_like(given)
    run_primfunc(sch.mod["main"], given, found)
    np.testing.assert_array_equal(found, np.where(given > 0, given + 1, 7))


def test_an_axis_over_loops_that_are_left_and_loops_that_stay() -> None:
    text = ROW_USED_AGAIN.replace('vo, vj = T.axis.remap("SS", [o, j])\n                S[', AXES_OF_BOTH, 1)
    sch = Schedule(parsed(text))
    with pytest.raises(
        ScheduleError, match=r"T0407.*axis 'vo' of block 'S' goes over loops that it stays in"
    ):
        under("S", "B", 1)(sch)


def parsed(text: str) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made
