"""Relay's operators: the inferred type is that of the value, the value numpy's, and calls print and parse
back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.ir.structural import assert_structural_equal
from heddle.relay import Any as AnyDim
from heddle.relay import Call, Function, TensorType, Tuple, TupleWrapper, astext, const, parse_expr, var
from heddle.relay.op import lookup, op_names, word
from heddle.relay.text_values import type_text
from heddle.relay.typed import infer_expr, infer_local
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import value

F, I, B = "float32", "int32", "bool"
S = (2, 3)


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _conv(x: Any, w: Any) -> Any:
    """A convolution with padding 1 and stride 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, _, h, wide = x.shape
    out = np.zeros((n, w.shape[0], h, wide), x.dtype)
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", padded[:, :, i : i + h, j : j + wide], w[:, :, i, j])
    return out


ROWS: list[tuple[str, list[Any], dict[str, Any], Any]] = [
    *(
        (name, [(S, F)], {}, getattr(np, name))
        for name in ["abs", "ceil", "cos", "cosh", "exp", "floor", "negative", "sign", "sin"]
    ),
    *(
        (name, [(S, F)], {}, getattr(np, name))
        for name in ["sinh", "tan", "tanh", "trunc", "isnan", "isinf", "isfinite"]
    ),
    ("sigmoid", [(S, F)], {}, lambda x: 1 / (1 + np.exp(-x))),
    ("fast_exp", [(S, F)], {}, np.exp),
    ("round", [(S, F)], {}, np.round),
    ("logical_not", [(S, B)], {}, np.logical_not),
    ("bitwise_not", [(S, I)], {}, np.invert),
    *(
        (name, [(S, F), ((3,), F)], {}, getattr(np, name))
        for name in ["add", "subtract", "multiply", "maximum"]
    ),
    *(
        (name, [(S, F), ((2, 1), F)], {}, getattr(np, name))
        for name in ["minimum", "greater", "less", "equal"]
    ),
    *((name, [(S, F), (S, F)], {}, getattr(np, name)) for name in ["divide", "not_equal", "less_equal"]),
    ("floor_divide", [(S, F), (S, F)], {}, np.floor_divide),
    ("floor_mod", [(S, F), (S, F)], {}, np.mod),
    ("mod", [(S, F), (S, F)], {}, np.fmod),
    ("trunc_mod", [(S, F), (S, F)], {}, np.fmod),
    ("trunc_divide", [(S, F), (S, F)], {}, lambda a, b: np.trunc(a / b)),
    *(
        (name, [(S, B), (S, B)], {}, getattr(np, name))
        for name in ["logical_and", "logical_or", "logical_xor"]
    ),
    *(
        (name, [(S, I), (S, I)], {}, getattr(np, name))
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]
    ),
    ("clip", [(S, F)], {"a_min": -0.5, "a_max": 0.5}, lambda x: np.clip(x, -0.5, 0.5)),
    ("cast", [(S, F)], {"dtype": "int8"}, lambda x: x.astype("int8")),
    ("cast_like", [(S, F), ((1,), "float64")], {}, lambda x, y: x.astype("float64")),
    ("copy", [(S, F)], {}, lambda x: x),
    ("where", [(S, B), (S, F), ((1,), F)], {}, np.where),
    ("where", [(S, I), (S, F), (S, F)], {}, lambda c, x, y: np.where(c != 0, x, y)),
    ("expand_dims", [(S, F)], {"axis": 1, "num_newaxis": 2}, lambda x: x.reshape(2, 1, 1, 3)),
    ("expand_dims", [(S, F)], {"axis": -1}, lambda x: x[..., None]),
    ("transpose", [((2, 3, 4), F)], {}, lambda x: x.transpose()),
    ("transpose", [((2, 3, 4), F)], {"axes": [1, 2, 0]}, lambda x: x.transpose(1, 2, 0)),
    ("reshape", [((2, 3, 4), F)], {"newshape": [0, -1]}, lambda x: x.reshape(2, 12)),
    ("reshape", [((2, 3, 4), F)], {"newshape": [-2]}, lambda x: x),
    ("reshape", [((2, 3, 4), F)], {"newshape": [-3, -2]}, lambda x: x.reshape(6, 4)),
    ("reshape", [((2, 3, 4), F)], {"newshape": [-4, 1, 2, -2]}, lambda x: x.reshape(1, 2, 3, 4)),
    ("reshape", [((2, 3, 4), F)], {"newshape": [0, 0, -4, 2, -1]}, lambda x: x.reshape(2, 3, 2, 2)),
    ("reshape_like", [((6,), F), (S, I)], {}, lambda x, y: x.reshape(2, 3)),
    ("squeeze", [((1, 3, 1), F)], {}, np.squeeze),
    ("squeeze", [((1, 3, 1), F)], {"axis": [2]}, lambda x: x.squeeze(2)),
    ("nn.batch_flatten", [((2, 3, 4), F)], {}, lambda x: x.reshape(2, 12)),
    ("tile", [(S, F)], {"reps": [2, 1]}, lambda x: np.tile(x, (2, 1))),
    ("repeat", [(S, F)], {"repeats": 2, "axis": 1}, lambda x: x.repeat(2, 1)),
    ("reverse", [(S, F)], {"axis": 1}, lambda x: x[:, ::-1]),
    ("broadcast_to", [((3,), F)], {"shape": [2, 3]}, lambda x: np.broadcast_to(x, (2, 3))),
    ("broadcast_to_like", [((3,), F), (S, F)], {}, lambda x, y: np.broadcast_to(x, (2, 3))),
    ("collapse_sum_to", [(S, F)], {"shape": [1, 3]}, lambda x: x.sum(0, keepdims=True)),
    ("collapse_sum_like", [(S, F), ((3,), F)], {}, lambda x, y: x.sum(0)),
    (
        "strided_slice",
        [((5, 4), F)],
        {"begin": [1, 0], "end": [4, 3], "strides": [2]},
        lambda x: x[1:4:2, 0:3:2],
    ),
    ("strided_slice", [((5, 4), F)], {"begin": [-2], "end": [9], "axes": [0]}, lambda x: x[-2:]),
    ("strided_slice", [((5, 4), F)], {"begin": [1], "end": [2], "slice_mode": "size"}, lambda x: x[1:3]),
    ("shape_of", [(S, F)], {}, lambda x: np.array([2, 3], "int32")),
    ("ndarray_size", [(S, F)], {"dtype": "int64"}, lambda x: np.array(6)),
    ("zeros_like", [(S, F)], {}, np.zeros_like),
    ("ones_like", [(S, I)], {}, np.ones_like),
    ("full", [((), F)], {"shape": [2, 2], "dtype": "int32"}, lambda v: np.full((2, 2), v.astype("int32"))),
    ("full_like", [(S, F), ((), F)], {}, lambda x, v: np.full_like(x, v)),
    *(
        (
            "fixed_point_multiply",
            [(S, I)],
            {"multiplier": 1717986918, "shift": shift},
            lambda x, shift=shift: np.floor(x * (1717986918 / 2.0**31) * 2.0**shift + 0.5).astype("int32"),
        )
        for shift in (0, 3, -2)
    ),
    ("cumsum", [(S, F)], {"axis": 1}, lambda x: x.cumsum(1)),
    ("sort", [(S, F)], {"axis": 1, "is_ascend": False}, lambda x: -np.sort(-x, 1)),
    ("argsort", [(S, F)], {}, lambda x: np.argsort(x, -1).astype("int32")),
    *((name, [(S, F)], {"axis": [1]}, getattr(np, name)) for name in ()),
    ("sum", [((2, 3, 4), F)], {"axis": [1], "exclude": True}, lambda x: x.sum((0, 2))),
    ("sum", [(S, I)], {}, lambda x: x.sum(dtype="int32")),
    ("mean", [(S, F)], {"axis": [0], "keepdims": True}, lambda x: x.mean(0, keepdims=True)),
    ("max", [(S, F)], {"axis": [-1]}, lambda x: x.max(-1)),
    ("min", [(S, F)], {}, np.min),
    ("prod", [(S, F)], {"axis": [0]}, lambda x: x.prod(0)),
    ("all", [(S, B)], {"axis": [0]}, lambda x: x.all(0)),
    ("any", [(S, B)], {}, np.any),
    ("argmax", [(S, F)], {"axis": [1]}, lambda x: x.argmax(1).astype("int32")),
    ("argmin", [(S, F)], {"axis": [0], "keepdims": True}, lambda x: x.argmin(0)[None].astype("int32")),
    ("nn.dense", [((4, 3), F), ((5, 3), F)], {"units": 5}, lambda x, w: x @ w.T),
    ("nn.matmul", [((4, 3), F), ((3, 5), F)], {}, np.matmul),
    ("nn.batch_matmul", [((2, 4, 3), F), ((2, 5, 3), F)], {}, lambda x, y: x @ y.transpose(0, 2, 1)),
    ("nn.bias_add", [((2, 3, 4), F), ((3,), F)], {}, lambda x, b: x + b[:, None]),
    ("nn.bias_add", [((2, 3), F), ((3,), F)], {"axis": -1}, np.add),
    ("nn.relu", [(S, F)], {}, lambda x: np.maximum(x, 0)),
    ("nn.leaky_relu", [(S, F)], {"alpha": 0.1}, lambda x: np.where(x > 0, x, np.float32(0.1) * x)),
    ("nn.prelu", [((2, 3, 4), F), ((3,), F)], {}, lambda x, a: np.where(x > 0, x, a[:, None] * x)),
    ("nn.softmax", [(S, F)], {}, _softmax),
    ("nn.softmax", [(S, F)], {"axis": 0}, lambda x: _softmax(x, 0)),
    ("nn.log_softmax", [(S, F)], {}, lambda x: np.log(_softmax(x))),
    ("nn.conv2d", [((1, 2, 4, 5), F), ((3, 2, 3, 3), F)], {"padding": [1, 1]}, _conv),
    ("nn.max_pool2d", [((1, 2, 4, 4), F)], {"pool_size": [4, 4]}, lambda x: x.max((2, 3), keepdims=True)),
    ("nn.avg_pool2d", [((1, 2, 4, 4), F)], {"pool_size": [4, 4]}, lambda x: x.mean((2, 3), keepdims=True)),
    ("nn.global_avg_pool2d", [((1, 2, 4, 5), F)], {}, lambda x: x.mean((2, 3), keepdims=True)),
    ("nn.global_max_pool2d", [((1, 2, 4, 5), F)], {}, lambda x: x.max((2, 3), keepdims=True)),
]


def _data(shape: Any, dtype: str) -> Any:
    rng = np.random.default_rng()
    if dtype == B:
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype.startswith("int"):
        return np.asarray(rng.integers(-9, 9, shape).astype(dtype))
    return np.asarray((rng.standard_normal(shape) * 1.7).astype(dtype))


def _call(
    name: str, specs: list[Any], attrs: dict[str, Any], any_dims: bool = False
) -> tuple[list[Any], Any]:
    params = [
        var(f"x{k}", TensorType([AnyDim() for _ in shape] if any_dims else shape, dtype))
        for k, (shape, dtype) in enumerate(specs)
    ]
    call = word(name, name)(*params, **attrs)
    return params, call.astuple() if isinstance(call, TupleWrapper) else call


IDS = [f"{row[0]}-{k}" for k, row in enumerate(ROWS)]


@pytest.mark.parametrize(("name", "specs", "attrs", "reference"), ROWS, ids=IDS)
def test_value_and_type(name: str, specs: list[Any], attrs: dict[str, Any], reference: Any) -> None:
    params, call = _call(name, specs, attrs)
    assert isinstance(call, Call) and call.op.name == name
    assert all(call.attrs[key] is not None for key in attrs)
    arrays = [_data(*spec) for spec in specs]
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(*arrays))
    found = value(Function(params, call)(*(const(array, str(array.dtype)) for array in arrays)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    ty = infer_local(call)
    assert tuple(int(dim) for dim in ty.dims) == found.shape == wanted.shape and ty.dtype == str(found.dtype)
    func = Function(params, call)
    assert_structural_equal(parse_expr(astext(func)), func)


RANKED = [row for row in ROWS if row[0] != "squeeze" or row[2]]
"""All but the one whose rank depends on the sizes."""


@pytest.mark.parametrize(("name", "specs", "attrs", "reference"), RANKED)
def test_unknown_dimensions_stay_unknown_or_become_sure(
    name: str, specs: list[Any], attrs: dict[str, Any], reference: Any
) -> None:
    """With `?` for every size the type has the right rank and element type, and no wrong size."""
    known = infer_local(_call(name, specs, attrs)[1])
    ty = infer_local(_call(name, specs, attrs, any_dims=True)[1])
    assert len(ty.dims) == len(known.dims) and ty.dtype == known.dtype
    for got, wanted in zip(ty.dims, known.dims, strict=True):
        assert isinstance(got, AnyDim) or int(got) == int(wanted)


def test_tuples_of_tensors() -> None:
    x, y = var("x", shape=(2, 3)), var("y", shape=(4, 3))
    a, b = _data((2, 3), F), _data((4, 3), F)
    joined = word("concatenate", "")([x, y], axis=0)
    assert isinstance(joined.args[0], Tuple)
    parts = word("split", "")(joined, 3, axis=0)
    assert len(parts) == 3
    func = Function([x, y], Tuple([*parts, word("stack", "")([x, x], axis=1)]))
    found = value(func(const(a), const(b)))
    whole = np.concatenate([a, b])
    for part, wanted in zip(found, [*np.split(whole, 3), np.stack([a, a], 1)], strict=True):
        np.testing.assert_array_equal(part, wanted)
    assert type_text(infer_expr(func).ret_type).startswith(
        "(Tensor[(2, 3), float32], Tensor[(2, 3), float32]"
    )


def test_take_gather_and_topk() -> None:
    x, i = _data((4, 5), F), np.array([[3, 0], [1, 9]], "int32")
    take = word("take", "")(const(x), const(i), axis=0)
    np.testing.assert_array_equal(value(take), x[np.clip(i, 0, 3)])
    j = np.array([[0, 2], [1, 1], [4, 4], [3, 0]], "int32")
    np.testing.assert_array_equal(
        value(word("gather", "")(const(x), 1, const(j))), np.take_along_axis(x, j, 1)
    )
    nd = np.array([[0, 3], [4, 1]], "int32")  # two index vectors along axis 0
    np.testing.assert_array_equal(value(word("gather_nd", "")(const(x), const(nd))), x[nd[0], nd[1]])
    values, places = value(word("topk", "")(const(x), k=2).astuple())
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1), values)


def test_unravel_index_and_sparse_to_dense() -> None:
    shape, flat = np.array([4, 1, 5], "int32"), np.array([[0, 19, 7], [5, 4, 11]], "int32")
    for given in (flat, flat[0], flat[0, 1]):
        found = value(word("unravel_index", "")(const(np.asarray(given)), const(shape)))
        np.testing.assert_array_equal(found, np.array(np.unravel_index(given, (4, 1, 5))))
    places, values = np.array([[0, 2], [3, 1]], "int32"), np.array([5, 7], "int32")
    found = value(word("sparse_to_dense", "")(const(places), [4, 3], const(values), const(np.int32(9))))
    wanted = np.full((4, 3), 9, "int32")
    wanted[places[:, 0], places[:, 1]] = values
    np.testing.assert_array_equal(found, wanted)
    one = value(word("sparse_to_dense", "")(const(np.array([1, 3], "int32")), [5], const(2.5)))
    np.testing.assert_array_equal(one, np.array([0, 2.5, 0, 2.5, 0], "float32"))
    scalar = value(word("sparse_to_dense", "")(const(np.int32(3)), [5], const(2.5)))
    np.testing.assert_array_equal(scalar, np.array([0, 0, 0, 2.5, 0], "float32"))


def test_batch_norm_pad_and_norms() -> None:
    x = _data((2, 3, 4), F)
    scale, shift, mean = (_data((3,), F) for _ in range(3))
    variance = np.abs(_data((3,), F)) + 0.5
    args = [const(array) for array in (x, scale, shift, mean, variance)]
    out, *_ = word("nn.batch_norm", "")(*args)
    wanted = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * scale[:, None] + shift[:, None]
    np.testing.assert_allclose(value(out), wanted, rtol=1e-4, atol=1e-4)
    padded = word("nn.pad", "")(const(x), ((0, 0), (1, 2), (0, 1)), 3.0)
    np.testing.assert_array_equal(
        value(padded), np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=np.float32(3))
    )
    g, b = _data((4,), F), _data((4,), F)
    normed = value(word("nn.layer_norm", "")(const(x), const(g), const(b)))
    wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(normed, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("fn (%x: Tensor[(4, 3), float32], %w) { nn.dense(%x, %w, units=5) }", "Tensor[(5, 3), float32]"),
        (
            "fn (%x: Tensor[(1, 4, 8, 8), float32], %w) "
            "{ nn.conv2d(%x, %w, channels=6, kernel_size=[3, 5], groups=2) }",
            "Tensor[(6, 2, 3, 5), float32]",
        ),
        ("fn (%x: Tensor[(2, 3, 4), float16], %w) { nn.bias_add(%x, %w) }", "Tensor[(3), float16]"),
        ("fn (%x: Tensor[(2, 3, 4), float32], %w) { nn.prelu(%x, %w, axis=2) }", "Tensor[(4), float32]"),
    ],
)
def test_types_of_parameters_follow_from_the_data(text: str, wanted: str) -> None:
    assert type_text(infer_expr(parse_expr(text)).params[1].ty) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nn.dense(%x, %w, units=7)", "units is 7, and the weight has 5 rows"),
        ("reshape(%x, newshape=[5, 5])", "the number of elements changes"),
        ("reshape(%x, newshape=[0, 0, 0])", "a dimension that the data lacks"),
        ("split(%x, indices_or_sections=2, axis=1)", "no 2 equal parts"),
        ("sum(%x, axis=[2])", "axis 2 is out of range"),
        ("add(%x)", "needs the argument 'rhs'"),
        ("tanh(%x, %w)", "takes 1 arguments, got 2"),
        ("take(%x, %x)", "integer"),
        ("nn.softmax(%x, axi=1)", "no attribute 'axi'"),
        ("nn.sofmax(%x)", "did you mean 'nn.softmax'"),
    ],
)
def test_wrong_calls(text: str, words: str) -> None:
    head = "fn (%x: Tensor[(4, 3), float32], %w: Tensor[(5, 3), float32]) { "
    with pytest.raises(HeddleError, match=words) as error:
        infer_expr(parse_expr(f"{head}{text} }}"))
    assert "^" in str(error.value)


def test_every_name_has_a_record_and_a_word() -> None:
    names = op_names()
    assert len(names) > 150
    for name in names:
        record, alias = lookup(name)
        assert alias in record.aliases and callable(word(name, name))


@pytest.mark.parametrize(
    "attrs",
    [
        "begin=[1, [2]], end=[3, 4]",
        'begin="1", end=[3]',
        "begin=1.5f, end=[3]",
        "begin=[0], end=[1], slice_mode=3",
    ],
)
def test_attributes_have_kinds(attrs: str) -> None:
    with pytest.raises(HeddleError, match=r"R0205.*attribute \w+ must be (a|the)"):
        parse_expr(f"free_var %x: Tensor[(4, 3), float32]; strided_slice(%x, {attrs})")


@pytest.mark.parametrize("name", ["conv1d", "conv1d_transpose", "conv2d", "conv3d", "conv3d_transpose"])
def test_one_kernel_size_for_all_axes(name: str) -> None:
    ndim = int(name[4])
    x, w = var("x", shape=(1, 4, *[6] * ndim)), var("w")
    for size in (3, (3,) * ndim):
        typed = infer_expr(Function([x, w], word(f"nn.{name}", name)(x, w, kernel_size=size, channels=4)))
        assert type_text(typed.params[1].ty) == type_text(TensorType((4, 4, *[3] * ndim)))
