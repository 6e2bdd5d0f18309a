"""Loops are cut where the conditions of their bodies change; what they compute stays the same."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.ir.expr import Var
from heddle.prim.nodes import IntImm, SizeVar
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.tir.nodes import ForKind
from tests.unit.schedule.test_runs_and_periods import loops_of

FORMS = pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
PADS = {
    "edge": "edge",
    "reflect": "reflect",
    "circular": "wrap",
    "symmetric": "symmetric",
    "constant": "constant",
}


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def module(build, dims):
    """A function of tensors with these dimensions."""
    given = [Var(f"x{k}", TensorType(each, "float32")) for k, each in enumerate(dims)]
    builder = BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            out = builder.emit_output(build(*given))
        builder.emit_func_output(out)
    return builder.get()


def machine_of(build, dims):
    return heddle.relax.VirtualMachine(heddle.compile(module(build, dims)), heddle.cpu())


def agree(build, arrays, wanted, is_free):
    dims = [[SizeVar(f"d{a}") for a in range(x.ndim)] if is_free else x.shape for x in arrays]
    machine = machine_of(build, dims)
    for threads in (1, 2):
        set_num_threads(threads)
        np.testing.assert_array_equal(machine["main"](*arrays).numpy(), wanted)


def serial_extents(build, shapes):
    return [
        loop.extent.value
        for loop in loops_of(module(build, shapes))
        if loop.kind is ForKind.SERIAL and isinstance(loop.extent, IntImm)
    ]


def joined(*tensors):
    return op.concat(tensors, axis=-1)


def test_each_tensor_of_a_concat_has_a_loop():
    assert serial_extents(joined, [(6, 3), (6, 40), (6, 17)]) == [3, 40, 17]


def test_a_padded_row_has_three_loops():
    build = lambda x: op.nn.pad(x, pad_width=[0, 0, 3, 2], pad_mode="reflect")  # noqa: E731
    assert serial_extents(build, [(4, 30)]) == [3, 30, 2]


WIDTHS = [(1, 1), (0, 5), (5, 0), (0, 0), (3, 17, 32, 1), (7,) * 16, (64, 1, 64)]


def parts_of(widths):
    rng = np.random.default_rng()
    return [rng.standard_normal((10, width)).astype("float32") for width in widths]


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_concats_of_known_widths(widths):
    arrays = parts_of(widths)
    agree(joined, arrays, np.concatenate(arrays, -1), False)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_concats_of_free_widths(widths):
    """Different widths, and one width for all."""
    arrays, rows, width = parts_of(widths), SizeVar("rows"), SizeVar("width")
    for is_one in {False, len(set(widths)) == 1}:
        dims = [(rows, width if is_one else SizeVar(f"width{k}")) for k in range(len(arrays))]
        machine = machine_of(joined, dims)
        for count in (10, 1, 0):
            parts = [array[:count] for array in arrays]
            np.testing.assert_array_equal(machine["main"](*parts).numpy(), np.concatenate(parts, -1))


@FORMS
@pytest.mark.parametrize("mode", PADS)
@pytest.mark.parametrize("shape", [(3, 7), (1, 1), (4, 1), (2, 129)], ids=str)
def test_pads(mode, shape, is_free):
    rng = np.random.default_rng()
    most = [size - 1 if mode == "reflect" else size for size in shape]
    widths = [int(rng.integers(0, high + 1)) for high in np.repeat(most, 2)]
    x = rng.standard_normal(shape).astype("float32")
    wanted = np.pad(x, np.reshape(widths, (-1, 2)), mode=PADS[mode])
    agree(lambda x: op.nn.pad(x, pad_width=widths, pad_mode=mode), [x], wanted, is_free)


@FORMS
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 9), (9, 3), (40, 40), (0, 4)], ids=str)
def test_triangles(shape, is_free):
    x = np.random.default_rng().standard_normal((2, *shape)).astype("float32")
    for diagonal in (-2, 0, 1, 50):
        agree(lambda x, k=diagonal: op.tril(x, k), [x], np.tril(x, diagonal), is_free)
        agree(lambda x, k=diagonal: op.triu(x, k), [x], np.triu(x, diagonal), is_free)


def normalised(x, size):
    """LRN along the second axis, by numpy."""
    wide = np.pad(x.astype("float64") ** 2, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    around = sum(wide[:, k : k + x.shape[1]] for k in range(size))
    return x / (1.0 + 1e-4 * around / size) ** 0.75


@pytest.mark.parametrize("size", [1, 3, 5, 9])
@pytest.mark.parametrize("pixels", [1, 3])
def test_windows_wider_than_the_axis(size, pixels):
    """Of fewer channels than half a window the last cut lies before the first channel."""
    dims = [[SizeVar("n"), SizeVar("channels"), IntImm("int64", 1), SizeVar("pixels")]]
    machine = machine_of(lambda x: op.nn.lrn(x, size=size, alpha=1e-4, beta=0.75, bias=1.0), dims)
    rng = np.random.default_rng()
    for channels in range(8):
        x = 30 * rng.standard_normal((6, channels, 1, pixels)).astype("float32")
        for threads in (1, 2):
            set_num_threads(threads)
            np.testing.assert_allclose(machine["main"](x).numpy(), normalised(x, size), rtol=2e-5)


def first_of_greatest(x):
    """With a column of its own after the last, which only empty rows take."""
    dims = x.ty.dims
    column = op.full((*dims[:-1], 1), const(-np.inf, "float32"), "float32")
    return op.argmax(op.concat((x, column), 1), axis=1)


@FORMS
def test_the_place_of_the_greatest_of_rows_and_a_column(is_free):
    """A reduction of two results does not run in lanes: its loop is cut."""
    x = np.random.default_rng().standard_normal((5, 40)).astype("float32")
    dims = [(SizeVar("n"), SizeVar("d"))] if is_free else [x.shape]
    reductions = [loop for loop in loops_of(module(first_of_greatest, dims)) if loop.kind is ForKind.SERIAL]
    assert len(reductions) == 2


@FORMS
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (4, 15), (3, 16), (7, 333)], ids=str)
def test_the_place_of_the_greatest(is_free, shape):
    x = np.random.default_rng().integers(-9, 9, shape).astype("float32")
    wide = np.concatenate([x, np.full((shape[0], 1), -np.inf, "float32")], 1)
    agree(first_of_greatest, [x], wide.argmax(1), is_free)
