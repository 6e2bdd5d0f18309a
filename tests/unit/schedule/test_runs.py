"""Maps over free sizes whose last axes lie in one run of memory: one loop, unless a place is a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.prim.nodes import FloorMod
from heddle.script import from_source
from heddle.target import Target

SHAPES = ((0, 3, 5), (2, 0, 5), (1, 1, 1), (2, 3, 1), (3, 41, 3), (17, 10, 17), (1, 3, 130))
PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "n", "d"), "float32"), z: R.Tensor(("n", "d"), "float32")):
        y = {call}
        return y
"""
CALLS: dict[str, tuple[str, Any]] = {
    "concat": ("R.concat((x, x), axis=0)", lambda x, z: np.concatenate([x, x])),
    "concat in the middle": ("R.concat((x, x), axis=1)", lambda x, z: np.concatenate([x, x], 1)),
    "broadcast": ("R.add(x, z)", lambda x, z: x + z),
    "flip": ("R.flip(x, axis=0)", lambda x, z: x[::-1]),
    "transpose": ("R.permute_dims(x, (1, 0, 2))", lambda x, z: x.transpose(1, 0, 2)),
    "triangle": ("R.triu(x, 1)", lambda x, z: np.triu(x, 1)),
}


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str, mode: str) -> None:
    call, reference = CALLS[name]
    executable = heddle.compile(from_source(PROGRAM.format(call=call)), exec_mode=mode)
    machine = relax.VirtualMachine(executable, heddle.cpu())
    for shape in SHAPES:
        rng = np.random.default_rng(sum(shape))
        x, z = (rng.standard_normal(size).astype("float32") for size in (shape, shape[1:]))
        np.testing.assert_array_equal(machine["main"](x, z).numpy(), reference(x, z))


@pytest.mark.parametrize(("name", "divides"), [("concat", True), ("triangle", False)])
def test_places_that_are_values_are_loops_of_their_own(name: str, divides: bool) -> None:
    mod = relax.transform.LegalizeOps()(from_source(PROGRAM.format(call=CALLS[name][0])))
    mod = ApplyDefaultSchedule(Target("llvm"))(mod)
    (func,) = (func for func in mod.functions.values() if func.dialect == "tir")
    last = [node for node in walk(func.body) if isinstance(node, FloorMod) and str(node.b) == "d"]
    assert bool(last) == divides
