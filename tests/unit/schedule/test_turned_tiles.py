"""Tiles of convolutions whose result goes to memory along pixels: a tile that fills a third of a cache's line
for each channel has the next ones fetch it again, which lengths that are powers of two never keep."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.target import Target
from heddle.tir.nodes import For, ForKind, PrimFunc

TARGET = Target("llvm -mcpu=skylake-avx512")
CHANNELS = 64


def network(length):
    """One convolution, whose result is the network's."""
    rng = np.random.default_rng(0)
    weights = const(rng.standard_normal((CHANNELS, CHANNELS, 3)).astype("float32") / 12)
    x = Var("x", TensorType((1, CHANNELS, length), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.nn.conv1d(x, weights, padding=[1, 1]))
        builder.emit_func_output(out)
    return builder.get()


def pixels(mod):
    """The most pixels of a tile."""
    passes = (*optimize_passes(TARGET), *legalize_passes(TARGET))
    made = Sequential(passes, "test")(mod)
    convolutions = [
        func for var, func in made.functions.items() if isinstance(func, PrimFunc) and "conv" in var.name_hint
    ]
    unrolled = [
        int(node.extent)
        for func in convolutions
        for node in walk(func.body)
        if isinstance(node, For) and node.kind is ForKind.UNROLLED and node.loop_var.name.startswith("ow")
    ]
    return max(unrolled)


@pytest.mark.parametrize("length", [512, 1024, 4096])
def test_many_pixels_where_they_lie_side_by_side(length):
    assert pixels(network(length)) * 4 > 40, "over half of a line of 64 bytes"


@pytest.mark.parametrize("length", [77, 96, 512])
def test_results(length):
    mod = network(length)
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, length)).astype("float32")
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    wanted = np.asarray(heddle.relax.GraphInterpreter(mod)["main"](x))
    np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=1e-4, atol=1e-4)
