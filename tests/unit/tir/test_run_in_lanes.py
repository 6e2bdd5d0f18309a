"""RunInLanes: reductions and maps of any length give what numpy gives, and the same whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.ir.module import IRModule
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.prim.nodes import Let, Var
from heddle.prim.ops import const, max_value, maximum, min_value, minimum, multiply
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, IfThenElse, PrimFunc, decl_buffer, seq
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.run_in_lanes import MAP, REDUCTION, RunInLanes
from tests.unit.codegen.kernel_runner import Kernels

SIZES = (0, 1, 7, 15, 16, 17, 31, 63, 64, 65, 79, 80, 127, 128, 129, 1000)
OPERATORS = {
    "sum": (lambda a, b: a + b, lambda dtype: const(0, dtype), lambda a: a.sum(dtype=a.dtype)),
    "product": (multiply, lambda dtype: const(1, dtype), lambda a: a.prod(dtype=a.dtype)),
    "max": (maximum, min_value, np.max),
    "min": (minimum, max_value, np.min),
}
ATTRS = {"global_symbol": "f", "tir.noalias": True}
HOST = Target("llvm")


def reduction(operator: str, dtype: str, extent: int | None) -> PrimFunc:
    n = Var("n", "int64") if extent is None else extent
    i = Var("i", "int64")
    a, s = decl_buffer((n,), dtype, "A"), decl_buffer((1,), dtype, "S")
    combine, identity, _ = OPERATORS[operator]
    loop = For(
        i, 0, n, ForKind.SERIAL, BufferStore(s, combine(s[0], a[i]), (0,)), annotations={REDUCTION: True}
    )
    return PrimFunc([a, s], seq(BufferStore(s, identity(dtype), (0,)), loop), attrs=ATTRS)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_reductions_of_symbolic_length(operator: str, dtype: str) -> None:
    run, rng = Kernels(compile_kernels(reduction(operator, dtype, None), HOST)), np.random.default_rng(1)
    for size in SIZES:
        a = (
            rng.uniform(0.8, 1.2, size).astype(dtype)
            if dtype != "int32"
            else rng.integers(-9, 9, size, dtype)
        )
        out = np.empty(1, dtype)
        run("f", a, out)
        if size:
            np.testing.assert_allclose(out[0], OPERATORS[operator][2](a), rtol=2e-5)
        else:
            assert operator in ("max", "min") or out[0] == (operator == "product")


@pytest.mark.parametrize("size", [None, 7, 16, 67, 129])
@pytest.mark.parametrize("operator", OPERATORS)
def test_reductions_side_by_side(operator: str, size: int | None) -> None:
    """They take their steps together, in vectors of their own."""
    n = Var("n", "int64") if size is None else size
    rows, i, r, c = (Var(name, "int64") for name in ("rows", "i", "r", "c"))
    a, s = decl_buffer((6, n), "float32", "A"), decl_buffer((2, 3), "float32", "S")
    combine, identity, wanted = OPERATORS[operator]
    body = BufferStore(s, combine(s[r, c], a[r * 3 + c, i]), (r, c))
    for var, count in ((c, 3), (r, 2)):
        body = For(var, 0, count, ForKind.UNROLLED, body)
    begin = For(rows, 0, 6, ForKind.SERIAL, BufferStore(s, identity("float32"), (rows // 3, rows % 3)))
    loop = For(i, 0, n, ForKind.SERIAL, body, annotations={REDUCTION: True})
    func = PrimFunc([a, s], seq(begin, loop), attrs=ATTRS)
    made = Sequential((FlattenBuffer(), RunInLanes(256)))(IRModule.from_expr(func))
    vectors = [
        node for node in walk(made["f"].body) if isinstance(node, For) and node.kind is ForKind.VECTORIZED
    ]
    assert bool(vectors) == (size != 7)
    run = Kernels(compile_kernels(func, HOST))
    for length in SIZES if size is None else (size,):
        data = np.random.default_rng(length).uniform(0.8, 1.2, (6, length)).astype("float32")
        out = np.empty((2, 3), "float32")
        run("f", data, out)
        if length:
            each = [wanted(row) for row in data]
            np.testing.assert_allclose(out.reshape(-1), each, rtol=2e-5)


@pytest.mark.parametrize("size", [15, 16, 17, 64, 100, 129])
def test_reductions_of_constant_length(size: int) -> None:
    run = Kernels(compile_kernels(reduction("sum", "float32", size), HOST))
    a, out = np.random.default_rng(size).standard_normal(size).astype(np.float32), np.empty(1, np.float32)
    run("f", a, out)
    np.testing.assert_allclose(out[0], a.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_the_largest_element_wins_in_every_lane() -> None:
    run = Kernels(compile_kernels(reduction("max", "float32", None), HOST))
    for place in range(97):
        a, out = np.full(97, -np.inf, np.float32), np.empty(1, np.float32)
        a[place] = -3.0
        run("f", a, out)
        assert out[0] == -3.0


def named_reduction(reads_the_sum: bool) -> PrimFunc:
    """The sum of |a| * |a|, where |a| has a name around the sum; or of what a name takes from the sum."""
    n, i, size, sum_so_far = Var("n", "int64"), Var("i", "int64"), Var("a", "float32"), Var("s", "float32")
    a, s = decl_buffer((n,), "float32", "A"), decl_buffer((1,), "float32", "S")
    value = Let(size, maximum(a[i], const(0, "float32") - a[i]), s[0] + size * size)
    if reads_the_sum:
        value = Let(sum_so_far, s[0] * 0.5, s[0] + a[i] * sum_so_far)
    loop = For(i, 0, n, ForKind.SERIAL, BufferStore(s, value, (0,)), annotations={REDUCTION: True})
    return PrimFunc([a, s], seq(BufferStore(s, const(1, "float32"), (0,)), loop), attrs=ATTRS)


def test_names_around_a_sum_are_part_of_its_term() -> None:
    func = named_reduction(False)
    changed = RunInLanes(512)(func_module(func))["f"].body
    assert any(isinstance(node, For) and node.kind is ForKind.VECTORIZED for node in walk(changed))
    run = Kernels(compile_kernels(func, HOST))
    for size in SIZES:
        a, out = np.random.default_rng(size).standard_normal(size).astype("float32"), np.empty(1, "float32")
        run("f", a, out)
        np.testing.assert_allclose(out[0], 1 + np.square(a.astype("float64")).sum(), rtol=1e-5)


def test_a_name_that_reads_the_sum_leaves_the_loop_as_it_is() -> None:
    func = named_reduction(True)
    assert RunInLanes(512)(func_module(func))["f"].body is func.body
    run, out = Kernels(compile_kernels(func, HOST)), np.empty(1, "float32")
    a = np.random.default_rng(1).uniform(-1, 1, 65).astype("float32")
    run("f", a, out)
    np.testing.assert_allclose(out[0], np.prod(1 + a.astype("float64") / 2), rtol=1e-4)


def marked_map(guarded: bool) -> PrimFunc:
    n, i = Var("n", "int64"), Var("i", "int64")
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    store = BufferStore(b, a[i] * 3.0 + 1.0, (i,))
    body = IfThenElse(i < n - 1, store) if guarded else store
    return PrimFunc([a, b], For(i, 0, n, ForKind.SERIAL, body, annotations={MAP: True}), attrs=ATTRS)


def test_maps_write_every_element_and_no_other() -> None:
    run = Kernels(compile_kernels(marked_map(False), HOST))
    for size in SIZES:
        a = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        memory = np.full(size + 32, 7.0, np.float32)
        run("f", a, memory[:size])
        np.testing.assert_allclose(memory[:size], a * 3 + 1, rtol=1e-6, atol=1e-6)
        assert (memory[size:] == 7.0).all()


def test_what_is_no_plain_store_stays() -> None:
    func = marked_map(True)
    assert RunInLanes(512)(func_module(func))["f"].body is func.body


def test_short_constant_loops_stay() -> None:
    func = reduction("sum", "float32", 15)
    assert RunInLanes(512)(func_module(func))["f"].body is func.body
    changed = RunInLanes(256)(func_module(func))["f"].body
    assert any(isinstance(node, For) and node.kind is ForKind.VECTORIZED for node in walk(changed))


def func_module(func: PrimFunc):
    from heddle.ir.module import IRModule

    return IRModule({"f": func})
