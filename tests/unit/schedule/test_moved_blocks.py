"""Blocks that cannot move under a loop: they would compute something else, or not all of it."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule, ScheduleError

PREFIX_SUMS = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(15):
        with T.sblock("S"):
            v = T.axis.opaque(15, i)
            A[v + 1] = A[v + 1] + A[v]
    for i in range(16):
        with T.sblock("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * 2
"""
PART = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range({extent}):
        with T.sblock("C"):
            v = T.axis.spatial({extent}, i)
            C[{index}] = A[{index}] + 1
    for i in range(16):
        with T.sblock("B"):
            v = T.axis.spatial(16, i)
            B[v] = C[v]
"""


def _loop(schedule: Schedule, name: str):
    return schedule.get_loops(schedule.get_sblock(name))[0]


def test_a_block_that_reads_what_it_wrote_stays() -> None:
    schedule = Schedule(from_source(PREFIX_SUMS))
    with pytest.raises(ScheduleError, match=r"T0407.*'S' reads 'A', which it writes"):
        schedule.compute_at(schedule.get_sblock("S"), _loop(schedule, "B"))


def test_a_consumer_keeps_what_no_iteration_makes() -> None:
    schedule = Schedule(from_source(PREFIX_SUMS))
    with pytest.raises(ScheduleError, match=r"T0407.*'B' goes over more"):
        schedule.reverse_compute_at(schedule.get_sblock("B"), _loop(schedule, "S"))


@pytest.mark.parametrize(
    ("extent", "index", "is_whole"),
    [
        (16, "v", True),
        (16, "15 - v", True),
        (8, "v", False),
        (8, "v * 2", False),
        (8, "v + 8", False),
        (1, "v", False),
    ],
)
def test_consumers_of_a_part(extent: int, index: str, is_whole: bool) -> None:
    func = from_source(PART.format(extent=extent, index=index))
    schedule = Schedule(func)
    if not is_whole:
        with pytest.raises(ScheduleError, match=r"T0407"):
            schedule.reverse_compute_at(schedule.get_sblock("B"), _loop(schedule, "C"))
        return
    schedule.reverse_compute_at(schedule.get_sblock("B"), _loop(schedule, "C"))
    given, made = np.arange(16, dtype="int32"), np.zeros(16, "int32")
    expected, got = np.zeros(16, "int32"), np.zeros(16, "int32")
    run_primfunc(func, given, made, expected)
    run_primfunc(schedule.mod["main"], given, made, got)
    assert (got == expected).all() and expected.any()


def test_layouts_have_no_negative_indices() -> None:
    for index_map, is_right in (
        (lambda i: (15 - i,), True),
        (lambda i: (7 - i,), False),
        (lambda i: (i - 8,), False),
        (lambda i: (i // 4 - 1, i % 4), False),
    ):
        schedule = Schedule(from_source(PART.format(extent=16, index="v")))
        change = lambda: schedule.transform_layout("C", ("write", 0), index_map)  # noqa: B023, E731
        if is_right:
            change()
        else:
            with pytest.raises(ScheduleError, match=r"T0416.*negative"):
                change()


def test_a_reduction_that_reads_its_neighbours_stays() -> None:
    """It begins anew, but from what other iterations wrote."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((17,), "int32"), B: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 2):
        with T.sblock("S"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                A[v + 1] = 0
            A[v + 1] = A[v + 1] + A[v]
    for i in range(16):
        with T.sblock("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v + 1]
"""
    )
    schedule = Schedule(func)
    with pytest.raises(ScheduleError, match="T0407"):
        schedule.compute_at(schedule.get_sblock("S"), _loop(schedule, "B"))
