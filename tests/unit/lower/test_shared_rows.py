"""Products with few panels of columns: threads share their rows, and bits do not depend on how."""

from __future__ import annotations

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


def product(rows, weights):
    """rows × weights of shape (steps, columns), then relu."""
    x = Var("x", TensorType((rows, weights.shape[0]), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.nn.relu(op.matmul(x, const(weights))))
        builder.emit_func_output(out)
    return builder.get()


def tasks(rows, weights, count):
    """How many parts threads may share for so many rows, and how many of them one thread takes at least."""
    target = Target("llvm -mcpu=skylake-avx512")
    made = Sequential((*optimize_passes(target), *legalize_passes(target)), "test")(product(rows, weights))
    (func,) = (func for func in made.functions.values() if isinstance(func, PrimFunc))
    loops = [node for node in walk(func.body) if isinstance(node, For) and node.kind is ForKind.PARALLEL]
    assert len(loops) == (
        1 if isinstance(rows, int) else 2
    )  # where the number is free, first those for one row
    loop = loops[0] if count == 1 else loops[-1]
    extent, grain = loop.extent, as_expr(loop.annotations["grain"])
    at = dict.fromkeys(free_vars(extent, grain), count)
    return evaluate(extent, at), evaluate(grain, at)


@pytest.mark.parametrize("rows", [4000, SizeVar("n")], ids=["known", "free"])
@pytest.mark.parametrize(("steps", "columns"), [(128, 32), (192, 192), (40, 48)])
def test_few_columns_leave_work_for_many_threads(rows, steps, columns):
    parts, grain = tasks(rows, np.ones((steps, columns), "float32"), 4000)
    assert parts // grain >= 32


@pytest.mark.parametrize("rows", [32, SizeVar("n")], ids=["known", "free"])
@pytest.mark.parametrize(("steps", "columns"), [(3072, 768), (768, 3072), (4096, 1024)])
def test_few_rows_over_long_sums_are_work_for_threads(rows, steps, columns):
    """A panel of columns multiplies by all steps, also where its sum is taken in parts."""
    parts, grain = tasks(rows, np.ones((steps, columns), "float32"), 32)
    assert parts >= 12 and grain == 1


@pytest.mark.parametrize("rows", [1, SizeVar("n")], ids=["known", "free"])
def test_one_row_of_a_small_layer_is_no_work_for_threads(rows):
    parts, grain = tasks(rows, np.ones((256, 256), "float32"), 1)
    assert parts <= grain


@pytest.mark.parametrize("columns", [32, 33, 192, 5])
def test_any_number_of_rows_by_any_number_of_threads(columns):
    rng = np.random.default_rng(columns)
    weights = rng.standard_normal((96, columns)).astype("float32")
    machine = heddle.relax.VirtualMachine(heddle.compile(product(SizeVar("n"), weights)), heddle.cpu())
    before = native_library().num_threads
    try:
        for rows in (0, 1, 2, 5, 6, 7, 13, 97, 1000, 3001):
            x = rng.standard_normal((rows, 96)).astype("float32")
            made = []
            for threads in (1, 2, 3):
                set_num_threads(threads)
                made.append(machine["main"](x).numpy())
            np.testing.assert_allclose(made[0], np.maximum(x @ weights, 0), rtol=1e-4, atol=1e-4)
            assert made[0].tobytes() == made[1].tobytes() == made[2].tobytes()
    finally:
        set_num_threads(before)
