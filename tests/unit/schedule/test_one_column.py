"""Rows of free length: right for any length, and with loops of their own where they have one element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.relax.transform import LegalizeOps
from heddle.script import from_source
from heddle.tir.nodes import DeclBuffer, IfThenElse, PrimFunc

_CALLS: dict[str, tuple[str, Any]] = {
    "softmax": ("R.nn.softmax(x, axis=1)", lambda x: _softmax(x)),
    "sum_first": ("R.sum(x, axis=[0])", lambda x: x.sum(0)),
    "sum_middle": ("R.sum(x, axis=[1])", lambda x: x.sum(1)),
    "transpose": ("R.permute_dims(x, axes=[1, 0, 2])", lambda x: x.transpose(1, 0, 2)),
    "cut": ("R.strided_slice(x, axes=[1], begin=[1], end=[100])", lambda x: x[:, 1:100]),
    "product": (
        "R.matmul(x, R.permute_dims(x, axes=[0, 2, 1]))",
        lambda x: x @ x.transpose(0, 2, 1),
    ),
    "column": (
        "R.matmul(R.permute_dims(x, axes=[0, 2, 1]), x)",
        lambda x: x.transpose(0, 2, 1) @ x,
    ),
}
_SHAPES = [(0, 5, 1), (3, 0, 1), (4, 37, 0), (1, 1, 1), (7, 131, 1), (50, 127, 1), (3, 19, 2), (2, 33, 67)]


def _softmax(x: np.ndarray) -> np.ndarray:
    if not x.size:
        return x
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _module(call: str) -> Any:
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "b", "c"), "float32")):
        y = {call}
        return y
""")


@pytest.mark.parametrize("name", _CALLS)
def test_any_length(name: str) -> None:
    call, expected = _CALLS[name]
    executable = heddle.compile(_module(call), exec_mode="compiled")
    machine = relax.VirtualMachine(executable, heddle.cpu())
    for seed, shape in enumerate(_SHAPES):
        x = np.random.default_rng(seed).standard_normal(shape).astype("float32")
        got = machine["main"](x).numpy()
        assert got.shape == expected(x).shape
        np.testing.assert_allclose(got, expected(x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["softmax", "sum_first", "transpose", "cut"])
def test_one_column_has_loops_of_its_own(name: str) -> None:
    mod = LegalizeOps()(_module(_CALLS[name][0]))
    mod = ApplyDefaultSchedule(heddle.target.Target("llvm"))(mod)
    (func,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    assert any(isinstance(node, DeclBuffer) for node in walk(func.body))
    assert any(isinstance(node, IfThenElse) for node in walk(func.body))
    assert_structural_equal(from_source(func.script()), func)


def test_rows_of_known_length_have_one_form() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "b", 8), "float32")):
        y = R.nn.softmax(x, axis=1)
        return y
""")
    mod = ApplyDefaultSchedule(heddle.target.Target("llvm"))(LegalizeOps()(mod))
    (func,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    assert not any(isinstance(node, DeclBuffer) for node in walk(func.body))
