"""Counts of arithmetic and accesses, against counts by hand and by the loop interpreter's reach."""

from __future__ import annotations

import random

import pytest

import heddle
from heddle.ir.module import IRModule
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.size_text import size_text
from heddle.runtime.size_text import evaluate_size
from heddle.script import tir as T
from heddle.support.diagnostics import UsageError
from heddle.tir.analysis.work import estimate_tir_flops, work_of


@T.prim_func
def matmul_relu(a: T.handle, b: T.Buffer((64, 32), "float32"), c: T.handle):
    n = T.int64(is_size_var=True)
    A = T.match_buffer(a, (n, T.int64(64)), "float32")
    C = T.match_buffer(c, (n, T.int64(32)), "float32")
    D = T.alloc_buffer((n, T.int64(32)), "float32")
    for i, j, k in T.grid(n, T.int64(32), T.int64(64)):
        with T.sblock("mm"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * b[vk, vj]
    for i, j in T.grid(n, T.int64(32)):
        with T.sblock("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(D[vi, vj], T.float32(0))


@T.prim_func
def triangle(a: T.Buffer((16,), "float32")):
    for i in range(16):
        for k in range(i + 1):
            a[i] = a[i] + a[k]


@T.prim_func
def branches(a: T.Buffer((16,), "float32"), b: T.Buffer((18,), "float32")):
    for i in range(16):
        if i % 2 == 0:
            a[i] = b[i]
        else:
            if i % 3 == 0:
                a[i] = b[i + 1] + b[i + 2]


@T.prim_func
def bound_index(a: T.Buffer((16,), "float32")):
    for i in range(8):
        j = i + 8
        a[j] = a[i]


@T.prim_func
def stated(a: T.Buffer((16,), "float32")):
    T.func_attr({"estimated_flops": 32})
    for i in range(16):
        a[i] = a[i] + T.float32(1)


@T.prim_func
def forever(a: T.Buffer((1,), "int32")):
    while a[0] < 10:
        a[0] = a[0] + 1


@T.prim_func
def gather(t: T.Buffer((1000, 4), "float32"), i: T.Buffer((3,), "int64"), o: T.Buffer((3, 4), "float32")):
    for r, c in T.grid(3, 4):
        with T.sblock("take"):
            vr, vc = T.axis.remap("SS", [r, c])
            o[vr, vc] = t[i[vr], vc]


def test_symbolic_sizes_stay_symbolic():
    flops = estimate_tir_flops(matmul_relu)
    assert isinstance(flops, PrimExpr)
    n = random.randrange(1, 1000)
    text = size_text(flops, lambda var: var.name)
    assert evaluate_size(text, {"n": n}) == n * 32 * 64 * 2 + n * 32


@pytest.mark.parametrize(
    ("func", "expected"),
    # a triangle counts as the square around it; of two branches the dearer counts; an index that is bound
    # to a name is arithmetic, an index inside brackets is not
    [(triangle, 256), (branches, 16), (bound_index, 8), (stated, 32), (gather, 0)],
)
def test_counts(func, expected):
    assert estimate_tir_flops(IRModule.from_expr(func.with_attr("global_symbol", "main"))) == expected


def test_the_public_names():
    assert heddle.tir.analysis.estimate_tir_flops is heddle.s_tir.analysis.estimate_tir_flops
    both = IRModule({"a": stated, "b": branches})
    assert heddle.tir.analysis.estimate_tir_flops(both) == 48


def test_data_dependent_work_is_refused():
    with pytest.raises(UsageError, match="T0701"):
        estimate_tir_flops(forever)


def test_accesses_are_counted_by_buffer():
    work = work_of(gather)
    reads = {buffer.name: int(count) for buffer, count in work.reads.items()}
    writes = {buffer.name: int(count) for buffer, count in work.writes.items()}
    assert reads == {"t": 12, "i": 12}
    assert writes == {"o": 12}


def test_size_text_means_the_same_as_the_expression():
    n, m = SizeVar("n"), SizeVar("m")
    rng = random.Random()

    def grow(depth: int):
        if depth == 0:
            return rng.choice([n, m, n * 1, m + rng.randrange(1, 9)])
        a, b = grow(depth - 1), grow(depth - 1)
        kind = rng.randrange(7)
        return [
            lambda: a + b,
            lambda: a - b,
            lambda: a * b,
            lambda: a // 3,
            lambda: a % 5,
            lambda: T.min(a, b),
            lambda: T.max(a, b),
        ][kind]()

    for _ in range(200):
        expr = grow(3)
        values = {"n": rng.randrange(1, 50), "m": rng.randrange(1, 50)}
        text = size_text(expr, lambda var: var.name)
        expected = int(evaluate(expr, {n: values["n"], m: values["m"]}))
        assert evaluate_size(text, values) == expected, text


def test_what_is_no_size_has_no_text():
    x = PrimVar("x", "float32")
    assert size_text(x + 1.5, lambda var: var.name) is None
    assert size_text(SizeVar("n"), {}) is None
