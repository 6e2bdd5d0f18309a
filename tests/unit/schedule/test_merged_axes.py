"""Axes that lie side by side become one: which do, and that transposes and sums over such are PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.relax.transform import LegalizeOps
from heddle.runtime import set_num_threads
from heddle.runtime.native.library import native_library
from heddle.script import from_source
from heddle.tir.nodes import BufferLoad, PrimFunc
from heddle.tir.schedule.rules.merged_axes import with_merged_axes

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")

_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
_SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 64, 127)
_PERMUTATIONS = [
    *permutations(range(3)),
    (0, 2, 3, 1),
    (0, 3, 1, 2),
    (2, 3, 0, 1),
    (3, 1, 2, 0),
    (1, 0, 2, 3),
]


def _module(call: str, dims: tuple[int | str, ...], dtype: str) -> Any:
    shape = ", ".join(repr(dim) for dim in dims)
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({shape},), "{dtype}")):
        y = {call}
        return y
""")


def _functions(mod: Any) -> list[PrimFunc]:
    return [func for func in LegalizeOps()(mod).functions.values() if isinstance(func, PrimFunc)]


def _sides(call: str, *dims: int | str) -> tuple[int, int] | None:
    (func,) = _functions(_module(call, dims, "float32"))
    merged = with_merged_axes(func)
    if merged is None:
        return None
    read, written = (len(buffer.shape) for buffer in merged.func.buffers)
    return read, written


def test_which_axes_are_merged() -> None:
    assert _sides("R.permute_dims(x, axes=[1, 2, 0])", "a", "b", "c") == (2, 2)
    assert _sides("R.permute_dims(x, axes=[2, 0, 1])", 3, 5, 7) == (2, 2)
    assert _sides("R.permute_dims(x, axes=[1, 0, 2])", "a", "b", "c") is None
    assert _sides("R.permute_dims(x, axes=[2, 3, 4, 0, 1])", "a", "b", "c", 4, 5) == (2, 2)
    assert _sides("R.sum(x, axis=[0])", "a", "b", "c") == (2, 1)
    assert _sides("R.sum(x, axis=[1])", "a", "b", "c") is None
    assert _sides("R.sum(x, axis=[2, 3])", "a", "b", "c", "d") == (2, 1)
    assert _sides("R.triu(x)", "a", 5, 7) is None  # places are values


@pytest.mark.parametrize("call", ["R.permute_dims(x, axes=[1, 2, 0])", "R.sum(x, axis=[0])"])
@pytest.mark.parametrize("dims", [("a", "b", "c"), (50, 37, 3)])
def test_scheduled_loops_have_the_buffers_of_the_parameters(call: str, dims: tuple[int | str, ...]) -> None:
    mod = LegalizeOps()(_module(call, dims, "float32"))
    mod = ApplyDefaultSchedule(heddle.target.Target("llvm"))(mod)
    (func,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    assert len(func.buffers[0].shape) == 3
    loads = [node for node in walk(func.body) if isinstance(node, BufferLoad)]
    assert any(load.buffer is func.buffers[0] for load in loads)
    assert_structural_equal(from_source(func.script()), func)


@pytest.fixture
def threads() -> Iterator[None]:
    before = native_library().num_threads
    yield
    set_num_threads(before)


def _results(call: str, dims: tuple[int | str, ...], x: np.ndarray) -> np.ndarray:
    """What the machine gives: the same bits with one thread and with two, in both modes."""
    found = []
    for mode in ("compiled", "bytecode"):
        executable = heddle.compile(_module(call, dims, str(x.dtype)), exec_mode=mode)
        machine = relax.VirtualMachine(executable, heddle.cpu())
        for count in (1, 2):
            set_num_threads(count)
            found.append(machine["main"](x).numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    return found[0]


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("seed", range(6))
def test_transposes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = _PERMUTATIONS[int(rng.integers(len(_PERMUTATIONS)))]
    shape = tuple(int(n) for n in rng.choice(_SIZES[: 13 if len(axes) == 3 else 10], len(axes)))
    x = _random(rng, shape, str(rng.choice(_DTYPES)))
    call = f"R.permute_dims(x, axes={list(axes)})"
    expected = torch.from_numpy(x).permute(axes).contiguous().numpy()
    free = tuple("abcd"[: len(axes)])
    np.testing.assert_array_equal(_results(call, free, x), expected)
    np.testing.assert_array_equal(_results(call, shape, x), expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("seed", range(6))
def test_reductions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(3, 5))
    axes = sorted(int(axis) for axis in rng.choice(rank, int(rng.integers(1, rank)), replace=False))
    shape = tuple(int(n) for n in rng.choice(_SIZES[: 13 if rank == 3 else 10], rank))
    x = _random(rng, shape, str(rng.choice(["float32", "float64", "int32", "int64"])))
    keeps = bool(rng.integers(2))
    call = f"R.sum(x, axis={axes}, keepdims={keeps})"
    expected = torch.from_numpy(x).sum(axes, keepdim=keeps).numpy()
    free = tuple("abcd"[:rank])
    for dims in (free, shape):
        got = _results(call, dims, x)
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)  # sums of whole numbers, which floats hold
