"""What pads or cuts the result of a product at its end is a kernel of its own: the product's tiles make every
element once, and others than are asked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, const, op
from heddle.support.diagnostics import HeddleWarning
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

AFTER = {
    "padded at its ends": lambda x: op.nn.pad(x, pad_width=[0, 0, 0, 0, 0, 1, 0, 1]),
    "padded": lambda x: op.nn.pad(x, pad_width=[0, 0, 0, 0, 1, 2, 2, 1]),
    "cut at its ends": lambda x: op.strided_slice(x, [2, 3], [0, 0], [5, 4], [1, 1]),
    "padded channels": lambda x: op.nn.pad(x, pad_width=[0, 0, 0, 3, 0, 0, 0, 0]),
}
PRODUCTS = ("conv2d", "matmul")


def network(product, after, batch):
    rng = np.random.default_rng(3)
    if product == "conv2d":
        x = Var("x", TensorType((batch, 8, 9, 7), "float32"))
        weights = const(rng.standard_normal((16, 8, 3, 3)).astype("float32") / 8)
    else:
        x = Var("x", TensorType((batch, 16, 9, 12), "float32"))
        weights = const(rng.standard_normal((12, 7)).astype("float32") / 4)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made = (
                op.nn.conv2d(x, weights, padding=[1, 1, 1, 1])
                if product == "conv2d"
                else op.matmul(x, weights)
            )
            changed = builder.emit(after(builder.emit(op.nn.relu(builder.emit(made)))))
            out = builder.emit_output(changed)
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("batch", [2, "free"])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("product", PRODUCTS)
def test_its_own_kernel(product, after, batch):
    mod = network(product, AFTER[after], SizeVar("n") if batch == "free" else batch)
    target = Target("llvm")
    made = Sequential((*optimize_passes(target), *legalize_passes(target)), "test")(mod)
    names = [var.name_hint for var, func in made.functions.items() if isinstance(func, PrimFunc)]
    assert not any(product in name and ("pad" in name or "slice" in name) for name in names), names
    shape = (2, 8, 9, 7) if product == "conv2d" else (2, 16, 9, 12)
    x = np.random.default_rng(4).standard_normal(shape).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeddleWarning)
        machine = heddle.relax.VirtualMachine(heddle.compile(mod, target=target), heddle.cpu())
    wanted = GraphInterpreter(mod)["main"](x)
    np.testing.assert_allclose(machine["main"](x).numpy(), np.asarray(wanted), rtol=1e-4, atol=1e-5)
