"""Convolutions of sequences become convolutions of images of one row, which give the same."""

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import default_pipeline
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Call, Var
from heddle.ir.visitor import walk
from heddle.lower.convert_conv1d import ConvertConv1D
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, op
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.script import from_source
from heddle.target import Target

CASES = {
    "plain": ({}, (16, 12, 3)),
    "stride, uneven padding": ({"strides": [2], "padding": [2, 1]}, (16, 12, 4)),
    "dilation, one number of padding": ({"dilation": 3, "padding": 2}, (5, 12, 2)),
    "groups": ({"groups": 4, "padding": [1]}, (8, 3, 3)),
    "depthwise": ({"groups": 12, "padding": [2, 2]}, (12, 1, 5)),
    "channels last": ({"data_layout": "NWC", "kernel_layout": "WIO", "padding": [1]}, (3, 12, 16)),
    "another layout of the result": ({"out_layout": "NWC"}, (16, 12, 1)),
    "transposed": ({"strides": 3, "output_padding": 1, "padding": [1, 0]}, (12, 8, 4)),
    "transposed groups": ({"strides": 2, "groups": 2}, (12, 4, 3)),
}


def program(name):
    """The convolution of (n, 12, l), or (n, l, 12), by weights that are an argument."""
    attrs, kernel = CASES[name]
    n, length = SizeVar("n"), SizeVar("l")
    shape = (n, length, 12) if attrs.get("data_layout") == "NWC" else (n, 12, length)
    x, w = Var("x", TensorType(shape, "float32")), Var("w", TensorType(kernel, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            conv = op.nn.conv1d_transpose if name.startswith("transposed") else op.nn.conv1d
            out = builder.emit_output(op.tanh(builder.emit(conv(x, w, **attrs))))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("name", CASES)
def test_the_same_result_for_any_length(name):
    mod = program(name)
    converted = ConvertConv1D()(mod)
    assert not any(isinstance(n, Call) and is_call(n, "relax.nn.conv1d") for n in walk(converted["main"]))
    assert from_source(converted.script()) is not None
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    rng = np.random.default_rng(1)
    attrs, kernel = CASES[name]
    for batch, length in ((1, 7), (2, 13), (1, 29), (3, 64)):
        shape = (batch, length, 12) if attrs.get("data_layout") == "NWC" else (batch, 12, length)
        given = [rng.standard_normal(s).astype("float32") for s in (shape, kernel)]
        wanted = GraphInterpreter(mod)["main"](*given)
        np.testing.assert_allclose(GraphInterpreter(converted)["main"](*given), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(machine["main"](*given).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_a_sequence_of_any_length_has_the_schedule_of_images():
    lowered = default_pipeline(Target("llvm"))(program("stride, uneven padding"))
    rules = {func.attrs.get("schedule_rule") for func in lowered.functions.values()}
    assert "ConvolutionRule" in rules and "RowPass" not in rules


CHAIN = """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 12, "l"), "float32"),
        w: R.Tensor((16, 12, 3), "float32"), b: R.Tensor((16, 1), "float32"),
        v: R.Tensor((12, 8, 1), "float32"), c: R.Tensor((1, 12, 1), "float32"), s: R.Tensor((), "float32"),
    ):
        n = T.int64()
        l = T.int64()
        with R.dataflow():
            p = R.nn.pad(x, [0, 0, 0, 0, 2, 0])
            y = R.add(R.nn.conv1d(p, w), b)
            parts = R.split(y, 2, axis={axis})
            gate = R.multiply(R.tanh(parts[0]), R.multiply(R.sigmoid(parts[1]), s))
            z = R.add(R.nn.conv1d(gate, v), c)
            q = R.nn.pad(z, [0, 0, 0, 0, 1, 3])
            j = R.concat((q, q), axis={join})
            out = {result}
            R.output(out)
        return out
"""


def chain(axis=1, join=-1, result="R.nn.relu(j)"):
    return from_source(CHAIN.format(axis=axis, join=join, result=result))


def chain_arguments(batch, length):
    rng = np.random.default_rng(length)
    shapes = ((batch, 12, length), (16, 12, 3), (16, 1), (12, 8, 1), (1, 12, 1), ())
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize(("axis", "join"), [(1, 2), (-2, 0), (1, 1), (-2, -1)])
@pytest.mark.parametrize(
    "result", ["R.nn.relu(j)", "R.add(j, R.mean(z, [2], keepdims=True))", "R.add(R.sum(y), j)"]
)
def test_work_between_convolutions_is_of_images(axis, join, result):
    if "mean" in result and join in (0, 1):
        pytest.skip("shapes that do not broadcast")
    mod = chain(axis, join, result)
    converted = ConvertConv1D()(mod)
    for batch, length in ((1, 5), (2, 13), (3, 1)):
        given = chain_arguments(batch, length)
        wanted = GraphInterpreter(mod)["main"](*given)
        np.testing.assert_allclose(GraphInterpreter(converted)["main"](*given), wanted, rtol=1e-4, atol=1e-5)
        for exec_mode in ("bytecode", "compiled"):
            machine = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=exec_mode), heddle.cpu())
            np.testing.assert_allclose(machine["main"](*given).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_a_chain_loses_its_row_once():
    converted = DeadCodeElimination()(ConvertConv1D()(chain()))
    calls = [node for node in walk(converted["main"]) if isinstance(node, Call)]
    assert sum(is_call(call, "relax.squeeze") for call in calls) == 1
    images = [call for call in calls if is_call(call, "relax.expand_dims")]
    # the input, two kernels and two biases
    assert len(images) == 5


def test_sequences_leave_blocks_as_sequences():
    """A dataflow block sees no image of another one."""
    mod = from_source(
        CHAIN.format(axis=1, join=2, result="j").replace("return out", "k = R.nn.relu(out)\n        return k")
    )
    converted = ConvertConv1D()(mod)
    given = chain_arguments(2, 9)
    wanted = GraphInterpreter(mod)["main"](*given)
    np.testing.assert_allclose(GraphInterpreter(converted)["main"](*given), wanted, rtol=1e-5, atol=1e-5)
