"""Layouts, copies, types and sizes of buffers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle import te
from heddle.prim import intrinsics as prim
from heddle.prim.nodes import Var
from heddle.prim.ops import minimum
from heddle.script import tir as T
from heddle.support.diagnostics import HeddleError
from heddle.tir.index_map import IndexMap
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule, ScheduleError
from tests.unit.schedule.programs import chain, check, compiled, dim, interpreted, matmul, window

MAPS = {
    "transposed": lambda i, j: (j, i),
    "blocks": lambda i, j: (i // 4, j, i % 4),
    "two blocks": lambda i, j: (i // 2, j // 3, i % 2, j % 3),
    "flat": lambda i, j: (i * 7 + j,),
    "shifted": lambda i, j: (i + 1, j),
    "skewed": lambda i, j: (i, (i + j) % 7),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("n", [1, 7, "n"])
def test_layouts_of_temporaries(name, n):
    before = chain(n=n, m=7)
    if name == "skewed" and n == "n":
        pytest.skip("this map's injectivity is tried point by point, which needs a constant shape")
    sch = Schedule(before)
    sch.transform_layout("E", ("write", 0), MAPS[name])
    sch.transform_layout("G", "F", MAPS[name])
    check(before, sch)


def test_layout_of_the_callers_buffers():
    before = chain(n=8, m=6)
    sch = Schedule(before)
    sch.transform_layout("E", ("read", 0), lambda i, j: (j, i))
    sch.transform_layout("G", 0, lambda i, j: (i // 4, j, i % 4))
    assert [[d.value for d in b.shape] for b in sch.func.buffers] == [[6, 8], [2, 6, 4]]
    a = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
    made = np.empty((2, 6, 4), "float32")
    run_primfunc(sch.func, np.ascontiguousarray(a.T), made)
    wanted = 3 * np.exp(a)
    np.testing.assert_allclose(made.transpose(0, 2, 1).reshape(8, 6), wanted, rtol=1e-5)


def test_padding_of_a_layout_holds_the_value():
    before = chain(n=5, m=3)
    sch = Schedule(before)
    sch.transform_layout("E", 0, lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    check(before, sch)
    sch = Schedule(before)
    sch.transform_layout("G", 0, lambda i, j: (i // 4, j, i % 4), pad_value=7.0)
    a = np.zeros((5, 3), "float32")
    made = np.full((2, 3, 4), np.nan, "float32")
    run_primfunc(sch.func, a, made)
    assert (made[1, :, 1:] == 7).all() and (made[0] == 3).all()


def test_index_maps():
    given = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    assert [int(d) for d in given.map_shape([8, 3])] == [2, 3, 4]
    back = given.inverse([8, 3])
    assert back is not None
    assert [int(x) for x in back.map_indices(given.map_indices([6, 2]))] == [6, 2]
    assert given.inverse([7, 3]) is None
    assert given.is_injective([7, 3])
    assert not IndexMap.from_func(lambda i, j: [i + j]).is_injective([2, 2])
    many = IndexMap.from_func(lambda i, *rest: (*rest, i), ndim=3)
    assert [int(x) for x in many.map_indices([1, 2, 3])] == [2, 3, 1]
    assert isinstance(many.initial_indices[0], Var)


# ---- copies


@settings(max_examples=10)
@given(st.sampled_from([1, 3, "n"]), st.sampled_from(["A", "B"]), st.booleans())
def test_copies_around_a_contraction(n, name, write):
    before = matmul(n=n)
    sch = Schedule(before)
    sch.reindex("C", name)
    if write:
        sch.reindex("C", ("write", 0))
    check(before, sch, machine=False)


def test_copies_at_an_index_of_our_own():
    before = matmul()
    sch = Schedule(before)
    sch.reindex_cache_read("C", 1, "local", lambda i, j, r: (j // 4, r, j % 4))
    sch.reindex_cache_write("C", 0, "local", lambda i, j, r: (j, i))
    check(before, sch)


def test_a_window_is_read_through_a_copy():
    """Rows i + r are copied once for each pair."""
    before = window(n=7, m=2, size=3)
    sch = Schedule(before)
    copy = sch.reindex("G", ("read", 0))
    assert len(sch.get_loops(copy)) == 3
    check(before, sch)


def test_in_place_copies():
    @T.prim_func
    def twice(a: T.Buffer((5, 3), "float32")) -> None:
        for i, j in T.grid(5, 3):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                a[vi, vj] = a[vi, vj] * T.float32(2)

    sch = Schedule(twice)
    copies = sch.cache_inplace("twice", 0, "local")
    assert len(copies) == 2
    data = np.arange(15, dtype="float32").reshape(5, 3)
    made = data.copy()
    run_primfunc(sch.func, made)
    np.testing.assert_array_equal(made, data * 2)


def softmax(n="n", m=6):
    """M = max of rows; E = exp(A - M); S = sum of rows; D = E / S."""
    A = te.placeholder((dim(n), dim(m)), name="A")
    r, s = (te.reduce_axis((dim(0), dim(m)), name=name) for name in "rs")
    M = te.compute((A.shape[0],), lambda i: te.max(A[i, r], axis=r), name="M")
    E = te.compute(A.shape, lambda i, j: prim.exp(A[i, j] - M[i]), name="E")
    S = te.compute((A.shape[0],), lambda i: te.sum(E[i, s], axis=s), name="S")
    D = te.compute(A.shape, lambda i, j: E[i, j] / S[i], name="D")
    return te.create_prim_func([A, D])


@pytest.mark.parametrize("n", [1, 5, "n"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_a_result_holds_what_it_is_computed_from(n, by_rows):
    before = softmax(n)
    sch = Schedule(before)
    if by_rows:
        row = sch.get_loops("D")[0]
        for name in "SEM":
            sch.compute_at(name, row)
    sch.share_output("D", "E")
    assert "E" not in {buffer.name for buffer in sch.func.body.block.alloc_buffers}
    check(before, sch)


REFUSED_SHARING = {
    "other size": (window, lambda sch: sch.share_output("G", "E")),
    "no map": (lambda: matmul(n=4), lambda sch: sch.share_output("C", "A")),
    "not the last": (lambda: chain(n=4), lambda sch: sch.share_output("F", "E")),
    "the caller's": (lambda: chain(n=4), lambda sch: sch.share_output("E", "A")),
}


@pytest.mark.parametrize("name", REFUSED_SHARING)
def test_a_result_that_cannot_hold_a_temporary(name):
    make, share = REFUSED_SHARING[name]
    sch = Schedule(make())
    before = sch.func
    with pytest.raises(ScheduleError):
        share(sch)
    assert sch.func is before


def test_a_temporary_that_the_next_row_reads_stays():
    """B[i] reads what the row before left: a result in its place would be overwritten."""
    A = te.placeholder((dim(6), dim(4)), name="A")
    E = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="E")
    r = te.reduce_axis((dim(0), dim(2)), name="r")
    W = te.compute(A.shape, lambda i, j: te.sum(E[minimum(i + r, 5), j], axis=r), name="W")
    D = te.compute(A.shape, lambda i, j: E[i, j] * W[i, j], name="D")
    sch = Schedule(te.create_prim_func([A, D]))
    row = sch.get_loops("D")[0]
    sch.compute_at("W", row)
    with pytest.raises(ScheduleError, match="T0425"):
        sch.share_output("D", "E")


def test_caches_for_named_consumers():
    before = chain()
    sch = Schedule(before)
    sch.cache_read("F", 0, "local", ["G"])
    sch.cache_write("F", 0, "local", ["G"])
    check(before, sch)


def test_a_cache_may_not_pass_its_producer():
    sch = Schedule(chain(n=4))
    sch.merge(*(sch.get_loops(name)[0] for name in "EF"))
    with pytest.raises(ScheduleError) as caught:
        sch.cache_read("F", 0, "local")
    assert caught.value.code == "T0407"
    with pytest.raises(ScheduleError) as caught:
        sch.cache_write("E", 0, "local")
    assert "'F'" in str(caught.value)


# ---- scope, type, strides


def test_scopes_types_and_strides():
    before = chain(n=7, m=6)
    sch = Schedule(before)
    sch.set_scope("F", 0, "local")
    sch.storage_align("E", 0, axis=0, factor=8, offset=1)
    sch.unsafe_set_dtype("F", 0, "float64")
    text = str(sch.func)
    assert "float64" in text and "strides" in text and 'scope="local"' in text
    check(before, sch)


def test_half_of_the_digits():
    before = chain(n=5)
    sch = Schedule(before)
    sch.unsafe_set_dtype("E", "E", "float16")
    assert not np.array_equal(interpreted(sch.func, 0), interpreted(before, 0))
    check(before, sch, rtol=2e-3)


# ---- rolling


@settings(max_examples=8)
@given(st.sampled_from([4, 5, 7, 9]), st.integers(2, 3), st.booleans())
def test_rolling_windows(n, size, inner):
    before = window(n=n, size=size)
    sch = Schedule(before)
    i, j, _ = sch.get_loops("G")
    if inner:
        sch.reorder(j, i)
    sch.compute_at("E", i)
    sch.rolling_buffer("E", 0)
    assert sch.get(sch.get_sblock("E")).writes[0].buffer.shape[0].value == size
    check(before, sch)


def test_rolling_computes_each_row_once():
    before = window(n=9, size=3)
    sch = Schedule(before)
    sch.compute_at("E", sch.get_loops("G")[0])
    sch.rolling_buffer("E", 0)
    run = compiled(sch.func)
    np.testing.assert_allclose(run(0), interpreted(before, 0), rtol=1e-5)
    assert "% " in str(sch.func)


def _parallel(sch):
    i = sch.get_loops("G")[0]
    sch.compute_at("E", i)
    sch.parallel(i)
    sch.rolling_buffer("E", 0)


def _same_place(sch):
    sch.transform_layout("E", 0, lambda i, j: (i // 2, j))


def _no_overlap(sch):
    sch.compute_at("E", sch.get_loops("G")[1])
    sch.rolling_buffer("E", 0)


WRONG = {
    "not under a loop": (lambda s: s.rolling_buffer("E", 0), "T0418", "compute_at first"),
    "parallel": (_parallel, "T0418", "not serial"),
    "no overlap": (_no_overlap, "T0418", "do not overlap"),
    "one place": (_same_place, "T0416", "in one place"),
    "wrong rank": (lambda s: s.transform_layout("E", 0, lambda i: (i,)), "T0416", "2 dimensions"),
    "no such buffer": (lambda s: s.transform_layout("E", "X", lambda i, j: (i, j)), "T0408", "'X'"),
    "caller's scope": (lambda s: s.set_scope("G", 0, "local"), "T0408", "belongs to the caller"),
    "caller's type": (lambda s: s.unsafe_set_dtype("G", 0, "float16"), "T0408", "belongs to the caller"),
    "no such axis": (lambda s: s.storage_align("E", 0, 2, 8, 0), "T0408", "axis 2"),
    "not in place": (lambda s: s.cache_inplace("E", 0, "local"), "T0408", "both read and write"),
    "mixed places": (
        lambda s: s.reindex_cache_read("G", 0, "local", lambda i, j, r: (i, j)),
        "T0416",
        "in one place",
    ),
    "reduction axis": (
        lambda s: s.reindex_cache_write("G", 0, "local", lambda i, j, r: (i, j, r)),
        "T0416",
        "lacks",
    ),
    "too few axes": (lambda s: s.reindex_cache_write("G", 0, "local", lambda i: (i,)), "T0416", "3 axes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_primitive_that_does_not_apply_says_why(name):
    action, code, text = WRONG[name]
    sch = Schedule(window())
    with pytest.raises(HeddleError) as caught:
        action(sch)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_several_indices_are_no_single_one():
    n = dim(5)
    A = te.placeholder((n,), name="A")
    B = te.compute((dim(4),), lambda i: A[i] + A[i + 1], name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    with pytest.raises(ScheduleError) as caught:
        sch.reindex("B", "A")
    assert caught.value.code == "T0424"
