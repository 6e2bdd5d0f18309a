"""Default schedules: the right rule fits, and the scheduled function computes the same, also as machine
code."""

import numpy as np
import pytest

from heddle import te
from heddle.codegen import build
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.prim import intrinsics as prim
from heddle.prim.nodes import SizeVar, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import if_then_else
from heddle.runtime import tensor
from heddle.runtime.native.library import set_num_threads
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule
from heddle.tir.schedule.rules import transpose as transpose_rule
from heddle.tir.schedule.rules.rule import block_of, inline_maps
from tests.unit.schedule.programs import chain

TARGET = Target("llvm")


def dim(value: int):
    return constant(value, "int64")


def size(value):
    return SizeVar(value) if isinstance(value, str) else dim(value)


def matmul(n, k, m, epilogue=True):
    A, B = te.placeholder((size(n), size(k)), name="A"), te.placeholder((size(k), size(m)), name="B")
    r = te.reduce_axis((dim(0), A.shape[1]), name="r")
    C = te.compute((A.shape[0], B.shape[1]), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    if not epilogue:
        return te.create_prim_func([A, B, C])
    D = te.compute(C.shape, lambda i, j: prim.tanh(C[i, j]) + A[i, 0], name="D")
    return te.create_prim_func([A, B, D])


def batched(b, n, k, m):
    A = te.placeholder((size(b), size(n), size(k)), name="A")
    B = te.placeholder((A.shape[0], A.shape[2], size(m)), name="B")
    r = te.reduce_axis((dim(0), A.shape[2]), name="r")
    C = te.compute(
        (*A.shape[:2], B.shape[2]), lambda b, i, j: te.sum(A[b, i, r] * B[b, r, j], axis=r), name="C"
    )
    return te.create_prim_func([A, B, C])


def conv(channels, side, filters, kernel, stride=1, pad=1, packed=16):
    X = te.placeholder((dim(1), dim(channels), dim(side), dim(side)), name="X")
    W = te.placeholder(
        (dim(filters // packed), dim(channels), dim(kernel), dim(kernel), dim(packed)), name="W"
    )
    edge = side + 2 * pad
    P = te.compute(
        (dim(1), dim(channels), dim(edge), dim(edge)),
        lambda n, c, y, x: if_then_else(
            all_of(y >= pad, y < side + pad, x >= pad, x < side + pad), X[n, c, y - pad, x - pad], 0.0
        ),
        name="pad",
    )
    out = (edge - kernel) // stride + 1
    rc, ry, rx = (
        te.reduce_axis((dim(0), dim(e)), name=f"r{k}") for k, e in enumerate((channels, kernel, kernel))
    )
    C = te.compute(
        (dim(1), dim(filters), dim(out), dim(out)),
        lambda n, f, y, x: te.sum(
            P[n, rc, y * stride + ry, x * stride + rx] * W[f // packed, rc, ry, rx, f % packed],
            axis=[rc, ry, rx],
        ),
        name="conv",
    )
    D = te.compute(C.shape, lambda *i: prim.abs(C[i]), name="D")
    return te.create_prim_func([X, W, D])


def softmax(n, m):
    A = te.placeholder((size(n), size(m)), name="A")
    r, s = (te.reduce_axis((dim(0), A.shape[1]), name=name) for name in "rs")
    high = te.compute((A.shape[0],), lambda i: te.max(A[i, r], axis=r), name="high")
    exps = te.compute(A.shape, lambda i, j: prim.exp(A[i, j] - high[i]), name="exps")
    total = te.compute((A.shape[0],), lambda i: te.sum(exps[i, s], axis=s), name="total")
    out = te.compute(A.shape, lambda i, j: exps[i, j] / total[i], name="out")
    return te.create_prim_func([A, out])


def pooling():
    X = te.placeholder((dim(2), dim(3), dim(9), dim(11)), name="X")
    ry, rx = (te.reduce_axis((dim(0), dim(3)), name=name) for name in ("ry", "rx"))
    P = te.compute(
        (dim(2), dim(3), dim(4), dim(5)),
        lambda n, c, y, x: te.max(X[n, c, y * 2 + ry, x * 2 + rx], axis=[ry, rx]),
        name="P",
    )
    return te.create_prim_func([X, P])


def mean_of_all(n, m):
    """A reduction to a scalar, and a map of no dimensions."""
    A = te.placeholder((size(n), size(m)), name="A")
    i, j = (te.reduce_axis((dim(0), A.shape[axis]), name=f"r{axis}") for axis in (0, 1))
    total = te.compute((), lambda: te.sum(A[i, j], axis=[i, j]), name="total")
    out = te.compute((), lambda: total[()] / 7.0, name="out")
    return te.create_prim_func([A, out])


def transpose(n, m):
    A = te.placeholder((size(n), size(m)), name="A")
    B = te.compute((A.shape[1], A.shape[0]), lambda i, j: A[j, i] * 2.0, name="B")
    return te.create_prim_func([A, B])


def times_itself(n):
    side = size(n)
    A = te.placeholder((side, side), name="A")
    r = te.reduce_axis((dim(0), A.shape[1]), name="r")
    C = te.compute(A.shape, lambda i, j: te.sum(A[i, r] * A[r, j], axis=r), name="C")
    return te.create_prim_func([A, C])


def sum_of_rows(n, rows, m):
    A = te.placeholder((size(n), size(rows), size(m)), name="A")
    r = te.reduce_axis((dim(0), A.shape[1]), name="r")
    C = te.compute((A.shape[0], A.shape[2]), lambda i, j: te.sum(A[i, r, j], axis=r), name="C")
    return te.create_prim_func([A, C])


def scaled(*shape):
    A = te.placeholder(tuple(map(size, shape)), name="A")
    return te.create_prim_func([A, te.compute(A.shape, lambda *i: A[i] * 2.0, name="B")])


def attention(kind, b=2, n=9, k=5, t=11, m=6):
    """Products, a pass over rows, products; `kind` says what else."""
    Q = te.placeholder((size(b), size(n), size(k)), name="Q")
    K = te.placeholder(
        (size(b), size(t), size(k)) if kind == "keys" else (size(b), size(k), size(t)), name="K"
    )
    V = te.placeholder((size(b), size(t), size(m)), name="V")
    keys = te.compute((size(b), size(k), size(t)), lambda b, i, j: K[b, j, i]) if kind == "keys" else K
    S = product_of(Q, keys, "S")
    P = across_rows(S) if kind == "columns" else along_rows(S)
    O = product_of(P, te.compute(V.shape, lambda *i: V[i] + 1.0) if kind == "values" else V, "O")
    if kind == "weights":
        return te.create_prim_func([Q, K, V, P, O])
    if kind == "two results":
        others = [
            te.compute(O.shape, lambda *i, f=f: f(O[i]), name=f.__name__) for f in (prim.tanh, prim.exp)
        ]
        return te.create_prim_func([Q, K, V, *others])
    if kind == "one of two reversed":
        back = te.compute(O.shape, lambda b, i, j: O[b, n - 1 - i, j], name="back")
        return te.create_prim_func([Q, K, V, te.compute(O.shape, lambda *i: prim.tanh(O[i])), back])
    if kind == "reversed":
        return te.create_prim_func([Q, K, V, te.compute(O.shape, lambda b, i, j: O[b, n - 1 - i, j])])
    return te.create_prim_func([Q, K, V, O])


def product_of(A, B, name):
    r = te.reduce_axis((dim(0), A.shape[2]), name=f"r_{name}")
    shape = (A.shape[0], A.shape[1], B.shape[2])
    return te.compute(shape, lambda b, i, j: te.sum(A[b, i, r] * B[b, r, j], axis=r), name=name)


def along_rows(S):
    k, r = (te.reduce_axis((dim(0), S.shape[2]), name=name) for name in ("k", "l"))
    M = te.compute(S.shape[:2], lambda b, i: te.max(S[b, i, k], axis=k), name="M")
    E = te.compute(S.shape, lambda b, i, j: prim.exp(S[b, i, j] - M[b, i]), name="E")
    Z = te.compute(S.shape[:2], lambda b, i: te.sum(E[b, i, r], axis=r), name="Z")
    return te.compute(S.shape, lambda b, i, j: E[b, i, j] / Z[b, i], name="P")


def across_rows(S):
    k = te.reduce_axis((dim(0), S.shape[1]), name="k")
    M = te.compute((S.shape[0], S.shape[2]), lambda b, j: te.max(S[b, k, j], axis=k), name="M")
    return te.compute(S.shape, lambda b, i, j: S[b, i, j] - M[b, j], name="P")


SIZES = (
    {"n": 1, "k": 3, "m": 2, "b": 1},
    {"n": 7, "k": 5, "m": 19, "b": 2},
    {"n": 9, "k": 4, "m": 33, "b": 1},
)
CASES = {
    "matmul symbolic rows": (lambda: matmul("n", 20, 48), "Contraction"),
    "matmul symbolic everything": (lambda: matmul("n", "k", "m"), "Contraction"),
    "matmul without epilogue": (lambda: matmul("n", 7, 33, epilogue=False), "Contraction"),
    "matmul of primes": (lambda: matmul(13, 11, 17), "Contraction"),
    "matmul of one column": (lambda: matmul("n", 9, 1), "RowPass"),
    "batched": (lambda: batched("b", "n", 5, "m"), "Contraction"),
    "conv 3x3": (lambda: conv(2, 5, 16, 3), "Contraction"),
    "conv strided": (lambda: conv(2, 7, 16, 3, stride=2), "Contraction"),
    "conv 1x1 without padding": (lambda: conv(3, 4, 16, 1, pad=0, packed=8), "Contraction"),
    "softmax": (lambda: softmax("n", "m"), "RowPass"),
    "pooling": (pooling, "SlidingWindow"),
    "mean of all": (lambda: mean_of_all("n", "m"), "RowPass"),
    "mean of all, static": (lambda: mean_of_all(5, 33), "RowPass"),
    "transpose": (lambda: transpose("n", "m"), "Transpose"),
    "a matrix times itself": (lambda: times_itself(32), "Contraction"),
    "a matrix times itself, with edges": (lambda: times_itself("n"), "RowPass"),
    "sum of one row": (lambda: sum_of_rows(3, 1, 80), "RowPass"),
    "sum of rows": (lambda: sum_of_rows("n", 9, 66), "RowPass"),
    "no columns": (lambda: scaled(5, 17, 0), "Elementwise"),
    "no rows": (lambda: scaled(0, 3, 40), "Elementwise"),
    "attention": (lambda: attention(""), "Attention"),
    "attention that transposes keys": (lambda: attention("keys"), "RowPass"),
    "attention that maps values": (lambda: attention("values"), "RowPass"),
    "attention that gives its weights": (lambda: attention("weights"), "RowPass"),
    "a pass over columns between products": (lambda: attention("columns"), "RowPass"),
    "attention with two maps": (lambda: attention("two results"), "Attention"),
    "attention with two maps, ragged": (lambda: attention("two results", 1, 50, 5, 33, 19), "Attention"),
    "attention that a map reads backwards": (lambda: attention("one of two reversed", 1, 50), "RowPass"),
    "attention with two maps, free": (lambda: attention("two results", 2, "n", 5, "m", 6), "Attention"),
    "attention read backwards": (lambda: attention("reversed"), "RowPass"),
}


def arrays_for(func, sizes):
    rng = np.random.default_rng(7)
    return [
        rng.standard_normal(
            tuple(d.value if hasattr(d, "value") else sizes[d.name] for d in buffer.shape)
        ).astype("f4")
        for buffer in func.buffers
    ]


@pytest.mark.parametrize("name", CASES)
def test_scheduled_functions_compute_the_same(name):
    make, rule = CASES[name]
    func = make()
    scheduled = ApplyDefaultSchedule(TARGET)(IRModule(Map({GlobalVar("main"): func})))["main"]
    assert scheduled.attrs.schedule_rule == rule
    kernel = build(scheduled, TARGET)["main"]
    is_static = all(hasattr(d, "value") for buffer in func.buffers for d in buffer.shape)
    for sizes in SIZES[:1] if is_static else SIZES:
        expected, interpreted, compiled = (arrays_for(func, sizes) for _ in range(3))
        run_primfunc(func, *expected)
        run_primfunc(scheduled, *interpreted)
        tensors = [tensor(array) for array in compiled]
        kernel(*tensors)
        for array, of_loops, of_kernel in zip(expected, interpreted, tensors, strict=True):
            np.testing.assert_allclose(of_loops, array, rtol=2e-4, atol=1e-5)
            np.testing.assert_allclose(of_kernel.numpy(), array, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("rows", ["n", 5, 1])
def test_one_division_serves_all_rows(rows):
    """B = A * (1 / c), where c is of the columns alone: there is something to share where rows are many."""
    A, c = te.placeholder((size(rows), dim(24)), name="A"), te.placeholder((dim(24),), name="c")
    inverse = te.compute(c.shape, lambda j: 1.0 / c[j], name="inverse")
    func = te.create_prim_func([A, c, te.compute(A.shape, lambda i, j: A[i, j] * inverse[j], name="B")])
    scheduled = ApplyDefaultSchedule(TARGET)(IRModule(Map({GlobalVar("main"): func})))["main"]
    assert scheduled.attrs.schedule_rule == "Elementwise"
    names = [handle.name for handle in Schedule(scheduled).blocks()]
    assert names == (["B"] if rows == 1 else ["inverse", "B"])
    expected, found = (arrays_for(func, {"n": 7}) for _ in range(2))
    run_primfunc(func, *expected)
    run_primfunc(scheduled, *found)
    np.testing.assert_allclose(found[-1], expected[-1], rtol=1e-6)


def test_rules_that_inline_the_same_blocks_do_it_once():
    func = chain()
    first, second = Schedule(func), Schedule(func)
    inline_maps(first)
    inline_maps(second)
    assert [handle.name for handle in first.blocks()] == ["G"]
    assert first.func is second.func
    assert str(first.trace) == str(second.trace) != str(Schedule(func).trace)


def test_results_do_not_depend_on_the_number_of_threads():
    from_threads = []
    func = ApplyDefaultSchedule(TARGET)(IRModule(Map({GlobalVar("main"): softmax("n", "m")})))["main"]
    kernel = build(func, TARGET)["main"]
    for threads in (1, 2):
        set_num_threads(threads)
        given = arrays_for(func, {"n": 301, "m": 517})
        tensors = [tensor(array) for array in given]
        kernel(*tensors)
        from_threads.append(tensors[-1].numpy().copy())
    assert np.array_equal(from_threads[0], from_threads[1])


def scaled_by_channel(index):
    """A map over (n, c / 16, y, x, c % 16) that reads a value for each channel."""
    X = te.placeholder((dim(1), dim(4), dim(6), dim(6), dim(16)), name="X")
    scale = te.placeholder((dim(1), dim(64), dim(1), dim(1)), name="scale")
    Y = te.compute(X.shape, lambda n, o, y, x, i: X[n, o, y, x, i] * scale[0, index(o, i), 0, 0], name="Y")
    return te.create_prim_func([X, scale, te.compute(Y.shape, lambda *i: Y[i] + 1.0, name="Z")])


@pytest.mark.parametrize(
    ("index", "asks"),
    [
        (lambda o, i: o * 16 + i, False),
        (lambda o, i: i * 4 + o, True),
        (lambda o, i: o * 16 + (15 - i), True),
    ],
    ids=["in order", "apart", "backwards"],
)
def test_maps_that_read_in_order_are_not_inlined_to_look_for_a_transpose(monkeypatch, index, asks):
    asked = []
    monkeypatch.setattr(transpose_rule, "inline_maps", lambda sch: (asked.append(sch), inline_maps(sch)))
    assert transpose_rule.Transpose().apply(Schedule(scaled_by_channel(index)), TARGET) is None
    assert bool(asked) == asks


def test_rows_that_slide_are_read_in_order():
    """x[i + j] moves along j as the result does."""
    X = te.placeholder((dim(80),), name="X")
    func = te.create_prim_func([X, te.compute((dim(16), dim(64)), lambda i, j: X[i + j], name="Y")])
    sch = Schedule(func)
    assert transpose_rule.transposed_axes(block_of(sch, sch.blocks()[0])) is None
