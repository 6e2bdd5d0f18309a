"""Blocks of blocks, tensor intrinsics, axes of blocks, padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.ir.module import IRModule
from heddle.script import from_source
from heddle.script import tir as T
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.tensor_intrin import TensorIntrin
from heddle.tir.verify import verify_prim_func
from tests.unit.schedule.programs import chain, check, interpreted, matmul, padded, window
from tests.unit.schedule.test_preconditions import nest, written


@settings(max_examples=12)
@given(st.sampled_from([1, 2, 3, 7]), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_blockize_at_any_depth(n, tile, depth, keep):
    before = matmul(n=n * tile, k=3, m=5)
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    outer, inner = sch.split(i, [None, tile])
    loops = [outer, inner, j, r] if depth < 2 else [outer, j, inner, r]
    sch.reorder(*loops)
    made = sch.blockize(loops[depth], preserve_unit_iters=keep)
    assert made.name == "C_o"
    assert len(sch.get_loops(made)) == depth
    check(before, sch, machine=False)


def test_blockize_with_a_guard_and_symbolic_rows():
    before = matmul()
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    outer, inner = sch.split(i, [None, 4])
    sch.reorder(outer, j, inner, r)
    sch.blockize(inner)
    check(before, sch)


@pytest.mark.parametrize("where", ["i < j", "j < i", "i < 3", "j < 3"])
@pytest.mark.parametrize("first", ["i", "j"])
def test_blockize_of_a_block_whose_condition_compares_two_axes(where, first):
    """Inside of the new block the condition is of its axes, not of the loops around it."""
    before = written("A: 6, 5; C: 6, 5", nest("C", "i S 6, j S 5", "C[vi, vj] = A[vi, vj]", where=where))
    sch = Schedule(before)
    i, j = sch.get_loops("C")
    sch.reorder(*((i, j) if first == "i" else (j, i)))
    sch.blockize(j if first == "i" else i)
    check(before, sch, machine=False)
    assert not verify_prim_func(sch.func, IRModule.from_expr(sch.func))


def test_blockize_of_an_elementwise_block_and_again():
    before = chain(n=8, m=12)
    sch = Schedule(before)
    i, j = sch.get_loops("G")
    i0, i1, i2 = sch.split(i, [2, 2, 2])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, i2, j1)
    sch.blockize(i2)
    outer = sch.blockize(i1)
    assert outer.name == "G_o_o"
    check(before, sch)


def test_blockize_of_blocks_side_by_side():
    before = chain()
    sch = Schedule(before)
    loops = [sch.get_loops(name)[0] for name in "EFG"]
    merged = sch.merge(*loops)
    made = sch.blockize([sch.get_sblock("E"), sch.get_sblock("F")])
    assert [b.name for b in sch.get_child_blocks(made)] == ["E", "F"]
    assert [b.name for b in sch.get_child_blocks(merged)] == [made.name, "G"]
    check(before, sch)


# ---- intrinsics


@T.prim_func
def rows_desc(
    c: T.Buffer((4,), "float32"), a: T.Buffer((4,), "float32"), b: T.Buffer((1,), "float32")
) -> None:
    with T.sblock("root"):
        for j in range(T.int64(4)):
            with T.sblock("axpy"):
                vj = T.axis.spatial(T.int64(4), j)
                c[vj] = c[vj] + b[0] * a[vj]


@T.prim_func
def dot_desc(
    c: T.Buffer((4,), "float32"), a: T.Buffer((3,), "float32"), b: T.Buffer((3, 4), "float32")
) -> None:
    with T.sblock("root"):
        for j, k in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("dot"):
                vj, vk = T.axis.remap("SR", [j, k])
                c[vj] = c[vj] + a[vk] * b[vk, vj]


@T.prim_func
def dot_impl(
    c: T.Buffer((4,), "float32"), a: T.Buffer((3,), "float32"), b: T.Buffer((3, 4), "float32")
) -> None:
    with T.sblock("root"):
        T.reads(c[0:4], a[0:3], b[0:3, 0:4])
        T.writes(c[0:4])
        for k in range(T.int64(3)):
            for j in T.vectorized(T.int64(4)):
                c[j] = c[j] + a[k] * b[k, j]


TensorIntrin.register("test.dot_4x3", dot_desc, dot_impl)


def _tiled(before):
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    r0, r1 = sch.split(r, [None, 3])
    sch.reorder(i, j0, r0, j1, r1)
    sch.decompose_reduction("C", r0)
    return sch, j1


def test_tensorize_a_loop_with_an_intrinsic():
    before = matmul(k=6, m=8)
    sch, loop = _tiled(before)
    sch.tensorize(loop, "test.dot_4x3")
    assert "T.match_buffer" in str(sch.func) and "T.vectorized" in str(sch.func)
    check(before, sch)


def test_tensorize_a_block_more_than_once():
    before = matmul(k=6, m=8)
    sch, loop = _tiled(before)
    sch.tensorize(sch.blockize(loop), "test.dot_4x3")
    sch.loop_partition(sch.get_loops("C_o")[0], [2, None])
    check(before, sch)


def test_what_differs_from_the_description_is_refused():
    for k, m, where in ((6, 12, "range"), (6, 8, "axpy")):
        sch, loop = _tiled(matmul(k=k, m=m))
        if where == "range":
            loop = sch.get_loops("C")[-1]
        TensorIntrin.register("test.rows", rows_desc, rows_desc, override=True)
        before = sch.func
        with pytest.raises(ScheduleError) as caught:
            sch.tensorize(loop, "test.rows")
        assert caught.value.code == "T0415"
        assert "as the intrinsic describes" in str(caught.value)
        assert sch.func is before


def test_intrinsics_are_registered_once_and_fit():
    with pytest.raises(UsageError) as caught:
        TensorIntrin.register("test.dot_4x3", dot_desc, dot_impl)
    assert caught.value.code == "T0423"
    with pytest.raises(UsageError) as caught:
        TensorIntrin(dot_desc, rows_desc)
    assert "rank" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        TensorIntrin.get("test.dot_4x4")
    assert "test.dot_4x3" in str(caught.value)
    assert TensorIntrin.get("test.none", allow_missing=True) is None


# ---- axes

MIXED_AXES = """@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, c: T.handle):
        n = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, 4), "float32")
        C = T.match_buffer(c, (n, 4), "float32")
        for k, i, j in T.grid(T.int32(3), n, T.int32(4)):
            with T.sblock("C"):
                vk = T.axis.reduce(T.int32(3), k)
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(T.int32(4), j)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vj] * T.Cast("float32", vk)
"""


@pytest.mark.parametrize(
    "mapping",
    [
        lambda k, i, j: (j, i, k),
        lambda k, i, j: (k, i * 4 + j),
        lambda k, i, j: (i, j // 2, j % 2, k),
        lambda k, i, j: (j, k, i),
    ],
)
def test_block_layouts_of_axes_of_several_widths(mapping):
    """Axes of int32 and of int64 in one block: the new ones are as wide as the widest."""
    before = from_source(MIXED_AXES)["main"]
    sch = Schedule(before)
    sch.transform_block_layout("C", mapping)
    assert {str(axis.var.dtype) for axis in sch.get(sch.get_sblock("C")).iter_vars} == {"int64"}
    for n in (0, 1, 5):
        a = np.arange(n * 4, dtype="float32").reshape(n, 4)
        c = np.full((n, 4), np.nan, "float32")
        run_primfunc(sch.func, a, c)
        np.testing.assert_array_equal(c, a * 3)


def test_block_layouts():
    before = chain(n=6, m=7)
    sch = Schedule(before)
    sch.transform_block_layout("F", lambda i, j: (i * 7 + j,))
    sch.transform_block_layout("E", lambda i, j: (j, i // 2, i % 2))
    assert len(sch.get_loops("F")) == 1 and len(sch.get_loops("E")) == 3
    check(before, sch)


def test_block_layout_of_a_reduction():
    before = matmul(n=4, k=6, m=3)
    sch = Schedule(before)
    sch.transform_block_layout("C", lambda i, j, r: (i * 3 + j, r // 2, r % 2))
    check(before, sch)


def test_axes_in_another_order():
    before = matmul()
    sch = Schedule(before)
    sch.reorder_block_iter_var("C", [2, 0, 1])
    check(before, sch)


# ---- padding


@settings(max_examples=10)
@given(st.sampled_from([1, 3, 7]), st.integers(0, 2), st.integers(0, 3), st.integers(0, 1))
def test_decomposed_padding(n, low, high, depth):
    before = padded(n=n, low=low, high=high)
    sch = Schedule(before)
    loop = sch.get_loops("P")[depth]
    assert sch.can_decompose_padding("P", loop)
    fill = sch.decompose_padding("P", loop)
    assert fill.name == "P_pad_const"
    assert "if_then_else" not in str(sch.func)
    check(before, sch, machine=False)


def test_decomposed_padding_of_split_loops_and_symbolic_rows():
    before = padded(n="n")
    sch = Schedule(before)
    i, j = sch.get_loops("P")
    outer, inner = sch.split(i, [None, 4])
    sch.decompose_padding("P", inner)
    assert "T.where" in str(sch.func)
    check(before, sch)
    before = padded(n="n")
    sch = Schedule(before)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    check(before, sch)
    before = padded(n=7)
    sch = Schedule(before)
    i, j = sch.get_loops("P")
    outer, inner = sch.split(i, [None, 4])
    sch.decompose_padding("P", inner)
    check(before, sch)
    assert outer is not None and j is not None


@settings(max_examples=10)
@given(
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1, 3, 5]),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_padded_contractions(n, k, padding):
    before = matmul(n=n, k=k, m=5)
    sch = Schedule(before)
    sch.pad_einsum("C", padding)
    check(before, sch, machine=False)


PACKED = """
@T.prim_func
def main(a: T.handle, W: T.Buffer((3, 4, 2), "int32"), c: T.handle):
    n, k = T.int32(), T.int32()
    A = T.match_buffer(a, (n, k), "int32")
    C = T.match_buffer(c, (n, 5), "int32")
    for i, j, r in T.grid(n, 5, k):
        with T.sblock("C"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vr] * W[vj // 2, vr, vj % 2]
"""


@pytest.mark.parametrize(("n", "k"), [(3, 4), (1, 2), (0, 4), (2, 0)])
def test_packed_weights_are_wide_enough_however_long_the_sum_is(n, k):
    """Only the dimensions that the padded axis indexes matter; the length of the sum is the data's own."""
    before = from_source(PACKED)
    sch = Schedule(before)
    assert len(sch.pad_einsum("C", [2, 2, 1])) == 2  # the data and the result
    rng = np.random.default_rng()
    a, w = (rng.integers(-9, 9, shape, "int32") for shape in ((n, k), (3, 4, 2)))
    results = [np.full((n, 5), 7, "int32") for _ in range(2)]
    for func, found in zip((before, sch.func), results, strict=True):
        run_primfunc(func, a, w, found)
    np.testing.assert_array_equal(*results)


def _mixed(sch):
    sch.transform_block_layout("C", lambda i, j, r: (i, j * 6 + r))


WRONG = {
    "two blocks": (
        lambda s: s.blockize(s.merge(s.get_loops("C")[0], s.get_loops("D")[0])),
        "T0414",
        "2 blocks",
    ),
    "no blocks": (lambda s: s.blockize([]), "T0414", "expected blocks"),
    "axes of both kinds": (_mixed, "T0416", "mixes spatial and reduction"),
    "no bijection": (lambda s: s.transform_block_layout("D", lambda i, j: (i, j // 2)), "T0416", "bijection"),
    "too few axes": (lambda s: s.transform_block_layout("D", lambda i: (i,)), "T0416", "2 axes"),
    "no order": (lambda s: s.reorder_block_iter_var("D", [0, 0]), "T0416", "no order"),
    "no padding": (lambda s: s.decompose_padding("D", s.get_loops("D")[0]), "T0417", "under a condition"),
    "other loop": (lambda s: s.decompose_padding("D", s.get_loops("C")[0]), "T0417", "not around"),
    "no intrinsic": (lambda s: s.tensorize(s.get_loops("D")[1], "test.nothing"), "T0423", "test.nothing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_primitive_that_does_not_apply_says_why(name):
    action, code, text = WRONG[name]
    sch = Schedule(matmul(n=7))
    with pytest.raises(HeddleError) as caught:
        action(sch)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_axes_that_do_not_divide():
    sch = Schedule(matmul(n=6, m=8))
    fused = sch.fuse(*sch.get_loops("D"))
    _, inner = sch.split(fused, [None, 5])
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(inner)
    assert caught.value.code == "T0414"
    assert "'D'" in str(caught.value)


def test_a_window_is_no_padding():
    sch = Schedule(window())
    assert not sch.can_decompose_padding("E", sch.get_loops("E")[0])
    assert np.isfinite(interpreted(sch.func, 0)).all()


def test_a_reduction_axis_that_indexes_nothing_is_not_padded():
    sch = Schedule(window(n=4, size=1))
    sch.transform_block_layout("G", lambda i, j, r: (r, j, i))
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("G", [2, 1, 1])
    assert caught.value.code == "T0410"


def test_initialisation_stays_under_the_guard():
    """Iterations beyond the guard must not reset a result that was computed before."""
    before = matmul(n=5)
    sch = Schedule(before)
    unit = sch.add_unit_loop(sch.get_loops("C")[2])
    sch.split(unit, [1, 2])
    check(before, sch)


@pytest.mark.parametrize("first", [1, 3, 8])
def test_decomposed_padding_of_a_part_of_a_loop(first):
    """The loop does not begin at 0."""
    before = padded(n=7, low=2, high=1)
    sch = Schedule(before)
    sch.loop_partition(sch.get_loops("P")[0], [first, None])
    for block in ("P", "P_1"):
        sch.decompose_padding(block, sch.get_loops(block)[0])
    check(before, sch)


READ_WHERE = """
@T.prim_func
def main(A: T.Buffer((5, 3), "float32"), C: T.Buffer((5, 3), "float32")):
    for i, j in T.grid(5, 3):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(A[vi, vj] > T.float32(0), A[vi, vj], T.float32(4))
"""


@pytest.mark.parametrize("factor", [2, 7])
def test_a_guard_stands_before_a_condition_that_reads_elements(factor):
    """What the condition reads is there only where the guard of a ragged split holds."""
    before = from_source(READ_WHERE)
    sch = Schedule(before)
    sch.decompose_padding("C", sch.get_loops("C")[0])
    sch.split(sch.get_loops("C")[0], [None, factor])
    check(before, sch)


def test_the_init_of_a_block_around_knows_no_reduction_axis():
    """The sum has one step, whose condition then speaks of the outer axis."""
    body = nest("C", "i S 5, r R 1", "C[vi] = C[vi] + A[vi, vr]", "C[vi] = T.float32(2)", "r < 2")
    before = written("A: 5, 1; C: 5", body)
    sch = Schedule(before)
    sch.blockize(sch.get_loops("C")[1])
    check(before, sch)


def test_the_init_keeps_a_condition_on_a_loop_of_one_turn():
    """Rows in tiles of 3, of which there is one row in one tile."""
    axes, init = "r R 4, i S 1, j S 5", "C[vi, vj] = T.float32(0)"
    before = written("A: 1, 5; C: 1, 5", nest("C", axes, "C[vi, vj] = C[vi, vj] + A[vi, vj]", init))
    sch = Schedule(before)
    sch.tile_rows("C", 1, 3)
    sch.blockize(sch.get_loops("C")[1])
    check(before, sch)


def test_a_block_that_its_loops_run_again_has_no_init_of_its_own():
    body = nest("C", "i S 5, r R 4", "C[vi] = C[vi] + A[vi, vr]", "C[vi] = T.float32(2)", again=3)
    sch = Schedule(written("A: 5, 4; C: 5", body))
    with pytest.raises(ScheduleError, match="T0414"):
        sch.blockize(sch.get_loops("C")[0])


SHORT_AXIS = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, c: T.handle):
        n = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, T.min(n, MOST)), "float32")
        C = T.match_buffer(c, (n, T.min(n, MOST)), "float32")
        E = T.sblock_alloc_buffer((n, T.min(n, MOST)), "float32")
        for i, j in T.grid(n, T.min(n, MOST)):
            with T.sblock("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, 0] = A[vi, vj] * 2.0
        for i, j in T.grid(n, T.min(n, MOST)):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = E[vi, INDEX] + 1.0
"""


@pytest.mark.parametrize("index", ["0", "vj"])
def test_an_axis_of_one_point_at_most_is_0_where_its_block_is_inlined(index):
    """However its size is written: the axis of a size known to be 1 is 0 everywhere already."""
    before = from_source(SHORT_AXIS.replace("MOST", "1").replace("INDEX", index))["main"]
    sch = Schedule(before)
    sch.compute_inline("E")
    assert [block.name for block in sch.blocks()] == ["C"]
    check(before, sch)


def test_an_axis_of_two_points_must_be_in_the_index_of_an_inlined_block():
    sch = Schedule(from_source(SHORT_AXIS.replace("MOST", "2").replace("INDEX", "0"))["main"])
    with pytest.raises(ScheduleError, match="does not index its buffer by its axes"):
        sch.compute_inline("E")
