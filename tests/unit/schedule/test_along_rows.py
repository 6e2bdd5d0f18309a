"""Products that read both operands along the sum: right for all sizes, and without a transposed copy for few
rows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.lower.fuse_ops import FuseOps
from heddle.lower.fuse_tir import FuseTIR
from heddle.relax.transform import LegalizeOps
from heddle.script import from_source
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.rules.along_rows import FEW_ROWS
from heddle.tir.schedule.rules.one_column import ANY_COLUMNS

_NAMES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


class _Case:
    """The shapes of x, w and c by the names of sizes; what is computed, as script and by numpy."""

    def __init__(
        self, shapes: tuple[str, str, str], script: str, wanted: Any, dtype: str = "float32"
    ) -> None:
        self.shapes, self.script, self.wanted, self.dtype = shapes, script, wanted, dtype

    def module(self, sizes: dict[str, int]) -> Any:
        """With the sizes that are known as numbers, the others free."""

        def dims(shape: str) -> str:
            return "".join(f"{sizes[name]}, " if name in sizes else f'"{name}", ' for name in shape)

        params = ", ".join(
            f'{name}: R.Tensor(({dims(shape)}), "{self.dtype}")'
            for name, shape in zip("xwc", self.shapes, strict=True)
        )
        return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            y = {self.script}
            R.output(y)
        return y
""")

    def arrays(self, sizes: dict[str, int]) -> list[np.ndarray]:
        rng = np.random.default_rng(sum(sizes.values()))
        made = [rng.standard_normal([sizes[name] for name in shape]) for shape in self.shapes]
        return [array.astype(_NAMES[self.dtype]) for array in made]


_TRANSPOSED = "R.permute_dims(w, axes=[1, 0])"
_CASES = {
    "weights": _Case(("mk", "nk", "n"), f"R.matmul(x, {_TRANSPOSED})", lambda x, w, c: x @ w.T),
    "epilogue": _Case(
        ("mk", "nk", "n"),
        f"R.nn.relu(R.add(R.matmul(x, {_TRANSPOSED}), c))",
        lambda x, w, c: _relu(x @ w.T + c),
    ),
    "batch": _Case(
        ("bmk", "bnk", "n"),
        "R.matmul(x, R.permute_dims(w, axes=[0, 2, 1]))",
        lambda x, w, c: x @ w.transpose(0, 2, 1),
    ),
    "heads": _Case(
        ("bhmk", "bnhk", "n"),
        "R.matmul(x, R.permute_dims(w, axes=[0, 2, 3, 1]))",
        lambda x, w, c: x @ w.transpose(0, 2, 3, 1),
    ),
    "rows of images": _Case(("bmk", "nk", "n"), f"R.matmul(x, {_TRANSPOSED})", lambda x, w, c: x @ w.T),
    "vector": _Case(("k", "nk", "n"), f"R.matmul(x, {_TRANSPOSED})", lambda x, w, c: x @ w.T),
    "float16": _Case(("mk", "nk", "n"), f"R.matmul(x, {_TRANSPOSED})", lambda x, w, c: x @ w.T, "float16"),
    "bfloat16": _Case(("mk", "nk", "n"), f"R.matmul(x, {_TRANSPOSED})", lambda x, w, c: x @ w.T, "bfloat16"),
    "with itself": _Case(
        ("mk", "nk", "n"), "R.matmul(x, R.permute_dims(x, axes=[1, 0]))", lambda x, w, c: x @ x.T
    ),
}
_SIZES = [
    {"b": 1, "h": 1, "m": 1, "n": 1, "k": 1},
    {"b": 2, "h": 3, "m": 1, "n": 37, "k": 67},
    {"b": 0, "h": 1, "m": 1, "n": 4, "k": 16},
    {"b": 1, "h": 2, "m": 0, "n": 5, "k": 8},
    {"b": 1, "h": 2, "m": 2, "n": 0, "k": 8},
    {"b": 3, "h": 1, "m": 2, "n": 5, "k": 0},
    {"b": 2, "h": 2, "m": 4, "n": 8, "k": 64},
    {"b": 1, "h": 3, "m": 7, "n": 131, "k": 19},
    {"b": 2, "h": 1, "m": 16, "n": 3, "k": 31},
    {"b": 2, "h": 2, "m": 17, "n": 13, "k": 33},
]


def _check(case: _Case, machine: Any, sizes: dict[str, int]) -> None:
    arrays = case.arrays(sizes)
    got = machine["main"](*(heddle.runtime.tensor(array) for array in arrays)).numpy()
    wanted = np.asarray(case.wanted(*(array.astype("float64") for array in arrays)))
    limit = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}[case.dtype]
    assert got.dtype == _NAMES[case.dtype] and got.shape == wanted.shape
    root = max(1.0, float(sizes["k"]) ** 0.5)
    np.testing.assert_allclose(got.astype("float64"), wanted, rtol=limit, atol=limit * root)


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", _CASES)
def test_free_sizes(name: str, exec_mode: str) -> None:
    case = _CASES[name]
    machine = relax.VirtualMachine(heddle.compile(case.module({}), exec_mode=exec_mode), heddle.cpu())
    for sizes in _SIZES:
        _check(case, machine, sizes)


@pytest.mark.parametrize("number", range(len(_SIZES)))
@pytest.mark.parametrize("name", ["epilogue", "heads", "float16"])
def test_known_sizes(name: str, number: int) -> None:
    case = _CASES[name]
    machine = relax.VirtualMachine(heddle.compile(case.module(_SIZES[number])), heddle.cpu())
    _check(case, machine, _SIZES[number])


def _scheduled(case: _Case, sizes: dict[str, int]) -> tuple[int, str, int]:
    """How many kernels there are, the product's rule, and how many forms it has beside the general one."""
    mod = FuseTIR()(FuseOps()(LegalizeOps()(case.module(sizes))))
    mod = ApplyDefaultSchedule(heddle.target.Target("llvm -mcpu=x86-64-v3"))(mod)
    funcs = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    func = next(func for func in funcs if func.attrs["schedule_rule"] != "Transpose")
    return len(funcs), func.attrs["schedule_rule"], int(func.attrs.get(ANY_COLUMNS, 0))


def test_few_rows_read_weights_as_they_are() -> None:
    case = _CASES["epilogue"]
    assert _scheduled(case, {"m": 1, "n": 64, "k": 64}) == (1, "AlongRows", 0)
    assert _scheduled(case, {"m": FEW_ROWS, "n": 64, "k": 64}) == (1, "AlongRows", 0)
    assert _scheduled(case, {"m": FEW_ROWS + 1, "n": 64, "k": 64}) == (2, "Contraction", 0)
    assert _scheduled(case, {"n": 64, "k": 64}) == (1, "Contraction", 1)
    assert _scheduled(_CASES["batch"], {"n": 64, "k": 64}) == (1, "Contraction", 1)


def test_a_transposition_that_something_else_needs_stays() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            t = R.permute_dims(w, axes=[1, 0])
            y = R.matmul(x, t)
            z = R.matmul(y, t)
            R.output(z)
        return z
""")
    fused = FuseTIR()(FuseOps()(LegalizeOps()(mod)))
    assert sorted(var.name_hint for var in fused.functions) == ["main", "matmul", "permute_dims"]
