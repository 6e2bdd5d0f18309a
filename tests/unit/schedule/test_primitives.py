"""Schedule primitives: each keeps what the program computes, shown by running before and after."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle import te
from heddle.driver.stages import stage_text
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.prim import intrinsics as prim
from heddle.prim.nodes import SizeVar, constant
from heddle.prim.ops import if_then_else
from heddle.script import check_round_trip
from heddle.support.diagnostics import HeddleError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.verify import verify_prim_func


def dim(value: int):
    return constant(value, "int64")


def matmul_bias(n=None, k: int = 6, m: int = 8):
    """D = A @ B + bias, with n symbolic unless given."""
    rows = SizeVar("n") if n is None else dim(n)
    A = te.placeholder((rows, dim(k)), name="A")
    B = te.placeholder((dim(k), dim(m)), name="B")
    bias = te.placeholder((dim(m),), name="bias")
    r = te.reduce_axis((dim(0), dim(k)), name="r")
    C = te.compute((rows, dim(m)), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias[j], name="D")
    return te.create_prim_func([A, B, bias, D])


def chain():
    """E = exp(A); F = E shifted by one row; G = F + E."""
    n = SizeVar("n")
    A = te.placeholder((n, dim(5)), name="A")
    E = te.compute(A.shape, lambda i, j: prim.exp(A[i, j]), name="E")
    F = te.compute(A.shape, lambda i, j: if_then_else(i > 0, E[i - 1, j], 0.0), name="F")
    G = te.compute(A.shape, lambda i, j: F[i, j] + E[i, j], name="G")
    return te.create_prim_func([A, G])


def run(func, n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in func.buffers:
        shape = tuple(n if not hasattr(d, "value") else d.value for d in buffer.shape)
        arrays.append(rng.standard_normal(shape).astype("float32"))
    arrays[-1][...] = np.nan
    run_primfunc(func, *arrays)
    return arrays[-1]


def check(before, sch: Schedule, sizes=(0, 1, 3, 4, 7, 8)):
    """The scheduled function verifies, round-trips and computes the same."""
    mod = IRModule.from_expr(sch.func)
    assert verify_prim_func(sch.func, mod) == []
    assert check_round_trip(mod) is None
    for n in sizes:
        np.testing.assert_allclose(run(sch.func, n), run(before, n), rtol=1e-5, atol=1e-6)


@given(st.integers(1, 9), st.integers(1, 9))
def test_split_covers_every_iteration_once(outer, inner):
    before = matmul_bias()
    sch = Schedule(before)
    i, j, _r = sch.get_loops("C")
    sch.split(i, [None, inner])
    sch.split(j, [outer, None])
    check(before, sch, sizes=(1, 5))


def test_three_way_split_fuse_and_reorder():
    before = matmul_bias()
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    i0, i1, i2 = sch.split(i, [None, 2, 2])
    sch.reorder(i0, r, i1, j, i2)
    fused = sch.fuse(i1, j)
    assert sch.get(fused).extent is not None
    check(before, sch)


def test_fuse_over_a_symbolic_extent():
    before = matmul_bias()
    sch = Schedule(before)
    i, j, _r = sch.get_loops("C")
    sch.fuse(i, j)
    check(before, sch)


def test_inline_into_consumers_and_producer():
    before = chain()
    sch = Schedule(before)
    sch.compute_inline("F")
    assert [b.name for b in sch.blocks()] == ["E", "G"]
    check(before, sch)
    other = Schedule(matmul_bias())
    with pytest.raises(ScheduleError) as caught:
        other.reverse_compute_inline("D")
    assert caught.value.code == "T0406"
    third = Schedule(before)
    third.compute_inline("E")
    third.reverse_compute_inline("G")
    check(before, third)


def test_compute_at_takes_the_region_that_is_read():
    before = chain()
    sch = Schedule(before)
    sch.compute_inline("F")
    i, _j = sch.get_loops("G")
    i0, _i1 = sch.split(i, [None, 3])
    sch.compute_at("E", i0)
    check(before, sch)


def test_reverse_compute_at_and_decompose():
    before = matmul_bias()
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 3])
    sch.reorder(i0, j0, r, i1, j1)
    sch.reverse_compute_at("D", j0)
    init = sch.decompose_reduction("C", r)
    assert init.name == "C_init"
    check(before, sch)


def test_caches_and_scopes():
    before = matmul_bias()
    sch = Schedule(before)
    read = sch.cache_read("C", 0, "local")
    write = sch.cache_write("C", 0, "local")
    sch.set_scope("C", 0, "local")
    i = sch.get_loops("C")[0]
    sch.reverse_compute_at(write, i)
    sch.compute_at(read, i)
    check(before, sch)


def test_pad_einsum_makes_tiles_whole():
    before = matmul_bias(m=7)
    sch = Schedule(before)
    pads = sch.pad_einsum("C", [4, 4, 4])
    assert len(pads) == 3
    check(before, sch)


@given(st.sampled_from([2, 3]), st.integers(-3, 2), st.booleans())
def test_rfactor_splits_a_reduction(factor, axis, inner):
    before = matmul_bias()
    sch = Schedule(before)
    outer_loop, inner_loop = sch.split(sch.get_loops("C")[2], [None, factor])
    partial = sch.rfactor(inner_loop if inner else outer_loop, axis)
    check(before, sch, sizes=(0, 1, 4))
    sch.set_scope(partial, 0, "local")
    sch.compute_at(partial, sch.get_loops("C")[-1])
    check(before, sch, sizes=(0, 1, 4))


def test_rfactor_needs_a_reduction_loop():
    sch = Schedule(matmul_bias())
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(sch.get_loops("C")[0], 0)
    assert caught.value.code == "T0412"
    r = sch.get_loops("C")[2]
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(r, 5)
    assert "rank 2" in str(caught.value)


def test_clamped_padding_reads_rows_in_place():
    before = matmul_bias()
    sch = Schedule(before)
    rows, _ = sch.pad_einsum("C", [4, 1, 1])
    sch.clamp_padding(rows)
    sch.compute_inline(rows)
    assert "if_then_else" not in str(sch.func)
    check(before, sch)


def test_padding_of_a_reduction_axis_is_no_mere_padding():
    """Zeros along the reduction axis are summed up; copies of the last element would be counted twice."""
    sch = Schedule(matmul_bias())
    pad = sch.pad_einsum("C", [1, 1, 4])[0]
    with pytest.raises(ScheduleError) as caught:
        sch.clamp_padding(pad)
    assert caught.value.code == "T0411"


def test_prefetch_changes_no_result():
    before = matmul_bias()
    sch = Schedule(before)
    sch.prefetch("C", 1, sch.get_loops("C")[0], lambda i: (i + 1, 0))
    assert "prefetch" in str(sch.func)
    check(before, sch)
    with pytest.raises(ScheduleError) as caught:
        sch.prefetch("C", 9, sch.get_loops("C")[0], lambda i: (i, 0))
    assert caught.value.code == "T0408"


def test_prefetches_reach_machine_code():
    sch = Schedule(matmul_bias(n=4))
    sch.prefetch("C", 1, sch.get_loops("C")[0], lambda i: (i + 1, 0))
    assert "prefetch" in stage_text(IRModule.from_expr(sch.func.with_attr("tir.is_scheduled", True)), "asm")


def test_fused_loops_need_no_guard():
    """What `i // m` indexes under a loop of n * m iterations lies inside n, whatever n and m are."""
    n, m = SizeVar("n"), SizeVar("m")
    A = te.placeholder((n, m, dim(4)), name="A")
    B = te.compute(A.shape, lambda i, j, k: A[i, j, k] * 2.0, name="B")
    C = te.compute(A.shape, lambda i, j, k: B[i, j, k] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    i, j, _ = sch.get_loops("C")
    sch.compute_at("B", sch.fuse(i, j))
    assert "T.where" not in str(sch.func)
    array = np.random.default_rng(3).standard_normal((3, 5, 4)).astype("float32")
    made = np.empty_like(array)
    run_primfunc(sch.func, array, made)
    np.testing.assert_allclose(made, array * 2 + 1)


def test_transform_layout_of_a_temporary():
    before = matmul_bias(n=4)
    sch = Schedule(before)
    sch.transform_layout("C", 0, lambda i, j: (j // 2, i, j % 2))
    check(before, sch, sizes=(4,))


def test_kinds_and_annotations():
    sch = Schedule(matmul_bias(n=4))
    i, j, r = sch.get_loops("C")
    sch.parallel(i)
    sch.vectorize(j)
    sch.unroll(r)
    sch.annotate(i, "grain", 8)
    sch.annotate(sch.get_sblock("C"), "note", "x")
    check(matmul_bias(n=4), sch, sizes=(4,))
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(r)
    assert caught.value.code == "T0405"
    assert "CommReduce axis" in str(caught.value)


WRONG = {
    "two open factors": (lambda s: s.split(s.get_loops("C")[0], [None, None]), "T0403"),
    "not nested": (lambda s: s.fuse(s.get_loops("C")[0], s.get_loops("C")[2]), "T0404"),
    "no such block": (lambda s: s.get_sblock("missing"), "T0402"),
    "output inlined": (lambda s: s.compute_inline("D"), "T0406"),
    "reduction inlined": (lambda s: s.compute_inline("C"), "T0406"),
    "no such read": (lambda s: s.cache_read("C", 9, "local"), "T0408"),
    "no init": (lambda s: s.decompose_reduction("D", s.get_loops("D")[0]), "T0409"),
    "symbolic vector": (lambda s: s.vectorize(s.get_loops("D")[0]), "T0405"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_primitive_that_does_not_apply_changes_nothing(name):
    action, code = WRONG[name]
    sch = Schedule(matmul_bias())
    before = sch.func
    with pytest.raises(HeddleError) as caught:
        action(sch)
    assert caught.value.code == code
    assert sch.func is before
    assert "in this function" in str(caught.value)


def test_traces_replay_on_an_equal_function():
    sch = Schedule(matmul_bias())
    i, j, r = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, r, i1)
    sch.reverse_compute_at("D", i0)
    again = Schedule(matmul_bias())
    sch.trace.apply_to_schedule(again)
    assert_structural_equal(sch.func, again.func)
    assert not structural_equal(sch.func, matmul_bias())
    assert "sch.split(" in str(sch.trace)
