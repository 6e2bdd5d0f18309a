"""What analyses say of programs: forms, features, fused functions, single expressions, multiplications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.relay import analysis
from heddle.relay import transform as passes
from heddle.relay.analysis import Feature
from heddle.support.diagnostics import UsageError
from tests.unit.relay.programs import plain, program

X = "%x: Tensor[(2, 3), float32]"


def test_basic_block_normal_form_is_told() -> None:
    shared = f"def @main({X}, %c: bool) {{ %0 = tanh(%x); if (%c) {{ %0 }} else {{ exp(%0) }} }}"
    mod = program(shared)
    assert not analysis.check_basic_block_normal_form(mod["main"])
    assert analysis.check_basic_block_normal_form(passes.ToBasicBlockNormalForm()(mod)["main"])


FEATURES = {
    "nothing": ("def @main(%x: float32) { %x }", set()),
    "shared": ("def @main(%x: float32) { %0 = tanh(%x); add(%0, %0) }", {"CALL", "OP", "GRAPH"}),
    "let": ("def @main(%x: float32) { let %y = tanh(%x); add(%y, %y) }", {"CALL", "OP", "LET"}),
    "recursion": (
        "def @main(%x: int32) { let %f = fn (%n: int32) -> int32 "
        "{ if (less(%n, 1)) { %n } else { %f(subtract(%n, 1)) } }; %f(%x) }",
        {"CALL", "OP", "LET", "LET_REC", "IF", "CONSTANT"},
    ),
    "references": (
        "def @main(%x: float32) { let %r = ref(%x); ref_write(%r, 1f); ref_read(%r) }",
        {"LET", "REF_CREATE", "REF_READ", "REF_WRITE", "CONSTANT"},
    ),
    "data": (
        "type L { C(float32), N }\ndef @main(%x: float32) { match (C(%x)) { C(%y) => %y, N => 0f } }",
        {"CALL", "CONSTRUCTOR", "MATCH", "CONSTANT"},
    ),
    "tuples": ("def @main(%x: float32) { let %t = (%x, %x); %t.0 }", {"LET", "TUPLE", "TUPLE_GET_ITEM"}),
    "globals": (
        "def @f(%x: float32) { %x }\ndef @main(%x: float32) { @f(%x) }",
        {"CALL", "GLOBAL_VAR"},
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_features(name: str) -> None:
    text, names = FEATURES[name]
    mod = program(text)
    wanted = {Feature[each] for each in names} | {Feature.FUNCTION, Feature.VAR}
    assert analysis.detect_feature(mod) == wanted
    assert analysis.detect_feature(mod["main"]) == wanted
    assert analysis.detect_feature(relay.const(1.0), mod) == wanted | {Feature.CONSTANT}


def test_fused_functions_are_found() -> None:
    mod = passes.FuseOps()(program(f"def @main({X}) {{ (exp(tanh(%x)), sum(%x)) }}"))
    found = analysis.extract_fused_functions(mod)
    assert len(found) == 2 and all(func.attrs["Primitive"] for func in found.values())
    assert all(heddle.ir.structural_hash(func) == key for key, func in found.items())


def test_a_single_expression_is_a_program() -> None:
    mod = program(f"def @main({X}, %w: Tensor[(3), float32]) {{ let %y = add(%x, %w); exp(tanh(%x)) }}")
    x, w = np.full((2, 3), 0.5, "float32"), np.ones(3, "float32")
    wanted = {0: x + w, 1: np.tanh(x), 2: np.exp(np.tanh(x))}
    for number, want in wanted.items():
        part = analysis.extract_intermdeiate_expr(mod, number)
        args = [{"x": x, "w": w}[param.name_hint] for param in part["main"].params]
        found = plain(relay.create_executor("debug", passes.InferType()(part)).evaluate()(*args))
        np.testing.assert_allclose(found, want, rtol=1e-6)
    for number in (-1, 3):
        with pytest.raises(UsageError, match="expr_id is 0 to 2"):
            analysis.extract_intermdeiate_expr(mod, number)


def weights(*shape: int) -> Any:
    return relay.const(np.zeros(shape, "float32"))


def image(*shape: int) -> Any:
    return relay.var("x", shape=shape, dtype="float32")


MACS = {
    "conv2d": (relay.nn.conv2d(image(1, 4, 8, 8), weights(6, 4, 3, 3)), 6 * 36 * 4 * 9),
    "grouped": (relay.nn.conv2d(image(1, 4, 8, 8), weights(6, 2, 3, 3), groups=2), 6 * 36 * 2 * 9),
    "depthwise": (relay.nn.conv2d(image(2, 4, 8, 8), weights(4, 1, 3, 3), groups=4), 2 * 4 * 36 * 9),
    "channels last": (
        relay.nn.conv2d(image(1, 8, 8, 4), weights(3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO"),
        6 * 36 * 4 * 9,
    ),
    "conv1d": (relay.nn.conv1d(image(1, 4, 8), weights(6, 4, 3)), 6 * 6 * 4 * 3),
    "conv3d": (relay.nn.conv3d(image(1, 2, 4, 4, 4), weights(3, 2, 2, 2, 2)), 3 * 27 * 2 * 8),
    "transposed": (relay.nn.conv2d_transpose(image(1, 4, 8, 8), weights(4, 6, 3, 3)), 4 * 64 * 6 * 9),
    "dense": (relay.nn.dense(image(5, 7), weights(9, 7)), 5 * 7 * 9),
    "matmul": (relay.nn.matmul(image(7, 5), weights(7, 9), transpose_a=True), 5 * 7 * 9),
    "batches": (relay.nn.batch_matmul(image(3, 5, 7), weights(3, 9, 7)), 3 * 5 * 7 * 9),
    "others": (relay.nn.relu(image(3, 5)), 0),
}


@pytest.mark.parametrize("name", MACS)
def test_multiplications(name: str) -> None:
    expr, wanted = MACS[name]
    assert analysis.get_total_mac_number(expr) == wanted
    assert analysis.get_total_mac_number(relay.nn.relu(relay.add(expr, expr))) == wanted


def test_multiplications_of_unknown_sizes_are_not_counted() -> None:
    x = relay.var("x", shape=(relay.Any(), 7), dtype="float32")
    assert analysis.get_total_mac_number(relay.nn.dense(x, weights(9, 7))) == 0


def test_transposed_weights_of_dense_are_found() -> None:
    x, w, v = (
        image(5, 7),
        relay.var("w", shape=(7, 9), dtype="float32"),
        relay.var("v", shape=(7, 9), dtype="float32"),
    )
    both = relay.nn.dense(x, relay.transpose(w)) + relay.nn.matmul(x, v)
    assert analysis.search_fc_transpose(both) == ["w"]


def test_operators_between_quantised_values_are_counted() -> None:
    text = (
        "def @main(%q: Tensor[(2, 3), int8], %x: Tensor[(2, 3), float32]) {\n"
        "  %0 = qnn.dequantize(%q, 0.5f, 3);\n"
        "  %1 = nn.relu(add(%0, %0));\n"
        "  (qnn.quantize(%1, 0.5f, 3), qnn.quantize(tanh(%x), 0.5f, 3), nn.relu(%0))\n}"
    )
    assert analysis.list_fake_quantized_op_freqs(program(text)) == {"add": 1, "nn.relu": 1}
