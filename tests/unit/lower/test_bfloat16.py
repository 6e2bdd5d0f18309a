"""`precision="bf16"`: products of rounded factors, summed in float32.

The oracle multiplies the rounded factors in float64. A float32 sum of k products that are all as large as
`scale` is off by less than k roundings; what instructions for pairs do adds another one a pair.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.compare import compare_precisions, difference
from heddle.driver.pipeline import default_pipeline, optimize_passes
from heddle.driver.stages import stage_modules, stage_text
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Constant
from heddle.ir.structural import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc

PLAIN = "llvm -mcpu=x86-64-v3"
"""A target without dot products of bfloat16."""
DOTS = "llvm -mcpu=cooperlake"
"""A target with dot products of bfloat16, and without tiles."""
HOST_HAS_DOTS = "avx512bf16" in Target("llvm").feature_set
needs_dots = pytest.mark.skipif(not HOST_HAS_DOTS, reason="the processor lacks avx512bf16")

PRODUCT = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({data}, "float32"), w: R.Tensor({weights}, "float32")):
        with R.dataflow():
            y = {value}
            R.output(y)
        return y
"""


def module(data: Any, w: Any, value: str = "R.matmul(x, w)") -> Any:
    shape = str(data).replace("'", '"')
    return relax.transform.BindParams("main", {"w": w})(
        from_source(PRODUCT.format(data=shape, weights=w.shape, value=value))
    )


def machine(mod: Any, target: str = "llvm", **options: Any) -> Any:
    executable = heddle.compile(mod, target=target, precision="bf16", **options)
    return relax.VirtualMachine(executable, heddle.cpu())["main"]


def rounded(array: Any) -> Any:
    return array.astype(ml_dtypes.bfloat16).astype(np.float64)


def check(got: Any, x: Any, w: Any) -> None:
    expected = rounded(x) @ rounded(w)
    scale = np.abs(rounded(x)) @ np.abs(rounded(w))
    assert got.shape == expected.shape and got.dtype == np.float32
    steps = x.shape[-1] + 4
    assert (np.abs(got - expected) <= steps * 2.0**-23 * scale + 1e-30).all()


def normal(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


SIZES = [
    (1, 2, 8),
    (1, 1, 1),
    (7, 33, 17),
    (33, 1, 7),
    (13, 31, 64),
    (5, 30, 61),
    (29, 64, 127),
    (1, 254, 96),
    (37, 96, 131),
    (6, 2, 1000),
    (0, 6, 8),
    (12, 33, 64),
    (3, 3, 48),
    (1, 255, 96),
    (5, 4097, 64),
]


@pytest.mark.parametrize("target", ["llvm", PLAIN])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_any_size(m: int, k: int, n: int, target: str) -> None:
    rng = np.random.default_rng(m * 31 + k * 7 + n)
    x, w = normal(rng, m, k), normal(rng, k, n)
    check(machine(module((m, k), w), target)(x).numpy(), x, w)


@pytest.mark.parametrize("target", ["llvm", PLAIN])
@pytest.mark.parametrize(("k", "n"), [(38, 64), (33, 50), (35, 64), (4096, 72)])
def test_one_program_for_any_number_of_rows(k: int, n: int, target: str) -> None:
    """Also over an axis so long that it is cut into blocks."""
    rng = np.random.default_rng(k)
    w = normal(rng, k, n)
    call = machine(module(("m", k), w), target, exec_mode="compiled")
    for m in (0, 1, 2, 5, 6, 7, 13, 41):
        x = normal(rng, m, k)
        check(call(x).numpy(), x, w)


@pytest.mark.parametrize(
    ("data", "weights"),
    [((3, 5, 14), (14, 40)), ((2, 1, 7, 10), (3, 10, 24)), ((14,), (14, 16)), ((4, 3, 9), (4, 9, 11))],
)
def test_batches_and_vectors(data: tuple[int, ...], weights: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(data))
    x, w = normal(rng, *data), normal(rng, *weights)
    check(machine(module(data, w))(x).numpy(), x, w)


def test_transposed_weights_and_linear() -> None:
    rng = np.random.default_rng(5)
    x, w = normal(rng, 9, 22), normal(rng, 48, 22)
    turned = module((9, 22), w, "R.matmul(x, R.permute_dims(w, axes=[1, 0]))")
    check(machine(turned)(x).numpy(), x, w.T)
    check(machine(module((9, 22), w, "R.linear(x, w)"))(x).numpy(), x, w.T)


@pytest.mark.parametrize("k", [64, 4096])
def test_weights_lie_in_pairs_for_the_instruction(k: int) -> None:
    mod = module((24, k), normal(np.random.default_rng(1), k, 128))
    text = stage_text(mod, "scheduled", DOTS, precision="bf16")
    assert f"(T.int64(2), T.int64({k // 2}), T.int64(64), T.int64(2))" in text
    assert "vdpbf16ps" in stage_text(mod, "asm", DOTS, precision="bf16")


@needs_dots
@pytest.mark.parametrize("m", [1, 24, "m"])
def test_sums_of_an_odd_number_of_steps_lie_in_pairs(m: Any) -> None:
    """The instruction takes all whole pairs; the last step is one product, of nothing beyond the row."""
    mod = module((m, 65), normal(np.random.default_rng(1), 65, 128))
    assert "(T.int64(2), T.int64(33), T.int64(64), T.int64(2))" in stage_text(
        mod, "scheduled", precision="bf16"
    )
    text = stage_text(mod, "tir", precision="bf16")
    assert "in range(T.int64(32))" in text and "dpbf16ps" in text and "dot_product" not in text
    x = normal(np.random.default_rng(2), 24 if m == "m" else m, 65)
    x[0, -1] = np.inf
    got = machine(mod)(x).numpy()
    assert np.isinf(got[0]).all() and np.isfinite(got[1:]).all()


def test_other_processors_widen_the_pairs() -> None:
    mod = module((24, 64), normal(np.random.default_rng(1), 64, 128))
    text = stage_text(mod, "llvm", PLAIN, precision="bf16")
    assert "avx512" not in text and "-65536" in text  # the mask of a word's upper half


def test_only_products_with_constant_weights_change() -> None:
    source = """
from heddle.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32"), d: R.Tensor((4, 6), "float64"),
        v: R.Tensor((6, 6), "float64"), b: R.Tensor((6,), "float32")
    ):
        with R.dataflow():
            p = R.matmul(x, R.permute_dims(x))
            s = R.nn.softmax(R.add(R.matmul(x, w), b))
            q = R.matmul(d, v)
            r = R.nn.relu(R.matmul(x, w))
            R.output(p, s, q, r)
        return (p, s, q, r)
"""
    given = {"w": np.ones((6, 6), "float32"), "v": np.ones((6, 6)), "b": np.ones(6, "float32")}
    mod = relax.transform.BindParams("main", given)(from_source(source))
    for step in optimize_passes(Target("llvm"), "bf16"):
        mod = step(mod)
    products = [node for node in walk(mod["main"]) if is_call(node, "relax.matmul")]
    kinds = sorted(str(node.args[0].ty.dtype) for node in products)
    assert kinds == ["bfloat16", "float32", "float64"]  # the two products of x and w are one
    assert sum(is_call(node, "relax.astype") for node in walk(mod["main"])) == 1  # x; w is rounded already


def test_weights_that_a_loop_hands_on_to_itself() -> None:
    """Also such that are constants only once they were computed."""
    source = """
@I.ir_module
class Module:
    @R.function(private=True)
    def loop(
        i: R.Tensor((), "int64"), h: R.Tensor((1, 32), "float32"), w: R.Tensor((32, 32), "float32")
    ) -> R.Tensor((1, 32), "float32"):
        if R.less(i, R.const(3, "int64")):
            out = Module.loop(R.add(i, R.const(1, "int64")), R.tanh(R.matmul(h, w)), w)
        else:
            out = h
        return out

    @R.function
    def main(x: R.Tensor((1, 32), "float32"), w: R.Tensor((32, 32), "float32")):
        return Module.loop(R.const(0, "int64"), x, R.permute_dims(w))
"""
    rng = np.random.default_rng(9)
    x, w = normal(rng, 1, 32), normal(rng, 32, 32) / 8
    mod = relax.transform.BindParams("main", {"w": w})(from_source(source))
    expected = x
    for _ in range(3):
        expected = np.tanh(rounded(expected) @ rounded(w.T)).astype("float32")
    got = machine(mod, exec_mode="compiled")(x).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-3)  # a factor may round to its neighbour
    assert "(T.int64(1), T.int64(16), T.int64(32), T.int64(2))" in stage_text(
        mod, "scheduled", precision="bf16"
    )


def test_the_default_is_strict_and_as_it_was() -> None:
    mod = module(("m", 64), normal(np.random.default_rng(2), 64, 128))
    assert_structural_equal(
        default_pipeline(Target("llvm"))(mod), default_pipeline(Target("llvm"), "fp32")(mod)
    )
    names = [step.info.name for step in default_pipeline(Target("llvm")).passes]
    assert "ContractInBfloat16" not in names
    for stage in ("scheduled", "llvm"):
        assert "bf" not in stage_text(mod, stage)
    executable = heddle.compile(mod, target="llvm")
    assert "precision" not in executable.metadata
    assert heddle.compile(mod, target="llvm", precision="bf16").metadata["precision"] == "bf16"


def test_weights_take_half_the_memory(tmp_path: Path) -> None:
    mod = module((1, 256), normal(np.random.default_rng(3), 256, 512))
    sizes = []
    for precision in ("fp32", "bf16"):
        path = tmp_path / f"{precision}.heddle"
        heddle.compile(mod, target="llvm", precision=precision).export_library(path)
        sizes.append(path.stat().st_size)
    assert 250_000 < sizes[0] - sizes[1] < 270_000


@pytest.mark.parametrize("k", [24, 23])
def test_the_loop_interpreter_agrees(k: int) -> None:
    """The scheduled loops, run one by one, give what the instruction gives up to its rounding."""
    rng = np.random.default_rng(4)
    x, w = normal(rng, 5, k), normal(rng, k, 16)
    mod = stage_modules(module((5, k), w), precision="bf16")["scheduled"]
    (loops,) = (func for var, func in mod.functions.items() if var.name_hint.startswith("matmul"))
    packed = next(node for node in walk(mod["main"]) if isinstance(node, Constant) and node.data.ndim == 4)
    result = np.zeros((5, 16), "float32")
    run_primfunc(loops, x.astype(ml_dtypes.bfloat16), packed.data.numpy(), result)
    check(result, x, w)
    check(machine(module((5, k), w))(x).numpy(), x, w)


def test_bad_options() -> None:
    mod = module((2, 2), np.ones((2, 2), "float32"))
    with pytest.raises(ValueError, match=r"D0103.*precision 'fp8'.*fp32, bf16"):
        heddle.compile(mod, target="llvm", precision="fp8")
    with pytest.raises(ValueError, match=r"D0103.*belongs to the default pipeline"):
        heddle.compile(mod, target="llvm", precision="bf16", relax_pipeline=lambda mod: mod)
    loops = stage_modules(mod)["scheduled"]
    alone = loops.with_functions({var: f for var, f in loops.functions.items() if var.name_hint != "main"})
    with pytest.raises(ValueError, match=r"D0103.*graph functions"):
        heddle.compile(alone, target="llvm", precision="bf16")


# ---- convolutions

CONVOLUTION = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor({data}, "float32"), w: R.Tensor({weights}, "float32"), b: R.Tensor({bias}, "float32")
    ):
        with R.dataflow():
            y = R.nn.relu(R.add(R.nn.conv2d(x, w, {attrs}), b))
            R.output(y)
        return y
"""


def convolved(x: Any, w: Any, stride: int, pad: int) -> Any:
    """The sums and, for the error's bound, the sums of magnitudes."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return tuple(np.einsum("ncyxuv,ocuv->noyx", f(windows), f(w)) for f in (np.asarray, np.abs))


@pytest.mark.parametrize("target", ["llvm", PLAIN])
@pytest.mark.parametrize(
    ("channels", "taps", "size", "stride", "pad"),
    [
        ((16, 32), 1, 7, 1, 0),
        ((32, 16), 1, 13, 2, 0),
        ((64, 48), 3, 9, 2, 1),
        ((16, 16), 5, 11, 1, 2),
        ((128, 64), 1, 1, 1, 0),
        ((16, 32), 3, 8, 1, 1),
        ((32, 16), 3, 17, 1, 1),
        ((24, 40), 1, 7, 1, 0),
        ((3, 16), 7, 17, 2, 3),
        ((24, 20), 1, 5, 1, 0),
    ],
)
def test_convolutions(
    channels: tuple[int, int], taps: int, size: int, stride: int, pad: int, target: str
) -> None:
    ins, outs = channels
    rng = np.random.default_rng(ins + outs + taps)
    x, w, b = normal(rng, 2, ins, size, size), normal(rng, outs, ins, taps, taps), normal(rng, 1, outs, 1, 1)
    attrs = f"strides=({stride}, {stride}), padding=({pad}, {pad})"
    text = CONVOLUTION.format(data=x.shape, weights=w.shape, bias=b.shape, attrs=attrs)
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(text))
    is_narrow = ins % 8 == 0 and outs % 8 == 0 and (taps, stride, size) != (3, 1, 17)
    assert ("bfloat16" in str(relax.transform.ContractInBfloat16()(mod))) == is_narrow
    factors = (rounded(x), rounded(w)) if is_narrow else (x.astype("float64"), w.astype("float64"))
    total, scale = convolved(*factors, stride, pad)
    got = machine(mod, target)(x).numpy()
    error = np.abs(got - np.maximum(total + b, 0))
    assert (error <= (ins * taps * taps + 8) * 2.0**-23 * (scale + np.abs(b))).all()


@needs_dots
def test_channels_lie_side_by_side_for_the_instruction() -> None:
    w, b = np.ones((32, 64, 1, 1), "float32"), np.ones((1, 32, 1, 1), "float32")
    text = CONVOLUTION.format(data=(1, 64, 28, 28), weights=w.shape, bias=b.shape, attrs="padding=(0, 0)")
    mod = relax.transform.BindParams("main", {"w": w, "b": b})(from_source(text))
    assert "vdpbf16ps" in stage_text(mod, "asm", precision="bf16")
    assert "vdpbf16ps" not in stage_text(mod, "asm")


# ---- reports


def test_reports_of_accuracy() -> None:
    rng = np.random.default_rng(6)
    w, x = normal(rng, 66, 40), normal(rng, 7, 66)
    mod = module(("m", 66), w)
    (row,) = compare_precisions(mod, [x])
    strict, narrow = x.astype("float64") @ w, rounded(x) @ rounded(w)
    expected = np.abs(strict - narrow).max() / np.abs(strict).max()
    assert row["name"] == "y" and row["agrees"]
    assert row["max_relative_error"] == pytest.approx(expected, rel=1e-3)
    (same,) = compare_precisions(mod, [x], precision="fp32")
    assert same["max_abs_error"] == 0


def test_a_difference_knows_its_precision() -> None:
    theirs = np.ones(1000, "float32")
    ours = theirs + np.float32(2e-2)
    assert difference("y", ours, theirs, "bf16")["agrees"]
    assert not difference("y", ours, theirs)["agrees"]
    far = difference("y", theirs * 2, theirs, "bf16")
    assert not far["agrees"] and far["max_relative_error"] == far["mean_relative_error"] == 1
    assert difference("y", theirs, theirs * 0)["max_relative_error"] is None
