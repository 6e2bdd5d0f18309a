"""Convolutional graphs through the passes on layouts, groups and minimal filtering, against plain sums."""

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import heddle
from heddle import relax
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.types import TensorType
from heddle.ir.structural import structural_equal
from heddle.ir.transform import PassContext
from heddle.lower.convert_layout import ConvertToBlockedLayout
from heddle.lower.convert_winograd import ConvertToWinograd
from heddle.lower.widen_groups import WidenGroups
from heddle.prim.evaluate import evaluate
from heddle.prim.substitute import free_vars
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule

TARGET = Target("llvm -mcpu=skylake-avx512")
HOST = Target("llvm")
QUICK = Target("llvm -opt-level=1")


@dataclass(frozen=True)
class Case:
    """A 1 × 1 convolution to `ins` channels, then the one under test, a bias and a relu."""

    ins: int
    outs: int
    size: tuple[int, int]
    kernel: int = 3
    batch: int | str = 1
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        attrs = "-".join(f"{name}{value}" for name, value in self.attrs.items())
        return f"{self.batch}x{self.ins}to{self.outs}-{self.size[0]}x{self.size[1]}-k{self.kernel}-{attrs}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        groups = self.attrs.get("groups", 1)
        weights = (self.outs, self.ins // groups, self.kernel, self.kernel)
        return (self.ins, 3, 1, 1), weights, (1, self.outs, 1, 1)

    def module(self, weights):
        attrs = ", ".join(f"{name}={value}" for name, value in self.attrs.items())
        first, second, bias = self.shapes
        source = f"""
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(({self.batch!r}, 3, {self.size[0]}, {self.size[1]}), "float32"),
        u: R.Tensor({first}, "float32"), w: R.Tensor({second}, "float32"), b: R.Tensor({bias}, "float32"),
    ):
        with R.dataflow():
            t = R.nn.conv2d(x, u)
            y = R.nn.relu(R.add(R.nn.conv2d(t, w, {attrs}), b))
            R.output(y)
        return y
"""
        return relax.transform.BindParams("main", dict(zip("uwb", weights, strict=True)))(from_source(source))

    def weights(self, rng):
        return [
            (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32")
            for shape in self.shapes
        ]

    def expected(self, x, weights):
        u, w, b = weights
        made = correlated(correlated(x, u), w, **self.attrs) + b
        return np.maximum(made, 0).astype("float32")


def correlated(x, w, strides=1, padding=0, dilation=1, groups=1):
    """A convolution as a sum over windows, in float64."""
    down, across = padding if isinstance(padding, list) else (padding, padding)
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (down, down), (across, across)))
    reach = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    windows = sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, ::strides, ::strides, ::dilation, ::dilation]
    n, c, *rest = windows.shape
    windows = windows.reshape(n, groups, c // groups, *rest)
    taps = w.astype("float64").reshape(groups, len(w) // groups, *w.shape[1:])
    made = np.einsum("ngchwij,gocij->ngohw", windows, taps, optimize=True)
    return made.reshape(n, len(w), *made.shape[3:])


CASES = (
    Case(16, 16, (7, 7), 1),
    Case(16, 16, (9, 7), 3, 3, {"padding": 1}),
    Case(32, 48, (14, 14), 1, "n"),
    Case(32, 64, (11, 13), 3, "n", {"padding": 1, "strides": 2}),
    Case(24, 40, (9, 9), 3, 1, {"padding": 2, "dilation": 2}),
    Case(48, 32, (5, 37), 1, 2),
    Case(8, 24, (1, 31), 1),
    Case(5, 7, (6, 6), 3, 1, {"padding": 1}),
    Case(16, 1000, (3, 3), 1),
    Case(32, 32, (11, 11), 3, 2, {"padding": 1, "groups": 32}),
    Case(24, 24, (10, 9), 5, 1, {"padding": 2, "groups": 24, "strides": 2}),
    Case(12, 24, (6, 6), 3, 1, {"padding": 1, "groups": 12}),
    Case(64, 96, (13, 13), 3, 1, {"padding": 1, "groups": 2}),
    Case(272, 272, (7, 7), 1, 1, {"groups": 4}),
    Case(20, 80, (5, 5), 3, 2, {"padding": 1, "groups": 5}),
    Case(32, 16, (8, 8), 3, 1, {"groups": 8}),
)
FILLED = (
    Case(13, 27, (7, 7), 1),
    Case(12, 20, (6, 6), 3, 2, {"padding": 1}),
    Case(14, 136, (5, 9), 3, 1, {"padding": 1}),
    Case(24, 56, (5, 5), 3, "n", {"padding": 1, "strides": 2}),
    Case(40, 40, (4, 5), 3, 1, {"padding": 1, "groups": 40}),
    Case(136, 68, (3, 4), 1, 1, {"groups": 4}),
    Case(28, 56, (4, 4), 1, 1, {"groups": 7}),
    Case(24, 32, (3, 19), 1),
    Case(16, 32, (3, 37), 3, 1, {"padding": 1}),
)
"""Channels that fill no whole blocks, and rows whose tiles of pixels overlap."""
FILTERED = (
    Case(64, 64, (28, 28), 3, 1, {"padding": 1}),
    Case(32, 64, (26, 23), 3, "n", {"padding": 1}),
    Case(64, 32, (16, 18), 3, 2),
    Case(64, 64, (9, 30), 3, 1, {"padding": [0, 1]}),
)


def run(mod, x):
    return relax.VirtualMachine(heddle.compile(mod, target=HOST), heddle.cpu())["main"](x).numpy()


def image(case, rng):
    batch = 3 if isinstance(case.batch, str) else case.batch
    return rng.standard_normal((batch, 3, *case.size)).astype("float32")


def scheduled(mod, target=TARGET):
    for step in (*optimize_passes(target), *legalize_passes(target)):
        mod = step(mod)
    return mod


def rules(mod):
    return [f.attrs.get("schedule_rule") for f in mod.functions.values() if isinstance(f, PrimFunc)]


@pytest.mark.parametrize("case", [*CASES, *FILLED, *FILTERED], ids=str)
def test_convolutions_agree_with_plain_sums(case):
    rng = np.random.default_rng(crc32(str(case).encode()))
    weights, x = case.weights(rng), image(case, rng)
    want, got = case.expected(x, weights), run(case.module(weights), x)
    assert got.shape == want.shape and got.dtype == np.float32
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("case", [*CASES, *FILLED, *FILTERED], ids=str)
def test_plain_loops_agree_with_plain_sums(case):
    """What the pipeline `quick` makes."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    weights, x = case.weights(rng), image(case, rng)
    made = heddle.compile(case.module(weights), target=QUICK, relax_pipeline="quick", exec_mode="bytecode")
    want, got = case.expected(x, weights), relax.VirtualMachine(made, heddle.cpu())["main"](x).numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("case", FILLED, ids=str)
def test_filling_is_never_read_or_written_outside(case):
    """Sanitized machine code checks every access; memory that nobody wrote is NaN."""
    rng = np.random.default_rng(5)
    weights, x = case.weights(rng), image(case, rng)
    checked = heddle.compile(case.module(weights), target=HOST, sanitize=True)
    want, got = case.expected(x, weights), relax.VirtualMachine(checked, heddle.cpu())["main"](x).numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("case", [FILLED[4], FILLED[6]], ids=str)
def test_vectors_of_other_processors_stay_inside_too(case):
    """The loop interpreter knows the bounds of every buffer."""
    rng = np.random.default_rng(5)
    for func in scheduled(case.module(case.weights(rng))).functions.values():
        if isinstance(func, PrimFunc):
            sizes = {var: 1 for buffer in func.buffers for dim in buffer.shape for var in free_vars(dim)}
            shapes = [[int(evaluate(dim, sizes)) for dim in buffer.shape] for buffer in func.buffers]
            scalars = [1] * (len(func.params) - len(shapes))
            run_primfunc(func, *(rng.standard_normal(shape).astype("float32") for shape in shapes), *scalars)


LARGE = (
    Case(32, 64, (30, 41), 3, 2, {"padding": 1, "strides": 2}),
    Case(8, 48, (40, 61), 5, "n", {"padding": 2}),
    Case(64, 32, (19, 20), 3, 1, {"padding": 1, "groups": 2, "strides": 2}),
)
"""Images that a cache of 64 KiB does not hold."""


def channels_of_two_tasks(mod, target):
    """The tile of channels that the first task of the last convolution makes, and the second."""
    made = scheduled(mod, target)
    funcs = [func for func in made.functions.values() if isinstance(func, PrimFunc)]
    func = [func for func in funcs if func.attrs.get("schedule_rule") == "ConvolutionRule"][-1]
    sch = Schedule(func)
    handle = next(block for block in sch.blocks() if block.name.startswith("conv2d"))
    task = sch.get(sch.get_loops(handle)[0]).loop_var
    value = sch.realization(handle).iter_values[1]
    others = dict.fromkeys(free_vars(value), 0)
    return [evaluate(value, {**others, task: number}) for number in (0, 1)]


@pytest.mark.parametrize("case", LARGE, ids=str)
def test_large_images_are_convolved_row_by_row(case):
    """All channels of a row, then the next row; where the image fits the cache, channels come first."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    weights, x = case.weights(rng), image(case, rng)
    mod, small = case.module(weights), "llvm -mcpu=x86-64-v3 -l2-cache-bytes=65536"
    first, second = channels_of_two_tasks(mod, Target(small))
    assert (first == second) == ("groups" in case.attrs)
    first, second = channels_of_two_tasks(mod, Target("llvm -mcpu=x86-64-v3 -l2-cache-bytes=4194304"))
    assert first == second
    machine = relax.VirtualMachine(
        heddle.compile(mod, target=Target("llvm -l2-cache-bytes=65536")), heddle.cpu()
    )
    want = case.expected(x, weights)
    assert np.abs(machine["main"](x).numpy() - want).max() <= 2e-5 * np.abs(want).max()


def half_convolution(weights):
    source = """
from heddle.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 64, 28, 28), "{0}"), w: R.Tensor((64, 64, 3, 3), "{0}")):
        with R.dataflow():
            h = R.nn.relu(x)
            y = R.nn.conv2d(h, w, padding=1)
            R.output(y)
        return y
"""
    mod = from_source(source.format(weights.dtype.name))
    return relax.transform.BindParams("main", {"w": weights})(mod)


def test_infinite_channels_stay_alone():
    """Filling repeats channels, so that it is finite where they are."""
    case = Case(13, 13, (4, 4), 1)
    u, w, b = case.weights(np.random.default_rng(1))
    got = run(case.module((u, w, b + np.float32(np.inf))), image(case, np.random.default_rng(2)))
    assert np.isposinf(got).all()
    finite = run(case.module((u, w, b)), np.full((1, 3, 4, 4), 1e30, "float32"))
    assert np.isfinite(finite).all()


@pytest.mark.parametrize("case", FILTERED, ids=str)
def test_minimal_filtering_is_taken_and_rounds_little(case):
    rng = np.random.default_rng(7)
    weights, x = case.weights(rng), image(case, rng)
    assert rules(scheduled(case.module(weights))).count("Winograd") == 1
    want, got = case.expected(x, weights), run(case.module(weights), x)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_minimal_filtering_of_half_numbers_sums_in_float32():
    dtype, rng = np.float16, np.random.default_rng(8)
    x = rng.standard_normal((1, 64, 28, 28)).astype(dtype)
    w = (rng.standard_normal((64, 64, 3, 3)) / 24).astype(dtype)
    mod = half_convolution(w)
    assert rules(scheduled(mod)).count("Winograd") == 1
    image = np.pad(np.maximum(x.astype("float64"), 0), ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.einsum("nchwij,ocij->nohw", sliding_window_view(image, (3, 3), (2, 3)), w.astype("float64"))
    got = run(mod, x).astype("float64")
    # The result is rounded once, to the type that it is stored in.
    assert (np.abs(got - want) <= 0.51 * np.finfo(dtype).eps * np.abs(want) + 2e-5 * np.abs(want).max()).all()


@pytest.mark.parametrize(
    "attrs",
    [{"padding": 1, "strides": 2}, {"padding": 2, "dilation": 2}, {"padding": 1, "groups": 2}],
    ids=str,
)
def test_other_windows_are_summed_tap_by_tap(attrs):
    case = Case(64, 64, (28, 28), 3, 1, attrs)
    assert rules(scheduled(case.module(case.weights(np.random.default_rng(0))))) == ["ConvolutionRule"] * 2


@pytest.mark.parametrize("case", [CASES[1], CASES[9], CASES[13], FILTERED[0]], ids=str)
def test_threads_do_not_change_bits(case):
    rng = np.random.default_rng(3)
    weights, x = case.weights(rng), image(case, rng)
    machine = relax.VirtualMachine(heddle.compile(case.module(weights), target=HOST), heddle.cpu())
    before, results = native_library().num_threads, []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results.append(machine["main"](x).numpy().copy())
    finally:
        set_num_threads(before)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("case", [CASES[3], CASES[9], CASES[13], FILTERED[1]], ids=str)
def test_every_pass_leaves_a_module_that_verifies_and_reads_back(case):
    mod = case.module(case.weights(np.random.default_rng(0)))
    with PassContext():
        for step in (*optimize_passes(TARGET), *legalize_passes(TARGET)):
            mod = step(mod)
            if isinstance(step, (WidenGroups, ConvertToBlockedLayout, ConvertToWinograd)):
                for func in mod.functions.values():
                    if isinstance(func, PrimFunc):
                        bare = func.without_attr("global_symbol")
                        again = from_source(str(bare)).without_attr("global_symbol")
                        assert structural_equal(again, bare)


def layouts(source, **weights):
    """The ranks of the tensors that the functions of a program make, in order."""
    mod = relax.transform.BindParams("main", weights)(from_source(source))
    body = scheduled(mod)["main"].body
    return [b.var.ty.ndim for b in body.bindings() if isinstance(b.var.ty, TensorType)]


NET = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3, 16, 16), "float32"), w: R.Tensor((32, 3, 3, 3), "float32"),
             v: R.Tensor((32, 32, 1, 1), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w)
            b = R.nn.max_pool2d(a, pool_size=(2, 2), strides=(2, 2))
            c = {middle}
            d = R.nn.conv2d(c, v)
            R.output(d)
        return d
"""


@pytest.mark.parametrize(
    ("middle", "ranks"),
    [
        ("R.concat([b, b], axis=2)", [5, 5, 5, 4]),  # leaves channels in their places
        ("R.nn.softmax(b, axis=1)", [5, 4, 4, 4]),  # mixes channels
        ("R.permute_dims(b, (0, 1, 3, 2))", [5, 5, 5, 4]),
        ("R.reshape(R.nn.softmax(R.reshape(b, (-1, 32, 49))), (-1, 32, 7, 7))", [5, 4, 3]),  # sees it plain
        ("R.reshape(R.reshape(b, (-1, 32, 49)), (-1, 32, 7, 7))", [5, 5, 4]),  # is nothing
    ],
)
def test_a_blocked_layout_spreads_as_far_as_channels_keep_their_places(middle, ranks):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 3, 3, 3)).astype("float32")
    v = rng.standard_normal((32, 32, 1, 1)).astype("float32")
    found = layouts(NET.format(middle=middle), w=w, v=v)
    assert found[: len(ranks)] == ranks and found[-1] == 4


DECODER = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", {channels}, "h", "w"), "float32"),
        s: R.Tensor(("n", 3, "h * 2", "w * 2"), "float32"),
        a: R.Tensor(({channels}, 3, 3, 3), "float32"),
        u: R.Tensor(({channels}, {channels}, 2, 2), "float32"),
        v: R.Tensor((16, {double}, 3, 3), "float32"),
    ):
        with R.dataflow():
            skip = R.nn.relu(R.nn.conv2d(s, a, padding=1))
            up = R.nn.conv2d_transpose(x, u, strides=(2, 2))
            both = R.concat([up, skip], axis=1)
            y = R.nn.conv2d(both, v, padding=1)
            R.output(y)
        return y
"""


@pytest.mark.parametrize(("channels", "ranks"), [(32, [5, 5, 5, 4]), (16, [5, 5, 5, 4]), (24, [4, 4, 4, 4])])
def test_images_that_alternate_stay_in_blocks_where_blocks_are_whole(channels, ranks):
    """A U-Net's decoder: images of the transposed convolution are one behind the other, each in blocks."""
    rng = np.random.default_rng(0)
    shapes = {"a": (channels, 3, 3, 3), "u": (channels, channels, 2, 2), "v": (16, 2 * channels, 3, 3)}
    weights = {name: rng.standard_normal(shape, "float32") / 9 for name, shape in shapes.items()}
    source = DECODER.format(channels=channels, double=2 * channels)
    assert sorted(layouts(source, **weights), reverse=True) == sorted(ranks, reverse=True)
    mod = relax.transform.BindParams("main", weights)(from_source(source))
    main = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"]
    torch = pytest.importorskip("torch", reason="an outside oracle")
    for n, h, w in ((1, 1, 1), (2, 3, 5), (1, 8, 7)):
        x, s = (
            rng.standard_normal(shape, "float32") for shape in ((n, channels, h, w), (n, 3, 2 * h, 2 * w))
        )
        wa, wu, wv, tx, ts = (torch.from_numpy(each) for each in (*weights.values(), x, s))
        up = torch.nn.functional.conv_transpose2d(tx, wu, stride=2)
        skip = torch.relu(torch.nn.functional.conv2d(ts, wa, padding=1))
        expected = torch.nn.functional.conv2d(torch.cat([up, skip], 1), wv, padding=1).numpy()
        np.testing.assert_allclose(main(x, s).numpy(), expected, rtol=1e-3, atol=1e-3)


IN_PART = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def conv(
        x: T.Buffer((1, 16, 10, 10), "float32"),
        w: T.Buffer((16, 16, 3, 3), "float32"),
        y: T.Buffer((1, 16, 8, 8), "float32"),
    ):
        for n, k, i, j, c, a, b in T.grid(1, 16, {rows}, 8, 16, 3, 3):
            with T.sblock("conv"):
                vn, vk, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, k, i, j, c, a, b])
                {where}
                with T.init():
                    y[vn, vk, vi, vj] = T.float32(0)
                y[vn, vk, vi, vj] = y[vn, vk, vi, vj] + x[vn, vc, vi + va, vj + vb] * w[vk, vc, va, vb]

    @R.function
    def main(x: R.Tensor((1, 16, 10, 10), "float32"), w: R.Tensor((16, 16, 3, 3), "float32")):
        cls = Module
        with R.dataflow():
            z = R.nn.relu(x)
            y = R.call_tir(cls.conv, (z, w), out_ty=R.Tensor((1, 16, 8, 8), dtype="float32"))
            R.output(y)
        return y
"""


@pytest.mark.parametrize(("rows", "where"), [(4, ""), (8, "T.where(i < 4)"), (8, "")])
def test_a_convolution_by_hand_may_store_a_part_of_its_result(rows, where):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((1, 16, 10, 10), (16, 16, 3, 3)))
    module = heddle.compile(from_source(IN_PART.format(rows=rows, where=where)), HOST)
    got = relax.VirtualMachine(module, heddle.cpu())["main"](x, w).numpy()
    windows = sliding_window_view(np.maximum(x, 0), (3, 3), (2, 3))
    stored = 4 if where else rows
    wanted = np.einsum("nchwab,kcab->nkhw", windows, w)[:, :, :stored]
    np.testing.assert_allclose(got[:, :, :stored], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [17, "w"])
@pytest.mark.parametrize("strides", [1, 2])
def test_a_single_channel_whose_axis_goes(width, strides):
    """The map behind the convolution takes one element out of each vector."""
    rng = np.random.default_rng(crc32(f"{width} {strides}".encode()))
    w = rng.standard_normal((1, 2, 2, 3)).astype("float32")
    mod = from_source(f"""
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 2, 3, {width!r}), "float32"), w: R.Tensor((1, 2, 2, 3), "float32")):
        with R.dataflow():
            y = R.squeeze(R.nn.conv2d(x, w, strides={strides}), axis=[1])
            R.output(y)
        return y
""")
    executable = relax.build(relax.transform.BindParams("main", {"w": w})(mod), HOST)
    for size in (17,) if width == 17 else (3, 4, 17, 40):
        x = rng.standard_normal((5, 2, 3, size)).astype("float32")
        made = relax.VirtualMachine(executable, heddle.cpu())["main"](heddle.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(made, correlated(x, w, strides)[:, 0], rtol=1e-5, atol=1e-5)
