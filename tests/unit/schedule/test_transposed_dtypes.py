"""Transposes of elements of every width go through tiles in registers, and move every bit as it is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.script import from_source
from heddle.target import Target

DTYPES = ("bool", "int8", "uint8", "int16", "float16", "bfloat16", "float32", "int64", "float64")
SIZES = ((0, 5), (1, 1), (1, 64), (3, 7), (8, 16), (17, 33), (64, 130), (257, 129))
PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({dims}), "{dtype}")) -> R.Tensor(("b", {last}), "{dtype}"):
        y = R.permute_dims(x, (0, 2, 1))
        return y
"""


def program(dtype: str, sizes: tuple[int, int] | None = None) -> Any:
    n, d = ('"n"', '"d"') if sizes is None else map(str, sizes)
    return from_source(PROGRAM.format(dims=f'"b", {n}, {d}', last=f"{d}, {n}", dtype=dtype))


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Any bits, those of NaN among them."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(sum(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_free_sizes(dtype: str, mode: str) -> None:
    machine = relax.VirtualMachine(heddle.compile(program(dtype), exec_mode=mode), heddle.cpu())
    for sizes in SIZES:
        x = values(dtype, (2, *sizes))
        got = machine["main"](heddle.runtime.tensor(x)).numpy()
        assert got.dtype == x.dtype and got.shape == (2, sizes[1], sizes[0])
        assert got.tobytes() == np.ascontiguousarray(x.transpose(0, 2, 1)).tobytes()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_fixed_sizes(dtype: str) -> None:
    for sizes in ((17, 33), (64, 130), (5, 4)):
        machine = relax.VirtualMachine(heddle.compile(program(dtype, sizes)), heddle.cpu())
        x = values(dtype, (2, *sizes))
        got = machine["main"](heddle.runtime.tensor(x)).numpy()
        assert got.tobytes() == np.ascontiguousarray(x.transpose(0, 2, 1)).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rule(dtype: str) -> None:
    mod = heddle.relax.transform.LegalizeOps()(program(dtype))
    mod = ApplyDefaultSchedule(Target("llvm"))(mod)
    rules = [func.attrs.get("schedule_rule") for func in mod.functions.values() if func.dialect == "tir"]
    assert rules == ["Transpose"]
