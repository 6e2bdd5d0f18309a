"""Every attribute of every Relay operator takes values of its kind, and refuses others with a code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from heddle import IRModule, relay
from heddle.ir.attrs import attrs_of
from heddle.ir.op_def import REQUIRED
from heddle.ir.structural import assert_structural_equal
from heddle.relay.op import lookup, op_names, relay_call, word
from heddle.support.diagnostics import HeddleError, IRTypeError, UsageError
from heddle.support.limits import limits
from tests.unit.relay.test_operators import ROWS
from tests.unit.relay.test_operators_on_blocks import ROWS as BLOCKS
from tests.unit.relay.test_operators_on_images import CASES

VALUES: list[Any] = [
    None,
    "x",
    True,
    [None],
    [[1]],
    1.5,
    {},
    [],
    [1],
    [1, 1],
    1,
    -7,
    [1.5],
    ["a"],
    [[None, 1]],
]
OF_KIND: dict[str, Any] = {
    "int": 1,
    "ints": (1, 1),
    "list": (1, 1),
    "pairs": ((0, 0), (0, 0)),
    "float": 0.5,
    "floats": (0.5, 0.5),
    "str": "NCHW",
    "dtype": "float32",
    "device": "cpu",
}
TYPES = [
    relay.TensorType((2, 3)),
    relay.TensorType((4,), "int32"),
    relay.TensorType((2, 4, 4, 4)),
    relay.TensorType((2, 4, 4, 4), "int8"),
]
X = relay.var("x", TYPES[0])


def _infer(name: str, attrs: dict[str, Any], ty: Any) -> None:
    """Build a call and infer its type; a tuple where that is what the operator takes."""
    record, alias = lookup(name)
    inputs = [spec for spec in alias.inputs_of(record) if not spec.optional or spec.variadic]
    args: list[Any] = [relay.var(f"x{place}", ty) for place in range(len(inputs))]
    for given in (args, [relay.Tuple(args * 2)] if len(args) == 1 else args):
        with suppress(HeddleError):
            relay.transform.InferTypeLocal(relay_call(name, given, attrs))


def test_values_of_other_kinds() -> None:
    """Nothing but a HeddleError comes of a value, whatever the tensors are."""
    bare = []
    for name in op_names():
        record, alias = lookup(name)
        specs = alias.attrs_of(record)
        needed = {spec.name: OF_KIND[spec.kind] for spec in specs if spec.default is REQUIRED}
        for place, (spec, value) in enumerate((spec, value) for spec in specs for value in VALUES):
            for ty in (TYPES[place % 4], TYPES[(place + 2) % 4]):
                try:
                    _infer(name, {**needed, spec.name: value}, ty)
                except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                    bare.append(f"{name}: {spec.name}={value!r}: {error!r}")
    assert not bare, "\n".join(bare)


def _calls() -> list[tuple[str, list[Any], dict[str, Any]]]:
    """Names, types of arguments that fit the operator, and attributes."""
    found = [(name, [relay.TensorType(*spec) for spec in specs], attrs) for name, specs, attrs, _ in ROWS]
    found += [(name, [relay.TensorType(shape)], attrs) for name, shape, attrs, _ in BLOCKS]
    for name, arrays, attrs, _ in CASES:
        arrays = map(np.asarray, arrays)
        found.append((name, [relay.TensorType(array.shape, str(array.dtype)) for array in arrays], attrs))
    return found + [
        (name, [None if shape is None else relay.TensorType(shape, dtype) for shape in shapes], attrs)
        for name, dtype, shapes, attrs in OTHERS
    ]


IMAGE = (1, 4, 8, 8)
OTHERS: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    *(
        (f"nn.conv{ndim}d{kind}", "float32", [(1, 4, *[6] * ndim), None], {"kernel_size": 3, "channels": 4})
        for ndim in (1, 2, 3)
        for kind in ("", "_transpose")
    ),
    ("nn.correlation", "float32", [IMAGE, IMAGE], {"padding": 1}),
    ("nn.bitpack", "int32", [(2, 32)], {"bits": 2, "bit_axis": 0}),
    ("nn.bitserial_conv2d", "int32", [IMAGE, (4, 4, 3, 3)], {"activation_bits": 2}),
    ("nn.bitserial_dense", "int32", [(2, 8), (4, 8)], {"data_bits": 2}),
    ("image.crop_and_resize", "float32", [IMAGE, (2, 4), (2,)], {"crop_size": (3, 3)}),
    ("fixed_point_multiply", "int32", [(2, 3)], {"multiplier": 1 << 30, "shift": 1}),
    ("expand_dims", "float32", [(2, 3)], {"axis": 0}),
    ("vision.roi_align", "float32", [IMAGE, (2, 5)], {"pooled_size": (2, 2), "spatial_scale": 1.0}),
    ("vision.roi_pool", "float32", [IMAGE, (2, 5)], {"pooled_size": (2, 2), "spatial_scale": 1.0}),
    ("layout_transform", "float32", [IMAGE], {"src_layout": "NCHW", "dst_layout": "NHWC"}),
]
LARGE: list[Any] = [0, 3, 2**40, -(2**40), [2**40], [2**40, 2**40], [1, 2, 3], [0, 0], "NHWC", 1e30]
CALLS = _calls()


@pytest.mark.parametrize("place", range(len(CALLS)), ids=lambda place: f"{CALLS[place][0]}-{place}")
def test_values_of_other_kinds_beside_arguments_that_fit(place: int) -> None:
    """Nothing but a coded error comes of a value, soon and in little memory."""
    name, types, attrs = CALLS[place]
    args = [relay.var(f"x{k}", ty) for k, ty in enumerate(types)]
    made = word(name, name)(*args, **attrs)
    call = made.astuple() if isinstance(made, relay.TupleWrapper) else made
    assert isinstance(call, relay.Call) and call.op.name == name
    relay.transform.InferTypeLocal(call)
    fitting = dict(call.attrs.items())
    for number, spec in enumerate(lookup(name)[1].attrs_of(lookup(name)[0])):
        for value in (*LARGE, *VALUES[(place + number) % 2 :: 2]):
            with suppress(IRTypeError, UsageError):
                relay.transform.InferTypeLocal(relay_call(name, call.args, {**fitting, spec.name: value}))


def test_large_numbers_name_their_limit() -> None:
    for call in (
        lambda: relay.arange(relay.const(2**40)),
        lambda: relay_call("image.crop_and_resize", IMAGES, {"crop_size": (2**40, 3)}),
    ):
        with pytest.raises(HeddleError, match=r"S0601.*limit 'fold_bytes' is 2147483648") as caught:
            relay.transform.InferTypeLocal(call())
        assert "fold_bytes=VALUE" in str(caught.value)
    with limits(fold_bytes=800):
        relay.transform.InferTypeLocal(relay.arange(relay.const(100)))
        with pytest.raises(HeddleError, match="S0601"):
            relay.transform.InferTypeLocal(relay.arange(relay.const(101)))


IMAGES = [
    relay.var("i", shape=IMAGE),
    relay.var("b", shape=(2, 4)),
    relay.var("k", shape=(2,), dtype="int32"),
]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: relay.expand_dims(X, 0, 65), "num_newaxis must be between 0 and 64, got 65"),
        (lambda: relay.expand_dims(X, 0, -1), "num_newaxis must be between 0 and 64, got -1"),
        (lambda: relay.fixed_point_multiply(Z, 1 << 30, 33), "shift must be between -32 and 32, got 33"),
        (lambda: relay.nn.bitpack(Z, 0, 1, 2, "uint8"), "bits must be between 1 and 64, got 0"),
        (lambda: relay.nn.bitserial_dense(Z, Z, data_bits=32), "data_bits must be between 1 and 31, got 32"),
        (
            lambda: relay.nn.conv2d(IMAGES[0], relay.var("w"), kernel_size=(3, 3, 3), channels=4),
            r"nn.conv2d: ranks of arguments and attributes \(lengths, layouts\) do not fit",
        ),
        (
            lambda: relay.nn.conv2d(IMAGES[0], relay.var("w"), kernel_size=3, channels=4, kernel_layout="x"),
            r"nn.conv2d: ranks of arguments and attributes \(lengths, layouts\) do not fit",
        ),
        (
            lambda: relay.vision.roi_pool(IMAGES[0], X, 2, 1.0),
            "pooled_size must be a list of whole numbers, got 2",
        ),
    ],
)
def test_numbers_out_of_range(build: Any, words: str) -> None:
    with pytest.raises(IRTypeError, match=f"R0205.*{words}"):
        relay.transform.InferTypeLocal(build())


Z = relay.var("z", shape=(2, 8), dtype="int32")


@pytest.mark.parametrize(
    "build",
    [
        lambda data, **attrs: relay.nn.conv2d(data, W, **attrs),
        lambda data, **attrs: relay.nn.max_pool2d(data, 3, **attrs),
        lambda data, **attrs: relay.nn.avg_pool2d(data, 3, count_include_pad=True, **attrs),
    ],
)
def test_one_number_for_a_window_is_one_for_each_axis(build: Any) -> None:
    """Passes of ours and of users read them one by one."""
    data = relay.nn.pad(IMAGES[0], ((0, 0), (0, 0), (1, 1), (1, 1)), pad_value=0.0)
    one, each = (
        relay.transform.InferType()(IRModule.from_expr(build(data, **attrs)))
        for attrs in ({"strides": 2, "padding": 1}, {"strides": (2, 2), "padding": (1, 1)})
    )
    assert one["main"].body.attrs.padding == (1, 1) and one["main"].body.attrs.strides == (2, 2)
    assert_structural_equal(one, each)
    fold = relay.transform.FoldExplicitPadding()
    assert_structural_equal(fold(one), fold(each))


W = relay.var("w", shape=(4, 4, 3, 3))


@pytest.mark.parametrize(
    ("name", "attrs", "text", "wanted"),
    [
        ("reshape", {"newshape": None}, "newshape=None", "a list of whole numbers, or one, got None"),
        ("transpose", {"axes": True}, "axes=True", "a list of whole numbers, got True"),
        ("max", {"axis": [None]}, "axis=[None]", "a list of whole numbers, or one, got "),
        ("nn.softmax", {"axis": None}, "axis=None", "a whole number, got None"),
        ("nn.mirror_pad", {"pad_width": [1]}, 'pad_width="a"', "a list of pairs of whole numbers, got "),
        ("nn.leaky_relu", {"alpha": "a"}, 'alpha="a"', "a number, got 'a'"),
        ("topk", {"dtype": None}, "dtype=None", "the name of an element type, got None"),
    ],
)
def test_messages(name: str, attrs: dict[str, Any], text: str, wanted: str) -> None:
    """Builders, calls made by hand and texts name the operator, the attribute, its kind and the value."""
    message = rf"R0205.*{name}: attribute {next(iter(attrs))} must be {wanted}"
    with pytest.raises(IRTypeError, match=message):
        relay_call(name, [X], attrs)
    record, alias = lookup(name)
    complete = {spec.name: spec.default for spec in alias.attrs_of(record)} | attrs
    by_hand = relay.Call(relay.op.get(name), [X], attrs_of(complete))
    with pytest.raises(HeddleError, match=message):
        relay.transform.InferTypeLocal(by_hand)
    program = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32]) {{ {name}(%x, {text}) }}'
    with pytest.raises(HeddleError, match=message) as caught:
        relay.parse(program)
    assert caught.value.diagnostics[0].span is not None


def test_none_where_it_is_a_default() -> None:
    for name, attrs in [
        ("max", {"axis": None}),
        ("nn.dense", {"out_dtype": None}),
        ("squeeze", {"axis": None}),
    ]:
        args = [X, X] if name == "nn.dense" else [X]
        relay.transform.InferTypeLocal(relay_call(name, args, attrs))
