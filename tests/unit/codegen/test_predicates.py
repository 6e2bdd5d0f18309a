"""Accesses under predicates, and vector stores that read what they write: LLVM and C against the interpreter,
and that against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen import build
from heddle.prim import ops
from heddle.prim.checked_index import checked_index
from heddle.prim.nodes import Add, PrimExpr, Ramp, Shuffle, Var, constant
from heddle.runtime import tensor
from heddle.script import from_source
from heddle.support.diagnostics import TrapIndexError, UsageError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import (
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.vector_algebra import broadcast
from tests.e2e.c_file import needs_compiler

TARGETS = ["llvm", pytest.param("c -opt-level=1", marks=needs_compiler)]
ZERO = constant(0, "int64")


def func_of(params: Any, *body: Stmt) -> PrimFunc:
    return PrimFunc(tuple(params), seq(*body), attrs={"global_symbol": "f", "tir.noalias": True})


def results(target: str, func: PrimFunc, *arrays: np.ndarray) -> list[list[Any]]:
    """What a kernel leaves in its arrays; the interpreter leaves the same."""
    want, given = [array.copy() for array in arrays], [tensor(array.copy()) for array in arrays]
    run_primfunc(func, *want)
    build(func, Target(target))["f"](*given)
    made: list[list[Any]] = [array.numpy().tolist() for array in given]
    assert made == [array.tolist() for array in want]
    return made


def ramp(lanes: int, base: Any = 0, stride: int = 1) -> Ramp:
    return Ramp(constant(base, "int64") if isinstance(base, int) else base, constant(stride, "int64"), lanes)


# ---- scalars


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.VECTORIZED, ForKind.PARALLEL, ForKind.UNROLLED])
def test_a_scalar_store_under_a_predicate(kind: ForKind, target: str) -> None:
    """b[i] = a[i + 2] where i < 5: what does not hold reads nothing either, which would be outside."""
    a, b, i = decl_buffer((7,), "float32", "A"), decl_buffer((8,), "float32", "B"), Var("i", "int64")
    body = For(i, 0, 8, kind, BufferStore(b, a[i + 2], (i,), i < 5))
    made = results(target, func_of((a, b), body), np.arange(7, dtype="f4"), np.full(8, 9, "f4"))
    assert made[1] == [2, 3, 4, 5, 6, 9, 9, 9]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.VECTORIZED])
def test_a_scalar_load_under_a_predicate(kind: ForKind, dtype: str, target: str) -> None:
    a, b, i = decl_buffer((5,), dtype, "A"), decl_buffer((8,), dtype, "B"), Var("i", "int64")
    body = For(i, 0, 8, kind, BufferStore(b, BufferLoad(a, (i,), i < 5), (i,)))
    made = results(target, func_of((a, b), body), np.ones(5, dtype), np.ones(8, dtype))
    assert made[1] == [1] * 5 + [0] * 3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("holds", [0, 1])
def test_a_predicate_that_reads_memory(holds: int, target: str) -> None:
    """One index is read under the predicate, and the predicate stands in another index."""
    a, p, i = decl_buffer((8,), "int64", "A"), decl_buffer((1,), "int64", "P"), Var("i", "int64")
    inner = BufferLoad(a, (a[i],), p[ZERO] > 0)
    body = For(i, 0, 4, ForKind.SERIAL, BufferStore(a, inner + 1, (BufferLoad(a, (i + 4,), p[ZERO] > 0),)))
    data = np.array([1, 2, 3, 0, 5, 6, 7, 4])
    want = data.copy()
    for n in range(4):
        want[want[n + 4] if holds else 0] = (want[want[n]] if holds else 0) + 1
    made = results(target, func_of((a, p), body), data, np.array([holds]))
    assert made[0] == want.tolist()


SCRIPT = """
@T.prim_func
def f(a: T.Buffer((4,), "float32"), n: T.int32):
    for i in range(4):
        a.vstore([i], T.float32(1), predicate=i < n)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_script_stores_under_a_predicate(target: str) -> None:
    array = tensor(np.zeros(4, "f4"))
    build(from_source(SCRIPT), Target(target))["f"](array, 3)
    assert array.numpy().tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_is_checked_where_the_predicate_holds(target: str) -> None:
    a, at, i = decl_buffer((4,), "float32", "A"), decl_buffer((3,), "int64", "P"), Var("i", "int64")
    place = checked_index(at[i], constant(4, "int64"))
    load = BufferLoad(a, (place,), i > 0)
    body = For(i, 0, 3, ForKind.SERIAL, BufferStore(a, load + 1.0, (place,), i > 0))
    kernel = build(func_of((a, at), body), Target(target))["f"]
    made = tensor(np.zeros(4, "f4"))
    kernel(made, tensor(np.array([77, 2, -1])))
    assert made.numpy().tolist() == [0, 0, 1, 1]
    with pytest.raises(TrapIndexError, match="index 9"):
        kernel(made, tensor(np.array([77, 2, 9])))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("holds", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 9])
def test_one_predicate_for_all_lanes(stride: int, holds: int, target: str) -> None:
    a, b, p = (
        decl_buffer((64,), "int32", "A"),
        decl_buffer((64,), "int32", "B"),
        decl_buffer((1,), "int32", "P"),
    )
    one, places = broadcast(constant(1, "int32"), 4), ramp(4, 0, stride)
    is_set = p[ZERO] > 0
    body = (
        BufferStore(b, BufferLoad(a, (places,), is_set) + one, (ramp(4, 40),)),
        BufferStore(b, one, (places,), is_set),
    )
    data = np.arange(64, dtype="i4") + 5
    made = results(target, func_of((a, b, p), *body), data, np.zeros(64, "i4"), np.array([holds], "i4"))
    want = np.zeros(64, "i4")
    want[40:44] = data[: 4 * stride : stride] * holds + 1
    want[: 4 * stride : stride] += holds
    assert made[1] == want.tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_a_predicate_for_elements_that_are_vectors(target: str) -> None:
    flat, i = decl_buffer((12,), "float32", "F"), Var("i", "int64")
    view = decl_buffer((3,), "float32x4", "A", data=flat.data)
    value = BufferLoad(view, (i,), i > 0) + broadcast(constant(1.0, "float32"), 4)
    body = For(i, 0, 3, ForKind.SERIAL, BufferStore(view, value, (i,), i < 2))
    made = results(target, func_of((flat,), DeclBuffer(view), body), np.arange(12, dtype="f4"))
    assert made == [[1, 1, 1, 1, 5, 6, 7, 8, 8, 9, 10, 11]]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (ramp(2) < broadcast(constant(1, "int64"), 2), "expected a bool or 4 of them .* got boolx2"),
        (constant(1, "int32"), "expected a bool or 4 of them .* got int32"),
    ],
)
def test_predicates_that_are_none_are_refused(predicate: PrimExpr, message: str, target: str) -> None:
    a = decl_buffer((4,), "float32", "A")
    load = BufferLoad(a, (ramp(4),), predicate)
    for store in (BufferStore(a, load, (ramp(4),)), BufferStore(a, a[ramp(4)], (ramp(4),), predicate)):
        with pytest.raises(UsageError, match=f"G0101.*{message}"):
            build(func_of((a,), store), Target(target)).get_source()


def test_vectors_that_lie_apart_are_no_elements_of_a_vector() -> None:
    flat = decl_buffer((32,), "float32", "F")
    view, one = decl_buffer((8,), "float32x4", "A", data=flat.data), broadcast(constant(1.0, "float32"), 8)
    for store in (
        BufferStore(view, one, (ramp(2, 0, 3),)),
        BufferStore(flat, BufferLoad(view, (ramp(2, 0, 3),)), (ramp(8),)),
    ):
        with pytest.raises(UsageError, match=r"G0101.*vectors of 'A' that lie apart"):
            build(func_of((flat,), DeclBuffer(view), store), Target("llvm"))


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.VECTORIZED])
@pytest.mark.parametrize("target", TARGETS)
def test_all_lanes_store_at_one_place_under_the_predicate_of_each(kind: ForKind, target: str) -> None:
    a, v = decl_buffer((2,), "int32", "A"), Var("v", "int64")
    value = BufferLoad(a, (constant(1, "int64"),), v > 7) + 3
    body = For(v, 0, 8, kind, BufferStore(a, value, (ZERO,), v < 0))
    assert results(target, func_of((a,), body), np.array([5, 6], "i4")) == [[5, 6]]


# ---- vectors


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["a vector", "its base", "a shuffle", "a sum", "a mask", "a value"])
def test_places_of_a_vector_store_are_read_before_it_writes(form: str, target: str) -> None:
    a = decl_buffer((8,), "int64", "A")
    data = np.array([1, 0, 2, 3, 0, 0, 9, 9])
    loaded, nine = BufferLoad(a, (ramp(4),)), broadcast(constant(9, "int64"), 4)
    places: PrimExpr = loaded
    value: PrimExpr = Ramp(constant(6, "int64"), constant(1, "int64"), 4)
    mask, at, values, active = None, data[:4].copy(), np.arange(6, 10), np.ones(4, bool)
    if form == "its base":
        places, at = Ramp(a[constant(3, "int64")], constant(1, "int64"), 4), np.arange(3, 7)
    elif form == "a shuffle":
        places, at = Shuffle((loaded,), (2, 2, 1, 0)), data[[2, 2, 1, 0]]
    elif form == "a sum":
        places, at = Add(loaded, broadcast(a[ZERO], 4)), data[:4] + data[0]
    elif form == "a mask":
        mask, active = loaded < broadcast(a[constant(2, "int64")], 4), data[:4] < data[2]
    elif form == "a value":
        value, values = ops.subtract(nine, BufferLoad(a, (ramp(4, 1),))), 9 - data[1:5]
    want = data.copy()
    for place, item in zip(at[active], values[active], strict=True):
        want[place] = item
    store = BufferStore(a, value, (places,), mask)
    assert results(target, func_of((a,), store), data) == [want.tolist()]
