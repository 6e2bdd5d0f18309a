"""Products whose weights are the same for all sequences: rows of several sequences share a tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.opt import OptOptions, run_passes
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.script import parse
from heddle.target import Target
from heddle.tir.nodes import For, ForKind, PrimFunc

TARGET = Target("llvm -mcpu=x86-64-v4")
PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({a}, {b}, 24), "float32"), w: R.Tensor((24, 40), "float32"), \
r: R.Tensor(({a}, {b}, 40), "float32"), s: R.Tensor((40,), "float32")):
        with R.dataflow():
            p = R.matmul(x, w)
            q = R.add(p, s)
            y = {last}
            R.output(y)
        return y
"""
LAST = {
    "residual": ("R.add(R.nn.relu(q), r)", lambda q, r: np.maximum(q, 0) + r),
    "heads": (
        "R.permute_dims(R.reshape(q, ({a}, {b}, 5, 8)), axes=[0, 2, 1, 3])",
        lambda q, r: q.reshape(*q.shape[:2], 5, 8).transpose(0, 2, 1, 3),
    ),
    "other order": ("R.permute_dims(q, axes=[1, 0, 2])", lambda q, r: q.transpose(1, 0, 2)),
    "plain": ("R.nn.relu(q)", lambda q, r: np.maximum(q, 0)),
}
SIZES = [(1, 1), (1, 51), (51, 1), (64, 1), (8, 5), (7, 13), (0, 4), (4, 0)]


def program(last: str, a: Any, b: Any) -> IRModule:
    text = [f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in (a, b)]
    code = LAST[last][0].format(a=a, b=b)
    return parse(PROGRAM.format(a=text[0], b=text[1], last=code))


@cache
def machine(last: str, a: Any, b: Any) -> relax.VirtualMachine:
    return relax.VirtualMachine(heddle.compile(program(last, a, b), target="llvm"), heddle.cpu())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("is_free", [True, False], ids=["free", "known"])
@pytest.mark.parametrize("last", LAST)
def test_rows_of_all_sequences(last: str, is_free: bool, sizes: tuple[int, int]) -> None:
    if is_free and last == "heads":
        pytest.skip("text has no names for sizes inside of a function")
    rng = np.random.default_rng()
    x, w = rng.standard_normal((*sizes, 24), "float32"), rng.standard_normal((24, 40), "float32")
    r, s = rng.standard_normal((*sizes, 40), "float32"), rng.standard_normal(40, "float32")
    got = machine(last, *(("a", "b") if is_free else sizes))["main"](x, w, r, s).numpy()
    np.testing.assert_allclose(got, LAST[last][1](x @ w + s, r), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "merged"), [("a", "b", True), (51, 1, True), (2, 128, False), (1, 9, False)]
)
def test_few_rows_of_many_sequences_are_one_axis(a: Any, b: Any, merged: bool) -> None:
    """Many rows of a sequence fill tiles by themselves."""
    mod = program("plain", a, b)
    for pipeline in ("optimize", "legalize"):
        mod = run_passes(mod, OptOptions(pipeline=pipeline, target=TARGET))
    [func] = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    [sums] = [n for n in walk(func) if isinstance(n, For) and n.kind is ForKind.PARALLEL]
    names = {n.loop_var.name for n in walk(sums) if isinstance(n, For)}
    assert any(name.startswith("ax0_1") for name in names) == merged, names


@pytest.mark.parametrize("squeezed", [0, 1])
def test_a_reader_that_drops_an_axis_of_one_row(squeezed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDDLE_STRICT_RULES", "1")  # a rule that fails is an error
    dims = (1, 7, 16, 24) if squeezed == 0 else (7, 1, 16, 24)
    mod = parse(
        f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({dims}, "float32"), w: R.Tensor((24, 40), "float32")):
        with R.dataflow():
            p = R.matmul(x, w)
            y = R.squeeze(p, axis=[{squeezed}])
            R.output(y)
        return y
"""
    )
    rng = np.random.default_rng()
    x, w = rng.standard_normal(dims, "float32"), rng.standard_normal((24, 40), "float32")
    got = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())["main"](x, w).numpy()
    np.testing.assert_allclose(got, (x @ w).squeeze(squeezed), rtol=1e-4, atol=1e-4)


def typed_program(dtype: str, result: str, a: Any, b: Any) -> IRModule:
    """A product alone, whose rows lie in two axes."""
    text = [f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in (a, b)]
    return parse(
        f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({text[0]}, {text[1]}, 24), "{dtype}"), w: R.Tensor((24, 40), "{dtype}")):
        with R.dataflow():
            y = R.matmul(x, w, out_dtype="{result}")
            R.output(y)
        return y
"""
    )


TYPES = {
    "int8": "int32",
    "uint8": "int32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64",
}


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "known"])
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_other_types(dtype: str, is_free: bool) -> None:
    """Small whole numbers: products and sums of them are exact in every type."""
    rng = np.random.default_rng(3)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    made = None
    for sizes in SIZES:
        if made is None or not is_free:
            mod = typed_program(dtype, TYPES[dtype], *(("a", "b") if is_free else sizes))
            made = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
        low = 0 if dtype == "uint8" else -2
        x, w = (rng.integers(low, 3, shape) for shape in ((*sizes, 24), (24, 40)))
        got = made["main"](x.astype(kind), w.astype(kind)).numpy()
        np.testing.assert_array_equal(got.astype("float64"), (x @ w).astype("float64"))


PROCESSORS = [
    f"-mcpu={cpu}" for cpu in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "sapphirerapids")
] + ["-mtriple=aarch64-linux-gnu"]


@pytest.mark.parametrize("dtype", ["float32", *TYPES])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_other_processors_get_code(processor: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled only; a rule that fails is an error."""
    monkeypatch.setenv("HEDDLE_STRICT_RULES", "1")
    for sizes in (("a", "b"), (51, 1)):
        mod = typed_program(dtype, TYPES.get(dtype, dtype), *sizes)
        assert heddle.compile(mod, target=f"llvm {processor}").imports
