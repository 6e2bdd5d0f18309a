"""Passes that legalise some operators ahead of the others, by TVM's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heddle.relax.backend import DispatchSampling, DispatchSortScan

import heddle
from heddle.graph.rewriter import is_call
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.script import ir as I
from heddle.script import relax as R
from tests.unit.relax.running import MODES, assert_runs, machine


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor(("b", "v"), "float32"),
        u: R.Tensor(("n", 1), "float32"),
        rows: R.Tensor(("n", 1), "int64"),
    ) -> R.Tuple(R.Tensor(("n", 1), "int64"), R.Tensor(("b", "v"), "float32")):
        p = R.nn.softmax(x)
        chosen = R.multinomial_from_uniform(p, u, rows)
        sums = R.cumsum(R.sort(p), axis=1)
        return (chosen, sums)


def left(mod: Any) -> set[str]:
    names = ("nn.softmax", "multinomial_from_uniform", "cumsum", "sort")
    nodes = [node for func in mod.functions.values() for node in walk(func)]
    return {name for name in names if any(is_call(node, f"relax.{name}") for node in nodes)}


def inputs(b: int, v: int, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(b * 100 + v)
    x = rng.standard_normal((b, v)).astype("float32")
    return x, rng.random((n, 1)).astype("float32"), rng.integers(0, b, (n, 1))


@pytest.mark.fact("11.8")
def test_each_takes_its_own_operators() -> None:
    everything = {"nn.softmax", "multinomial_from_uniform", "cumsum", "sort"}
    assert left(DispatchSampling()(Model)) == everything - {"multinomial_from_uniform"}
    assert left(DispatchSortScan()(Model)) == {"nn.softmax", "multinomial_from_uniform"}
    both = Sequential([DispatchSampling(), DispatchSortScan()])
    for sizes in ((3, 7, 11), (1, 1, 1), (2, 5, 0)):
        assert_runs(both(Model), *inputs(*sizes), before=Model)


@pytest.mark.fact("9.19")
@pytest.mark.parametrize("mode", MODES)
def test_the_operator_chooses_as_the_builtin_does(mode: str) -> None:
    vm, (x, u, rows) = machine(Model, mode), inputs(4, 17, 4)
    rows = np.arange(4).reshape(4, 1)
    chosen = vm["main"](x, u, rows)[0].numpy()
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    builtin = heddle.get_global_func("vm.builtin.multinomial_from_uniform")
    np.testing.assert_array_equal(chosen, builtin(p, u).numpy())
    assert vm["main"](x, np.full((4, 1), 2, "float32"), rows)[0].numpy().tolist() == [[16]] * 4
    outside = np.array([[-5], [99], [0], [3]])
    inside = np.array([[0], [3], [0], [3]])
    np.testing.assert_array_equal(vm["main"](x, u, outside)[0].numpy(), vm["main"](x, u, inside)[0].numpy())
