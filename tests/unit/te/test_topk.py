"""topk by a heap and by sorting: the same elements in the same order, ties and NaN too."""

import numpy as np
import pytest

from heddle import te, topi
from heddle.codegen import as_module, build
from heddle.ir.visitor import walk
from heddle.prim.nodes import Var
from heddle.te import create_prim_func
from heddle.tir.nodes import Buffer

DTYPES = ("float32", "float64", "int8", "int64", "uint8")
SHAPES = [((3, 41), 1), ((41, 3), 0), ((2, 29, 5), 1), ((1, 1), 1), ((64,), 0)]


def made(shape, k, axis, largest, dtype):
    x = te.placeholder(shape, dtype, "x")
    return create_prim_func([x, *topi.topk(x, k, axis, "both", largest, "int64")])


def sorts(func):
    return any(isinstance(node, Buffer) and node.name == "merged" for node in walk(func.body))


def expected(x, k, axis, largest):
    """Stable, NaN the greatest."""
    rank = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
    order = np.argsort(-rank if largest else rank, axis=axis, kind="stable")
    order = np.take(order, range(min(k, x.shape[axis])), axis=axis)
    return np.take_along_axis(x, order, axis), order


def samples(rng, shape, dtype):
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        yield rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        yield rng.integers(0, 3, shape).astype(dtype)
        return
    x = rng.standard_normal(shape).astype(dtype)
    yield x
    yield np.sort(x)
    yield np.sort(x)[..., ::-1].copy()
    with_nan = rng.integers(-2, 3, shape).astype(dtype)
    with_nan.flat[:: 1 + x.size // 5] = np.nan
    with_nan.flat[1 :: 1 + x.size // 5] = -np.inf
    yield with_nan


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 41), 1), ((41, 3), 0), ((2, 29, 5), 1), ((1, 1), 1), ((64,), 0)]
)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "symbolic"])
def test_agrees_with_numpy(dtype, largest, shape, axis, is_known):
    rng = np.random.default_rng(sum(shape))
    sizes = [size if is_known or at != axis else Var("n", "int64") for at, size in enumerate(shape)]
    for k in (1, 2, 7, 64):
        func = made(sizes, k, axis, largest, dtype)
        run = build(as_module(func), "llvm")[func.attrs["global_symbol"]]
        for x in samples(rng, shape, dtype):
            values, order = expected(x, k, axis, largest)
            got, at = np.empty_like(values), np.empty(order.shape, "int64")
            run(x, got, at)
            np.testing.assert_array_equal(at, order)
            np.testing.assert_array_equal(got, values)


def test_few_elements_are_taken_without_sorting_all():
    n = Var("n", "int64")
    assert not sorts(made((4, n), 100, 1, True, "float32"))
    assert not sorts(made((4, 400), 100, 1, True, "float32"))
    assert sorts(made((4, 399), 100, 1, True, "float32"))
    assert sorts(made((4, n), 5000, 1, True, "float32"))
    assert sorts(made((4, n), -1, 1, True, "float32"))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_an_axis_shorter_than_k(size):
    func = made((2, Var("n", "int64")), 3, 1, True, "float32")
    x = np.random.default_rng(size).standard_normal((2, size)).astype("float32")
    values, order = expected(x, 3, 1, True)
    got, at = np.empty_like(values), np.empty(order.shape, "int64")
    build(as_module(func), "llvm")[func.attrs["global_symbol"]](x, got, at)
    np.testing.assert_array_equal(at, order)
