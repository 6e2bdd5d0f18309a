"""LegalizeOps: what operators assume of symbolic sizes is checked when the program runs; decompositions are
legalised whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import cpu, relax
from heddle.driver.compile import build
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.ir.module import IRModule
from heddle.prim.nodes import SizeVar
from heddle.relax import op
from heddle.runtime.shape import Shape
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, Trap
from heddle.target import Target

n, m, k = SizeVar("n"), SizeVar("m"), SizeVar("k")


def program(*params: Var, result: Any) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            made = builder.emit_output(result)
        builder.emit_func_output(made)
    return builder.get()


def run(mod: IRModule, *arrays: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(build(mod, Target("llvm")), cpu())
    return machine["main"](*arrays).numpy()


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


X, Y = Var("x", TensorType((n,), "float32")), Var("y", TensorType((m,), "float32"))


@pytest.mark.parametrize("sizes", [(5, 4), (4, 5), (1000, 2)])
def test_sizes_of_two_names_are_equal_or_one_is_1(sizes: tuple[int, int]) -> None:
    mod = program(X, Y, result=op.add(X, Y))
    assert run(mod, ones(7), ones(7)).tolist() == [2] * 7
    assert run(mod, ones(7), ones(1)).tolist() == run(mod, ones(1), ones(7)).tolist() == [2] * 7
    with pytest.raises(Trap, match=f"expected {sizes[0]}, got {sizes[1]}"):
        run(mod, ones(sizes[0]), ones(sizes[1]))


def test_inner_dimensions_of_a_product_must_be_equal() -> None:
    a, b = Var("a", TensorType((3, n), "float32")), Var("b", TensorType((m, 2), "float32"))
    mod = program(a, b, result=op.matmul(a, b))
    assert run(mod, ones(3, 5), ones(5, 2)).tolist() == [[5, 5]] * 3
    with pytest.raises(Trap, match="expected 6, got 5"):
        run(mod, ones(3, 6), ones(5, 2))


def test_equal_names_need_no_check() -> None:
    z = Var("z", TensorType((n,), "float32"))
    assert "match_cast" not in str(relax.transform.LegalizeOps()(program(X, z, result=op.add(X, z))))


def test_an_axis_without_elements_is_not_read() -> None:
    indices = Var("i", TensorType((m,), "int64"))
    mod = program(X, indices, result=op.take(X, indices, axis=0, mode="clip"))
    assert run(mod, ones(0), np.zeros(0, "int64")).shape == (0,)
    assert run(mod, np.arange(3, dtype="f4"), np.array([9, -1, -9, 1])).tolist() == [2, 0, 0, 1]
    with pytest.raises(Trap, match="match_cast"):
        run(mod, ones(0), np.zeros(2, "int64"))


def test_all_bindings_of_a_decomposition_are_legalised() -> None:
    w = Var("w", TensorType((4, n), "float32"))
    legal = relax.transform.LegalizeOps()(program(X, w, result=op.linear(X, w)))
    assert "R.permute_dims" not in str(legal)
    assert "R.matmul" not in str(legal)


SHAPES = {
    "a name for a known shape": (
        's: R.Shape(["m", 2])',
        "q: R.Shape([m, 2]) = s",
        "R.zeros(q, dtype='float32')",
    ),
    "a matched shape": (
        "s: R.Shape(ndim=2)",
        "q: R.Shape([m, 2]) = R.match_cast(s, R.Shape([m, 2]))",
        "R.zeros(q, dtype='float32')",
    ),
    "a shape of known length": ("s: R.Shape(ndim=2)", "", "R.zeros(s, dtype='float32')"),
    "two uses": ("s: R.Shape(ndim=2)", "", "R.add(R.zeros(s, dtype='float32'), R.full(s, R.const(0.0)))"),
    "broadcast": ("s: R.Shape(ndim=2)", "", "R.broadcast_to(R.const(0.0), s)"),
    "reshape": ("s: R.Shape(ndim=2)", "", "R.reshape(R.zeros((2, 6), dtype='float32'), s)"),
}


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_values(name: str, mode: str) -> None:
    params, binding, result = SHAPES[name]
    lines = ["m = T.int64()", binding, f"z = {result}", "return z"]
    body = "\n        ".join(line for line in lines if line)
    text = f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        {body}\n"
    machine = relax.VirtualMachine(build(from_source(text), Target("llvm"), exec_mode=mode), cpu())
    assert machine["main"](Shape([6, 2])).numpy().tolist() == [[0, 0]] * 6
    with pytest.raises(HeddleError):
        machine["main"](Shape([6, 2, 1]))
    assert machine["main"](Shape([6, 2])).shape == (6, 2)


def test_a_shape_of_unknown_length_is_refused() -> None:
    text = (
        "@I.ir_module\nclass M:\n    @R.function\n    def main(s: R.Shape()):\n"
        "        z = R.zeros(s, dtype='float32')\n        return z\n"
    )
    with pytest.raises(HeddleError, match="rank"):
        build(from_source(text), Target("llvm"))
