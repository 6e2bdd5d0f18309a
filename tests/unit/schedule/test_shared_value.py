"""Inlined values that are used twice: bound once, inside of the branches that need them; results stay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from heddle.ir.visitor import walk
from heddle.prim.nodes import Call, Let
from heddle.script import from_source
from heddle.script import tir as T
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.rules.rule import MAX_COPIED, inline_maps
from heddle.tir.schedule.schedule import Schedule
from heddle.tir.verify import verify_prim_func


def num_lets(func: PrimFunc) -> int:
    return sum(isinstance(node, Let) for node in walk(func.body))


@T.prim_func
def square_of_exp(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.sblock("B"):
            v = T.axis.spatial(7, i)
            B[v] = T.exp(A[v])
    for i in range(7):
        with T.sblock("C"):
            v = T.axis.spatial(7, i)
            C[v] = B[v] * B[v] + T.float32(1)


@T.prim_func
def guarded(A: T.Buffer((7,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.sblock("B"):
            v = T.axis.spatial(7, i)
            B[v] = A[v] * T.float32(3)
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = T.if_then_else(v > 0, B[v - 1] + T.sin(B[v - 1]), T.float32(0))


@T.prim_func
def in_both_branches(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.sblock("B"):
            v = T.axis.spatial(7, i)
            B[v] = A[v] * T.float32(3)
    for i in range(7):
        with T.sblock("C"):
            v = T.axis.spatial(7, i)
            C[v] = T.if_then_else(v > 3, B[v], T.sin(B[v]))


@T.prim_func
def as_index(A: T.Buffer((7,), "int32"), D: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "int32")
    for i in range(7):
        with T.sblock("B"):
            v = T.axis.spatial(7, i)
            B[v] = (A[v] + 1) % 7
    for i in range(7):
        with T.sblock("C"):
            v = T.axis.spatial(7, i)
            C[v] = D[B[v]] * T.Cast("float32", B[v] * B[v])


CASES = {
    "twice": (square_of_exp, 1),
    "guarded": (guarded, 1),
    "both": (in_both_branches, 1),
    "index": (as_index, 1),
}


def results(func: PrimFunc, rng: np.random.Generator) -> np.ndarray:
    arrays = [
        rng.integers(0, 7, [int(d) for d in b.shape]).astype(str(b.dtype))
        if b.dtype.is_int
        else rng.normal(size=[int(d) for d in b.shape]).astype(str(b.dtype))
        for b in func.buffers
    ]
    run_primfunc(func, *arrays)
    return arrays[-1]


@pytest.mark.parametrize("name", CASES)
def test_inlined_values_are_bound_once(name: str) -> None:
    func, lets = CASES[name]
    sch = Schedule(func)
    sch.compute_inline("B")
    assert num_lets(sch.func) == lets
    assert not verify_prim_func(sch.func, sch.mod)
    before, after = (results(f, np.random.default_rng(3)) for f in (func, sch.func))
    np.testing.assert_array_equal(before, after)


def test_a_guarded_value_is_bound_inside_its_branch() -> None:
    """Outside of the condition its load would lie before the buffer."""
    sch = Schedule(guarded)
    sch.compute_inline("B")
    calls = [node for node in walk(sch.func.body) if isinstance(node, Call)]
    (call,) = (call for call in calls if call.op.name == "tir.if_then_else")
    assert isinstance(call.args[1], Let)


def windows(steps: int) -> PrimFunc:
    """Each map reads three places of the one before."""
    lines = ["@T.prim_func", "def main(A: T.Buffer((64,), 'float32'), C: T.Buffer((64,), 'float32')):"]
    lines += [f"    B{k} = T.alloc_buffer((64,), 'float32')" for k in range(steps)]
    names = ["A", *(f"B{k}" for k in range(steps)), "C"]
    for source, target in pairwise(names):
        lines += [
            "    for i in range(64):",
            f"        with T.sblock('{target}_'):",
            "            v = T.axis.spatial(64, i)",
            f"            {target}[v] = T.sin({source}[v] + {source}[(v + 1) % 64] * {source}[(v + 2) % 64])",
        ]
    made: PrimFunc = from_source("from heddle.script import tir as T\n" + "\n".join(lines))
    return made


def test_maps_of_neighbours_are_not_copied_without_end() -> None:
    func = windows(6)
    sch = Schedule(func)
    inline_maps(sch)
    size = sum(1 for _ in walk(func.body))
    assert sum(1 for _ in walk(sch.func.body)) < size + 6 * MAX_COPIED
    before, after = (results(f, np.random.default_rng(5)) for f in (func, sch.func))
    np.testing.assert_array_equal(before, after)
