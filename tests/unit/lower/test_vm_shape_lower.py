"""VMShapeLower: heaps of several functions, dimensions of match_casts, sizes that divide by sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import cpu, relax
from heddle.driver.compile import build
from heddle.ir.expr import Var
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.prim.nodes import SizeVar
from heddle.relax import op
from heddle.relax.block_builder import BlockBuilder
from heddle.relax.types import ShapeExpr, TensorType
from heddle.script.round_trip import RoundTripEach
from heddle.support.diagnostics import TrapValueError
from heddle.target import Target

n, m = SizeVar("n"), SizeVar("m")
X, Y = Var("x", TensorType((n,), "float32")), Var("y", TensorType((m,), "float32"))
FIXED = Var("x", TensorType((3,), "float32"))


def machine(**functions: tuple[tuple[Var, ...], Any]) -> Any:
    """Functions of these parameters and results, compiled with every pass verified and round-tripped."""
    builder = BlockBuilder()
    for name, (params, result) in functions.items():
        with builder.function(name, params):
            builder.emit_func_output(builder.emit(result))
    mod: IRModule = builder.get()
    with PassContext(instruments=(VerifyEach(), RoundTripEach())):
        return relax.VirtualMachine(build(mod, Target("llvm")), cpu())


def test_each_function_has_a_heap_of_its_own_or_none() -> None:
    vm = machine(symbolic=((X,), op.negative(X)), static=((FIXED,), op.negative(FIXED)))
    assert vm["symbolic"](np.ones(2, "f4")).numpy().tolist() == [-1, -1]
    assert vm["static"](np.ones(3, "f4")).numpy().tolist() == [-1, -1, -1]


def test_sizes_known_when_it_runs() -> None:
    vm = machine(main=((X,), op.nonzero(X)))
    assert vm["main"](np.array([0, 2, 0, 3], "f4")).numpy().tolist() == [[1, 3]]


def test_a_size_that_divides_by_0_is_an_error() -> None:
    vm = machine(main=((X, Y), op.reshape(X, ShapeExpr((m, -1)))))
    assert vm["main"](np.ones(6, "f4"), np.ones(2, "f4")).numpy().shape == (2, 3)
    with pytest.raises(TrapValueError, match="divides by m, which is 0"):
        vm["main"](np.ones(6, "f4"), np.ones(0, "f4"))
