"""Operators that take a tensor's shape from another, with sizes that the program leaves open."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.runtime import tensor
from heddle.support.diagnostics import HeddleError

PROGRAMS = {
    "collapse_sum_like(%x, %y)": {
        ("(?, ?, ?)", "(?, ?)"): [
            ((2, 3, 4), (3, 1)),
            ((2, 3, 4), (1, 4)),
            ((2, 3, 4), (3, 4)),
            ((2, 3, 4), (1, 1)),
            ((1, 1, 1), (1, 1)),
            ((0, 3, 4), (3, 1)),
            ((2, 0, 4), (1, 4)),
            ((2, 0, 4), (0, 1)),
            ((5, 67, 131), (67, 1)),
        ],
        ("(?, ?)", "(?, 4)"): [((3, 4), (3, 4)), ((3, 4), (1, 4))],
        ("(?, ?)", "(1, ?)"): [((3, 4), (1, 4)), ((3, 4), (1, 1))],
        ("(3, 4)", "(?, ?)"): [((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 4), (3, 1))],
        ("(?)", "(?)"): [((7,), (7,)), ((7,), (1,)), ((0,), (0,)), ((0,), (1,))],
    },
    "collapse_sum_to(%x, shape=[3, 1])": {("(?, ?, ?)", "(?)"): [((2, 3, 4), (1,)), ((0, 3, 4), (1,))]},
    "broadcast_to_like(%x, %y)": {
        ("(?, ?)", "(?, ?, ?)"): [((3, 1), (2, 3, 4)), ((1, 1), (0, 3, 4)), ((3, 4), (2, 3, 4))]
    },
    "reshape_like(%x, %y)": {("(?, ?)", "(?, ?, ?)"): [((6, 4), (2, 3, 4)), ((1, 0), (0, 3, 4))]},
    "slice_like(%x, %y)": {("(?, ?)", "(?, ?)"): [((6, 4), (2, 3)), ((6, 4), (0, 3)), ((6, 4), (6, 4))]},
    "slice_like(%x, %y, axes=[1])": {("(?, ?)", "(?, ?)"): [((6, 4), (2, 3)), ((6, 4), (9, 0))]},
}


@cache
def _runs(call: str, x: str, y: str) -> dict[str, Any]:
    """The program on the machines, in both modes, and in the interpreter."""
    params = f"%x: Tensor[{x}, float32], %y: Tensor[{y}, float32]"
    mod = relay.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {call} }}')
    made = {kind: relay.create_executor(kind, mod).evaluate() for kind in ("debug", "vm")}
    for mode in ("bytecode", "compiled"):
        program = heddle.compile(mod, exec_mode=mode)
        made[mode] = heddle.relax.VirtualMachine(program, heddle.cpu())["main"]
    return made


@pytest.mark.parametrize(
    ("call", "types", "shapes"),
    [(call, types, each) for call, of in PROGRAMS.items() for types, cases in of.items() for each in cases],
)
def test_engines_agree(call: str, types: tuple[str, str], shapes: Any) -> None:
    random = np.random.default_rng(len(call))
    x, y = (random.integers(-9, 10, shape).astype("float32") for shape in shapes)
    found = {name: np.asarray(run(tensor(x), tensor(y)).numpy()) for name, run in _runs(call, *types).items()}
    for name, value in found.items():
        assert value.shape == found["debug"].shape and (value == found["debug"]).all(), name


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (3, 0), (5, 1)])
def test_sizes_that_do_not_collapse_are_refused(shape: tuple[int, int]) -> None:
    x, y = np.ones((2, 3, 4), "float32"), np.ones(shape, "float32")
    for name, run in _runs("collapse_sum_like(%x, %y)", "(?, ?, ?)", "(?, ?)").items():
        if name != "debug":  # numpy sums what it is given
            with pytest.raises(HeddleError, match="V0401"):
                run(tensor(x), tensor(y))
