"""Moves of blocks that would compute something else, more or less than before: each program here was once
taken, and gave other numbers."""

from __future__ import annotations

import pytest

from heddle.ir.node import replace
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.schedule.blocks.moved import is_guarded, touched_by
from tests.unit.schedule.test_order_of_moved_blocks import (
    JOIN,
    SPLIT_TWICE,
    TILES_OF_ALL_ROWS,
    Act,
    behind,
    inlined,
    merged,
    parsed,
    under,
)

HALO = """
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for o in range(4):
        for j in range(2):
            with T.sblock("P"):
                v = T.axis.spatial(8, o * 2 + j)
                B[v] = A[v] + 1
        for j in range(2):
            with T.sblock("C"):
                v = T.axis.spatial(8, o * 2 + j)
                A[v] = B[v] + B[T.max(v - 1, 0)]
"""
WHOLE_ROW = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for o in range(4):
        for j in range(8):
            with T.sblock("P"):
                vo, v = T.axis.remap("SS", [o, j])
                B[v] = A[v] + vo
        for j in range(2):
            with T.sblock("C"):
                v = T.axis.spatial(8, o * 2 + j)
                C[v] = B[v]
"""
HALO_OF_SCRATCH = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    Q = T.sblock_alloc_buffer((1,), "int32")
    for o in range(4):
        with T.sblock("X"):
            vo = T.axis.spatial(4, o)
            Q[0] = vo
        for j in range(2):
            with T.sblock("P"):
                v = T.axis.spatial(8, o * 2 + j)
                B[v] = A[v] + Q[0]
        for j in range(2):
            with T.sblock("C"):
                v = T.axis.spatial(8, o * 2 + j)
                C[v] = B[v] + B[T.max(v - 1, 0)]
"""
LOOP_IN_PRODUCER = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + i
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
LOOP_IN_CONSUMER = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + i
"""
CONDITION_CHANGES = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), N: T.Buffer((1,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    with T.sblock("X"):
        vx = T.axis.spatial(1, 0)
        N[vx] = 1 - T.if_then_else(N[vx] > 0, 1, 0)
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            T.where(N[0] > 0)
            C[v] = B[v]
"""
TWO_RESULTS = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B0 = T.sblock_alloc_buffer((8,), "int32")
    B1 = T.sblock_alloc_buffer((8,), "int32")
    for j in range(8):
        with T.sblock("P"):
            v = T.axis.spatial(8, j)
            B0[v] = A[v] + 1
            B1[v] = A[v] + 2
    for j in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, j)
            C[v] = B0[v] + B1[7 - v]
"""
RESULT_IN_PART = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((4,), "int32")):
    for j in range(8):
        with T.sblock("P"):
            v = T.axis.spatial(8, j)
            B[v] = A[v] + 1
    for j in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, j)
            C[v] = B[v]
"""
GUARDED_FREE = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for j in range(2):
        with T.sblock("P"):
            v = T.axis.spatial(2, j)
            B[v] = A[v] + 1
    for j in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, j)
            C[v] = T.if_then_else(v < 2, B[v], A[v])
"""
GUARDED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (n + 1,), "int32")
    B = T.sblock_alloc_buffer((n,), "int32")
    for j in range(n):
        with T.sblock("P"):
            v = T.axis.spatial(n, j)
            B[v] = A[v] + 1
    for j in range(n + 1):
        with T.sblock("C"):
            v = T.axis.spatial(n + 1, j)
            C[v] = T.if_then_else(v < n, B[v], 77)
"""
GUARDED_EMPTY = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for o in range(0):
        for i in range(4):
            with T.sblock("P"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = T.if_then_else(A[v] > 100, B[v], 5)
"""
UNDER_A_BRANCH = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), N: T.Buffer((1,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    if N[0] > 0:
        for i in range(4):
            with T.sblock("C"):
                v = T.axis.spatial(4, i)
                C[v] = B[v]
"""
STORE_ALONE = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    for i in range(4):
        A[i] = 0
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
STORES_OF_A_NEST = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    with T.sblock("O"):
        T.reads()
        T.writes(A[0:4], D[0:4])
        A[0] = 0
        A[2] = 5
        for i in range(4):
            with T.sblock("I"):
                v = T.axis.spatial(4, i)
                D[v] = 1
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
LOADS_OF_A_NEST = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    with T.sblock("O"):
        T.reads(C[0:4])
        T.writes(D[0:4])
        D[0] = C[0]
        for i in range(3):
            with T.sblock("I"):
                v = T.axis.spatial(3, i)
                D[v + 1] = 1
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
PREDICATE_READS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
    for i in range(4):
        with T.sblock("D"):
            v = T.axis.spatial(4, i)
            T.where(B[3 - i] > 0)
            D[v] = 1
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
BOUND_READS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
    for i in range(4):
        for k in range(B[3 - i]):
            with T.sblock("D"):
                v = T.axis.spatial(4, i)
                D[v] = D[v] + 1
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
ONE_MEMORY = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    A2 = T.decl_buffer((4,), "int32", data=A.data)
    B = T.sblock_alloc_buffer((4,), "int32")
    for i in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + 1
    for i in range(4):
        with T.sblock("X"):
            v = T.axis.spatial(4, i)
            A2[v] = 0
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
EVERY_OTHER = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for j in range(8):
        with T.sblock("P"):
            v = T.axis.spatial(8, j)
            B[v] = A[v] + 1
    for j in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(8, j * 2)
            C[v] = B[v]
"""
EVERY_OTHER_MADE = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for j in range(4):
        with T.sblock("P"):
            v = T.axis.spatial(8, j * 2)
            B[v] = A[v] + 1
    for j in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, j)
            C[v] = B[v]
"""

REFUSED: list[tuple[str, str, Act]] = [
    ("a halo of rows that the iteration before has changed", HALO, under("P", "C")),
    ("more than the share of an iteration", WHOLE_ROW, behind("C", "P", 1)),
    ("more than the share of an iteration under the outer of two loops", WHOLE_ROW, behind("C", "P", 0)),
    ("more than the share of an iteration, merged", WHOLE_ROW, merged("C")),
    ("a halo, computed with a value of this iteration", HALO_OF_SCRATCH, under("P", "C", 1)),
    ("a halo, computed with a value of this iteration around all", HALO_OF_SCRATCH, under("P", "C", 0)),
    ("a halo, computed with a value of this iteration, inlined", HALO_OF_SCRATCH, inlined("P")),
    ("a producer that names its loop", LOOP_IN_PRODUCER, under("P", "C")),
    ("a producer that names its loop, inlined", LOOP_IN_PRODUCER, inlined("P")),
    ("a consumer that names its loop", LOOP_IN_CONSUMER, behind("C", "P")),
    ("a consumer that names its loop, merged", LOOP_IN_CONSUMER, merged("C")),
    ("a predicate that reads what changes in between", CONDITION_CHANGES, behind("C", "P")),
    ("a predicate that reads what changes in between, merged", CONDITION_CHANGES, merged("C")),
    ("a producer of two buffers", TWO_RESULTS, under("P", "C")),
    ("a result that is needed in part", RESULT_IN_PART, under("P", "C")),
    ("a consumer that goes over more, of free sizes", GUARDED_FREE, behind("C", "P")),
    ("a consumer that goes over more, of free sizes, merged", GUARDED_FREE, merged("C")),
    ("a consumer that goes over more", GUARDED, behind("C", "P")),
    ("a consumer under loops that never run", GUARDED_EMPTY, behind("C", "P")),
    ("a join of a part that is empty", JOIN.format(size=0, first=2, last=2), behind("C", "B")),
    ("tiles of tiles that leave gaps", SPLIT_TWICE.format(middle=2), behind("C", "B")),
    ("tiles that end early", TILES_OF_ALL_ROWS.format(size="n", end="(n - 1)"), behind("C", "B")),
    ("tiles that end early, free rows", TILES_OF_ALL_ROWS.format(size=5, end=4), behind("C", "B")),
    ("a branch around the consumer", UNDER_A_BRANCH, behind("C", "P")),
    ("a branch around the consumer, merged", UNDER_A_BRANCH, merged("C")),
    ("a store outside of blocks", STORE_ALONE, under("P", "C")),
    ("a store outside of blocks, inlined", STORE_ALONE, inlined("P")),
    ("stores of a block that holds blocks", STORES_OF_A_NEST, under("P", "C")),
    ("stores of a block that holds blocks, inlined", STORES_OF_A_NEST, inlined("P")),
    ("loads of a block that holds blocks", LOADS_OF_A_NEST, behind("C", "P")),
    ("loads of a block that holds blocks, merged", LOADS_OF_A_NEST, merged("C")),
    ("a predicate that reads what is made", PREDICATE_READS, under("P", "C")),
    ("a predicate that reads what is made, inlined", PREDICATE_READS, inlined("P")),
    ("a loop's bound that reads what is made", BOUND_READS, under("P", "C")),
    ("a loop's bound that reads what is made, inlined", BOUND_READS, inlined("P")),
    ("another buffer over the same memory", ONE_MEMORY, under("P", "C")),
    ("another buffer over the same memory, inlined", ONE_MEMORY, inlined("P")),
    ("every other element of a result, merged", EVERY_OTHER, merged("C")),
    ("every other element of a result, merged under the loop", EVERY_OTHER, behind("C", "P")),
    ("every other element of a result that is made", EVERY_OTHER_MADE, under("P", "C")),
]


@pytest.mark.parametrize(("text", "act"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_moves_that_are_refused(text: str, act: Act) -> None:
    before = parsed(text)
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match=r"T040[67]"):
        act(sch)
    assert sch.mod["main"] is before


READS_ANOTHER = """
@T.prim_func
def main(C: T.Buffer((4, 3), "int32")):
    for i, j, k in T.grid(4, 3, 3):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 1
            C[vi, vj] = T.max(C[vi, vj], C[vi, vk])
"""
BEGINS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 2):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = C[vi]
            C[vi] = C[vi] + A[vi] + vk
"""
PADS_ITSELF = """
@T.prim_func
def main(C: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.sblock("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.if_then_else(vi < 4, C[vi] + C[vi], 4)
"""
READS_OTHER_ROWS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = vi
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[3 - vi]
"""
IN_PLACE: list[tuple[str, str, Act, str]] = [
    ("a block that begins at once", READS_ANOTHER, lambda s: s.blockize(s.get_loops("C")[1]), "T0414"),
    (
        "a beginning that reads, as a block",
        BEGINS,
        lambda s: s.blockize(s.get_loops("C")[0]),
        "T0414",
    ),
    (
        "a beginning that reads, in a cache",
        BEGINS,
        lambda s: s.cache_write("C", 0, "local"),
        "T0407",
    ),
    (
        "a beginning that reads, twice",
        BEGINS,
        lambda s: s.split_overlapping(s.get_loops("C")[0], 3),
        "T0403",
    ),
    ("padding of itself", PADS_ITSELF, lambda s: s.decompose_padding("C", s.get_loops("C")[0]), "T0417"),
    (
        "rows of other iterations, twice",
        READS_OTHER_ROWS,
        lambda s: s.split_overlapping(s.get_loops("C")[0], 3),
        "T0403",
    ),
]


@pytest.mark.parametrize(
    ("text", "act", "code"), [row[1:] for row in IN_PLACE], ids=[row[0] for row in IN_PLACE]
)
def test_programs_that_read_what_they_write(text: str, act: Act, code: str) -> None:
    with pytest.raises(ScheduleError, match=code):
        act(Schedule(parsed(text)))


def test_questions_about_moves_visit_a_shared_value_once() -> None:
    """Sixty doublings: what is shared would be met 2 ** 60 times."""
    func = parsed(STORE_ALONE)
    (realize,) = (each for each in blocks_in(func.body) if each.block.name_hint == "C")
    value = realize.block.body.value
    for _ in range(60):
        value = value + value
    block = replace(realize.block, body=replace(realize.block.body, value=value))
    (read,) = (region.buffer for region in block.reads)
    assert touched_by(block).reads == {read} and not is_guarded(block, read)
