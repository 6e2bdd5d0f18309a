"""Rows of several dimensions that are one run, and rows whose elements come from several places in turn."""

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, Min, SizeVar
from heddle.relax import BlockBuilder, TensorType, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import For, ForKind, PrimFunc
from heddle.tir.transform.run_in_lanes import MAP, REDUCTION

IMAGES = (
    (1, 12, 1, 1),
    (2, 12, 7, 1),
    (1, 12, 1, 13),
    (3, 12, 5, 7),
    (1, 12, 31, 33),
    (0, 12, 4, 4),
    (1, 12, 14, 16),
)


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def module(build, dims, *more):
    x = Var("x", TensorType(dims, "float32"))
    others = [Var(f"p{k}", TensorType((size,), "float32")) for k, size in enumerate(more)]
    builder = BlockBuilder()
    with builder.function("main", [x, *others]):
        with builder.dataflow():
            out = builder.emit_output(build(x, *others))
        builder.emit_func_output(out)
    return builder.get()


def dims_of(is_free, shape):
    return (SizeVar("n"), shape[1], SizeVar("h"), SizeVar("w")) if is_free else shape


def loops_of(mod):
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)))
    funcs = [func for func in passes(mod).functions.values() if isinstance(func, PrimFunc)]
    return [node for func in funcs for node in walk(func.body) if isinstance(node, For)]


def normalised(x, gain, shift):
    wide = x.astype(np.float64)
    mean, spread = wide.mean((2, 3), keepdims=True), wide.var((2, 3), keepdims=True)
    return (wide - mean) / np.sqrt(spread + 1e-5) * gain[:, None, None] + shift[:, None, None]


def instance_norm(x, gain, shift):
    return op.nn.instance_norm(x, gain, shift, channel_axis=1, axes=[2, 3])


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_the_pixels_of_a_channel_are_one_run(is_free):
    loops = loops_of(module(instance_norm, dims_of(is_free, (2, 12, 9, 11)), 12, 12))
    marked = [loop for loop in loops if loop.annotations.get(MAP) or loop.annotations.get(REDUCTION)]
    assert len(marked) == 3
    assert all(not isinstance(loop.extent, IntImm) if is_free else loop.extent.value == 99 for loop in marked)
    inner = [loop for loop in loops if loop.kind is ForKind.SERIAL and loop not in marked]
    assert not inner


@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_instance_norm_of_any_size(shape):
    rng = np.random.default_rng()
    x, gain, shift = (rng.standard_normal(s).astype("float32") for s in (shape, 12, 12))
    made = []
    for is_free in (True, False):
        program = heddle.compile(module(instance_norm, dims_of(is_free, shape), 12, 12))
        machine = heddle.relax.VirtualMachine(program, heddle.cpu())
        for threads in (1, 2):
            set_num_threads(threads)
            made.append(machine["main"](x, gain, shift).numpy())
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(made[0], normalised(x, gain, shift), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[2], made[3])


def shuffled(x, r):
    n, c, h, w = x.shape
    return (
        x.reshape(n, c // (r * r), r, r, h, w)
        .transpose(0, 1, 4, 2, 5, 3)
        .reshape(n, c // (r * r), h * r, w * r)
    )


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_alternating_elements_are_written_period_by_period(is_free):
    loops = loops_of(module(lambda x: op.nn.pixel_shuffle(x, 2), dims_of(is_free, (2, 12, 9, 11))))
    unrolled = [loop.extent.value for loop in loops if loop.kind is ForKind.UNROLLED]
    assert unrolled == [2]


@pytest.mark.parametrize("shape", IMAGES, ids=str)
@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_pixel_shuffle_and_a_part_of_it(is_free, shape):
    """The part begins within a period and ends within one."""

    def part(x):
        return op.strided_slice(op.nn.pixel_shuffle(x, 2), [3], [1], [100])

    x = np.random.default_rng().standard_normal(shape).astype("float32")
    for build, wanted in (
        (lambda x: op.nn.pixel_shuffle(x, 2), shuffled(x, 2)),
        (part, shuffled(x, 2)[..., 1:100]),
    ):
        program = heddle.compile(module(build, dims_of(is_free, shape)))
        machine = heddle.relax.VirtualMachine(program, heddle.cpu())
        np.testing.assert_array_equal(machine["main"](x).numpy(), wanted)


@pytest.mark.parametrize("build", [lambda x: op.tile(x, (1, 3)), lambda x: op.repeat(x, 20, 1)])
@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_columns_that_are_repeated_have_a_loop_for_each_factor(is_free, build):
    dims = (SizeVar("n"), SizeVar("d")) if is_free else (30, 20)
    _, outer, inner = loops_of(module(build, dims))
    assert not isinstance(outer.extent, Min) and not isinstance(inner.extent, Min)
    assert any(isinstance(loop.extent, IntImm) for loop in (outer, inner))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (2, 3), (7, 13), (300, 16), (5, 257)], ids=str)
@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_repeated_columns_of_any_size(is_free, shape):
    dims = (SizeVar("n"), SizeVar("d")) if is_free else shape
    x = np.random.default_rng().standard_normal(shape).astype("float32")
    for build, wanted in (
        (lambda x: op.tile(x, (1, 3)), np.tile(x, (1, 3))),
        (lambda x: op.tile(op.nn.relu(x), (2, 11)), np.tile(np.maximum(x, 0), (2, 11))),
        (lambda x: op.repeat(x, 20, 1), np.repeat(x, 20, 1)),
        (lambda x: op.strided_slice(op.tile(x, (1, 9)), [1], [2], [7]), np.tile(x, (1, 9))[:, 2:7]),
    ):
        for mode in ("bytecode", "compiled"):
            program = heddle.compile(module(build, dims), exec_mode=mode)
            machine = heddle.relax.VirtualMachine(program, heddle.cpu())
            for threads in (1, 2, 3):
                set_num_threads(threads)
                np.testing.assert_array_equal(machine["main"](x).numpy(), wanted)


def group_norm(x, gain, shift):
    return op.nn.group_norm(x, gain, shift, 4, channel_axis=1, axes=[2, 3])


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
def test_a_group_of_channels_is_reduced_once(is_free):
    """One loop over the groups of all images; in a channel, pixels are one run."""
    loops = loops_of(module(group_norm, dims_of(is_free, (2, 12, 9, 11)), 12, 12))
    marked = [loop for loop in loops if loop.annotations.get(MAP) or loop.annotations.get(REDUCTION)]
    assert len(marked) == 3
    assert all(not isinstance(loop.extent, IntImm) if is_free else loop.extent.value == 99 for loop in marked)
    (rows,) = [loop for loop in loops if loop.kind is ForKind.PARALLEL]
    assert "* 4" in str(rows.extent) if is_free else rows.extent.value == 8


@pytest.mark.parametrize("shape", IMAGES, ids=str)
@pytest.mark.parametrize("groups", [1, 4, 12])
def test_group_norm_of_any_size(groups, shape):
    rng = np.random.default_rng()
    x, gain, shift = (rng.standard_normal(s).astype("float32") for s in (shape, 12, 12))
    wide = x.astype("float64").reshape(shape[0], groups, 12 // groups, *shape[2:])
    with np.errstate(all="ignore"):
        centred = wide - wide.mean((2, 3, 4), keepdims=True)
        centred /= np.sqrt(np.square(centred).mean((2, 3, 4), keepdims=True) + 1e-5)
        want = centred.reshape(shape) * gain[:, None, None] + shift[:, None, None]
    for is_free in (True, False):
        for mode in ("bytecode", "compiled"):
            program = heddle.compile(
                module(
                    lambda x, a, b: op.nn.group_norm(x, a, b, groups, channel_axis=1, axes=[2, 3]),
                    dims_of(is_free, shape),
                    12,
                    12,
                ),
                exec_mode=mode,
            )
            machine = heddle.relax.VirtualMachine(program, heddle.cpu())
            made = []
            for threads in (1, 2, 3):
                set_num_threads(threads)
                made.append(machine["main"](x, gain, shift).numpy())
            np.testing.assert_allclose(made[0], want, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(made[0], made[1])
            np.testing.assert_array_equal(made[0], made[2])
