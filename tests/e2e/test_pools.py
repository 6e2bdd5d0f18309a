"""Pooling of plain images, of known and of any size: scheduled by one rule, and bit for bit what the windows
hold in their order."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import IterType, PrimFunc
from heddle.tir.schedule import Schedule

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "int8": np.int8,
    "uint8": np.uint8,
    "int32": np.int32,
}
CASES = {  # kind, attributes, dtype
    "max 3x3 by 2": ("max", {"pool_size": 3, "strides": 2, "padding": 1}, "float32"),
    "max 2x2 by 2": ("max", {"pool_size": 2, "strides": 2}, "float32"),
    "max 3x3": ("max", {"pool_size": 3, "padding": [1, 1]}, "float64"),
    "max 5x3 by 3 and 2": (
        "max",
        {"pool_size": [5, 3], "strides": [3, 2], "padding": [2, 0, 1, 2]},
        "float32",
    ),
    "max dilated, ceil": (
        "max",
        {"pool_size": 3, "dilation": [2, 3], "padding": 2, "strides": 2, "ceil_mode": True},
        "float32",
    ),
    "max of half": ("max", {"pool_size": 3, "strides": 2, "padding": 1}, "float16"),
    "max of bfloat16": ("max", {"pool_size": [3, 2], "strides": 1}, "bfloat16"),
    "max of bytes": ("max", {"pool_size": 3, "strides": 2, "padding": [0, 1, 1, 0]}, "int8"),
    "max of bytes without sign": ("max", {"pool_size": 2, "padding": 1}, "uint8"),
    "max of integers": ("max", {"pool_size": [2, 5], "strides": [2, 5], "ceil_mode": True}, "int32"),
    "max by 7": ("max", {"pool_size": 7, "strides": 7}, "float32"),
    "avg 3x3": ("avg", {"pool_size": 3, "padding": 1}, "float32"),
    "avg 3x3, padding counted": ("avg", {"pool_size": 3, "padding": 1, "count_include_pad": True}, "float32"),
    "avg 2x2 by 2": ("avg", {"pool_size": 2, "strides": 2}, "float32"),
    "avg 4x5, ceil": (
        "avg",
        {"pool_size": [4, 5], "strides": [3, 4], "padding": [1, 2, 0, 1], "ceil_mode": True},
        "float64",
    ),
    "avg of half": ("avg", {"pool_size": 3, "padding": 1, "strides": 2}, "float16"),
    "avg of bfloat16": ("avg", {"pool_size": 2, "strides": [2, 1]}, "bfloat16"),
    "sum 3x4": ("sum", {"pool_size": [3, 4], "strides": [1, 2], "padding": [1, 1]}, "float32"),
    "max 7x7 of bytes": ("max", {"pool_size": 7, "padding": 3}, "int8"),
    "max 9x5 by 2 of half": ("max", {"pool_size": [9, 5], "strides": 2, "padding": [4, 2]}, "float16"),
    "avg 6x7": ("avg", {"pool_size": [6, 7], "strides": [2, 1], "padding": [3, 1]}, "float32"),
    "sum of 41 along rows": ("sum", {"pool_size": 41, "padding": 30, "ndim": 1}, "float64"),
    "sum of volumes": ("sum", {"pool_size": [4, 3, 5], "padding": 2, "ndim": 3}, "float32"),
    "sum 13x13": ("sum", {"pool_size": 13, "padding": 6}, "float32"),
    "max along rows": ("max", {"pool_size": 3, "strides": 2, "padding": 1, "ndim": 1}, "float32"),
    "avg along rows": ("avg", {"pool_size": 5, "padding": [2, 1], "ndim": 1}, "float32"),
    "sum along rows, dilated": ("sum", {"pool_size": 5, "dilation": 3, "ndim": 1}, "float64"),
    "max of volumes": ("max", {"pool_size": 3, "strides": 2, "padding": 1, "ndim": 3}, "float32"),
    "avg of volumes": (
        "avg",
        {"pool_size": [2, 3, 2], "strides": [1, 2, 2], "padding": [1, 0, 0, 0, 1, 1], "ndim": 3},
        "float32",
    ),
}
SIZES = ((1, 3, 13, 13, 13), (2, 1, 14, 16, 31), (1, 2, 17, 61, 29), (3, 5, 13, 40, 67), (0, 2, 15, 15, 15))
"""Batch, channels, depth, height, width."""


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def parts_of(name):
    kind, attrs, dtype = CASES[name]
    ndim = attrs.get("ndim", 2)
    return kind, {key: value for key, value in attrs.items() if key != "ndim"}, dtype, ndim


def shape_of(size, ndim):
    return (*size[:2], *size[-ndim:])


def program(name, dims):
    kind, attrs, dtype, ndim = parts_of(name)
    x = Var("x", TensorType(dims, dtype))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(getattr(op.nn, f"{kind}_pool{ndim}d")(x, **attrs))
        builder.emit_func_output(out)
    return builder.get()


def free_dims(ndim):
    return tuple(SizeVar(name) for name in ("n", "c", *"dhw"[-ndim:]))


def spread(value, ndim):
    return list(value) if isinstance(value, (list, tuple)) else [value] * ndim


def expected(name, x):
    kind, attrs, *_ = parts_of(name)
    return pooled(kind, attrs, x)


def pooled(kind, attrs, x):
    """Tap by tap, in the order of the window."""
    ndim = x.ndim - 2
    size, step, space = (spread(attrs.get(key, 1), ndim) for key in ("pool_size", "strides", "dilation"))
    given = spread(attrs.get("padding", 0), ndim)
    before, after = (given, given) if len(given) == ndim else (given[:ndim], given[ndim:])
    wide = np.dtype(np.float32) if kind != "max" and x.dtype.itemsize < 4 else x.dtype
    counts, outs = [], []
    for k in range(ndim):
        room = x.shape[2 + k] + before[k] + after[k] - (size[k] - 1) * space[k] - 1
        out = room // step[k] + 1
        if attrs.get("ceil_mode"):
            out = min(-(-room // step[k]) + 1, -(-(x.shape[2 + k] + before[k]) // step[k]))
        outs.append(out)
        places = np.arange(out)[:, None] * step[k] + np.arange(size[k]) * space[k] - before[k]
        low, high = 0, x.shape[2 + k]
        if attrs.get("count_include_pad"):
            low, high = -before[k], high + after[k]
        counts.append(((places >= low) & (places < high)).sum(axis=1))
    if kind == "max":
        nothing = -np.inf if wide.kind not in "iu" else np.iinfo(wide).min
    else:
        nothing = 0
    widths = [
        (0, 0),
        (0, 0),
        *((b, a + s * 2 + z) for b, a, s, z in zip(before, after, step, size, strict=True)),
    ]
    padded = np.pad(x.astype(wide), widths, constant_values=nothing)
    result = np.full((*x.shape[:2], *outs), nothing, wide)
    for taps in itertools.product(*map(range, size)):
        part = padded[
            (slice(None), slice(None))
            + tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(taps, space, outs, step, strict=True)
            )
        ]
        result = np.maximum(result, part) if kind == "max" else (result + part).astype(wide)
    if kind == "avg":
        taken = np.ones((), np.int64)
        for count in counts:
            taken = taken[..., None] * count
        result = result / np.maximum(taken, 1).astype(wide)
    return result.astype(x.dtype)


def data(shape, dtype, rng):
    kind = np.dtype(DTYPES[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    return rng.standard_normal(shape).astype(kind)


def same_bits(made, wanted):
    assert made.dtype == wanted.dtype and made.shape == wanted.shape
    np.testing.assert_array_equal(made.astype(np.float64), wanted.astype(np.float64))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_any_size_with_any_number_of_threads(name, mode):
    *_, dtype, ndim = parts_of(name)
    machine = heddle.relax.VirtualMachine(
        heddle.compile(program(name, free_dims(ndim)), exec_mode=mode), heddle.cpu()
    )
    rng = np.random.default_rng()
    for size in SIZES:
        x = data(shape_of(size, ndim), dtype, rng)
        for threads in (1, 2):
            set_num_threads(threads)
            same_bits(machine["main"](x).numpy(), expected(name, x))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", SIZES[1:4], ids=str)
def test_known_sizes(name, size):
    *_, dtype, ndim = parts_of(name)
    shape = shape_of(size, ndim)
    machine = heddle.relax.VirtualMachine(heddle.compile(program(name, shape)), heddle.cpu())
    x = data(shape, dtype, np.random.default_rng())
    same_bits(machine["main"](x).numpy(), expected(name, x))


def rules_of(mod):
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)))
    loops = [func for func in passes(mod).functions.values() if isinstance(func, PrimFunc)]
    return [func.attrs["schedule_rule"] for func in loops]


@pytest.mark.parametrize("dims", [None, (1, 8, 31, 33, 35)], ids=["free", "fixed"])
@pytest.mark.parametrize("name", CASES)
def test_one_rule_takes_them(name, dims):
    *_, ndim = parts_of(name)
    mod = program(name, free_dims(ndim) if dims is None else shape_of(dims, ndim))
    assert rules_of(mod) == ["SlidingWindow"]


def innermost_loops(mod, count):
    """The last loops around the sum of a kernel of vectors of 256 bits: their kinds and extents."""
    target = Target("llvm -mcpu=x86-64-v3")
    made = Sequential((*optimize_passes(target), *legalize_passes(target)))(mod)
    sch = Schedule(next(func for func in made.functions.values() if isinstance(func, PrimFunc)))
    sums = next(block for block in sch.blocks() if any(map(is_summed, sch.get(block).iter_vars)))
    loops = [sch.get(loop) for loop in sch.get_loops(sums)[-count:]]
    return [(loop.kind.name.lower(), loop.extent.value) for loop in loops]


def is_summed(axis):
    return axis.iter_type is IterType.CommReduce


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        ("avg 3x3", [("unrolled", 3), ("unrolled", 3), ("vectorized", 8)]),
        (
            "sum 13x13",
            [("serial", 13), ("serial", 13), ("unrolled", 2), ("unrolled", 4), ("vectorized", 8)],
        ),
    ],
)
def test_sums_of_large_windows_do_not_wait_for_each_other(name, loops):
    """Eight accumulators lie inside the loops over a large window; a small one is written out for each."""
    assert innermost_loops(program(name, (1, 3, 56, 56)), len(loops)) == loops


@pytest.mark.parametrize("kernel", [(7, 7), (9, 5), (3, 41)], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_with_weights(kernel, stride):
    """Convolutions of each channel by itself, of any size, against the taps one by one."""
    rng = np.random.default_rng()
    x = Var("x", TensorType((SizeVar("n"), 5, SizeVar("h"), SizeVar("w")), "float32"))
    weights = rng.standard_normal((5, 1, *kernel)).astype("float32")
    before = [size // 2 for size in kernel]
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made = op.nn.conv2d(x, const(weights), strides=stride, padding=before, groups=5)
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    mod = builder.get()
    assert rules_of(mod) == ["SlidingWindow"]
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    for height, width in ((1, 1), (7, 14), (14, 7), (8, 33), (31, 64), (17, 65), (40, 41)):
        given = rng.standard_normal((2, 5, height, width)).astype("float32")
        padded = np.pad(given.astype("float64"), [(0, 0), (0, 0), *((b, b) for b in before)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))[:, :, ::stride, ::stride]
        wanted = (windows * weights[:, 0, None, None].astype("float64")).sum((-2, -1))
        for threads in (1, 2):
            set_num_threads(threads)
            got = machine["main"](given).numpy()
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.prod(kernel))


@pytest.mark.parametrize("kind", ["before", "after"])
def test_maps_beside_the_windows_are_part_of_the_kernel(kind):
    """A map before greatest elements, and one after means."""
    x = Var("x", TensorType(free_dims(2), "float32"))
    attrs = {"pool_size": 3, "padding": 1, "strides": 2}
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            if kind == "before":
                out = builder.emit_output(op.nn.max_pool2d(builder.emit(op.multiply(x, x)), **attrs))
            else:
                out = builder.emit_output(op.abs(builder.emit(op.nn.avg_pool2d(x, **attrs))))
        builder.emit_func_output(out)
    mod = builder.get()
    assert rules_of(mod) == ["SlidingWindow"]
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    given = np.random.default_rng().standard_normal((2, 3, 29, 37)).astype("float32")
    wanted = pooled("max", attrs, given * given) if kind == "before" else np.abs(pooled("avg", attrs, given))
    same_bits(machine["main"](given).numpy(), wanted)
