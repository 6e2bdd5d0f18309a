"""Tensors written by statements: what their inputs may be."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax, te
from heddle.prim.nodes import constant
from heddle.runtime import tensor
from heddle.topi.loops import load, loop, store


def scaled(x: te.Tensor, factor: te.Tensor) -> te.Tensor:
    """x times a tensor of rank 0, by a statement."""
    return te.extern(
        tuple(x.shape),
        [x, factor],
        lambda ins, outs: loop(
            "i", x.shape[0], lambda i: store(outs[0], load(ins[0], (i,)) * load(ins[1], ()), (i,))
        ),
        name="scaled",
    )


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("is_constant", [True, False])
def test_a_scalar_constant_is_an_input_like_another(exec_mode, is_constant):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((5,), "float32"))
    factor = relax.Var("factor", relax.TensorType((), "float32"))
    with builder.function("main", [x, factor]):
        chosen = relax.const(np.float32(3.0)) if is_constant else factor
        builder.emit_func_output(builder.emit_te(scaled, x, chosen))
    machine = relax.VirtualMachine(heddle.compile(builder.get(), exec_mode=exec_mode), heddle.cpu())
    values = np.arange(5, dtype="float32")
    got = machine["main"](tensor(values), tensor(np.float32(3.0))).numpy()
    np.testing.assert_array_equal(got, values * 3)


def test_a_known_scalar_keeps_its_value():
    known = te.ScalarTensor(constant(3.0, "float32"))
    function = te.create_prim_func([x := te.placeholder((5,), name="x"), scaled(x, known)])
    assert "= T.float32(3.0)" in function.script()
