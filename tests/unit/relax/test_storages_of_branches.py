"""Storages of symbolic sizes in branches: a dimension that is defined later is no part of an earlier size."""

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.script import from_source

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(dtype="float32", ndim=1), c: R.Tensor((), "bool")
    ) -> R.Tensor(dtype="float32", ndim=1):
        n, m = T.int64(), T.int64()
        if c:
            a = R.sum(R.cumsum(R.cumsum(R.cumsum(x, axis=0), axis=0), axis=0))
            t = R.match_cast(y, R.Tensor((m,), "float32"))
            b = R.cumsum(R.cumsum(R.cumsum(t, axis=0), axis=0), axis=0)
            r: R.Tensor(dtype="float32", ndim=1) = R.add(b, a)
        else:
            r: R.Tensor(dtype="float32", ndim=1) = R.cumsum(x, axis=0)
        u = R.match_cast(y, R.Tensor((m,), "float32"))
        w: R.Tensor(dtype="float32", ndim=1) = R.add(R.sum(R.cumsum(u, axis=0)), r)
        return w
"""


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_a_branch_knows_what_is_known_where_it_stands(exec_mode):
    run = relax.VirtualMachine(heddle.compile(from_source(TEXT), exec_mode=exec_mode), heddle.cpu())["main"]
    rng = np.random.default_rng(0)
    for n, m in ((5, 3), (3, 5), (1, 90), (90, 1)):
        x, y = (rng.integers(-3, 4, size).astype("float32") for size in (n, m))
        for flag in (True, False):
            a = x.cumsum().cumsum().cumsum().sum()
            r = y.cumsum().cumsum().cumsum() + a if flag else x.cumsum()
            np.testing.assert_allclose(run(x, y, np.array(flag)).numpy(), y.cumsum().sum() + r)
