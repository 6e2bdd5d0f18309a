"""Operators at their edges: no elements, numbers that only uint64 holds, logarithms of what is next to
nothing. The interpreter, machines of fixed and of free sizes, and folded constants give the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.ir.op_def import Without, op_def
from heddle.prim.nodes import SizeVar
from heddle.relax.interpreter import GraphInterpreter
from heddle.runtime.dtype import dtype_of
from heddle.support.diagnostics import IRTypeError, Trap
from tests.unit.relay.programs import plain

Build = Callable[..., Any]
F = np.float32
RNG = np.random.default_rng(11)


def results(build: Build, *arrays: Any, free: bool = True) -> Iterator[tuple[str, Any]]:
    """What each engine gives for a Relay expression of some arrays."""
    for is_free in (False, True) if free else (False,):
        shapes = [tuple(relay.Any() if is_free else size for size in array.shape) for array in arrays]
        params = [
            relay.var(f"x{k}", shape=shape, dtype=str(dtype_of(array)))
            for k, (shape, array) in enumerate(zip(shapes, arrays, strict=True))
        ]
        mod = heddle.IRModule.from_expr(relay.Function(params, build(*params)))
        sizes = "free" if is_free else "fixed"
        yield f"interpreter, {sizes}", plain(relay.create_executor("debug", mod).evaluate()(*arrays))
        vm = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode="bytecode"), heddle.cpu())
        yield f"machine, {sizes}", plain(vm["main"](*map(heddle.tensor, arrays)))
    constants = [relay.const(array, str(dtype_of(array))) for array in arrays]
    mod = heddle.IRModule.from_expr(relay.Function([], build(*constants)))
    vm = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode="bytecode"), heddle.cpu())
    yield "folded", plain(vm["main"]())


def assert_everywhere(wanted: Any, build: Build, *arrays: Any, free: bool = True, rtol: float = 0) -> None:
    for engine, found in results(build, *arrays, free=free):
        assert found.dtype == wanted.dtype, engine
        np.testing.assert_allclose(
            found.astype("float64"), wanted.astype("float64"), rtol=rtol, err_msg=engine, strict=True
        )


def test_logarithms_of_a_softmax_that_is_next_to_nothing() -> None:
    x = np.concatenate([[[0, -1000.0], [-5e4, 4e4], [-np.inf, 3]], RNG.normal(0, 300, (4, 2))]).astype(F)
    wanted = (x - np.logaddexp.reduce(x.astype("float64"), 1, keepdims=True)).astype(F)
    assert_everywhere(wanted, relay.nn.log_softmax, x, rtol=1e-5)


def test_logsumexp_of_infinities() -> None:
    x = np.array([[-np.inf] * 3, [np.inf, 0, 1], [-np.inf, 0, 1], [np.nan, 0, 0], [0, 1, 2]], F)
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.reduce(x.astype("float64"), 1).astype(F)
    for keepdims in (False, True):
        want = wanted[:, None] if keepdims else wanted
        assert_everywhere(want, lambda p, keep=keepdims: relay.logsumexp(p, [1], keep), x, rtol=1e-5)


INDICES = {
    "uint64": [2**63 + 5, 2**64 - 1, 2**63 - 1, 1, 7],
    "int64": [-(2**62) - 1, 2**62, 2**63 - 1, -(2**63), -1, 8],
    "int8": [-128, 127, -1, 3],
}


@pytest.mark.parametrize("dtype", INDICES)
@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("size", [1, 5, 300])
def test_take_moves_any_index_into_the_axis(mode: str, dtype: str, size: int) -> None:
    x, indices = RNG.standard_normal((3, size)).astype(F), np.array(INDICES[dtype], dtype)
    places = [i % size if mode == "wrap" else min(max(i, 0), size - 1) for i in INDICES[dtype]]
    assert_everywhere(x[:, places], lambda p, i: relay.take(p, i, 1, mode=mode), x, indices)
    each = np.broadcast_to(indices, (3, len(indices))).copy()
    assert_everywhere(
        x[:, places], lambda p, i: relay.take(p, i, 1, batch_dims=1, mode=mode), x, each, free=size == 5
    )


def run_record(name: str, *given: Any, **attrs: Any) -> tuple[Any, Any]:
    """What a machine and the numpy reference give for a call of a record."""
    arrays = [array for array in given if isinstance(array, np.ndarray)]
    params = [Var(f"x{k}", TensorType(array.shape, dtype_of(array))) for k, array in enumerate(arrays)]
    builder = BlockBuilder()
    call = call_op(name, *params, *given[len(arrays) :], **attrs)
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(call))
    vm = heddle.relax.VirtualMachine(heddle.compile(builder.get()), heddle.cpu())
    record = op_def(call.op)
    assert record is not None and not isinstance(record.reference, Without)
    return vm["main"](*map(heddle.tensor, arrays)).numpy(), record.reference(call.attrs, *given)


def test_indices_that_only_uint64_holds_are_beyond_every_axis() -> None:
    x = RNG.standard_normal((5, 3)).astype(F)
    indices = np.array([2**63 + 5, 2**64 - 1, 4, 2**63, 5], "uint64")
    for found in run_record("take", x, indices, axis=0, mode="nan"):
        np.testing.assert_array_equal(np.isnan(found[:, 0]), [True, True, False, True, True])
        np.testing.assert_array_equal(found[2], x[4])
    for found in run_record("one_hot", indices, 1.0, 0.0, depth=5):
        np.testing.assert_array_equal(found, np.eye(6, 5)[[5, 5, 4, 5, 5]])
    rows, cache = RNG.standard_normal((2, 2, 1)).astype(F), np.zeros((2, 5, 1), F)
    first = np.array([2**64 - 2, 2**63 + 1], "uint64")
    for found in run_record("scatter_rows", cache, rows, first, axis=1, mode="linear"):
        np.testing.assert_array_equal(found, cache)
    wanted = cache.copy()
    for b, start in enumerate(first.tolist()):
        wanted[b, [start % 5, (start + 1) % 5]] = rows[b]
    for found in run_record("scatter_rows", cache, rows, first, axis=1, mode="circular"):
        np.testing.assert_array_equal(found, wanted)
    prob = np.array([[1, 0], [0, 1]], F)
    for found in run_record(
        "multinomial_from_uniform", prob, np.full((2, 1), 0.5, F), np.array([[2**63], [0]], "uint64")
    ):
        np.testing.assert_array_equal(found, [[1], [0]])


OUT_OF_RANGE: dict[str, Build] = {
    "take": lambda x, i: relay.take(x, i, 0, mode="fast"),
    "gather_nd": relay.gather_nd,
    "gather": lambda x, i: relay.gather(x, 0, i),
}


@pytest.mark.parametrize("build", OUT_OF_RANGE.values(), ids=list(OUT_OF_RANGE))
def test_indices_that_only_uint64_holds_are_out_of_range(build: Build) -> None:
    x, indices = RNG.standard_normal(5).astype(F), np.array([2**63 + 5], "uint64")
    params = [relay.var("x", shape=(5,)), relay.var("i", shape=(1,), dtype="uint64")]
    mod = heddle.IRModule.from_expr(relay.Function(params, build(*params)))
    vm = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    for run in (relay.create_executor("debug", mod).evaluate(), vm["main"]):
        with pytest.raises(Trap, match="out of range") as caught:
            run(heddle.tensor(x), heddle.tensor(indices))
        assert caught.value.code == "U1001"


@pytest.mark.parametrize("mode", ["wrap", "clip", "fast"])
def test_nothing_is_taken_from_an_axis_without_elements(mode: str) -> None:
    none = np.zeros((0,), "int64")
    assert_everywhere(
        np.zeros((0, 3), F), lambda p, i: relay.take(p, i, 0, mode=mode), np.zeros((0, 3), F), none
    )
    if mode == "fast":
        return  # the interpreter refuses indices that no element is read through
    two = np.zeros((2,), "int64")
    assert_everywhere(
        np.zeros((0, 2), F), lambda p, i: relay.take(p, i, 1, mode=mode), np.zeros((0, 0), F), two
    )
    pairs, empty = np.zeros((2, 0), "int64"), np.zeros((2, 0), F)
    assert_everywhere(empty, lambda p, i: relay.take(p, i, 1, batch_dims=1, mode=mode), empty, pairs)


def test_index_vectors_without_numbers() -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(F)
    wanted = np.broadcast_to(x, (3, 2, 3, 4))
    assert_everywhere(wanted, relay.gather_nd, x, np.zeros((0, 3), "int64"), free=False)


RESHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((2, 0, 4), (-3, -1), (0, 4)),
    ((2, 0, 4), (-1, -3), (2, 0)),
    ((2, 0, 4), (0, -1), (2, 0)),
    ((2, 0, 4), (-1, 0), (8, 0)),
    ((2, 0, 4), (0, 0, -1), (2, 0, 4)),
    ((2, 0, 4), (3, -1), (3, 0)),
    ((2, 0, 4), (-2, -1), (2, 0, 4, 1)),
    ((0, 4), (-4, -1, 2, -1), (0, 2, 4)),
    ((4, 0), (-4, 2, 2, -1), (2, 2, 0)),
    ((3, 0, 2, 0), (-3, 0, 0), (0, 2, 0)),
    ((3, 0, 2, 0), (-3, -3), (0, 0)),
    ((6, 4), (-4, -1, 2, -1), (3, 2, 4)),
    ((2, 3, 4), (-3, -1), (6, 4)),
    ((2, 3, 4), (-1, -3), (2, 12)),
]


@pytest.mark.parametrize(("shape", "asked", "wanted"), RESHAPES)
def test_what_is_left_is_of_the_sizes_that_are_not_named(
    shape: tuple[int, ...], asked: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    x = RNG.standard_normal(shape).astype(F)
    assert_everywhere(x.reshape(wanted), lambda p: relay.reshape(p, asked), x)
    if min(asked) < -1:
        return
    new = np.array(asked)
    assert_everywhere(x.reshape(wanted), lambda p: relay.reshape(p, relay.const(new)), x, free=False)


@pytest.mark.parametrize("asked", [(3, 0), (0, 3), (0, 0), (6, 0), (0, 0, 5), (2, 0, 4)])
@pytest.mark.parametrize("shape", [(6, 0), (0, 3), (2, 0, 4)])
def test_a_zero_that_is_allowed_is_one(shape: tuple[int, ...], asked: tuple[int, ...]) -> None:
    assert_everywhere(
        np.zeros(asked, F), lambda p: relay.reshape(p, asked, allowzero=True), np.zeros(shape, F)
    )
    like = np.zeros(asked, F)
    assert_everywhere(like, relay.reshape_like, np.zeros(shape, F), like, free=False)


def test_a_zero_that_is_allowed_is_not_what_is_left() -> None:
    empty, full = np.zeros((2, 0, 4), F), relay.var("x", shape=(6, 3))
    assert_everywhere(np.zeros((2, 0, 0), F), lambda p: relay.reshape(p, (2, 0, -1), allowzero=True), empty)
    with pytest.raises(IRTypeError, match="number of elements changes"):
        relay.transform.InferType()(
            heddle.IRModule.from_expr(relay.Function([full], relay.reshape(full, (6, 0), allowzero=True)))
        )


@pytest.mark.parametrize("places", [(-1,), (-3, -1), (2, -1), (3, 1)])
@pytest.mark.parametrize("size", [4, relay.Any()])
def test_places_of_a_split_rise_from_zero(places: tuple[int, ...], size: Any) -> None:
    x = relay.var("x", shape=(size, 2))
    with pytest.raises(IRTypeError, match=r"indices must (rise|be at least 0)") as caught:
        relay.transform.InferType()(
            heddle.IRModule.from_expr(relay.Function([x], relay.split(x, places).astuple()))
        )
    assert caught.value.code == "R0205"


@pytest.mark.parametrize("places", [(1, 9), (6,), (0, 0, 4), (2, 2)])
def test_parts_of_a_split_beyond_the_end_are_empty(places: tuple[int, ...]) -> None:
    x = RNG.standard_normal((4, 2)).astype(F)
    for engine, found in results(lambda p: relay.split(p, places).astuple(), x):
        for mine, theirs in zip(found, np.split(x, places), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=engine, strict=True)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16, "int8", "uint8", "int32"]
)
def test_windows_without_data_have_the_least_value(dtype: Any) -> None:
    least = np.array(-np.inf if np.dtype(dtype).kind not in "iu" else np.iinfo(dtype).min).astype(dtype)
    x = RNG.integers(0, 9, (1, 2, 4, 3)).astype(dtype)
    padded = np.full((1, 2, 10, 9), least, dtype)
    padded[:, :, 3:7, 3:6] = x
    corners = [padded[:, :, i : i + 5, j : j + 4] for i in (0, 5) for j in (0, 5)]
    wanted = np.maximum.reduce(corners)
    assert (wanted == least).any()
    assert_everywhere(wanted, lambda p: relay.nn.max_pool2d(p, (2, 2), dilation=(5, 5), padding=(3, 3)), x)
    empty = np.zeros((1, 2, 0, 3), dtype)
    assert_everywhere(np.full((1, 2, 1, 1), least, dtype), relay.nn.global_max_pool2d, empty)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
@pytest.mark.parametrize("bound", [3.0, 1000.0, 2.0**63, 1e30, np.inf])
def test_bounds_beyond_a_type_of_integers_do_not_clip(dtype: str, bound: float) -> None:
    ends = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.array([*ends, 0, 1], dtype)
    wanted = [max(int(number), -bound) if number < 0 else min(int(number), bound) for number in x.tolist()]
    made = np.array([int(number) for number in wanted], "object").astype(dtype)
    assert_everywhere(made, lambda p: relay.clip(p, -bound, bound), x)


@pytest.mark.parametrize("shape", [(2, 3, 0), (0, 3, 5), (2, 3, 5)])
def test_a_free_size_of_a_new_shape_that_is_0_is_no_sign(shape: tuple[int, int, int]) -> None:
    """(a, b, n) to (-1, n): a 0 that is written copies a size of the data, a size that is 0 does not."""
    a, b, n = map(SizeVar, "abn")
    x = Var("x", TensorType((a, b, n), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(call_op("reshape", x, [-1, n])))
    mod = builder.get()
    given = RNG.standard_normal(shape).astype(F)
    wanted = given.reshape(shape[0] * shape[1], shape[2])
    np.testing.assert_array_equal(GraphInterpreter(mod)["main"](given), wanted, strict=True)
    for mode in ("bytecode", "compiled"):
        vm = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())
        np.testing.assert_array_equal(vm["main"](heddle.tensor(given)).numpy(), wanted, strict=True)
