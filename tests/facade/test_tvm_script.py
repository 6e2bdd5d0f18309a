"""Small programs as TVM users write them, with the import changed."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
import heddle.testing
from heddle import relax, s_tir, te, tirx
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tirx as T


@I.ir_module
class Dense:
    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32"), b: R.Tensor((4,), "float32")
    ) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(R.add(y, b))
            R.output(z)
        return z


def _arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def test_module_compiles_and_runs() -> None:
    x, w, b = _arrays((5, 8), (8, 4), (4,))
    ex = heddle.compile(Dense, target="llvm")
    vm = relax.VirtualMachine(ex, heddle.cpu())
    got = vm["main"](heddle.runtime.tensor(x), heddle.runtime.tensor(w), heddle.runtime.tensor(b))
    heddle.testing.assert_allclose(got.numpy(), np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5)


def test_block_builder() -> None:
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 4], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.exp(x))
            out = bb.emit_output(relax.op.multiply(y, relax.const(2, "float32")))
        bb.emit_func_output(out)
    (a,) = _arrays((3, 4))
    vm = relax.VirtualMachine(relax.build(bb.get(), "llvm"), heddle.cpu())
    heddle.testing.assert_allclose(vm["main"](a).numpy(), np.exp(a) * 2, rtol=1e-6, atol=1e-6)


def test_schedule_of_a_tensor_expression() -> None:
    a = te.placeholder((64, 32), "float32", name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] + 1.0, name="B")
    func = te.create_prim_func([a, b])
    sch = s_tir.Schedule(func)
    i, j = sch.get_loops(sch.get_sblock("B"))
    outer, inner = sch.split(j, [None, 8])
    sch.vectorize(inner)
    sch.parallel(i)
    lib = heddle.compile(sch.mod["main"].with_attr("global_symbol", "main"), target="llvm")
    (x,) = _arrays((64, 32))
    out = heddle.runtime.empty((64, 32), "float32")
    lib["main"](heddle.runtime.tensor(x), out)
    heddle.testing.assert_allclose(out.numpy(), x + 1)
    with pytest.raises(s_tir.ScheduleError):
        sch.get_sblock("C")
    assert outer is not None


def test_loop_function_in_script() -> None:
    @T.prim_func
    def double(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")) -> None:
        T.func_attr({"global_symbol": "double"})
        for i in range(16):
            with T.sblock("double"):
                vi = T.axis.spatial(16, i)
                b[vi] = a[vi] * T.float32(2)

    heddle.ir.assert_structural_equal(double, heddle.ir.load_json(heddle.ir.save_json(double)))
    (x,) = _arrays((16,))
    out = heddle.runtime.empty((16,), "float32")
    heddle.compile(double, target="llvm")["double"](heddle.runtime.tensor(x), out)
    heddle.testing.assert_allclose(out.numpy(), x * 2)


def test_pass_context_and_passes() -> None:
    with heddle.transform.PassContext(opt_level=3):
        mod = heddle.transform.Sequential([relax.transform.LegalizeOps(), relax.transform.FuseOps()])(Dense)
    assert not heddle.ir.structural_equal(mod, Dense)
