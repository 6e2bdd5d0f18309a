"""Primitives that give a program another order refuse where the order is seen: reductions that do not
commute, elements that are looked at before they begin, loops of several kinds made one. Copies hold only what
there is."""

import pytest

from heddle.tir.analysis.commuting import commutes
from heddle.tir.nodes import SBlockRealize
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.schedule.tree import find_block
from tests.unit.schedule.programs import check
from tests.unit.schedule.test_preconditions import nest, written

# ---- reductions


def summed(update: str, axes: str = "i S 4, k R 2, l R 3"):
    """C[i] over A[i, k, l], by some update."""
    return written("A: 4, 2, 3; C: 4", nest("C", axes, f"C[vi] = {update}", init="C[vi] = T.float32(0)"))


COMMUTES = {
    "C[vi] + A[vi, vk, vl]": True,
    "A[vi, vk, vl] * A[vi, 0, 0] + C[vi]": True,
    "C[vi] - A[vi, vk, vl] + A[vi, 1, vl]": True,
    "T.max(A[vi, vk, vl], C[vi])": True,
    "T.Cast('float32', T.Cast('float16', C[vi]) + T.float16(1))": True,
    "T.if_then_else(A[vi, vk, vl] > T.float32(0), C[vi] + A[vi, vk, vl], C[vi])": True,
    "T.if_then_else(C[vi] > T.float32(0), C[vi] + A[vi, vk, vl], C[vi])": False,
    "A[vi, vk, vl] - C[vi]": False,
    "C[vi] + C[vi] + A[vi, vk, vl]": False,
    "C[vi] * A[vi, vk, vl] + T.float32(1)": False,
    "T.max(C[vi], A[vi, vk, vl]) + A[vi, 0, 0]": False,
    "C[vi] + C[0] * A[vi, vk, vl]": False,
    "A[vi, vk, vl]": False,
}


@pytest.mark.parametrize(("update", "may_be_reordered"), COMMUTES.items())
def test_updates_that_commute(update, may_be_reordered):
    realize = find_block(summed(update), "C").stmt
    assert isinstance(realize, SBlockRealize)
    assert commutes(realize.block) is may_be_reordered


CHANGES_ORDER = {
    "reorder": lambda sch: sch.reorder(*sch.get_loops("C")[:0:-1]),
    "transform_block_layout": lambda sch: sch.transform_block_layout("C", lambda i, k, m: (i, m, k)),
}


@pytest.mark.parametrize("name", CHANGES_ORDER)
def test_a_reduction_that_does_not_commute_keeps_its_order(name):
    before = summed("A[vi, vk, vl] - C[vi]")
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match=r"T0404|T0416"):
        CHANGES_ORDER[name](sch)
    assert sch.func is before
    sch.reorder(*sch.get_loops("C")[1:], sch.get_loops("C")[0])
    check(before, sch)


@pytest.mark.parametrize("name", CHANGES_ORDER)
def test_a_sum_has_any_order(name):
    before = summed("C[vi] + A[vi, vk, vl]")
    sch = Schedule(before)
    CHANGES_ORDER[name](sch)
    check(before, sch)


def test_other_axes_may_move_between_those_of_a_reduction():
    before = summed("A[vi, vk, vl] - C[vi]")
    sch = Schedule(before)
    sch.transform_block_layout("C", lambda i, k, m: (k, i, m))
    check(before, sch)


def turned(update: str, loops: str):
    """B[i] over A[i, k, m] with loops in some order around axes in another; then C = B."""
    body = f"""
B = T.sblock_alloc_buffer((4,), "float32")
for {loops} in T.grid({", ".join({"i": "4", "k": "2", "m": "3"}[loop] for loop in loops.split(", "))}):
    with T.sblock("B"):
        vi, vk, vm = T.axis.remap("SRR", [i, k, m])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = {update}
{nest("C", "i S 4", "C[vi] = B[vi]")}"""
    return written("A: 4, 2, 3; C: 4", body)


@pytest.mark.parametrize(
    ("update", "loops"),
    [
        ("A[vi, vk, vm] - B[vi]", "i, k, m"),
        ("A[vi, vk, vm] - B[vi]", "k, i, m"),
        ("A[vi, vk, vm] + B[vi]", "m, k, i"),
    ],
)
def test_a_block_that_is_moved_runs_over_its_axes(update, loops):
    before = turned(update, loops)
    sch = Schedule(before)
    sch.compute_at("B", sch.get_loops("C")[0])
    check(before, sch)


def test_a_reduction_in_an_order_of_its_own_stays_where_it_is():
    sch = Schedule(turned("A[vi, vk, vm] - B[vi]", "m, k, i"))
    with pytest.raises(ScheduleError, match="T0407"):
        sch.compute_at("B", sch.get_loops("C")[0])


def test_loops_whose_iterations_are_apart_only_within_another_one():
    """i is free where j is the same; several pairs meet at i + 2 * j, the one of the least j first."""
    body = nest("Z", "i S 12", "C[vi] = T.float32(1)") + nest(
        "C", "j S 4, i S 3", "C[vi + vj * 2] = C[vi + vj * 2] * T.float32(2) + A[vj]"
    )
    sch = Schedule(written("A: 4; C: 12", body))
    with pytest.raises(ScheduleError, match="T0404"):
        sch.reorder(*sch.get_loops("C")[::-1])


# ---- beginnings


def begun(first: str, second: str) -> str:
    """A row of C, summed after and before other statements on it."""
    return f"""
for i in range(4):
    with T.sblock("first"):
        vi = T.axis.spatial(4, i)
        {first}
    for k in range(3):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(3, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    with T.sblock("second"):
        vi = T.axis.spatial(4, i)
        {second}
"""


ZEROS = nest("Z", "i S 4", "C[vi] = A[vi, 0]")
NOT_BEGUN = {
    "an element is stored before": begun("C[vi] = T.float32(5)", "D[vi] = C[vi]"),
    "the sum reads other rows": nest(
        "C", "i S 4, k R 3", "C[vi] = C[vi] + C[3 - vi] * A[vi, vk]", init="C[vi] = T.float32(0)"
    ),
    "another block reads rows before": ZEROS + begun("D[vi] = C[vi]", "E[vi] = A[vi, 1]"),
    "another block reads later rows": ZEROS + begun("E[vi] = A[vi, 1]", "D[vi] = C[3 - vi]"),
}


@pytest.mark.parametrize("name", NOT_BEGUN)
def test_elements_that_are_used_before_they_begin(name):
    before = written("A: 4, 3; D: 4; E: 4; C: 4", NOT_BEGUN[name])
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match="T0409"):
        sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    check(before, sch)


def test_elements_that_are_used_after_they_are_made():
    before = written("A: 4, 3; D: 4; C: 4", begun("D[vi] = A[vi, 0]", "D[vi] = D[vi] + C[vi]"))
    sch = Schedule(before)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    check(before, sch)


# ---- loops of several kinds

ROWS = "i S 6, j S 4"
CARRIED = "C[vi, vj] = T.if_then_else(vj > 0, C[vi, vj - 1], T.float32(5)) + A[vi, vj]"
SUM = "C[vi] = C[vi] + A[vi, vj]"


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "bind"])
@pytest.mark.parametrize("is_sum", [False, True])
def test_a_loop_with_an_order_is_not_fused_into_one_without(kind, is_sum):
    body = nest("C", "i S 6, j R 4", SUM, init="C[vi] = T.float32(0)")
    before = (
        written("A: 6, 4; C: 6", body) if is_sum else written("A: 6, 4; C: 6, 4", nest("C", ROWS, CARRIED))
    )
    sch = Schedule(before)
    loops = sch.get_loops("C")
    sch.bind(loops[0], "threadIdx.x") if kind == "bind" else getattr(sch, kind)(loops[0])
    with pytest.raises(ScheduleError, match="T0405"):
        sch.fuse(*loops)


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_independent_loops_are_fused_into_one(kind):
    before = written("A: 6, 4; C: 6, 4", nest("C", ROWS, "C[vi, vj] = A[vi, vj]"))
    sch = Schedule(before)
    loops = sch.get_loops("C")
    getattr(sch, kind)(loops[0])
    sch.fuse(*loops)
    assert f"T.{kind}".removesuffix("e") in str(sch.func)
    check(before, sch)


# ---- copies


def test_a_copy_asks_only_for_indices_that_there_are():
    """Rows are named by I, and the last tile of them goes beyond its end."""
    before = written(
        "A: 5, 4; I: 5; C: 5, 4", nest("C", "i S 5, j S 4", "C[vi, vj] = A[T.Cast('int32', I[vi]), vj]")
    )
    sch = Schedule(before)
    sch.tile_rows("C", 0, 3)
    sch.reindex("C", ("read", 0))
    check(before, sch)


PARTS = {
    "rows from the second on": nest("C", "i S 5", "C[vi + 1] = A[vi]"),
    "every other row": nest("C", "i S 4", "C[vi * 2] = A[vi]"),
}


@pytest.mark.parametrize("name", PARTS)
def test_padding_leaves_what_a_block_does_not_store(name):
    before = written("A: 5; C: 8", PARTS[name])
    sch = Schedule(before)
    sch.pad_einsum("C", [3])
    check(before, sch)


def test_padding_inside_of_another_block():
    before = written("A: 5, 2; C: 5, 2", nest("C", "i S 5, j S 2", "C[vi, vj] = A[vi, vj] + T.float32(1)"))
    sch = Schedule(before)
    sch.blockize(sch.get_loops("C")[1])
    sch.pad_einsum("C", [2, 3])
    check(before, sch)


NO_PADDING = {
    "C[vi] = A[vi]": "i < 3",
    "if A[vi] > T.float32(0):\n            C[vi] = A[vi]": "",
    "C[vi] = A[vi]\n        D[vi] = A[vi]": "",
}


@pytest.mark.parametrize(("store", "where"), NO_PADDING.items())
def test_results_that_cannot_be_padded(store, where):
    sch = Schedule(written("A: 5; D: 5; C: 5", nest("C", "i S 5", store, where=where)))
    with pytest.raises(ScheduleError, match="T0410"):
        sch.pad_einsum("C", [4])


@pytest.mark.parametrize("layout", [lambda i: (i * 4,), lambda i: (i + 3,)])
def test_new_axes_have_no_holes(layout):
    """A hole would run an iteration again, which changes what it finds."""
    sch = Schedule(written("A: 5; C: 5", nest("C", "i S 5", "C[vi] = C[vi] * T.float32(2)")))
    with pytest.raises(ScheduleError, match="T0416"):
        sch.transform_block_layout("C", layout)
