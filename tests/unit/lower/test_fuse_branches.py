"""Operators fuse around control flow and inside it."""

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.transform import Sequential
from heddle.script import from_source
from heddle.target import Target
from heddle.vm.relax import VirtualMachine

COUNTER = """
@I.ir_module
class Module:
    @R.function
    def main(n: R.Tensor((), "int64"), v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        go = R.logical_not(R.less(n, R.const(1, "int64")))
        if go:
            w = R.add(R.multiply(v, R.const(0.5, "float32")), R.const(1.0, "float32"))
            m = R.subtract(n, R.const(1, "int64"))
            out = Module.main(m, w)
        else:
            out = R.exp(R.negative(v))
        return out
"""


def test_both_branches_and_the_condition_fuse():
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)), "fused")
    kernels = {var.name_hint for var in passes(from_source(COUNTER)).functions}
    assert kernels == {
        "main",
        "fused_less_logical_not",
        "fused_multiply_add",
        "subtract",
        "fused_negative_exp",
    }


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_the_fused_loop_counts_down(exec_mode):
    machine = VirtualMachine(heddle.compile(from_source(COUNTER), exec_mode=exec_mode), heddle.cpu())
    v = np.random.default_rng().standard_normal(4).astype("float32")
    for n in (0, 1, 7):
        expected = v
        for _ in range(n):
            expected = expected * np.float32(0.5) + np.float32(1)
        found = machine["main"](np.asarray(n, "int64"), v).numpy()
        np.testing.assert_allclose(found, np.exp(-expected), rtol=1e-5)
