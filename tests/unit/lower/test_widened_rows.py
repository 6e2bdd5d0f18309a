"""Products of 16-bit floats: rows of a tile are converted to float32 once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.opt import OptOptions, run_passes
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.prim.nodes import Cast
from heddle.script import parse
from heddle.target import Target
from heddle.tir.nodes import BufferLoad, BufferStore, PrimFunc

TARGET = Target("llvm -mcpu=x86-64-v4")
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def program(dims: Any, steps: int, columns: int, dtype: str) -> IRModule:
    text = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in dims)
    return parse(
        f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({text}, {steps}), "{dtype}"), w: R.Tensor(({steps}, {columns}), "{dtype}"), \
s: R.Tensor(({columns},), "{dtype}")):
        with R.dataflow():
            p = R.matmul(x, w)
            q = R.add(p, s)
            y = R.nn.relu(q)
            R.output(y)
        return y
"""
    )


def converts_each_element(mod: IRModule) -> bool:
    """Whether the data are converted in the sum itself."""
    for pipeline in ("optimize", "legalize"):
        mod = run_passes(mod, OptOptions(pipeline=pipeline, target=TARGET))
    sums = [
        node.value
        for func in mod.functions.values()
        if isinstance(func, PrimFunc)
        for node in walk(func.body)
        if isinstance(node, BufferStore)
        and any(isinstance(n, BufferLoad) and n.buffer is node.buffer for n in walk(node.value))
    ]
    assert sums
    return any(
        isinstance(node, Cast)
        and isinstance(node.value, BufferLoad)
        and node.value.buffer.name.startswith("x")
        for value in sums
        for node in walk(value)
    )


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("dims", "sizes"),
    [
        ((12,), [(12,)]),
        ((13,), [(13,)]),
        (("n",), [(0,), (1,), (6,), (50,)]),
        (("b", "n"), [(1, 7), (3, 5), (0, 4)]),
        ((2, 96), [(2, 96)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [1, 24, 37])
def test_products_are_those_of_the_numbers(dims: Any, sizes: Any, steps: int, dtype: str) -> None:
    mod, rng = program(dims, steps, 40, dtype), np.random.default_rng()
    machine = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
    for size in sizes:
        x = rng.standard_normal((*size, steps)).astype(HALVES[dtype])
        w, s = (rng.standard_normal(shape).astype(HALVES[dtype]) for shape in ((steps, 40), (40,)))
        got = machine["main"](x, w, s).numpy().astype("float32")
        product = (x.astype("float32") @ w.astype("float32")).astype(HALVES[dtype])
        expected = np.maximum(product + s, 0).astype("float32")
        unit = float(ml_dtypes.finfo(HALVES[dtype]).eps) * 4
        np.testing.assert_allclose(got, expected, rtol=unit, atol=unit * np.sqrt(steps))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("dims", [(12,), (13,), ("n",), ("b", "n")], ids=str)
def test_rows_are_converted_once(dims: Any, dtype: str) -> None:
    assert not converts_each_element(program(dims, 64, 48, dtype))


@pytest.mark.parametrize(("dims", "steps"), [((2,), 64), (("n",), 1 << 14)], ids=str)
def test_few_rows_and_long_ones_are_read_where_they_are(dims: Any, steps: int) -> None:
    assert converts_each_element(program(dims, steps, 48, "float16"))
