"""VMShapeLower: heaps of several functions, dimensions of match_casts, sizes that divide by sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import cpu, relax
from heddle.driver.compile import build, with_machine_code
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Var
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.prim.nodes import SizeVar
from heddle.prim.ops import if_then_else, select
from heddle.relax import op
from heddle.runtime import Shape
from heddle.script import from_source
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


@pytest.mark.parametrize("choose", [select, if_then_else])
def test_a_product_that_no_branch_taken_needs_may_be_too_large(choose: Any) -> None:
    given = Var("s", ShapeType((n, m)))
    inner = choose(m < 9, n * n, n)
    vm = machine(
        main=((given,), op.zeros(ShapeExpr((choose(n < 9, n * n * m, choose(m < 1, inner, 1)),)), "int8"))
    )
    large = 2**62
    for sizes, found in {(3, 2): 18, (large, large): 1, (large, 5): 1, (0, large): 0}.items():
        assert vm["main"](Shape(sizes)).shape == (found,)
    for sizes in ((8, large), (large, 0)):
        with pytest.raises(TrapValueError, match="more than 64 bits hold"):
            vm["main"](Shape(sizes))


CASTS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        same = R.match_cast(R.shape([n, 4]), R.Shape([n, 4]))
        new = R.match_cast(R.shape([n + m, 2]), R.Shape([k, 2]))
        if c:
            twice = R.match_cast(R.shape([n, k]), R.Shape([m, k]))
            z = twice
        else:
            z = R.shape([n, k])
        first = R.match_cast(R.shape([n, 3]), R.Shape([m, 3]))
        again = R.match_cast(R.shape([3, n]), R.Shape([3, m]))
        last = R.match_cast(R.shape([n]), R.Shape([m]))
        return (R.shape([k, n]), new, z)
"""


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_casts_of_sizes_compare_what_differs_once(mode: str) -> None:
    """`same` needs no check; what a branch compared is compared again after it, and then once."""
    with PassContext(instruments=(VerifyEach(),)):
        made = build(from_source(CASTS), Target("llvm"), exec_mode="bytecode")
    text = made.as_text()
    assert "check_shape_info" not in text
    # the parameters' own three; then new, twice and first: what follows has the same pair of sizes
    assert text.count("call  vm.builtin.match_shape") == 3 + 3
    vm = relax.VirtualMachine(with_machine_code(made) if mode == "compiled" else made, cpu())
    three = np.ones(3, "f4")
    for c in (True, False):
        assert [tuple(shape) for shape in vm["main"](three, three, np.array(c))] == [(6, 3), (6, 2), (3, 6)]
        with pytest.raises(RuntimeError, match=r"V0401.*expected 2, got 3"):
            vm["main"](three, np.ones(2, "f4"), np.array(c))


def test_shapes_are_made_once_however_many_tensors_have_them() -> None:
    def shapes_made(layers: int) -> int:
        x = Var("x", TensorType((n, m), "float32"))
        builder = BlockBuilder()
        with builder.function("main", (x,)):
            value: Any = x
            for _ in range(layers):
                value = builder.emit(op.nn.softmax(value))
            builder.emit_func_output(value)
        return build(builder.get(), Target("llvm")).as_text().count("call  vm.builtin.make_shape")

    assert 2 <= shapes_made(9) == shapes_made(4)
