"""Reductions down columns of any number: what they write is local memory of a strip, not of all columns."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.codegen.pipeline import lower
from heddle.ir.module import IRModule
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import AllocBuffer
from heddle.tir.schedule.rules.row_pass import _STRIPS

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("b", "s", "d"), "float32")):
        y = {call}
        return y
"""
CALLS = {
    "a mean, which reads the sum": ("R.mean(x, axis=[1])", lambda x: x.mean(1)),
    "a maximum": ("R.max(x, axis=[1])", lambda x: x.max(1)),
    "the place of a maximum": ("R.argmax(x, axis=1)", lambda x: x.argmax(1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_candidates_of_a_strip_are_local(name: str) -> None:
    mod = relax.transform.LegalizeOps()(from_source(PROGRAM.format(call=CALLS[name][0])))
    mod = ApplyDefaultSchedule(Target("llvm"))(mod)
    (func,) = (func for func in mod.functions.values() if func.dialect == "tir")
    lowered = lower(IRModule.from_expr(func), Target("llvm"))
    local = [
        stmt.buffer
        for function in lowered.functions.values()
        for stmt in walk_stmts(function.body)
        if isinstance(stmt, AllocBuffer) and stmt.buffer.scope == "local"
    ]
    assert local and all(int(buffer.shape[0].value) <= _STRIPS[-1] for buffer in local)


@pytest.mark.parametrize("name", CALLS)
def test_values(name: str) -> None:
    call, reference = CALLS[name]
    machine = relax.VirtualMachine(heddle.compile(from_source(PROGRAM.format(call=call))), heddle.cpu())
    rng = np.random.default_rng(5)
    for shape in ((1, 1, 1), (2, 3, 63), (3, 17, 64), (2, 9, 65), (1, 40, 200)):
        x = rng.integers(-9, 9, shape).astype("float32")
        np.testing.assert_allclose(machine["main"](x).numpy(), reference(x), rtol=1e-6)
