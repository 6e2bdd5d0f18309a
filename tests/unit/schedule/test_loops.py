"""Primitives on loops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle import te
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import SizeVar, is_const_int
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError
from heddle.tir.schedule import Schedule, ScheduleError
from tests.unit.schedule.programs import chain, check, compiled, matmul, window


@settings(max_examples=12)
@given(st.sampled_from([1, 2, 7, 12, 13]), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_partition_runs_every_iteration_once(extent, factors, data):
    loop = data.draw(st.integers(0, 2))
    before = matmul(n=extent, k=extent, m=extent)
    sch = Schedule(before)
    given_factors = [*factors, None]
    parts = sch.loop_partition(sch.get_loops("C")[loop], given_factors)
    assert len(parts) == len(given_factors)
    check(before, sch, machine=False)


@pytest.mark.parametrize("loop", [0, 2])
def test_partition_of_symbolic_and_reduction_loops(loop):
    before = matmul()
    sch = Schedule(before)
    sch.loop_partition(sch.get_loops("C")[loop], [2, None, 1])
    check(before, sch)


FREE_FACTORS = {
    "all but the last two": lambda n: [n - 2, 1, None],
    "one, then all but three": lambda n: [1, n - 3, None],
    "two that may be negative": lambda n: [n - 4, 2 - n, None],
    "the rest in between": lambda n: [n - 5, None, 2],
    "half": lambda n: [n // 2, None],
    "more than all": lambda n: [n - 1, n - 1, None],
}


@pytest.mark.parametrize("factors", FREE_FACTORS)
def test_factors_of_free_sizes_may_be_negative(factors):
    """Such a part has no iteration; none of the others begins before the loop does."""
    before = chain()
    sch = Schedule(before)
    loop = sch.get_loops("F")[0]
    sch.loop_partition(loop, FREE_FACTORS[factors](sch.get(loop).extent))
    check(before, sch, sizes=range(7), replay=False)


@pytest.mark.parametrize("factors", [[None, 6], [None, 7]], ids=str)
def test_a_reduction_is_initialised_or_the_cut_refused(factors):
    """The first part, which would do it, has no iteration."""
    sch = Schedule(matmul(n=3, k=6))
    with pytest.raises(ScheduleError, match=r"T0420.*initialises"):
        sch.loop_partition(sch.get_loops("C")[2], factors)


def test_a_free_first_part_initialises_no_reduction():
    A = te.placeholder((SizeVar("n"),), name="A")
    r = te.reduce_axis((0, A.shape[0]), name="r")
    sch = Schedule(te.create_prim_func([A, te.compute((1,), lambda i: te.sum(A[r], axis=r), name="C")]))
    loop = sch.get_loops("C")[1]
    with pytest.raises(ScheduleError, match=r"T0420.*initialises"):
        sch.loop_partition(loop, [sch.get(loop).extent - 1, None])
    assert len(sch.loop_partition(loop, [2, None])) == 2


@pytest.mark.parametrize(("rows", "factor"), [(7, 3), (6, 3), (5, 5), (4, 1), (9, 8)])
def test_overlapping_splits_need_no_guard(rows, factor):
    before = matmul(n=rows)
    sch = Schedule(before)
    outer, _ = sch.split_overlapping(sch.get_loops("C")[0], factor)
    assert sch.get(outer).extent.value == -(-rows // factor)
    assert is_const_int(sch.realization(sch.get_block("C")).predicate, 1)
    check(before, sch)


@pytest.mark.parametrize(("rows", "factor"), [(4, 5), (4, 0), ("n", 2)])
def test_overlapping_splits_that_cannot_be(rows, factor):
    sch = Schedule(matmul(n=rows))
    with pytest.raises(ScheduleError, match="T0403"):
        sch.split_overlapping(sch.get_loops("C")[0], factor)


@pytest.mark.parametrize("rows", ["n", 1, 3, 4, 7])
@pytest.mark.parametrize("factor", [1, 3, 4])
def test_ragged_splits_need_no_guard(rows, factor):
    before = matmul(n=rows)
    sch = Schedule(before)
    loops = sch.split_ragged(sch.get_loops("C")[0], factor)
    assert [sch.get(loop).kind.name for loop in loops] == ["SERIAL", "SERIAL"]
    assert is_const_int(sch.realization(sch.get_block("C")).predicate, 1)
    check(before, sch)


def test_a_reduction_over_ragged_loops_begins_once():
    """The loops beyond the end, under a guard, run over less than nothing: they initialise nothing."""
    before = matmul(3, 5, 2)
    sch = Schedule(before)
    outer, _ = sch.split_ragged(sch.get_loops("C")[2], 2)
    sch.split(outer, [None, 2])
    check(before, sch)


def test_a_producer_follows_the_shorter_loops_of_its_consumer():
    before = chain()
    sch = Schedule(before)
    outer, inner = sch.split_ragged(sch.get_loops("G")[0], 4)
    sch.compute_at("F", outer)
    assert structural_equal(sch.get(sch.get_loops("F")[1]).extent, sch.get(inner).extent)
    check(before, sch)


def test_ragged_splits_that_cannot_be():
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError, match="T0403"):
        sch.split_ragged(sch.get_loops("C")[0], 0)


def test_merge_joins_nests():
    before = chain()
    sch = Schedule(before)
    loops = [sch.get_loops(name)[1] for name in "EFG"]
    merged = sch.merge(*loops)
    assert [b.name for b in sch.get_child_blocks(merged)] == ["E", "F", "G"]
    assert str(sch.func).count("for ") == 1
    check(before, sch)


def test_unit_loops():
    before = chain()
    sch = Schedule(before)
    unit = sch.add_unit_loop(sch.get_sblock("F"))
    outer = sch.add_unit_loop(sch.get_loops("E")[0])
    assert sch.get(unit).extent.value == sch.get(outer).extent.value == 1
    check(before, sch)


def test_split_without_a_guard():
    before = matmul(n=8)
    sch = Schedule(before)
    sch.split(sch.get_loops("C")[0], [None, 4], disable_predication=True)
    assert "T.where" not in str(sch.func)
    check(before, sch)


def test_loops_bound_to_threads_compute_the_same():
    before = matmul(n=7)
    sch = Schedule(before)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    assert sch.get(j).thread_binding == "threadIdx.x"
    check(before, sch, machine=False)


def test_a_processor_has_no_threads_to_bind_to():
    sch = Schedule(matmul(n=7))
    sch.bind(sch.get_loops("C")[0], "blockIdx.x")
    with pytest.raises(HeddleError) as caught:
        compiled(sch.func)
    assert caught.value.code == "G0101"
    assert "thread_binding" in str(caught.value)


def _bound_twice(sch):
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    sch.bind(j, "threadIdx.x")


def _other_count(sch):
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    sch.bind(sch.get_loops("D")[1], "threadIdx.x")


WRONG = {
    "no such thread": (lambda s: s.bind(s.get_loops("C")[0], "thread.x"), "T0413", "thread.x"),
    "thread taken": (_bound_twice, "T0413", "has threadIdx.x already"),
    "thread counts": (_other_count, "T0413", "expected as many"),
    "reduction over blocks": (lambda s: s.bind(s.get_loops("C")[2], "blockIdx.x"), "T0405", "CommReduce"),
    "partition leaves out": (lambda s: s.loop_partition(s.get_loops("C")[1], [2, 2]), "T0420", "leave out"),
    "partition by zero": (lambda s: s.loop_partition(s.get_loops("C")[1], [0, None]), "T0420", "positive"),
    "two open": (lambda s: s.loop_partition(s.get_loops("C")[1], [None, None]), "T0420", "cut by"),
    "one loop merged": (lambda s: s.merge(s.get_loops("C")[0]), "T0420", "two loops"),
    "depths differ": (lambda s: s.merge(s.get_loops("C")[0], s.get_loops("D")[1]), "T0420", "equally deep"),
    "split leaves out": (lambda s: s.split(s.get_loops("C")[1], [2, 2]), "T0403", "leave out"),
    "split by zero": (lambda s: s.split(s.get_loops("C")[1], [None, 0]), "T0403", "positive"),
    "no such hint": (lambda s: s.unannotate(s.get_loops("C")[1], "grain"), "T0422", "grain"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_primitive_that_does_not_apply_says_why(name):
    action, code, text = WRONG[name]
    sch = Schedule(matmul(n=7))
    with pytest.raises(ScheduleError) as caught:
        action(sch)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_merge_keeps_dependences():
    """G needs rows of E that later iterations make."""
    sch = Schedule(window(n=3, size=1))
    sch.merge(sch.get_loops("E")[0], sch.get_loops("G")[0])
    other = Schedule(window(n=9, size=3))
    with pytest.raises(ScheduleError) as caught:
        other.merge(other.get_loops("E")[0], other.get_loops("G")[0])
    assert caught.value.code == "T0420"
    other = Schedule(matmul(n=4))
    i, _, _ = other.get_loops("C")
    tile, _ = other.split(other.get_loops("D")[0], [None, 2])
    with pytest.raises(ScheduleError) as caught:
        other.merge(i, tile)
    assert "expected 4 from 0" in str(caught.value)


def test_reorder_asks_for_loops():
    with pytest.raises(ScheduleError, match="T0404"):
        Schedule(matmul()).reorder()


def test_no_loops_are_fused_to_nothing():
    with pytest.raises(ScheduleError, match="T0404"):
        Schedule(matmul()).fuse()


def test_loops_of_which_one_is_empty_are_fused():
    """The extent of j is 0 for every n, which analysis tells and the text does not."""
    body = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64(is_size_var=True)
    m = T.int64(is_size_var=True)
    A = T.match_buffer(a, (n, m), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for i, j in T.grid(n, T.max(T.min(m - 1, 8) - m + 1, 0)):
        with T.sblock("C"):
            vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(T.max(T.min(m - 1, 8) - m + 1, 0), j)
            C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    before = from_source(body)
    sch = Schedule(before)
    sch.parallel(sch.fuse(*sch.get_loops("C")))
    check(before, sch, replay=False)
