"""Transposed convolutions become convolutions whose pixels alternate, which give the same."""

import numpy as np
import onnxruntime
import pytest
from heddle.relax.frontend.onnx import from_onnx
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Call, Var
from heddle.ir.visitor import walk
from heddle.lower.convert_conv_transpose import ConvertConvTranspose
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, op
from heddle.script import from_source

OPERATORS = {2: "conv2d_transpose", 3: "conv3d_transpose"}
CASES = {  # kernel, strides, padding, output_padding, groups
    "2x2 by 2": ((2, 2), 2, 0, 0, 1),
    "4x4 by 2, padded": ((4, 4), 2, 1, 0, 1),
    "4x4 by 2, more at the end": ((4, 4), 2, 1, 1, 1),
    "6x4 by 3 and 2": ((6, 4), (3, 2), (1, 0), (2, 1), 1),
    "3x8 by 3 and 4": ((3, 8), (3, 4), 0, (2, 0), 1),
    "3x3 by 2": ((3, 3), 2, 0, 0, 1),
    "3x3 by 2, padded": ((3, 3), 2, 1, 1, 1),
    "5x4 by 3 and 2, uneven edges": ((5, 4), (3, 2), (2, 1, 0, 0), (2, 1), 1),
    "7x5 by 4 and 2 in groups": ((7, 5), (4, 2), (3, 2), (1, 0), 2),
    "stride 1": ((3, 3), 1, 1, 0, 1),
    "groups": ((4, 2), 2, (1, 0, 0, 1), 0, 3),
    "padding at one end": ((4, 4), 2, (0, 3, 1, 0), 1, 1),
    "depthwise": ((4, 4), 2, 1, 1, 6),
    "volumes 2x4x2 by 2": ((2, 4, 2), 2, 0, 0, 1),
    "volumes 3x2x3 by 2": ((3, 2, 3), 2, (1, 0, 1), 1, 1),
    "volumes 4x3x2 by 2, 3 and 1": ((4, 3, 2), (2, 3, 1), (1, 0, 1), (1, 2, 0), 3),
}
SIZES = ((1, 1), (2, 3), (5, 4), (9, 16))
DEPTH = 3
"""Of volumes, behind which height and width follow as for images."""


def extents(name, *size):
    """The sizes along the axes of a case's kernel."""
    return (DEPTH, *size)[-len(CASES[name][0]) :]


def program(name):
    kernel, strides, padding, more, groups = CASES[name]
    shape = (6, 6 // groups if groups == 6 else 2, *kernel)
    letters = "dhw"[-len(kernel) :]
    dims = (SizeVar("n"), 6, *(SizeVar(letter) for letter in letters))
    x, w = Var("x", TensorType(dims, "float32")), Var("w", TensorType(shape, "float32"))
    attrs = {"strides": strides, "padding": padding, "output_padding": more, "groups": groups}
    builder = BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(getattr(op.nn, OPERATORS[len(kernel)])(x, w, **attrs))
        builder.emit_func_output(out)
    return builder.get(), shape


@pytest.mark.parametrize("name", CASES)
def test_the_same_result(name):
    mod, kernel = program(name)
    converted = ConvertConvTranspose()(mod)
    calls = [node for node in walk(converted["main"]) if isinstance(node, Call)]
    assert not any(is_call(call, f"relax.nn.{kind}") for call in calls for kind in OPERATORS.values())
    assert from_source(converted.script()) is not None
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    rng = np.random.default_rng(2)
    for size in SIZES:
        given = [
            rng.standard_normal(shape).astype("float32") for shape in ((2, 6, *extents(name, *size)), kernel)
        ]
        try:
            wanted = GraphInterpreter(mod)["main"](*given)
        except heddle.HeddleError:
            continue  # nothing would be left of so small an image
        np.testing.assert_allclose(GraphInterpreter(converted)["main"](*given), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(machine["main"](*given).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [("n", 6, "h", "w"), (2, 6, 9, 16), (1, 6, 5, "w")])
@pytest.mark.parametrize("name", CASES)
def test_constant_weights_against_onnx_runtime(name, dims):
    kernel, strides, padding, more, groups = CASES[name]
    ndim = len(kernel)
    dims = (*dims[:2], *(["d"] if "n" in dims else [DEPTH])[: ndim - 2], *dims[2:])
    rng = np.random.default_rng(4)
    shape = (6, 6 // groups if groups == 6 else 2, *kernel)
    weight = numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), "w")
    pads = _numbers(padding, ndim)
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w"],
        ["y"],
        strides=_numbers(strides, ndim),
        pads=pads * 2 if len(pads) == ndim else pads,
        output_padding=_numbers(more, ndim),
        group=groups,
    )
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["y"], ["z"])],
        "grow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    batch, _, *size = (
        given if isinstance(given, int) else usual
        for given, usual in zip(dims, (2, 6, *extents(name, 9, 16)), strict=True)
    )
    x = rng.standard_normal((batch, 6, *size)).astype("float32")
    machine = heddle.relax.VirtualMachine(heddle.compile(from_onnx(model)), heddle.cpu())
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = peer.run(None, {"x": x})
    np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=1e-4, atol=1e-5)


def _numbers(value, ndim):
    """One number for each axis, or more where they are given."""
    return list(value) if isinstance(value, tuple) else [value] * ndim


def test_what_stays():
    x, w = (
        Var(name, TensorType(shape, "float32")) for name, shape in (("x", (1, 6, 8, 8)), ("w", (6, 2, 3, 3)))
    )
    for attrs in (
        {"dilation": 2},
        {"strides": 4},
        {"strides": 2, "padding": 3},
        {"data_layout": "NHWC", "kernel_layout": "IOHW"},
    ):
        builder = BlockBuilder()
        with builder.function("main", [x, w]):
            out = builder.emit(
                op.nn.conv2d_transpose(
                    op.reshape(x, (1, 8, 8, 6)) if "data_layout" in attrs else x, w, **attrs
                )
            )
            builder.emit_func_output(out)
        mod = builder.get()
        assert ConvertConvTranspose()(mod)["main"] is mod["main"]
