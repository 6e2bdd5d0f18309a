"""CombineParallelMatmul."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.ir.instrument import verify_module
from heddle.ir.structural import assert_structural_equal
from heddle.relax.transform.combine_parallel_matmul import CombineParallelMatmul
from heddle.script import ir as I
from heddle.script import relax as R
from tests.unit.relax.running import assert_runs

RNG = np.random.default_rng(19)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@I.ir_module
class Before:
    @R.function
    def main(
        x: R.Tensor(("n", 3), "float32"), v: R.Tensor((3, 2), "float32"), w: R.Tensor((3, 5), "float32")
    ) -> R.Any:
        with R.dataflow():
            a = R.matmul(x, v)
            b = R.exp(a)
            c = R.matmul(x, w)
            R.output(b, c)
        return (b, c)


@I.ir_module
class Expected:
    @R.function
    def main(
        x: R.Tensor(("n", 3), "float32"), v: R.Tensor((3, 2), "float32"), w: R.Tensor((3, 5), "float32")
    ) -> R.Any:
        with R.dataflow():
            joined = R.concat((v, w), axis=1)
            product = R.matmul(x, joined)
            parts = R.split(product, [2], axis=1)
            a = parts[0]
            b = R.exp(a)
            c = parts[1]
            R.output(b, c)
        return (b, c)


@pytest.mark.parametrize("n", [1, 7])
def test_products_of_one_left_side_are_combined(n: int):
    made = CombineParallelMatmul()(Before)
    assert not verify_module(made)
    assert_structural_equal(made, Expected, map_free_vars=True)
    x, v, w = array(n, 3), array(3, 2), array(3, 5)
    first, second = assert_runs(made, x, v, w, before=Before)
    np.testing.assert_allclose(first, np.exp(x @ v), rtol=1e-4)
    np.testing.assert_allclose(second, x @ w, rtol=1e-4, atol=1e-6)


def test_groups_can_be_refused():
    asked = []

    def refuse(left: Any, rights: list[Any]) -> bool:
        asked.append((left.name_hint, [right.name_hint for right in rights]))
        return False

    assert CombineParallelMatmul(refuse)(Before) is Before
    assert asked == [("x", ["v", "w"])]


def test_what_does_not_fit_together_stays():
    @I.ir_module
    class Apart:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            y: R.Tensor((2, 3), "float32"),
            v: R.Tensor((3, 2), "float32"),
            s: R.Tensor((3, "m"), "float32"),
            t: R.Tensor((4, 3, 2), "float32"),
        ) -> R.Any:
            with R.dataflow():
                a = R.matmul(x, v)  # another left side
                b = R.matmul(y, v)
                c = R.matmul(x, s)  # no constant width
                d = R.matmul(x, t)  # another rank
                e = R.concat([a, R.matmul(y, v)], axis=0)
                f = R.permute_dims(e)
                g = R.matmul(f, e)  # known too late for the first product
                R.output(a, b, c, d, g)
            return (a, b, c, d, g)

    made = CombineParallelMatmul()(Apart)
    assert made.script().count("R.concat") == 2  # y @ v is there twice, and only that is joined
    assert_runs(made, array(2, 3), array(2, 3), array(3, 2), array(3, 4), array(4, 3, 2), before=Apart)


def test_batches():
    @I.ir_module
    class Batches:
        @R.function
        def main(
            x: R.Tensor((4, 2, 3), "float32"),
            v: R.Tensor((4, 3, 1), "float32"),
            w: R.Tensor((4, 3, 2), "float32"),
            u: R.Tensor((4, 3, 3), "float32"),
        ) -> R.Any:
            with R.dataflow():
                a = R.matmul(x, v)
                b = R.matmul(x, w)
                c = R.matmul(x, u)
                R.output(a, b, c)
            return (a, b, c)

    made = CombineParallelMatmul()(Batches)
    assert made.script().count("R.matmul") == 1
    assert_runs(made, array(4, 2, 3), array(4, 3, 1), array(4, 3, 2), array(4, 3, 3), before=Batches)
