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
from heddle.tir.schedule.rules.one_column import ANY_COLUMNS, for_any_length

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


_PRODUCTS = {
    "plain": ('x: R.Tensor(("m", "k"), "float32"), w: R.Tensor(("k", "n"), "float32")', "R.matmul(x, w)"),
    "epilogue": (
        'x: R.Tensor(("m", "k"), "float32"), w: R.Tensor(("k", "n"), "float32")',
        "R.nn.relu(R.matmul(x, w))",
    ),
    "batch": (
        'x: R.Tensor(("b", "m", "k"), "float32"), w: R.Tensor(("b", "k", "n"), "float32")',
        "R.matmul(x, w)",
    ),
    "columns": ('x: R.Tensor(("m", "k"), "float32"), w: R.Tensor(("k", 1031), "float32")', "R.matmul(x, w)"),
    "half": ('x: R.Tensor(("m", "k"), "float16"), w: R.Tensor(("k", "n"), "float16")', "R.matmul(x, w)"),
    "fixed": ('x: R.Tensor((1, "k"), "float32"), w: R.Tensor(("k", 1031), "float32")', "R.matmul(x, w)"),
}


def _product(name: str) -> Any:
    params, call = _PRODUCTS[name]
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        y = {call}
        return y
""")


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", _PRODUCTS)
def test_products_of_any_number_of_rows(name: str, exec_mode: str) -> None:
    machine = relax.VirtualMachine(heddle.compile(_product(name), exec_mode=exec_mode), heddle.cpu())
    dtype = "float16" if name == "half" else "float32"
    rng = np.random.default_rng(0)
    for m, k, n in [(0, 3, 5), (1, 0, 7), (1, 5, 0), (1, 1, 1), (1, 37, 1031), (2, 37, 131), (19, 8, 3)]:
        rows, columns = 1 if name == "fixed" else m, 1031 if name in ("columns", "fixed") else n
        batch = (3,) if name == "batch" else ()
        x = rng.standard_normal((*batch, rows, k)).astype(dtype)
        w = rng.standard_normal((*batch, k, columns)).astype(dtype)
        wanted = x.astype("float64") @ w.astype("float64")
        wanted = np.maximum(wanted, 0) if name == "epilogue" else wanted
        got = machine["main"](x, w).numpy()
        assert got.dtype == dtype and got.shape == wanted.shape
        limit = 2e-2 if name == "half" else 2e-5
        np.testing.assert_allclose(got, wanted, rtol=limit, atol=limit)


def test_one_row_adds_as_many_rows_do() -> None:
    machine = relax.VirtualMachine(heddle.compile(_product("plain")), heddle.cpu())
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 301)).astype("float32"), rng.standard_normal((301, 1100)).astype("float32")
    many, one = machine["main"](x, w).numpy(), machine["main"](x[:1], w).numpy()
    np.testing.assert_array_equal(one, many[:1])


def test_products_of_a_free_number_of_rows_have_a_form_for_one() -> None:
    def forms(name: str) -> int:
        mod = ApplyDefaultSchedule(heddle.target.Target("llvm"))(LegalizeOps()(_product(name)))
        (func,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
        assert_structural_equal(from_source(func.script()), func)
        root: Any = for_any_length(func).body
        assert not isinstance(root.block.body, IfThenElse)
        return int(func.attrs.get(ANY_COLUMNS, 0))

    assert {name: forms(name) for name in ("plain", "columns", "fixed")} == {
        "plain": 2,
        "columns": 1,
        "fixed": 0,
    }
