"""What follows convolutions: sums over pixels take each pixel once, tiles of free rows have no conditions."""

import math
from itertools import pairwise

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.op_builder import const
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.prim.nodes import Call, IntImm, SizeVar, is_const_int
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, op
from heddle.target import Target
from heddle.tir.nodes import For, PrimFunc, SBlockRealize

SUMS = {"mean": op.mean, "sum": op.sum, "max": op.max}
TARGET = Target("llvm -mcpu=x86-64-v3")


def network(finish, channels, size=(9, 11), batch=2):
    rng = np.random.default_rng(3)
    x = Var("x", TensorType((batch, channels[0], *size), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for ins, outs in pairwise(channels):
                weights = const(rng.standard_normal((outs, ins, 1, 1)).astype("float32"))
                y = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(y, weights))))
            out = builder.emit_output(finish(y))
        builder.emit_func_output(out)
    return builder.get()


def scheduled(mod):
    made = Sequential((*optimize_passes(TARGET), *legalize_passes(TARGET)), "test")(mod)
    return [func for func in made.functions.values() if isinstance(func, PrimFunc)]


def runs_and_domains(func):
    """How often each block runs, and how many values its axes take."""

    for node in walk(func.body):
        if isinstance(node, SBlockRealize) and node.block.iter_vars:
            loops = [loop for loop in walk(func.body) if isinstance(loop, For) and node in list(walk(loop))]
            if all(isinstance(loop.extent, IntImm) for loop in loops):
                runs = math.prod(loop.extent.value for loop in loops)
                yield runs, math.prod(axis.dom.extent.value for axis in node.block.iter_vars)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("channels", [(8, 32), (8, 24, 96), (3, 20)], ids=str)
def test_sums_over_pixels(name, keeps, channels):
    mod = network(lambda y: SUMS[name](y, [2, 3], keepdims=keeps), channels)
    for func in scheduled(mod):
        for runs, values in runs_and_domains(func):
            assert runs <= 2 * values, func.attrs.get("schedule_rule")
    x = np.random.default_rng(1).standard_normal((2, channels[0], 9, 11)).astype("float32")
    wanted = GraphInterpreter(mod)["main"](x)
    got = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](x).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_sums_over_pixels_of_any_size():
    mod = network(lambda y: op.mean(y, [2, 3]), (8, 24, 96), (SizeVar("h"), SizeVar("w")), SizeVar("n"))
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    for shape in ((1, 8, 1, 1), (2, 8, 7, 5), (1, 8, 30, 41)):
        x = np.random.default_rng(1).standard_normal(shape).astype("float32")
        wanted = GraphInterpreter(mod)["main"](x)
        np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels", [(16, 96), (32, 192, 16), (16, 24)], ids=str)
def test_tiles_of_free_rows_have_no_conditions(channels):
    mod = network(op.tanh, channels, (SizeVar("h"), SizeVar("w")), SizeVar("n"))
    convolutions = [f for f in scheduled(mod) if f.attrs.get("schedule_rule") == "ConvolutionRule"]
    assert len(convolutions) == len(channels) - 1
    for func in convolutions:
        blocks = [node for node in walk(func.body) if isinstance(node, SBlockRealize)]
        assert all(is_const_int(node.predicate, 1) for node in blocks)
        assert not any("holds" in node.annotations for node in walk(func.body) if isinstance(node, For))


def test_pixels_of_free_images_are_fetched_ahead():
    mod = network(op.tanh, (32, 192, 16), (SizeVar("h"), SizeVar("w")))
    func = scheduled(mod)[1]
    fetches = [n for n in walk(func.body) if isinstance(n, Call) and n.op.name.endswith("prefetch")]
    assert len(fetches) == 1
