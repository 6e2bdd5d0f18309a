"""Relay's operators whose sizes, axes and bounds are tensors: numpy's values, in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.types import TupleType
from heddle.support.diagnostics import HeddleError, IRTypeError
from tests.unit.relay.programs import plain

RNG = np.random.default_rng(11)


def fields(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def run(build: Any, *values: Any) -> Any:
    """The value in the interpreter, of which the machines' in both modes are the same; the program is
    printed and parsed back, and its type fits."""
    params = [relay.var(f"x{k}", shape=v.shape, dtype=str(v.dtype)) for k, v in enumerate(values)]
    made = build(*params)
    body = made.astuple() if isinstance(made, relay.TupleWrapper) else made
    mod = relay.transform.InferType()(IRModule.from_expr(relay.Function(params, body)))
    mod = relay.parse(mod.astext())
    found = [plain(relay.create_executor(kind, mod).evaluate()(*values)) for kind in ("debug", "vm")]
    ty = mod["main"].body.ty
    types = ty.fields if isinstance(ty, TupleType) else (ty,)
    for one, other, each in zip(*map(fields, found), types, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        assert one.dtype == other.dtype == np.dtype(str(each.dtype)) and one.shape == other.shape
        assert len(each.dims) == one.ndim
        for dim, size in zip(each.dims, one.shape, strict=True):
            assert getattr(dim, "value", size) == size
    return found[0]


def ints(*values: int) -> Any:
    return np.array(values, "int64")


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


word = relay.op.word


@pytest.mark.parametrize("axes", [(), (0,), (-1,), (2, 0), (0, 2, -1)])
def test_squeeze(axes: tuple[int, ...]) -> None:
    data = floats(1, 3, 1, 1)
    found = run(word("dyn.squeeze", ""), data, ints(*axes))
    np.testing.assert_array_equal(found, np.squeeze(data, axes))


@pytest.mark.parametrize("executor", ["debug", "vm"])
def test_squeeze_of_all_axes_needs_known_sizes(executor: str) -> None:
    """Which of them are 1 would decide the rank of the result."""
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, ?, 1), float32]) {{ squeeze(%x{}) }}'
    with pytest.raises(IRTypeError, match=r"R0205.*squeeze: a size of the data is not known"):
        relay.create_executor(executor, relay.parse(text.format(""))).evaluate()(
            np.zeros((1, 3, 1), "float32")
        )
    mod = relay.parse(text.format(", axis=[0]"))
    got = relay.create_executor(executor, mod).evaluate()(np.ones((1, 1, 1), "float32"))
    assert got.numpy().shape == (1, 1)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("count", [1, 2])
def test_expand_dims(shape: tuple[int, ...], count: int) -> None:
    data = floats(*shape)
    for axis in range(-len(shape) - 1, len(shape) + 1):
        at = axis % (len(shape) + 1)
        wanted = data.reshape(*shape[:at], *[1] * count, *shape[at:])
        found = run(lambda x, a: word("dyn.expand_dims", "")(x, a, num_newaxis=count), data, np.array(axis))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("reps", [(2,), (3, 1), (0, 2), (2, 1, 3)])
def test_tile(reps: tuple[int, ...]) -> None:
    data = floats(2, 3)
    np.testing.assert_array_equal(run(word("dyn.tile", ""), data, ints(*reps)), np.tile(data, reps))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode: str) -> None:
    data, widths = floats(4, 3), np.array([[1, 2], [0, 2]], "int64")
    extra = {"constant_values": 1.5} if mode == "constant" else {}
    found = run(
        lambda x, w, v: word("dyn.nn.pad", "")(x, w, v, pad_mode=mode), data, widths, np.array(1.5, "float32")
    )
    np.testing.assert_array_equal(found, np.pad(data, widths, mode, **extra))  # type: ignore[call-overload]


@pytest.mark.parametrize("method", ["nearest_neighbor", "bilinear"])
def test_upsampling_is_that_of_known_scales(method: str) -> None:
    data, scale = floats(1, 2, 3, 4), (np.array(2.0, "float32"), np.array(1.5, "float32"))
    found = run(lambda x, h, w: word("dyn.nn.upsampling", "")(x, h, w, method=method), data, *scale)
    wanted = run(lambda x: relay.nn.upsampling(x, 2.0, 1.5, method=method), data)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    data = floats(1, 1, 2, 3, 2)
    scales = [np.array(s, "float32") for s in (1.5, 1.0, 2.0)]
    way = "trilinear" if method == "bilinear" else method
    found = run(lambda x, d, h, w: word("dyn.nn.upsampling3d", "")(x, d, h, w, method=way), data, *scales)
    wanted = run(lambda x: relay.nn.upsampling3d(x, 1.5, 1.0, 2.0, method=way), data)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "tf_crop_and_resize"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_resize2d(mode: str, layout: str) -> None:
    data, roi = floats(1, 3, 5, 3), (0.1, 0.2, 0.8, 1.2)
    attrs = {"layout": layout, "coordinate_transformation_mode": mode, "extrapolation_value": 2.0}
    found = run(
        lambda x, s, r: word("dyn.image.resize2d", "")(x, s, r, **attrs), data, ints(4, 6), np.float32(roi)
    )
    wanted = run(lambda x: relay.image.resize2d(x, (4, 6), roi, **attrs), data)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("depth", [0, 1, 5])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_one_hot(depth: int, axis: int, shape: tuple[int, ...]) -> None:
    indices = np.asarray(RNG.integers(-1, 5, shape).astype("int32"))
    found = run(
        lambda i, a, b, d: word("dyn.one_hot", "")(i, a, b, d, axis=axis, dtype="float32"),
        indices,
        np.array(2, "int32"),
        np.array(-1, "int32"),
        np.array(depth, "int32"),
    )
    hot = np.moveaxis(indices[..., None] == np.arange(depth), -1, axis)
    np.testing.assert_array_equal(found, np.where(hot, np.float32(2), np.float32(-1)))


@pytest.mark.parametrize("k", [1, 3, 5, 0])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_topk(k: int, axis: int, is_ascend: bool) -> None:
    """A number below 1 takes all."""
    data = floats(5, 5)
    order = np.argsort(data if is_ascend else -data, axis, kind="stable")
    order = order.take(np.arange(k or 5), axis)
    for kind in ("both", "values", "indices"):
        attrs = {"axis": axis, "ret_type": kind, "is_ascend": is_ascend, "dtype": "int64"}
        found = run(lambda x, n, attrs=attrs: word("dyn.topk", "")(x, n, **attrs), data, np.array(k))
        wanted = {"values": np.take_along_axis(data, order, axis), "indices": order}
        parts = fields(found)
        for name, part in zip(wanted if kind == "both" else [kind], parts, strict=True):
            np.testing.assert_array_equal(part, wanted[name])


NUMBERS = [(0, 5, 1), (5, 0, -2), (2, 2, 1), (3, 1, 1), (-4, 9, 3)]


@pytest.mark.parametrize("numbers", [*NUMBERS, (0.5, 2.0, 0.25), (1.0, 0.0, -0.3)])
def test_arange(numbers: tuple[Any, ...]) -> None:
    dtype = "float32" if isinstance(numbers[0], float) else "int32"
    wanted = np.arange(*numbers).astype(dtype)
    given = [np.array(number, dtype) for number in numbers]
    np.testing.assert_allclose(run(lambda a, b, c: relay.arange(a, b, c, dtype), *given), wanted, rtol=1e-6)
    known = run(lambda x: relay.arange(*map(relay.const, given), dtype), floats(1))
    np.testing.assert_allclose(known, wanted, rtol=1e-6)


def test_arange_of_known_numbers_has_a_known_size() -> None:
    call = relay.arange(relay.const(7, "int32"), dtype="int32")
    assert [int(dim) for dim in relay.transform.InferTypeLocal(call).dims] == [7]
    graph = relay.create_executor("graph").evaluate(relay.Function([], call))
    np.testing.assert_array_equal(graph().numpy(), np.arange(7, dtype="int32"))
    with pytest.raises(HeddleError, match="the step is 0"):
        relay.transform.InferTypeLocal(relay.arange(*(relay.const(k) for k in (1, 2, 0))))


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [
        ((1, 0), (4, 3), None),
        ((0, 1), (9, 9), (2, 1)),
        ((-2, -1), (9, -9), (1, -2)),
        ((3,), (0,), (-1,)),
        ((2, 2), (2, 2), None),
    ],
)
def test_strided_set(begin: Any, end: Any, strides: Any) -> None:
    data = floats(5, 4)
    places = tuple(slice(*bounds) for bounds in zip(begin, end, strides or [1] * len(begin), strict=True))
    wanted = data.copy()
    values = floats(*wanted[places].shape)
    wanted[places] = values
    if not values.size:
        values = floats(*(max(size, 1) for size in values.shape))
    found = run(lambda x, v: relay.strided_set(x, v, begin, end, strides), data, values)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("has_counts", [True, False])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_unique(is_sorted: bool, has_counts: bool, size: int) -> None:
    data = RNG.integers(0, 4, size).astype("float32")
    values, first, numbers, counts = np.unique(data, True, True, True)
    if not is_sorted:
        order = np.argsort(first, kind="stable")
        values, first, counts = values[order], first[order], counts[order]
        numbers = np.argsort(order, kind="stable")[numbers] if size else numbers
    wanted = [values, first, numbers, np.array([len(values)]), *([counts] if has_counts else [])]
    found = run(lambda x: relay.unique(x, is_sorted, has_counts), data)
    for part, own in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part, own)


@pytest.mark.parametrize("after", [(-1, 4), (9, 4), (2, 3, 6), (36,)])
def test_sparse_reshape(after: tuple[int, ...]) -> None:
    before = (2, 3, 6)
    places = np.stack(np.nonzero(RNG.random(before) < 0.4), 1)
    found, shape = run(relay.sparse_reshape, places, ints(*before), ints(*after))
    wanted = np.zeros(before).reshape(after).shape
    assert tuple(shape) == wanted
    flat = np.ravel_multi_index(tuple(places.T), before)
    np.testing.assert_array_equal(found, np.stack(np.unravel_index(flat, wanted), 1))


def test_sparse_fill_empty_rows() -> None:
    places = np.array([[0, 1], [0, 3], [2, 0], [3, 1]], "int64")
    values, shape = np.array([1, 2, 3, 4], "float32"), ints(5, 6)
    found = run(relay.sparse_fill_empty_rows, places, values, shape, np.array(10, "float32"))
    np.testing.assert_array_equal(found[0], [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]])
    np.testing.assert_array_equal(found[1], [1, 2, 10, 3, 4, 10])
    np.testing.assert_array_equal(found[2], [False, True, False, False, True])
    none = run(relay.sparse_fill_empty_rows, places[:0], values[:0], ints(2, 6), np.array(7, "float32"))
    np.testing.assert_array_equal(none[0], [[0, 0], [1, 0]])
    np.testing.assert_array_equal(none[1], [7, 7])


def test_sparse_to_dense() -> None:
    places, values = np.array([[0, 1], [2, 2]], "int64"), floats(2)
    background = np.array(3, "float32")
    found = run(relay.sparse_to_dense, places, ints(4, 3), values, background)
    wanted = np.full((4, 3), 3, "float32")
    wanted[tuple(places.T)] = values
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("build", "values", "wanted"),
    [
        (lambda x, s: relay.reshape(x, s), (ints(-1, 2),), lambda x: x.reshape(-1, 2)),
        (lambda x, s: relay.reshape(x, s), (ints(0, -1, 1),), lambda x: x.reshape(2, 4, 1)),
        (lambda x, k: relay.topk(x, k, ret_type="values"), (np.array(2),), lambda x: -np.sort(-x)[:, :2]),
        (lambda x, r: relay.tile(x, r), (ints(2, 1),), lambda x: np.tile(x, (2, 1))),
        (lambda x, a: relay.expand_dims(x, a), (np.array(1),), lambda x: x[:, None]),
        (lambda x, a: relay.squeeze(relay.expand_dims(x, 0), a), (ints(0),), lambda x: x),
        (lambda x, b: relay.strided_slice(x, b, [9, 9]), (ints(1, 2),), lambda x: x[1:, 2:]),
        (lambda x, s: relay.broadcast_to(x, s), (ints(3, 2, 4),), lambda x: np.broadcast_to(x, (3, 2, 4))),
        (
            lambda x, w: relay.nn.pad(x, w),
            (np.array([[1, 0], [0, 2]]),),
            lambda x: np.pad(x, [[1, 0], [0, 2]]),
        ),
    ],
)
def test_functions_take_expressions_for_attributes(build: Any, values: Any, wanted: Any) -> None:
    data = floats(2, 4)
    np.testing.assert_array_equal(run(build, data, *values), wanted(data))


def test_a_list_stands_beside_a_bound_that_is_computed() -> None:
    call = relay.strided_slice(
        relay.var("x", shape=(2, 4)), relay.var("b", shape=(2,), dtype="int64"), [9, 9]
    )
    assert call.op.name == "dyn.strided_slice" and len(call.args) == 3
    with pytest.raises(HeddleError, match="slice_mode end"):
        relay.strided_slice(relay.var("x", shape=(2,)), relay.var("b", shape=(1,)), [9], axes=[0])
