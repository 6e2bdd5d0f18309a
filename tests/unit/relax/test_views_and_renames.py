"""Values that are views in the interpreter, and results that a pass renames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.ir.transform import PassContext
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES, assert_runs


@I.ir_module
class Halves:
    @T.prim_func
    def double(a: T.handle, b: T.handle):
        n = T.int64(is_size_var=True)
        m = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        cls = Halves
        with R.dataflow():
            halves = R.split(x, 2, axis=1)
            y = R.call_tir(cls.double, (halves[1],), out_ty=R.Tensor((n, 2), "float32"))
            R.output(y)
        return y


def test_loop_functions_take_what_operators_give_as_views() -> None:
    x: Any = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(assert_runs(Halves, x), x[:, 2:] * 2)


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            y = R.permute_dims(x)
            z = R.tanh(R.matmul(x, y))
            R.output(z)
        return (z,)


@pytest.mark.parametrize("mode", MODES)
def test_a_tuple_of_a_value_that_gets_another_name_keeps_its_type(mode: str) -> None:
    """Without FuseTIR the dataflow block holds a call of a function, whose result is renamed after it."""
    with PassContext(disabled_pass=["FuseTIR"]):
        vm = VirtualMachine(heddle.compile(Product, target="llvm", exec_mode=mode), heddle.cpu())
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(vm["main"](x)[0].numpy(), np.tanh(x @ x.T), rtol=1e-5)
