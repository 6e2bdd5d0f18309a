"""Reductions over rows of free sizes: one loop over a row, and threads share rows by what they hold."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import SizeVar, as_expr
from heddle.prim.substitute import free_vars
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import For, ForKind, PrimFunc

REDUCTIONS = {
    "mean": (op.mean, np.mean),
    "max": (op.max, np.max),
    "sum of squares": (lambda x, axes: op.sum(op.multiply(x, x), axes), lambda x, axis: np.sum(x * x, axis)),
}


def reduced(reduce, dims, axes):
    x = Var("x", TensorType(dims, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(reduce(x, axes))
        builder.emit_func_output(out)
    return builder.get()


def free(count):
    return tuple(SizeVar(name) for name in "nchwd"[:count])


def scheduled(mod):
    target = Target("llvm")
    made = Sequential((*optimize_passes(target), *legalize_passes(target)), "test")(mod)
    (func,) = (func for func in made.functions.values() if isinstance(func, PrimFunc))
    return func


@pytest.mark.parametrize("axes", [[3], [2, 3], [1, 2, 3]], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_one_loop_runs_over_a_row(name, axes):
    func = scheduled(reduced(REDUCTIONS[name][0], free(4), axes))
    serial = [node for node in walk(func.body) if isinstance(node, For) and node.kind is ForKind.SERIAL]
    assert len(serial) == 1 and len(free_vars(serial[0].extent)) == len(axes)


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("axes", [[3], [2, 3], [1, 2, 3], [1, 3], [0, 1, 2, 3], [1]], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_any_size(name, axes, exec_mode):
    reduce, reference = REDUCTIONS[name]
    machine = heddle.relax.VirtualMachine(
        heddle.compile(reduced(reduce, free(4), axes), exec_mode=exec_mode), heddle.cpu()
    )
    before = native_library().num_threads
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            for shape in ((2, 3, 5, 7), (1, 1, 1, 1), (3, 2, 31, 64), (1, 2, 257, 3), (0, 2, 3, 4)):
                if name == "max" and 0 in [shape[axis] for axis in axes]:
                    continue
                x = np.random.default_rng(1).standard_normal(shape).astype("float32")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy's, of a mean of nothing
                    wanted = reference(x, tuple(axes))
                np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=2e-4, atol=1e-5)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("dims", [free(4), (4, 64, 512, 512), (4, 64, 2, 2)], ids=["free", "large", "small"])
def test_threads_share_long_rows_one_by_one(dims):
    """What a row holds counts, not its result alone: a mean of a million elements is worth a thread."""
    func = scheduled(reduced(op.mean, dims, [2, 3]))
    (shared,) = (node for node in walk(func.body) if isinstance(node, For) and node.kind is ForKind.PARALLEL)
    sizes = {var.name: var for var in free_vars(as_expr(shared.annotations["grain"]))}
    for pixels, least, most in ((512, 1, 1), (2, 1000, 4000)):
        if dims != free(4) and isinstance(dims[2], int) and dims[2] != pixels:
            continue
        point = dict.fromkeys(sizes.values(), pixels)
        assert least <= evaluate(as_expr(shared.annotations["grain"]), point) <= most


def _rms_norm(x, width):
    return op.nn.rms_norm(x, const(np.linspace(-1, 2, width, dtype="float32")), axes=[-1])


def _layer_norm(x, width):
    weights = (const(np.linspace(low, 2, width, dtype="float32")) for low in (-1, 1))
    return op.nn.layer_norm(x, *weights, axes=[-1])


SUMS_OF_PRODUCTS = {
    "sum of squares": lambda x, width: op.sum(op.multiply(x, x), [1]),
    "root mean square": _rms_norm,
    "layer norm": _layer_norm,
    "one column": lambda x, width: op.matmul(x, const(np.linspace(-1, 2, width, dtype="float32")[:, None])),
    "weighted sum": lambda x, width: op.sum(op.multiply(op.nn.softmax(x, -1), x), [1]),
}


@pytest.mark.parametrize("width", [2, 3, 5, 9, 13, 15, 17, 33])
@pytest.mark.parametrize("name", SUMS_OF_PRODUCTS)
def test_bits_do_not_depend_on_the_number_of_threads(name, width):
    """Where a thread's share of the rows ends may not decide how a row's products round."""
    machine = heddle.relax.VirtualMachine(
        heddle.compile(reduced(lambda x, _: SUMS_OF_PRODUCTS[name](x, width), (*free(1), width), [])),
        heddle.cpu(),
    )
    x = np.random.default_rng(width).standard_normal((20_001, width)).astype("float32")
    before = native_library().num_threads
    try:
        found = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append(machine["main"](x).numpy().tobytes())
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]
