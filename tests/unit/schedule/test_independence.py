"""Loops are parallel, vectorised, bound or reordered only where their iterations do not depend on each other,
whatever their axes are called; and what primitives assume of reductions is checked."""

from functools import partial

import numpy as np
import pytest

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import Var
from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule, ScheduleError, independence
from tests.unit.schedule.programs import check, interpreted, matmul
from tests.unit.schedule.test_preconditions import nest, temporaries, written

DEPENDENT = {
    "reads what the iteration before wrote": written(
        "A: 16", nest("C", "i S 15", "A[vi + 1] = A[vi + 1] + A[vi]")
    ),
    "reads what the next one writes": written("A: 16", nest("C", "i S 15", "A[vi] = A[vi + 1]")),
    "writes one element": written("A: 16; C: 1", nest("C", "i S 16", "C[0] = A[vi]")),
    "two iterations write one element": written("A: 16; C: 8", nest("C", "i S 16", "C[vi // 2] = A[vi]")),
    "reads the mirrored element": written("A: 16", nest("C", "i S 16", "A[15 - vi] = A[vi]")),
    "scatters": written("A: 16; I: 16; C: 16", nest("C", "i S 16", "C[T.Cast('int32', I[vi])] = A[vi]")),
    "sums are shifted into each other": written(
        "A: 16, 4; C: 20", nest("C", "i S 16, r S 4", "C[vi + vr] = C[vi + vr] + A[vi, vr]")
    ),
    "runs again what changes in place": written(
        "A: 16; C: 16", nest("C", "i S 16", "C[vi] = C[vi] + A[vi]", again=3)
    ),
    "blocks read each other's rows": written(
        "A: 16; C: 16",
        temporaries("B: 17")
        + "for i in range(16):\n"
        + "    with T.sblock('B'):\n        vi = T.axis.spatial(16, i)\n        B[vi + 1] = A[vi]\n"
        + "    with T.sblock('C'):\n        vi = T.axis.spatial(16, i)\n"
        + "        C[vi] = T.if_then_else(vi > 0, B[vi], T.float32(0))\n",
    ),
}


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "bind"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_iterations_that_depend_on_each_other(name, kind):
    sch = Schedule(DEPENDENT[name])
    loop = sch.get_loops("C")[0]
    with pytest.raises(ScheduleError, match="T0405"):
        sch.bind(loop, "threadIdx.x") if kind == "bind" else getattr(sch, kind)(loop)
    assert sch.func is DEPENDENT[name]


INDEPENDENT = {
    "its own element": written("A: 16; C: 16", nest("C", "i S 16", "C[vi] = C[vi] + A[vi]")),
    "every other element": written("A: 16", nest("C", "i S 8", "A[vi * 2] = A[vi * 2 + 1] + T.float32(1)")),
    "backwards": written("A: 16; C: 16", nest("C", "i S 16", "C[15 - vi] = A[vi]")),
    "rows of a sum": written(
        "A: 16, 4; C: 16",
        nest("C", "i S 16, r R 4", "C[vi] = C[vi] + A[vi, vr]", init="C[vi] = T.float32(0)"),
    ),
    "one iteration": written("A: 16; C: 1", nest("C", "i S 1", "C[0] = A[vi] + C[0]")),
    "the same again": written("A: 16; C: 16", nest("C", "i S 16", "C[vi] = A[vi]", again=3)),
    "rows made in the iteration": written(
        "A: 16; C: 14",
        temporaries("B: 16")
        + "for i in range(14):\n"
        + "    for j in range(3):\n        with T.sblock('B'):\n"
        + "            vi = T.axis.spatial(16, i + j)\n            B[vi] = A[vi] + T.float32(1)\n"
        + "    with T.sblock('C'):\n        vi = T.axis.spatial(14, i)\n        C[vi] = B[vi] + B[vi + 2]\n",
    ),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_iterations_that_do_not(name):
    for kind in ("parallel", "vectorize", "bind"):
        sch = Schedule(INDEPENDENT[name])
        loop = sch.get_loops("C")[0]
        sch.bind(loop, "blockIdx.x") if kind == "bind" else getattr(sch, kind)(loop)
        np.testing.assert_array_equal(interpreted(sch.func, 0), interpreted(INDEPENDENT[name], 0))


ROWS = """@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, C: T.Buffer((1,), "float32")):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(EXTENT):
            with T.sblock("C"):
                vo = T.axis.spatial(1, 0)
                C[vo] = C[vo] + A[vo]
"""


@pytest.mark.parametrize("kind", ["parallel", "bind"])
@pytest.mark.parametrize(
    ("extent", "is_taken"),
    [("T.min(n, 1)", True), ("(T.min(n, 1) + 7) // 8", True), ("T.min(n, 2)", False), ("n", False)],
)
def test_a_loop_of_free_extent_that_runs_once_at_most(extent, is_taken, kind):
    """Its iterations share what it likes: there are no two."""
    sch = Schedule(from_source(ROWS.replace("EXTENT", extent))["main"])
    apply = sch.parallel if kind == "parallel" else partial(sch.bind, thread_axis="blockIdx.x")
    if is_taken:
        apply(sch.get_loops("C")[0])
    else:
        with pytest.raises(ScheduleError, match="T0405"):
            apply(sch.get_loops("C")[0])


@pytest.mark.parametrize("rows", ["n", 12])
@pytest.mark.parametrize("count", [2, 3])
def test_digits_of_a_fused_loop(rows, count):
    before = matmul(rows, 4, 8)
    sch = Schedule(before)
    i, j, r = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, i1, r)
    sch.parallel(sch.fuse(*[i0, j, i1][:count]))
    sch.parallel(sch.fuse(*sch.get_loops("D")))
    check(before, sch, machine=False)


@pytest.mark.parametrize(
    ("digits", "tell"),
    [
        ("f // 6, f // 2 % 3, f % 2", True),
        ("f // 24, f // 6 % 4, f // 2 % 3, f % 2", True),
        ("f // 6, f % 2", False),
        ("f // 6, f // 2 % 2, f % 2", False),
        ("f // 5, f // 2 % 3, f % 2", False),
        ("f // -6, f // 2 % -3, f % 2", False),
        ("f // 6, f // 3 % 3, f % 2", False),
    ],
)
def test_digits_of_several_radices_tell_the_variable(digits, tell):
    f = Var("f", "int64")
    exprs = eval(f"({digits},)", {"f": f})
    assert independence._follows(f, exprs) is tell
    values = {eval(f"({digits},)", {"f": value}) for value in range(-60, 60)}
    assert not tell or len(values) == 120


# ---- orders of loops


def test_loops_that_carry_values_keep_their_order():
    body = nest("C", "i S 7, j S 7", "A[vi + 1, vj] = A[vi, vj + 1] + T.float32(1)")
    before = written("A: 8, 8", body)
    sch = Schedule(before)
    i, j = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="T0404"):
        sch.reorder(j, i)
    assert sch.func is before


def test_a_loop_that_carries_values_may_pass_one_that_does_not():
    before = written("A: 8, 8", nest("C", "i S 7, j S 8", "A[vi + 1, vj] = A[vi, vj] + T.float32(1)"))
    sch = Schedule(before)
    i, j = sch.get_loops("C")
    sch.reorder(j, i)
    np.testing.assert_array_equal(*(_changed(func) for func in (before, sch.func)))


def _changed(func: PrimFunc) -> np.ndarray:
    array = np.arange(64, dtype="float32").reshape(8, 8)
    run_primfunc(func, array)
    return array


# ---- partial results


def _reduced(update: str, init: str, dtype: str = "int32") -> PrimFunc:
    source = f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((3, 8), "{dtype}"), B: T.Buffer((3,), "{dtype}")):
        for i, r in T.grid(3, 8):
            with T.sblock("B"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    B[vi] = {init}
                B[vi] = {update}
"""
    return from_source(source)["main"]


@pytest.mark.parametrize(
    ("update", "init"),
    [
        ("B[vi] + A[vi, vr]", "T.int32(0)"),
        ("B[vi] + A[vi, vr]", "T.int32(1)"),
        ("A[vi, vr] + B[vi]", "A[vi, 0]"),
        ("B[vi] * A[vi, vr]", "T.int32(2)"),
        ("T.max(B[vi], A[vi, vr])", "T.int32(-3)"),
        ("T.min(A[vi, vr], B[vi])", "T.int32(0)"),
        ("T.bitwise_and(B[vi], A[vi, vr])", "T.int32(-1)"),
        ("T.bitwise_or(B[vi], A[vi, vr])", "T.int32(4)"),
        ("T.bitwise_xor(A[vi, vr], B[vi])", "T.int32(7)"),
    ],
)
@pytest.mark.parametrize("inner", [0, 1])
def test_partial_results_begin_with_the_identity(update, init, inner):
    before = _reduced(update, init)
    sch = Schedule(before)
    sch.rfactor(sch.split(sch.get_loops("B")[1], [None, 4])[inner], 0)
    rng = np.random.default_rng(0)
    given = rng.integers(-4, 5, (3, 8)).astype("int32")
    results = [np.zeros(3, "int32"), np.zeros(3, "int32")]
    for func, result in zip((before, sch.func), results, strict=True):
        run_primfunc(func, given, result)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "update",
    [
        "B[vi] - A[vi, vr]",
        "A[vi, vr] - B[vi]",
        "B[vi] + B[vi]",
        "B[vi] + B[vi] * A[vi, vr]",
        "B[vi] // A[vi, vr]",
        "T.if_then_else(A[vi, vr] > 0, A[vi, vr], B[vi])",
        "T.shift_left(B[vi], A[vi, vr])",
    ],
)
def test_reductions_without_partial_results(update):
    before = _reduced(update, "T.int32(0)")
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match="T0412"):
        sch.rfactor(sch.get_loops("B")[1], 0)
    assert sch.func is before


# ---- what random programs showed


@pytest.mark.parametrize(
    "update", ["C[vi] * A[vi, vr]", "T.max(C[vi], A[vi, vr])", "C[vi] + (A[vi, vr] + T.float32(1))"]
)
def test_zeros_of_padding_add_nothing(update):
    body = nest("C", "i S 3, r R 5", f"C[vi] = {update}", init="C[vi] = T.float32(1)")
    sch = Schedule(written("A: 3, 5; C: 3", body))
    with pytest.raises(ScheduleError, match="T0410"):
        sch.pad_einsum("C", [1, 4])


def test_padding_does_not_reach_before_a_buffer():
    body = nest("C", "i S 5, r R 4", "C[vi] = C[vi] + A[4 - vi, vr]", init="C[vi] = T.float32(0)")
    sch = Schedule(written("A: 5, 4; C: 5", body))
    with pytest.raises(ScheduleError, match="T0410"):
        sch.pad_einsum("C", [2, 1])


def test_loops_of_two_dtypes_are_fused():
    body = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, c: T.handle):
        n = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, 3), "float32")
        C = T.match_buffer(c, (n, 3), "float32")
        for j, i in T.grid(3, n):
            with T.sblock("C"):
                vj = T.axis.spatial(3, j)
                vi = T.axis.spatial(n, i)
                C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    before = from_source(body)["main"]
    sch = Schedule(before)
    sch.parallel(sch.fuse(*sch.get_loops("C")))
    check(before, sch, replay=False)


CAST_DIGITS = """
@T.prim_func
def main(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, {count}), "float32")
    for f in range(n * T.int64({count})):
        with T.sblock("C"):
            vi = T.axis.spatial(n, f % n)
            vj = T.axis.spatial({count}, T.Cast("{dtype}", f // n))
            A[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_a_digit_in_a_narrower_type_tells_as_much_if_it_has_room():
    sch = Schedule(from_source(CAST_DIGITS.format(count=100, dtype="int32")))
    sch.parallel(sch.get_loops("C")[0])
    sch = Schedule(from_source(CAST_DIGITS.format(count=1000, dtype="int8")))
    with pytest.raises(ScheduleError, match="T0405"):
        sch.parallel(sch.get_loops("C")[0])


def test_a_prefetch_has_the_indices_of_its_buffer():
    sch = Schedule(matmul(4, 3, 2))
    with pytest.raises(ScheduleError, match="T0416"):
        sch.prefetch("C", 0, sch.get_loops("C")[0], lambda i: (i,))


@pytest.mark.parametrize("rows", [0, "n"])
def test_layouts_and_strides_of_nothing(rows):
    before = matmul(rows, 3, 4)
    sch = Schedule(before)
    sch.transform_layout("C", 0, lambda i, j: (i * 8 + j,), assume_injective_transform=True)
    check(before, sch, machine=False)
    sch = Schedule(before)
    sch.storage_align("C", 0, 0, 8, 1)
    check(before, sch, machine=False)


def test_an_update_may_read_its_result_elsewhere():
    body = nest("C", "i S 4, j S 4, r R 4", "C[vi, vj] = C[vi, vj] + C[vi, vr]", init="C[vi, vj] = A[vi, vj]")
    before = written("A: 4, 4; C: 4, 4", body)
    assert "C" in {
        region.buffer.name for region in Schedule(before).get(Schedule(before).get_sblock("C")).reads
    }
    interpreted(before, 0)


@pytest.mark.parametrize("update", ["C[vi] = C[vi] * T.float32(2)", "C[vi] = C[vi] + A[vi]"])
def test_iterations_that_would_run_twice(update):
    before = written("A: 7; C: 7", nest("C", "i S 7", update))
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match="T0403"):
        sch.split_overlapping(sch.get_loops("C")[0], 4)


def test_an_index_that_data_shifts_is_not_apart():
    """`i + D[3]` moves with the loop only while nothing stores to D."""
    shifted = from_source(
        """
from heddle.script import tir as T
@T.prim_func
def main(A: T.Buffer((32,), "int32"), D: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("first"):
            v = T.axis.spatial(8, i)
            D[v] = D[v] + 1
        with T.sblock("second"):
            w = T.axis.spatial(32, i + D[3])
            A[w] = A[w] + 1
"""
    )
    sch = Schedule(shifted)
    with pytest.raises(ScheduleError, match="T0405"):
        sch.parallel(sch.get_loops("second")[0])


STEPS = {  # the value of an axis, the inner loop that it uses, whether iterations of f are apart
    "tiles": ("f * 3 + j", "0, 3", True),
    "tiles that overlap by one": ("f * 3 + j", "0, 4", False),
    "digits": ("f // 4 * 4 + f % 4", "0, 1", True),
    "a digit alone": ("f // 4 * 4 + j", "0, 4", False),
    "an inner loop that begins elsewhere each time": ("f * 3 + j", "7 - f * 3, 10 - f * 3", False),
    "an inner loop that moves against f": ("f * 3 + j", "0 - f * 3 + 21, 24 - f * 3", False),
}


@pytest.mark.parametrize("name", STEPS)
def test_how_far_an_inner_loop_reaches(name):
    value, bounds, is_apart = STEPS[name]
    func = from_source(
        f"""
from heddle.script import tir as T
@T.prim_func
def main(A: T.Buffer((32,), "int32")):
    for f in range(8):
        for j in range({bounds}):
            with T.sblock("C"):
                v = T.axis.spatial(32, {value})
                A[v] = A[v] * 3 + 1
"""
    )
    sch = Schedule(func)
    loop = sch.get_loops("C")[0]
    if is_apart:
        sch.parallel(loop)
        return
    with pytest.raises(ScheduleError, match="T0405"):
        sch.parallel(loop)


def _comparisons_of_a_fused_map(rank, monkeypatch):
    """How often expressions are compared to see that the fused loop of a map is parallel."""
    sizes = [2, 3, 4, 3, 2, 5, 3, 2][:rank]
    names = [f"i{k}" for k in range(rank)]
    axes = ", ".join("v" + name for name in names)
    shape = ", ".join(map(str, sizes))
    source = (
        "@T.prim_func\n"
        f'def main(A: T.Buffer(({shape}), "float32"), C: T.Buffer(({shape}), "float32")):\n'
        f"    for {', '.join(names)} in T.grid({shape}):\n"
        '        with T.sblock("C"):\n'
        f'            {axes} = T.axis.remap("{"S" * rank}", [{", ".join(names)}])\n'
        f"            C[{axes}] = A[{axes}]\n"
    )
    sch = Schedule(from_source(source))
    fused = sch.fuse(*sch.get_loops("C"))
    count = 0

    def compare(*pair):
        nonlocal count
        count += 1
        return structural_equal(*pair)

    monkeypatch.setattr(independence, "structural_equal", compare)
    sch.parallel(fused)
    return count


def test_the_work_of_looking_at_a_fused_loop_grows_slowly_with_its_rank(monkeypatch):
    """Quotients and remainders are put together from below: guessing divisors took 26 s at rank 8."""
    counts = {rank: _comparisons_of_a_fused_map(rank, monkeypatch) for rank in (4, 8)}
    assert counts[4] > 0
    assert counts[8] <= 20 * counts[4]
