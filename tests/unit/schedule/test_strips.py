"""Reductions across memory, of short rows and of one row's products, at sizes that are free: strips of lanes,
whose sums stay in registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.runtime import set_num_threads
from heddle.runtime.native.library import native_library
from heddle.script import from_source

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main({params}):
        y = {call}
        return y
"""
SHAPES = (
    (0, 3, 5),
    (2, 0, 5),
    (1, 1, 1),
    (2, 3, 1),
    (3, 7, 17),
    (1, 64, 33),
    (5, 21, 64),
    (2, 130, 7),
    (3, 4, 129),
)
MODES = ("compiled", "bytecode")


@pytest.fixture
def threads() -> Iterator[Any]:
    before = native_library().num_threads
    yield set_num_threads
    set_num_threads(before)


def machine(params: str, call: str, mode: str = "compiled") -> Any:
    mod = from_source(PROGRAM.format(params=params, call=call))
    return relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())


def softmax(x: np.ndarray[Any, Any], is_log: bool) -> np.ndarray[Any, Any]:
    wide = x.astype("float64")
    moved = wide - wide.max(1, keepdims=True, initial=-np.inf)
    total = np.exp(moved).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return moved - np.log(total) if is_log else np.exp(moved) / total


def values(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_over_a_middle_axis(name: str, dtype: str, mode: str, threads: Any) -> None:
    vm = machine(f'x: R.Tensor(("a", "c", "d"), "{dtype}")', f"R.nn.{name}(x, axis=1)", mode)
    for shape in SHAPES:
        x = values(shape, dtype) * 4
        found = []
        for count in (1, 2):
            threads(count)
            found.append(vm["main"](x).numpy())
        limit = 1e-5 if dtype == "float32" else 1e-2
        np.testing.assert_allclose(found[0], softmax(x, name == "log_softmax"), rtol=limit, atol=limit)
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (1, 21, 14, 14), (1, 5, 3, 113), (1, 2, 4, 3)])
def test_softmax_over_channels_of_known_sizes(shape: tuple[int, ...]) -> None:
    vm = machine(f'x: R.Tensor({shape}, "float32")', "R.nn.softmax(x, axis=1)")
    x = values(shape)
    x[0, 0, 0, 0], x[0, :, 1, 1] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(vm["main"](x).numpy(), softmax(x, False), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_reductions(name: str, axis: int, mode: str) -> None:
    vm = machine('x: R.Tensor(("a", "c", "d"), "float32")', f"R.{name}(x, axis={axis})", mode)
    for shape in SHAPES:
        x = values(shape) if name != "prod" else 1 + values(shape) / 64
        if shape[axis] == 0 and name in ("max", "min", "mean"):
            continue
        if x.size > 4 and name not in ("max", "min"):  # which promise nothing for NaN
            x.reshape(-1)[3] = np.nan
        got, want = vm["main"](x).numpy(), getattr(np, name)(x.astype("float64"), axis=axis)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "params",
    [
        'x: R.Tensor(("k",), "float32"), w: R.Tensor(("b", "k", "n"), "float32")',
        'x: R.Tensor(("b", 1, "k"), "float32"), w: R.Tensor(("b", "k", "n"), "float32")',
        'x: R.Tensor(("b", 1, 64), "float32"), w: R.Tensor(("b", 64, "n"), "float32")',
    ],
)
def test_products_of_one_row(params: str, mode: str, threads: Any) -> None:
    vm = machine(params, "R.matmul(x, w)", mode)
    for b, k, n in ((1, 64, 1), (3, 1, 17), (2, 64, 64), (2, 64, 129), (1, 64, 0), (2, 5, 7), (1, 300, 33)):
        k = 64 if "64" in params else k
        rows = (k,) if params.startswith('x: R.Tensor(("k"') else (b, 1, k)
        x, w = values(rows), values((b, k, n))
        found = []
        for count in (1, 2):
            threads(count)
            found.append(vm["main"](x, w).numpy())
        np.testing.assert_allclose(found[0], x @ w, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(*found)
