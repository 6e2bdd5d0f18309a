"""Maps whose last axes are short, and maps that readers would do again, against numpy."""

import numpy as np
import pytest

from heddle import te
from heddle.codegen import build
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.prim.intrinsics import floor
from heddle.prim.nodes import SizeVar, constant
from heddle.prim.ops import cast, equal, if_then_else, maximum, minimum
from heddle.runtime import tensor
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import AllocBuffer, For, ForKind

TARGET = Target("llvm")


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def scheduled(tensors):
    module = IRModule(Map({GlobalVar("main"): te.create_prim_func(tensors)}))
    return ApplyDefaultSchedule(TARGET)(module)


def stacked(count):
    """(n, m, count): a multiple of each element."""
    n, m = SizeVar("n"), SizeVar("m")
    x = te.placeholder((n, m), name="x")

    def element(i, j, k):
        value = x[i, j] * 0.5
        for place in range(1, count):
            value = if_then_else(equal(k, place), x[i, j] + place, value)
        return value

    return [x, te.compute((n, m, constant(count, "int64")), element, name="y")]


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_few_elements_of_the_last_axis(count):
    kernel = build(scheduled(stacked(count)), TARGET)
    for shape in ((1, 1), (3, 17), (0, 5), (5, 0), (129, 131)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        wanted = np.stack([x * 0.5, *(x + k for k in range(1, count))], -1).astype("float32")
        for threads in (1, 2):
            set_num_threads(threads)
            y = tensor(np.full((*shape, count), np.nan, "float32"))
            kernel["main"](tensor(x), y)
            np.testing.assert_array_equal(y.numpy(), wanted)


def test_coordinates_are_written_in_rows():
    """The loop before the last axis stays, so that no index is divided for each of its elements."""
    (func,) = scheduled(stacked(2)).functions.values()
    loops = [node for node in walk(func.body) if isinstance(node, For)]
    assert [loop.kind for loop in loops] == [ForKind.PARALLEL, ForKind.SERIAL, ForKind.UNROLLED]


def test_axes_of_one_element_at_the_end():
    """The rows before them are the loop that runs in vectors."""
    n, m, one = SizeVar("n"), SizeVar("m"), constant(1, "int64")
    x = te.placeholder((m,), name="x")
    y = te.compute((n, m, one, one), lambda i, j, *_: x[j] * 2.0 + cast("float32", i), name="y")
    module = scheduled([x, y])
    (func,) = module.functions.values()
    assert len([node for node in walk(func.body) if isinstance(node, For)]) == 2
    data = np.arange(37, dtype="float32")
    result = tensor(np.zeros((3, 37, 1, 1), "float32"))
    build(module, TARGET)["main"](tensor(data), result)
    wanted = data * 2 + np.arange(3, dtype="float32")[:, None]
    np.testing.assert_array_equal(result.numpy()[..., 0, 0], wanted)


def gathered(channels):
    """Elements of all channels at places that they share."""
    c = constant(channels, "int64") if channels else SizeVar("c")
    n, size = SizeVar("n"), SizeVar("size")
    x, at = te.placeholder((c, size), name="x"), te.placeholder((n,), name="at")

    def place(i):
        found = cast("int64", floor((at[i] + 1.0) * 0.5 * cast("float32", size)))
        return maximum(minimum(found, size - 1), 0)

    places = te.compute((n,), place, name="places")
    return [x, at, te.compute((c, n), lambda k, i: x[k, places[i]], name="y")]


@pytest.mark.parametrize("channels", [None, 1, 6])
def test_what_channels_share_is_computed_once(channels):
    module = scheduled(gathered(channels))
    (func,) = module.functions.values()
    kept = any(isinstance(node, AllocBuffer) for node in walk(func.body)) or bool(
        [block for block in walk(func.body) if getattr(block, "alloc_buffers", ())]
    )
    assert kept == (channels != 1)
    kernel = build(module, TARGET)
    rng = np.random.default_rng(1)
    for c, size, n in ((channels or 3, 11, 29), (channels or 1, 1, 1), (channels or 5, 7, 0)):
        x = rng.standard_normal((c, size)).astype("float32")
        at = rng.uniform(-1.2, 1.2, n).astype("float32")
        place = np.floor((at + np.float32(1)) * np.float32(0.5) * np.float32(size)).astype("int64")
        result = tensor(np.zeros((c, n), "float32"))
        kernel["main"](tensor(x), tensor(at), result)
        np.testing.assert_array_equal(result.numpy(), x[:, np.clip(place, 0, size - 1)])
