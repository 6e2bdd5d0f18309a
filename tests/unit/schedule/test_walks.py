"""Elements that are read where others say, which were read where others say: side by side, in no vectors."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.codegen.llvm.object_code import ONE_BY_ONE
from heddle.driver.stages import stage_text
from heddle.script import from_source

WALK = """
@I.ir_module
class Module:
    @R.function
    def main(
        at: R.Tensor(({rows}, {columns}), "int64"), t: R.Tensor((50,), "int64"), v: R.Tensor((50,), "float32")
    ):
        with R.dataflow():
            y = R.take(v, R.add(R.take(t, R.take(t, at)), R.const(1, "int64")))
            R.output(y)
        return y
"""


@pytest.mark.parametrize(("rows", "columns"), [(5, 37), ('"n"', 37), (5, '"m"'), (1, 40), (3, 8), (2, 3)])
def test_walks_are_right_for_all_sizes(rows: object, columns: object) -> None:
    machine = relax.VirtualMachine(
        heddle.compile(from_source(WALK.format(rows=rows, columns=columns))), heddle.cpu()
    )
    rng = np.random.default_rng(7)
    free = [(5, 37), (1, 37), (0, 37)] if rows == '"n"' else [(5, 37), (5, 7), (5, 1), (5, 0)]
    for shape in free if '"' in f"{rows}{columns}" else [(rows, columns)]:
        at, t = rng.integers(0, 50, shape), rng.integers(0, 49, 50)
        v = rng.standard_normal(50).astype("float32")
        np.testing.assert_array_equal(machine["main"](at, t, v).numpy(), v[t[t[at]] + 1])


@pytest.mark.parametrize(("rows", "columns"), [(5, 37), (1, 40), ('"n"', '"m"')])
def test_llvm_leaves_them_out_of_vectors(rows: object, columns: object) -> None:
    mod, target = from_source(WALK.format(rows=rows, columns=columns)), "llvm -mcpu=x86-64-v4"
    assert ONE_BY_ONE in stage_text(mod, "llvm", target)
    assert "gather" not in stage_text(mod, "asm", target)
