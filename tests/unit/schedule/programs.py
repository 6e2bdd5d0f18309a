"""Programs to schedule, and the check that a scheduled one computes the same: in the loop interpreter, which
also checks bounds and declared regions, and as machine code; and that its trace leads there again."""

from __future__ import annotations

import json

import numpy as np

from heddle import te
from heddle.codegen.build import build
from heddle.codegen.cache import KernelCache
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.prim import intrinsics as prim
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, SizeVar, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import if_then_else
from heddle.prim.substitute import free_vars
from heddle.runtime import tensor
from heddle.script import check_round_trip
from heddle.tir.interpreter import run_primfunc
from heddle.tir.schedule import Schedule, Trace
from heddle.tir.verify import verify_prim_func


def dim(value):
    return SizeVar(value) if isinstance(value, str) else constant(value, "int64")


def matmul(n="n", k=6, m=8):
    """C = A @ B; D = C + bias."""
    rows = dim(n)
    A = te.placeholder((rows, dim(k)), name="A")
    B = te.placeholder((dim(k), dim(m)), name="B")
    bias = te.placeholder((dim(m),), name="bias")
    r = te.reduce_axis((dim(0), dim(k)), name="r")
    C = te.compute((rows, dim(m)), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias[j], name="D")
    return te.create_prim_func([A, B, bias, D])


def chain(n="n", m=5):
    """E = exp(A); F = E * 2; G = F + E."""
    rows = dim(n)
    A = te.placeholder((rows, dim(m)), name="A")
    E = te.compute(A.shape, lambda i, j: prim.exp(A[i, j]), name="E")
    F = te.compute(A.shape, lambda i, j: E[i, j] * 2.0, name="F")
    G = te.compute(A.shape, lambda i, j: F[i, j] + E[i, j], name="G")
    return te.create_prim_func([A, G])


def window(n=9, m=4, size=3):
    """E = A + 1; G[i] = sum of `size` rows of E from i."""
    A = te.placeholder((dim(n), dim(m)), name="A")
    E = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="E")
    r = te.reduce_axis((dim(0), dim(size)), name="r")
    G = te.compute((dim(n - size + 1), dim(m)), lambda i, j: te.sum(E[i + r, j], axis=r), name="G")
    return te.create_prim_func([A, G])


def padded(n=7, m=5, low=1, high=2):
    """P = A with `low` rows of zeros before and `high` after and a column on the left; Q = P * 2."""
    A = te.placeholder((dim(n), dim(m)), name="A")
    rows = A.shape[0]
    shape = (rows + (low + high) if isinstance(n, str) else dim(n + low + high), dim(m + 1))
    P = te.compute(
        shape,
        lambda i, j: if_then_else(all_of(i >= low, i < rows + low, j >= 1), A[i - low, j - 1], 0.0),
        name="P",
    )
    Q = te.compute(shape, lambda i, j: P[i, j] * 2.0, name="Q")
    return te.create_prim_func([A, Q])


def arguments(func, n, seed=0):
    """Random arrays for the buffers of a function, the last of them for its result."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in func.buffers:
        shape = tuple(int(evaluate(d, dict.fromkeys(free_vars(d), n))) for d in buffer.shape)
        arrays.append(rng.standard_normal(shape).astype(buffer.dtype.numpy()))
    arrays[-1][...] = np.nan
    return arrays


def interpreted(func, n):
    arrays = arguments(func, n)
    run_primfunc(func, *arrays)
    return arrays[-1]


def compiled(func):
    """The function as machine code, scheduled as it is."""
    marked = func.with_attr({"tir.is_scheduled": True, "global_symbol": "main"})
    module = build(marked, "llvm", KernelCache(None))

    def run(n):
        arrays = [tensor(array) for array in arguments(func, n)]
        module["main"](*arrays)
        return arrays[-1].numpy()

    return run


def check(before, sch: Schedule, sizes=(0, 1, 3, 7), rtol=1e-5, machine=True, replay=True):
    """The scheduled function is well formed, round-trips, and computes what it did; its trace replays."""
    mod = IRModule.from_expr(sch.func)
    assert verify_prim_func(sch.func, mod) == []
    assert check_round_trip(mod) is None
    run = compiled(sch.func) if machine else None
    symbolic = any(not isinstance(d, IntImm) for buffer in before.buffers for d in buffer.shape)
    for n in sizes if symbolic else (0,):
        wanted = interpreted(before, n)
        np.testing.assert_allclose(interpreted(sch.func, n), wanted, rtol=rtol, atol=1e-6)
        if run is not None:
            np.testing.assert_allclose(run(n), wanted, rtol=rtol, atol=1e-5)
    if replay:
        replays(before, sch)


def replays(before, sch: Schedule):
    """The trace, the simplified trace, and the trace as text all lead to the same program."""
    for trace in (sch.trace, sch.trace.simplified(remove_postproc=False)):
        again = Schedule(before, debug_mask="all")
        trace.apply_to_schedule(again)
        assert_structural_equal(again.mod, sch.mod)
    again = Schedule(before)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.as_python() == sch.trace.as_python()
