"""SinkReshape."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import Sequential
from heddle.relax.transform.canonicalize_bindings import CanonicalizeBindings
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.relax.transform.sink_reshape import SinkReshape
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.target import Target
from tests.unit.relax.running import assert_runs

RNG = np.random.default_rng(23)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@I.ir_module
class Before:
    @R.function
    def main(
        x: R.Tensor(("b", "s", 4), "float32"), w: R.Tensor((4, 6), "float32"), v: R.Tensor((6, 4), "float32")
    ) -> R.Any:
        b, s = T.int64(), T.int64()
        with R.dataflow():
            rows = R.reshape(x, (b * s, 4))
            m = R.matmul(rows, w)
            h = R.reshape(m, (b, s, 6))
            c = R.power(h, R.const(3.0, "float32"))
            d = R.add(h, R.multiply(c, R.const(0.25, "float32")))
            e = R.reshape(d, (b * s, 6))
            y = R.matmul(e, v)
            R.output(y)
        return y


@I.ir_module
class Expected:
    @R.function
    def main(
        x: R.Tensor(("b", "s", 4), "float32"), w: R.Tensor((4, 6), "float32"), v: R.Tensor((6, 4), "float32")
    ) -> R.Any:
        b, s = T.int64(), T.int64()
        with R.dataflow():
            rows = R.reshape(x, (b * s, 4))
            m = R.matmul(rows, w)
            c = R.power(m, R.const(3.0, "float32"))
            t = R.multiply(c, R.const(0.25, "float32"))
            d = R.add(m, t)
            y = R.matmul(d, v)
            R.output(y)
        return y


def sunk(mod: Any) -> Any:
    return Sequential((SinkReshape(), CanonicalizeBindings(True), DeadCodeElimination()), "sunk")(mod)


def test_maps_come_before_reshapes():
    made = sunk(Before)
    assert_structural_equal(made, Expected)
    for b, s in ((2, 3), (1, 1), (0, 2)):
        assert_runs(made, array(b, s, 4), array(4, 6), array(6, 4), before=Before)


def test_what_follows_a_product_becomes_its_epilogue():
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)), "legalized")
    made = passes(Before)
    names = {var.name_hint.rstrip("_1") for var in made.functions}
    assert names == {"main", "fused_matmul_power_multiply_add", "matmul"}  # the reshape is a view
    assert made["main"].body.blocks[0].bindings[0].value.op.name == "relax.memory.view_reshape"


def test_reshapes_in_a_row_are_one():
    @I.ir_module
    class Twice:
        @R.function
        def main(x: R.Tensor(("n", 6), "float32")) -> R.Any:
            n = T.int64()
            with R.dataflow():
                a = R.reshape(x, (n, 2, 3))
                b = R.reshape(a, (0, 3, -1))
                c = R.reshape(b, (n, 6))
                R.output(b, c)
            return (b, c)

    made = sunk(Twice)
    assert made.script().count("R.reshape") == 1
    assert_runs(made, array(5, 6), before=Twice)


def test_operands_of_other_shapes_stay():
    @I.ir_module
    class Apart:
        @R.function
        def main(
            x: R.Tensor((2, 12), "float32"), y: R.Tensor((4, 6), "float32"), z: R.Tensor((6,), "float32")
        ) -> R.Any:
            with R.dataflow():
                a = R.reshape(x, (4, 6))
                b = R.add(a, y)  # nothing says that y should be reshaped
                c = R.add(a, z)  # one element a column
                d = R.nn.softmax(a, axis=-1)  # by rows
                e = R.reshape(y, (2, 12))
                f = R.add(x, e)
                g = R.maximum(a, R.const([[[1.0]]], "float32"))  # of higher rank
                R.output(b, c, d, f, g)
            return (b, c, d, f, g)

    made = sunk(Apart)
    assert_structural_equal(made, Apart)
    assert_runs(made, array(2, 12), array(4, 6), array(6), before=Apart)


def test_an_operand_of_higher_rank_than_the_source_or_the_result():
    @I.ir_module
    class Ranks:
        @R.function
        def main(x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor((1, 1), "float32")) -> R.Any:
            with R.dataflow():
                a = R.reshape(x, (24,))
                b = R.add(a, R.const([[1.0]], "float32"))
                c = R.reshape(y, ())
                d = R.add(c, R.const([1.0], "float32"))
                R.output(b, d)
            return (b, d)

    made = sunk(Ranks)
    assert_structural_equal(made, Ranks)
    assert_runs(made, array(2, 3, 4), array(1, 1), before=Ranks)


def test_what_another_block_cannot_see_stays():
    @I.ir_module
    class Blocks:
        @R.function
        def main(x: R.Tensor((2, 12), "float32")) -> R.Tensor((4, 6), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.reshape(a, (4, 6))
                R.output(b)
            with R.dataflow():
                c = R.tanh(b)
                R.output(c)
            return c

    made = sunk(Blocks)
    assert_structural_equal(made, Blocks)
    assert_runs(made, array(2, 12), before=Blocks)


def test_two_operands_of_one_reshape():
    @I.ir_module
    class Pair:
        @R.function
        def main(x: R.Tensor((2, 12), "float32"), y: R.Tensor((2, 12), "float32")) -> R.Tensor(
            (4, 6), "float32"
        ):
            with R.dataflow():
                a = R.reshape(x, (4, 6))
                b = R.reshape(y, (4, 6))
                c = R.where(R.less(a, b), a, R.const(0.0, "float32"))
                R.output(c)
            return c

    made = sunk(Pair)
    assert made.script().count("R.reshape") == 1
    assert_runs(made, array(2, 12), array(2, 12), before=Pair)


def test_one_view_for_reshapes_that_fuse():
    """Reshapes that fused with each other need no copy either."""

    @I.ir_module
    class Chain:
        @R.function
        def main(x: R.Tensor((3, 8), "float32")) -> R.Any:
            with R.dataflow():
                a = R.reshape(x, (3, 2, 4))
                b = R.reshape(a, (6, 4))
                R.output(b)
            return b

    passes = Sequential(legalize_passes(Target("llvm")), "legalized")
    assert "call_tir" not in passes(Chain)["main"].script()
    assert_runs(Chain, array(3, 8), before=Chain)
