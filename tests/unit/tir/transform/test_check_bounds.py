"""CheckBounds: what is proved costs nothing, what is not is checked, and nothing outside is ever touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.codegen.build import build
from heddle.codegen.cache import KernelCache
from heddle.codegen.pipeline import lower
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.script.parser import parse
from heddle.support.diagnostics import HeddleError, Trap, UsageError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import CHECK_BOUNDS, AssertStmt, PrimFunc
from heddle.tir.transform.check_bounds import ALL, UNPROVEN

SOURCE = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32"), k: T.int32):
    for i in range(8):
        {}
"""
PROVED = {
    "the loop itself": "B[i] = A[i]",
    "backwards": "B[7 - i] = A[i]",
    "divided": "B[i // 2] = A[i % 4]",
    "clamped": "B[i] = A[T.min(T.max(k, 0), 7)]",
    "a remainder of data": "B[i] = A[I[i] % 8]",
    "under a condition": "if i + 1 < 8: B[i + 1] = A[i]",
    "in a branch": "B[i] = T.if_then_else(0 <= k and k < 8, A[k], T.float32(0))",
    "a constant divisor": "B[i] = A[(i * 3) // 3]",
}
GUARDED = {
    "by a load": "B[i] = T.if_then_else(0 <= I[i] and I[i] < 8, A[I[i]], T.float32(-1))",
    "by an or": "if I[i] < 0 or I[i] >= 8 or A[I[i]] < T.float32(4): B[i] = T.float32(1)",
    "by a nested branch": (
        "B[i] = T.if_then_else(I[i] >= 0, T.if_then_else(I[i] < 8, A[I[i]], T.float32(2)), T.float32(3))"
    ),
    "a divisor": "B[i] = T.if_then_else(I[i] != 0, T.Cast('float32', 100 // I[i]), T.float32(0))",
}


def checked(body: str, mode: str = UNPROVEN) -> PrimFunc:
    func: PrimFunc = parse(SOURCE.format(body)).with_attr(CHECK_BOUNDS, mode)
    return func


def num_checks(func: PrimFunc) -> int:
    """Checks in the machine's version of the body."""
    lowered = lower(IRModule.from_expr(func), Target("llvm"))
    bodies = [f for f in lowered.functions.values() if f.attrs.get(CALLING_CONV) == "body"]
    return sum(isinstance(node, AssertStmt) for body in bodies for node in walk(body))


def run(func: PrimFunc, indices: Any = None, k: int = 0) -> np.ndarray:
    """B after a call, between guards: an access outside would meet them."""
    kernel = build(func, cache=KernelCache(None))["f"]
    a = np.arange(8, dtype="float32")
    given = np.arange(8) if indices is None else np.asarray(indices)
    room = np.full(24, 77, "float32")
    try:
        kernel(a, given.astype("int32"), room[8:16], k)
    finally:
        assert (room[:8] == 77).all()
        assert (room[16:] == 77).all()
    return room[8:16]


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_has_no_check(name: str) -> None:
    assert num_checks(checked(PROVED[name])) == 0
    assert num_checks(checked(PROVED[name], ALL)) > 0


@pytest.mark.parametrize("mode", [UNPROVEN, ALL])
@pytest.mark.parametrize("name", PROVED)
def test_checks_do_not_change_results(name: str, mode: str) -> None:
    plain: PrimFunc = parse(SOURCE.format(PROVED[name]))
    np.testing.assert_array_equal(run(checked(PROVED[name], mode), k=3), run(plain, k=3))


@pytest.mark.parametrize("mode", [UNPROVEN, ALL])
@pytest.mark.parametrize("name", GUARDED)
def test_a_branch_that_is_not_taken_is_not_checked(name: str, mode: str) -> None:
    indices = [0, 7, 8, -1, 2**31 - 1, -(2**31), 3, 5]
    body = GUARDED[name]
    func = checked(body, mode)
    assert num_checks(func) > 0
    found = run(func, indices)
    plain: PrimFunc = parse(SOURCE.format(body))
    expected = np.full(8, 77, "float32")
    arguments = [np.arange(8, dtype="float32"), np.asarray(indices, "int32"), expected, 0]
    run_primfunc(plain, *arguments)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(40))
def test_random_indices(seed: int) -> None:
    """A sum of terms that may leave the buffer, or wrap: numbers, or an error with the first bad index."""
    rng = np.random.default_rng(seed)
    factor, offset = (int(x) for x in rng.choice([0, 1, -1, 3, 2**30, 2**31 - 1, -(2**31) + 1], 2))
    divisor = int(rng.choice([1, 2, 3, 2**30]))
    k = int(rng.choice([0, 1, -1, 7, 2**31 - 1, -(2**31)]))
    indices = rng.choice([0, 1, 2, 7, 8, -1, 2**31 - 1], 8).astype("int32")
    with np.errstate(over="ignore"):
        i = np.arange(8, dtype="int32")
        at = (i * np.int32(factor) + indices * np.int32(k) + np.int32(offset)) // np.int32(divisor)
    func = checked(f"B[i] = A[(i * {factor} + I[i] * k + {offset}) // {divisor}]")
    bad = [int(x) for x in at if not 0 <= x < 8]
    if bad:
        with pytest.raises(
            Trap, match=f"index {bad[0]} is outside dimension 0 of buffer 'A', which has 8"
        ) as e:
            run(func, indices, k)
        assert e.value.code == "U0603"
        assert isinstance(e.value, IndexError)
    else:
        np.testing.assert_array_equal(run(func, indices, k), at.astype("float32"))


@pytest.mark.parametrize("n", [-1, 0, 3, -(2**62)])
def test_what_a_computed_size_is_made_of_may_be_negative(n: int) -> None:
    """A size by cases, as of a slice whose bound is read when the program runs."""
    func = parse(
        """
@T.prim_func
def f(b: T.handle, n: T.int64):
    B = T.match_buffer(b, (T.max(n, T.int64(0)) + T.int64(1),), "float32")
    for i in range(T.max(n, T.int64(0)) + T.int64(1)):
        B[i] = T.float32(1)
"""
    ).with_attr(CHECK_BOUNDS, ALL)
    kernel = build(func, cache=KernelCache(None))["f"]
    room = np.zeros(max(n, 0) + 1, "float32")
    kernel(room, n)
    assert (room == 1).all()


@pytest.mark.parametrize(("before", "after"), [(0, -1), (2, 3), (-4, 1), (-6, 1), (0, -(2**40))])
def test_what_is_added_to_sizes_may_be_negative(before: int, after: int) -> None:
    """Paddings cut where they are negative; the size that they give may not be."""
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((5,), "float32"), b: T.handle, before: T.int64, after: T.int64):
    B = T.match_buffer(b, (before + after + T.int64(5),), "float32")
    for i in range(before + after + T.int64(5)):
        if i >= before and i < before + 5:
            B[i] = A[i - before]
        else:
            B[i] = T.float32(0)
"""
    ).with_attr(CHECK_BOUNDS, ALL)
    kernel = build(func, cache=KernelCache(None))["f"]
    a = np.arange(5, dtype="float32")
    room = np.full(max(before + after + 5, 0), 7, "float32")
    if before + after < -5:  # the array that is given has another size, which is looked at first
        with pytest.raises(HeddleError, match=r"U0603|U0404"):
            kernel(a, room, before, after)
        return
    kernel(a, room, before, after)
    padded = np.pad(a, (max(before, 0), max(after, 0)))
    np.testing.assert_array_equal(room, padded[max(-before, 0) : len(padded) - max(-after, 0)])


def test_sizes_are_known_to_be_sizes() -> None:
    func = parse(
        """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for i, j in T.grid(n, m):
        B[j, i] = A[i, j]
"""
    ).with_attr(CHECK_BOUNDS, UNPROVEN)
    assert num_checks(func) == 2  # one a size
    x = np.random.default_rng(0).random((3, 5), "float32")
    out = np.zeros((5, 3), "float32")
    build(func, cache=KernelCache(None))["f"](x, out)
    np.testing.assert_array_equal(out, x.T)


SYMBOLIC = {
    "a loop over all elements": "for i in range(n * 4):\n        B[i // 4, i % 4] = A[i // 4, i % 4]",
    "rows of a tile": (
        "for i in range((n + 5) // 6):\n        for j in range(6):\n"
        "            B[T.min(i * 6 + j, n - 1), 0] = A[T.min(i * 6 + j, n - 1), 0]"
    ),
    "a guarded tile": (
        "for i in range((n + 5) // 6):\n        for j in range(6):\n            if i * 6 + j < n:\n"
        "                B[i * 6 + j, 1] = A[i * 6 + j, 1]"
    ),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_what_schedules_make_of_free_sizes_is_proved(name: str) -> None:
    func = parse(
        f"""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    {SYMBOLIC[name]}
"""
    ).with_attr(CHECK_BOUNDS, UNPROVEN)
    assert num_checks(func) == 1  # the size
    for size in (0, 1, 5, 7):
        x, out = np.random.default_rng(0).random((size, 4), "float32"), np.zeros((size, 4), "float32")
        build(func, cache=KernelCache(None))["f"](x, out)
        assert ((out == x) | (out == 0)).all()


def test_predicates_are_refused_with_a_place() -> None:
    func = checked(
        "B[i] = A[i]\n        B.vstore([T.Ramp(0, 1, 4)], T.Broadcast(A[0], 4), "
        "predicate=T.Broadcast(k > 0, 4))"
    )
    with pytest.raises(UsageError, match="with a predicate cannot be checked") as e:
        lower(IRModule.from_expr(func), Target("llvm"))
    assert e.value.code == "T0801"
    assert e.value.diagnostics[0].span is not None


def test_temporaries_leave_the_stack_when_they_are_many() -> None:
    lines = [f'C{number} = T.alloc_buffer((2048,), "float32")' for number in range(60)]
    lines += [f"C{number}[I[i]] = A[i]" for number in range(60)]
    lines += [f"B[i] = B[i] + C{number}[I[i]]" for number in range(60)]
    body = "\n        ".join(["B[i] = T.float32(0)", *lines])
    np.testing.assert_array_equal(run(checked(body)), 60 * np.arange(8, dtype="float32"))


def test_fresh_memory_is_poisoned() -> None:
    body = 'C = T.alloc_buffer((8,), "float32")\n        C[0] = A[i]\n        B[i] = C[k]'
    assert np.isnan(run(checked(body, ALL), k=1)).all()
    np.testing.assert_array_equal(run(checked(body, ALL), k=0), np.arange(8))


def test_sanitized_models_compute_the_same() -> None:
    mod = parse(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 8), "float32")):
        with R.dataflow():
            a = R.nn.softmax(R.matmul(x, w), axis=-1)
            b = R.sum(R.concat((a, R.strided_slice(x, [1], [0], [5], [2])), axis=1), axis=0)
            R.output(b)
        return b
"""
    )
    rng = np.random.default_rng(1)
    x, w = rng.random((5, 16), "float32"), rng.random((16, 8), "float32")
    made = [
        heddle.relax.VirtualMachine(heddle.compile(mod, sanitize=flag), heddle.cpu())["main"](x, w).numpy()
        for flag in (False, True)
    ]
    np.testing.assert_allclose(made[0], made[1], rtol=1e-6)
