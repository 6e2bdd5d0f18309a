"""Operators on blocks of elements, functions of several operators, and nodes with fields changed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay.op import word
from heddle.relay.text_values import type_text
from heddle.relay.typed import infer_local
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, value


def _to_batch(x: Any, block: Any, pads: Any, fill: float = 0.0) -> Any:
    """Element (b, i, j) of the result, looked up one by one."""
    padded = np.pad(x, [(0, 0), *pads] + [(0, 0)] * (x.ndim - len(block) - 1), constant_values=fill)
    sizes = [padded.shape[1 + n] // block[n] for n in range(len(block))]
    found = np.empty((x.shape[0] * int(np.prod(block)), *sizes, *x.shape[1 + len(block) :]), x.dtype)
    for number, offset in enumerate(product(*map(range, block))):
        part = padded[(slice(None), *(slice(o, None, b) for o, b in zip(offset, block, strict=True)))]
        found[number * x.shape[0] : (number + 1) * x.shape[0]] = part
    return found


def _dilate(x: Any, strides: Any, fill: float = 0.0) -> Any:
    found = np.full(
        [max((n - 1) * s + 1, 0) if n else 0 for n, s in zip(x.shape, strides, strict=True)], fill, x.dtype
    )
    found[tuple(slice(None, None, step) for step in strides)] = x
    return found


def _windows(x: Any, axis: int, shape: Any, strides: Any) -> Any:
    view = np.lib.stride_tricks.sliding_window_view(x, shape, tuple(range(axis, x.ndim)))
    return view[(slice(None),) * axis + tuple(slice(None, None, step) for step in strides)]


def _blocked(x: Any, places: int) -> Any:
    n, c, h, w = x.shape
    return x.reshape(n, c // places, places, h, w).transpose(0, 1, 3, 4, 2)


ROWS: list[tuple[str, tuple[int, ...], dict[str, Any], Any]] = [
    (
        "layout_transform",
        (2, 6, 3, 5),
        {"src_layout": "NCHW", "dst_layout": "NHWC"},
        lambda x: x.transpose(0, 2, 3, 1),
    ),
    (
        "layout_transform",
        (2, 6, 3, 5),
        {"src_layout": "NCHW", "dst_layout": "NCHW2c"},
        lambda x: _blocked(x, 2),
    ),
    (
        "layout_transform",
        (2, 3, 3, 5, 4),
        {"src_layout": "NCHW4c", "dst_layout": "NCHW2c"},
        lambda x: _blocked(x.transpose(0, 1, 4, 2, 3).reshape(2, 12, 3, 5), 2),
    ),
    (
        "layout_transform",
        (0, 4, 1, 1),
        {"src_layout": "NCHW", "dst_layout": "CHWN"},
        lambda x: x.transpose(1, 2, 3, 0),
    ),
    (
        "layout_transform",
        (8, 6),
        {"src_layout": "OI", "dst_layout": "IO4o"},
        lambda x: x.reshape(2, 4, 6).transpose(2, 0, 1),
    ),
    (
        "nn.space_to_batch_nd",
        (2, 4, 5, 3),
        {"block_shape": [2, 3], "paddings": [[0, 0], [1, 0]], "pad_value": 2.0},
        lambda x: _to_batch(x, (2, 3), [(0, 0), (1, 0)], 2.0),
    ),
    (
        "nn.space_to_batch_nd",
        (1, 6),
        {"block_shape": [3], "paddings": [[0, 0]]},
        lambda x: _to_batch(x, (3,), [(0, 0)]),
    ),
    (
        "nn.batch_to_space_nd",
        (12, 2, 3, 2),
        {"block_shape": [2, 3], "crops": [[0, 1], [2, 0]]},
        lambda x: x.reshape(2, 3, 2, 2, 3, 2).transpose(2, 3, 0, 4, 1, 5).reshape(2, 4, 9, 2)[:, :-1, 2:],
    ),
    ("nn.dilate", (3, 4), {"strides": [2, 3], "dilation_value": 7.0}, lambda x: _dilate(x, (2, 3), 7.0)),
    ("nn.dilate", (1, 5), {"strides": [4, 1]}, lambda x: _dilate(x, (4, 1))),
    ("nn.dilate", (0, 5), {"strides": [2, 2]}, lambda x: _dilate(x, (2, 2))),
    (
        "sliding_window",
        (2, 7, 6),
        {"axis": 1, "window_shape": [3, 2], "strides": [2, 3]},
        lambda x: _windows(x, 1, (3, 2), (2, 3)),
    ),
    (
        "sliding_window",
        (5,),
        {"axis": 0, "window_shape": [5], "strides": [1]},
        lambda x: _windows(x, 0, (5,), (1,)),
    ),
    ("annotation.checkpoint", (2, 3), {}, lambda x: x),
    ("annotation.compiler_begin", (2, 3), {"compiler": "dnn"}, lambda x: x),
    ("annotation.compiler_end", (2, 3), {"compiler": "dnn"}, lambda x: x),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}{row[1]}" for row in ROWS])
def test_values_types_and_text(row: Any) -> None:
    name, shape, attrs, reference = row
    x = relay.var("x", shape=shape)
    call = word(name, name)(x, **attrs)
    data = floats(*shape)
    wanted = np.ascontiguousarray(reference(data))
    assert type_text(infer_local(call)) == type_text(relay.TensorType(wanted.shape))
    mod = relay.transform.InferType()(heddle.IRModule.from_expr(relay.Function([x], call)))
    for kind in ("debug", "vm", "graph"):
        found = relay.create_executor(kind, mod).evaluate()(data).numpy()
        np.testing.assert_array_equal(found, wanted)
    assert_structural_equal(relay.parse(mod.astext()), mod)


def test_layouts_of_free_sizes() -> None:
    x = relay.var("x", shape=(relay.Any(), 4, relay.Any(), 3))
    mod = heddle.IRModule.from_expr(relay.Function([x], relay.layout_transform(x, "NCHW", "NHWC")))
    data = floats(2, 4, 5, 3)
    for kind in ("debug", "vm"):
        found = relay.create_executor(kind, mod).evaluate()(data).numpy()
        np.testing.assert_array_equal(found, data.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "words"),
    [
        ("layout_transform", (2, 6, 3, 5), {"src_layout": "NCHW", "dst_layout": "NCHW4c"}, "no multiple"),
        ("layout_transform", (2, 6, 3, 5), {"src_layout": "NCHW", "dst_layout": "NCH"}, "other axes"),
        ("layout_transform", (2, 6, 3), {"src_layout": "NCHW", "dst_layout": "NHWC"}, "3 axes"),
        ("layout_transform", (2, 6), {"src_layout": "N4C", "dst_layout": "NC"}, "malformed"),
        ("layout_transform", (2, 6), {"src_layout": "NN", "dst_layout": "NC"}, "malformed"),
        ("layout_transform", (2, 6, 3), {"src_layout": "NC4c", "dst_layout": "NC"}, "4 places"),
        ("nn.space_to_batch_nd", (1, 5), {"block_shape": [2], "paddings": [[0, 0]]}, "no multiple"),
        ("nn.space_to_batch_nd", (1, 4), {"block_shape": [2], "paddings": []}, "no widths"),
        ("nn.batch_to_space_nd", (3, 4), {"block_shape": [2], "crops": [[0, 0]]}, "no multiple"),
        ("nn.dilate", (1, 4), {"strides": [2]}, "2 axes"),
        ("nn.dilate", (1, 4), {"strides": [0, 1]}, "2 axes"),
        ("sliding_window", (2, 3), {"axis": 1, "window_shape": [4], "strides": [1]}, "at least"),
        ("sliding_window", (2, 3), {"axis": 0, "window_shape": [2], "strides": [1]}, "do not fit"),
    ],
)
def test_what_is_refused(name: str, shape: Any, attrs: Any, words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        infer_local(word(name, name)(relay.var("x", shape=shape), **attrs))


@pytest.mark.parametrize("axis", [None, 1, [0, 2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_functions_of_several_operators(axis: Any, keepdims: bool) -> None:
    data = floats(2, 3, 4) * 30
    axes = None if axis is None else tuple(np.atleast_1d(axis).tolist())
    x = relay.const(data)
    mean, variance = relay.mean_variance(x, axis, keepdims)
    np.testing.assert_allclose(value(mean), data.mean(axes, keepdims=keepdims), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(value(variance), data.var(axes, keepdims=keepdims), rtol=1e-3)
    np.testing.assert_allclose(
        value(relay.mean_std(x, axis, keepdims)[1]), data.std(axes, keepdims=keepdims), rtol=1e-3
    )
    np.testing.assert_allclose(
        value(relay.std(x, axis, keepdims)), data.std(axes, keepdims=keepdims), rtol=1e-3
    )
    wide = data.astype("float64")
    most = wide.max(axes, keepdims=True)
    wanted = np.log(np.exp(wide - most).sum(axes, keepdims=keepdims)) + wide.max(axes, keepdims=keepdims)
    np.testing.assert_allclose(value(relay.logsumexp(x, axis, keepdims)), wanted, rtol=1e-5)
    huge = relay.const(np.full((2, 3), 1e30, "float32"))
    assert np.isfinite(value(relay.logsumexp(huge))).all()


def test_nodes_with_fields_changed() -> None:
    x, y, c = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.var("c", "bool")
    one, two = relay.const(1.0), relay.const(2.0)
    pair, ref = relay.Tuple([x, y]), relay.RefCreate(x)
    rows: list[tuple[Any, Any, dict[str, Any]]] = [
        (relay.CallWithFields, x + y, {"args": [y, x]}),
        (relay.ConstantWithFields, one, {"data": two.data}),
        (relay.FunctionWithFields, relay.Function([x], x), {"params": [x, y], "body": x + y}),
        (relay.IfWithFields, relay.If(c, x, y), {"true_branch": y, "false_branch": x}),
        (relay.LetWithFields, relay.Let(x, y, x), {"value": one, "body": y}),
        (relay.RefCreateWithFields, ref, {"value": y}),
        (relay.RefReadWithFields, relay.RefRead(ref), {"ref": y}),
        (relay.RefWriteWithFields, relay.RefWrite(ref, x), {"value": y}),
        (relay.TupleGetItemWithFields, relay.TupleGetItem(pair, 0), {"index": 1}),
        (relay.TupleWithFields, pair, {"fields": [y, x]}),
        (relay.VarWithFields, x, {"vid": "z"}),
    ]
    names = {"vid": "name_hint"}
    for change, node, fields in rows:
        assert change(node) is node
        made = change(node, **fields)
        assert type(made) is type(node) and made is not node
        for name, wanted in fields.items():
            found = getattr(made, names.get(name, name))
            assert found is wanted or tuple(found) == tuple(wanted) or found == wanted
        if change is relay.FunctionWithFields:
            assert change(node, virtual_device="cpu:1").attrs["result_virtual_device"] == "cpu(1)"
        else:
            with pytest.raises(HeddleError, match="Q0101"):
                change(node, virtual_device=heddle.cpu())
    func = relay.FunctionWithFields(relay.Function([x], x), attrs={"Primitive": 1})
    assert func.attrs["Primitive"] == 1
    typed = relay.transform.InferType()(heddle.IRModule.from_expr(relay.Function([x], x + x)))["main"]
    assert relay.FunctionWithFields(typed, body=relay.tanh(x)).ty is None


def test_a_functor_without_a_method_names_it() -> None:
    with pytest.raises(NotImplementedError, match="visit_call"):
        relay.ExprFunctor().visit_call(relay.tanh(relay.var("x")))
