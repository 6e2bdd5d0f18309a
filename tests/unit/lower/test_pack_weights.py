"""Packed weights: any number of columns, filled up by zeros that no result sees."""

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.visitor import walk
from heddle.lower.pack_weights import MAX_FILL, choose_block
from heddle.prim.intrinsics import is_prefetch
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import For, ForKind, PrimFunc

MATMUL = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("m", {k}), "float32"), w: R.Tensor(({k}, {n}), "float32"), b: R.Tensor(({n},), "float32")
    ):
        with R.dataflow():
            y = R.add(R.matmul(x, w), b)
            R.output(y)
        return y
"""


@pytest.mark.parametrize(
    ("size", "most", "block"),
    [(64, 64, 64), (64, 16, 16), (1000, 64, 64), (50257, 64, 64), (96, 64, 48), (96, 32, 32), (24, 64, 8)],
)
def test_the_block_wastes_little(size, most, block):
    assert choose_block(size, most) == block
    assert -size % block <= MAX_FILL * size
    assert choose_block(7, most) is None


@pytest.mark.parametrize(
    ("options", "rows", "columns"),
    [
        ("-mcpu=haswell", '"m"', 16),
        ("-mcpu=haswell", 100, 16),
        ("-mcpu=haswell", 1, 32),
        ("-mcpu=skylake-avx512", '"m"', 64),
        ("-mtriple=riscv64-unknown-linux-gnu", 100, 8),  # its tile has 4 columns, and no panel has so few
    ],
)
def test_a_panel_is_as_wide_as_the_register_tile(options, rows, columns):
    """So that a tile reads its weights from front to end. The next one is fetched meanwhile, where rows use
    a panel more than once."""
    source = MATMUL.format(k=64, n=256).replace('("m",', f"({rows},")
    weights = {"w": np.zeros((64, 256), "float32"), "b": np.zeros(256, "float32")}
    mod = relax.transform.BindParams("main", weights)(from_source(source))
    target = Target(f"llvm {options}")
    for step in (*optimize_passes(target), *legalize_passes(target)):
        mod = step(mod)
    (kernel,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    panels = next(buffer for buffer in kernel.buffers if len(buffer.shape) == 3)
    assert [int(extent) for extent in panels.shape] == [256 // columns, 64, columns]
    assert any(is_prefetch(node) for node in walk(kernel)) is (rows != 1 and columns > 8)


@pytest.mark.parametrize(("k", "n"), [(5, 1000), (17, 61), (1, 127), (8, 64)])
def test_columns_that_no_block_divides(k, n):
    rng = np.random.default_rng(n)
    w, b = rng.standard_normal((k, n)).astype("float32"), rng.standard_normal(n).astype("float32")
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(MATMUL.format(k=k, n=n)))
    machine = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
    for rows in (0, 1, 5, 6, 7, 13):
        x = rng.standard_normal((rows, k)).astype("float32")
        np.testing.assert_allclose(machine["main"](x).numpy(), x @ w + b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "sweeps"), [(1, [True]), (3, [True]), (100, [False]), ('"m"', [True, False])]
)
def test_weights_that_are_read_once_a_run_are_swept(rows, sweeps):
    """Every other run of such a loop goes backwards; more rows would want the next panel, not the last. Where
    the number is free, one row has loops of its own."""
    source = MATMUL.format(k=64, n=256).replace('("m",', f"({rows},")
    w, b = np.zeros((64, 256), "float32"), np.zeros(256, "float32")
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(source))
    target = Target("llvm -mcpu=skylake-avx512")
    for step in (*optimize_passes(target), *legalize_passes(target)):
        mod = step(mod)
    loops = [node for func in mod.functions.values() for node in walk(func) if isinstance(node, For)]
    parallel = [loop for loop in loops if loop.kind is ForKind.PARALLEL]
    assert ["sweep" in loop.annotations for loop in parallel] == sweeps


@pytest.mark.parametrize(("k", "n"), [(2048, 64), (3072, 130), (1031, 64)])
def test_long_reductions_in_blocks(k, n):
    """Sums of blocks; an axis that nothing divides stays whole."""
    rng = np.random.default_rng(k)
    w, b = rng.standard_normal((k, n)).astype("float32"), rng.standard_normal(n).astype("float32")
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(MATMUL.format(k=k, n=n)))
    machine = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
    for rows in (0, 1, 6, 17):
        x = rng.standard_normal((rows, k)).astype("float32")
        exact = x.astype("float64") @ w + b
        np.testing.assert_allclose(machine["main"](x).numpy(), exact, rtol=1e-4, atol=1e-3)


def test_one_row_over_a_long_axis():
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((4096, 64)).astype("float32"), rng.standard_normal(64).astype("float32")
    source = MATMUL.format(k=4096, n=64).replace('("m", 4096)', "(1, 4096)")
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(source))
    x = rng.standard_normal((1, 4096)).astype("float32")
    got = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())["main"](x).numpy()
    np.testing.assert_allclose(got, x @ w + b, rtol=1e-4, atol=1e-3)
