"""Branches fuse like the rest of a function, and give what they gave."""

from __future__ import annotations

import numpy as np

import heddle
from heddle import relax
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.span import Source

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(flag: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        if flag:
            a = R.exp(x)
            b = R.add(a, x)
            c = R.multiply(b, a)
            y = c
        else:
            y = R.negative(x)
        return y
"""


def test_maps_of_a_branch_are_one_kernel() -> None:
    mod = parse_source(Source("model.py", MODEL), DEFAULT_NAMES)
    executable = heddle.compile(mod, target="llvm")
    kernels = [name for name in executable.metadata if name.startswith("kernel.")]
    assert sorted(kernels) == ["kernel.fused_exp_add_multiply", "kernel.negative"]
    run = relax.VirtualMachine(executable, heddle.cpu())["main"]
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    a = np.exp(x)
    np.testing.assert_allclose(run(np.array(True), x).numpy(), (a + x) * a, rtol=1e-5)
    np.testing.assert_array_equal(run(np.array(False), x).numpy(), -x)
