"""What LLVM makes of a function grows with the function, however many small loops it has."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.codegen.build import build, generate_text
from heddle.codegen.cache import KernelCache
from heddle.codegen.llvm import object_code
from heddle.codegen.llvm.machine import machine_options
from heddle.codegen.llvm.unroll_budget import MOST_ADDED, MOST_LOOPS, MOST_UNROLLED, UnrollBudget
from heddle.runtime.tensor import tensor
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

TARGET = Target("llvm")
NO_UNROLLING = "llvm.loop.unroll.disable"


def loops(count: int) -> PrimFunc:
    """One after the other: what any of them stores, the last one overwrites."""
    lines = [
        '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):',
        *(f"    for i{k} in range(16):\n        B[i{k}] = A[i{k}] + T.float32({k})" for k in range(count)),
    ]
    func = from_source("\n".join(lines))
    assert isinstance(func, PrimFunc)
    return func


def largest_block(func: PrimFunc) -> int:
    """The instructions of the largest block after LLVM's passes."""
    text, _ = generate_text(func, TARGET)
    options = machine_options(TARGET)
    with object_code.optimized(text, object_code.target_machine(options), options.opt_level) as module:
        return max(sum(1 for _ in block.instructions) for f in module.functions for block in f.blocks)


def test_few_loops_unroll_as_llvm_likes() -> None:
    text, _ = generate_text(loops(20), TARGET)
    assert NO_UNROLLING not in text


def test_no_block_grows_beyond_the_budget() -> None:
    sizes = [largest_block(loops(count)) for count in (20, 100, 200)]
    assert sizes[0] < sizes[1], "loops within the budget are unrolled"
    assert sizes[2] <= sizes[1] + 2 * 100 + 8, "a loop beyond it adds no more than its own begin"
    assert max(sizes) < MOST_ADDED


def test_passes_see_no_more_loops_than_stated() -> None:
    texts = [generate_text(loops(count), TARGET)[0] for count in (MOST_LOOPS, MOST_LOOPS + 1)]
    assert [object_code.AS_WRITTEN in text for text in texts] == [False, True]


@pytest.mark.parametrize("count", [20, 100, MOST_LOOPS + 1])
def test_values_are_the_same(count: int) -> None:
    data = np.arange(16, dtype="float32")
    result = tensor(np.zeros(16, "float32"))
    build(loops(count), TARGET, KernelCache(None))["main"](tensor(data), result)
    np.testing.assert_array_equal(result.numpy(), data + np.float32(count - 1))


def test_the_budget_counts_what_unrolling_adds() -> None:
    budget = UnrollBudget()
    assert budget.may_unroll(100, None), "turns that are not fixed"
    assert budget.may_unroll(MOST_UNROLLED, 2), "too large for LLVM"
    assert budget.may_unroll(10, 0)
    assert budget.added == 0
    answers = [budget.may_unroll(100, 11) for _ in range(20)]
    assert answers == [True] * (MOST_ADDED // 1000) + [False] * (20 - MOST_ADDED // 1000)
    assert budget.may_unroll(10, 2), "a smaller one still fits"
    assert budget.num_loops == 24
