"""FuseOps does no costly work again for every repetition of its result."""

from __future__ import annotations

import pytest

from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import PassContext, Sequential
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, TensorType, op
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

N = SizeVar("n")


def kernels(small, large, work) -> list[str]:
    """The loop functions of work(x) * y."""
    x, y = Var("x", TensorType(small, "float32")), Var("y", TensorType(large, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(op.multiply(work(builder, x), y))
        builder.emit_func_output(result)
    with PassContext(opt_level=3):
        target = Target("llvm -mcpu=x86-64-v3")
        mod = Sequential((*optimize_passes(target), *legalize_passes(target)))(builder.get())
    return sorted(var.name_hint for var, func in mod.functions.items() if isinstance(func, PrimFunc))


def one(name):
    return lambda builder, x: builder.emit(getattr(op, name)(x))


@pytest.mark.parametrize("small", [(N, 1, 64), (64,), (1, 1, 64), (1, 32, 64)])
@pytest.mark.parametrize("name", ["cos", "exp", "erf", "tanh", "log"])
def test_repeated_costly_work_is_a_function_of_its_own(name, small):
    assert len(kernels(small, (N, 32, 64), one(name))) == 2


@pytest.mark.parametrize("small", [(N, 1, 64), (64,)])
@pytest.mark.parametrize("name", ["negative", "sqrt", "abs", "floor"])
def test_cheap_work_is_repeated(name, small):
    assert len(kernels(small, (N, 32, 64), one(name))) == 1


@pytest.mark.parametrize("small", [(N, 32, 64), (N, 32, 1), (N, 1, 1), (1,)])
def test_work_that_is_done_once_for_a_row_is_fused(small):
    assert len(kernels(small, (N, 32, 64), one("exp"))) == 1


def test_costly_work_is_seen_through_what_follows_it():
    def work(builder, x):
        return builder.emit(op.expand_dims(builder.emit(op.negative(builder.emit(op.cos(x)))), axis=[0]))

    assert len(kernels((32, 64), (N, 32, 64), work)) == 2
