"""Every attribute of every Relay operator takes values of its kind, and refuses others with a code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from heddle import relay
from heddle.ir.attrs import attrs_of
from heddle.ir.op_def import REQUIRED
from heddle.relay.op import lookup, op_names, relay_call
from heddle.support.diagnostics import HeddleError, IRTypeError

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
