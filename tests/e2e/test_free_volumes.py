"""Convolutions of volumes compiled once for every batch, depth, height and width: scheduled, and equal to
ONNX Runtime's."""

import numpy as np
import onnxruntime
import pytest
from heddle.relax.frontend.onnx import from_onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.op_builder import const
from heddle.ir.expr import Var
from heddle.ir.transform import Sequential
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

FREE = ("n", "d", "h", "w")
USUAL = (2, 3, 11, 13)
SIZES = (
    (1, 1, 9, 1),
    (2, 9, 1, 1),
    (1, 2, 2, 3),
    (1, 5, 3, 7),
    (3, 3, 4, 12),
    (1, 4, 14, 29),
    (2, 7, 5, 61),
)
CASES = {
    "3x3x3": {"kernel": (3, 3, 3), "pads": (1,) * 6},
    "3x3x3 of few channels": {"kernel": (3, 3, 3), "pads": (1,) * 6, "ins": 12, "outs": 12},
    "3x3x3 of one channel": {"kernel": (3, 3, 3), "pads": (1,) * 6, "ins": 1, "outs": 1},
    "3x3x3 stride 2": {"kernel": (3, 3, 3), "pads": (1,) * 6, "strides": (2, 2, 2)},
    "3x7x7 stride 1, 2, 2": {"kernel": (3, 7, 7), "pads": (1, 3, 3) * 2, "strides": (1, 2, 2)},
    "1x3x3": {"kernel": (1, 3, 3), "pads": (0, 1, 1) * 2},
    "3x1x1": {"kernel": (3, 1, 1), "pads": (1, 0, 0) * 2},
    "2x3x1 dilated, uneven edges": {"kernel": (2, 3, 1), "pads": (2, 1, 0, 1, 3, 2), "dilations": (3, 2, 1)},
    "1x1x1": {"kernel": (1, 1, 1)},
    "1x1x1 to many channels": {"kernel": (1, 1, 1), "outs": 144},
    "1x1x1 stride 2": {"kernel": (1, 1, 1), "strides": (2, 2, 2)},
    "depthwise": {"kernel": (3, 3, 3), "pads": (1,) * 6, "group": 32},
    "depthwise stride 1, 2, 2": {
        "kernel": (3, 5, 5),
        "pads": (1, 2, 2) * 2,
        "strides": (1, 2, 2),
        "group": 32,
    },
    "groups": {"kernel": (3, 3, 3), "pads": (1,) * 6, "group": 2},
    "groups that fill no vector": {"kernel": (1, 3, 3), "pads": (0, 1, 1) * 2, "group": 8},
}


FEW = ("3x3x3 of few channels", "3x1x1", "1x1x1 to many channels", "depthwise", "groups")
LARGEST = {"kernel_shape": (2, 3, 3), "pads": (0, 1, 1, 1, 1, 1), "strides": (1, 2, 2)}
MEAN = {"kernel_shape": (2, 2, 2), "pads": (1,) * 6, "strides": (2, 2, 2)}


def network(kernel, ins=32, outs=32, group=1, dims=FREE, **attributes) -> ModelProto:
    """A convolution of single elements, the one that is asked for, a batch norm, and a sum with it."""
    rng = np.random.default_rng(3)

    def array(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / 4).astype("float32"), name)

    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"]),
        helper.make_node("Conv", ["a", "second", "bias"], ["b"], group=group, **attributes),
        helper.make_node("BatchNormalization", ["b", "scale", "bias", "bias", "spread"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Mul", ["b", "s"], ["y"]),
    ]
    weights = [
        array("first", ins, 4, 1, 1, 1),
        array("second", outs, ins // group, *kernel),
        *(array(name, outs) for name in ("bias", "scale")),
        numpy_helper.from_array(rng.uniform(0.5, 2, outs).astype("float32"), "spread"),
    ]
    return model_of(nodes, weights, (dims[0], 4, *dims[1:]))


def model_of(nodes, weights, dims) -> ModelProto:
    volume = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "volume", [volume], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def loaded(model, mode="compiled"):
    machine = heddle.relax.VirtualMachine(heddle.compile(from_onnx(model), exec_mode=mode), heddle.cpu())
    return machine["main"]


def peer_of(model):
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda x: peer.run(None, {"x": x})[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_any_volume(name, mode):
    model = network(**CASES[name])
    ours, peer = loaded(model, mode), peer_of(model)
    rng = np.random.default_rng(5)
    for n, *size in SIZES:
        x = rng.standard_normal((n, 4, *size)).astype("float32")
        np.testing.assert_allclose(ours(x).numpy(), peer(x), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dims", [(1, 4, 14, 29), ("n", 3, 5, 7), (2, "d", 9, 16), (1, 5, "h", "w")], ids=str)
@pytest.mark.parametrize("name", FEW)
def test_some_known_sizes(name, dims):
    model = network(**CASES[name], dims=dims)
    n, *size = (
        dim if isinstance(dim, int) else usual for dim, usual in zip(dims, (2, 3, 11, 13), strict=True)
    )
    x = np.random.default_rng(5).standard_normal((n, 4, *size)).astype("float32")
    np.testing.assert_allclose(loaded(model)(x).numpy(), peer_of(model)(x), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", FEW)
def test_no_volumes(name):
    x = np.zeros((0, 4, 3, 7, 7), "float32")
    model = network(**CASES[name])
    got = loaded(model)(x).numpy()
    assert got.shape == (0, *peer_of(model)(np.zeros((1, *x.shape[1:]), "float32")).shape[1:])


@pytest.mark.parametrize("name", FEW)
def test_threads_do_not_change_bits(name):
    ours = loaded(network(**CASES[name]))
    x = np.random.default_rng(5).standard_normal((2, 4, 3, 11, 23)).astype("float32")
    before, results = native_library().num_threads, []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results.append(ours(x).numpy().tobytes())
    finally:
        set_num_threads(before)
    assert results[0] == results[1]


def rules_of(model):
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)))
    loops = [func for func in passes(from_onnx(model)).functions.values() if isinstance(func, PrimFunc)]
    return {func.attrs.get("schedule_rule") for func in loops}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dims", [FREE, (2, 4, 9, 16)], ids=str)
def test_every_function_has_a_schedule(name, dims):
    rules = rules_of(network(**CASES[name], dims=dims))
    assert "ConvolutionRule" in rules and rules <= {"ConvolutionRule", "Winograd", "Elementwise"}


def residual(dims=FREE) -> ModelProto:
    """A stem, pooling, a block of convolutions in space and time with a sum around it, a transposed
    convolution, and the mean of each channel."""
    rng = np.random.default_rng(7)

    def array(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / 8).astype("float32"), name)

    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"], pads=(1, 3, 3) * 2, strides=(1, 2, 2)),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node(
            "MaxPool", ["b"], ["p"], kernel_shape=(1, 3, 3), pads=(0, 1, 1) * 2, strides=(1, 2, 2)
        ),
        helper.make_node("Conv", ["p", "space"], ["c"], pads=(0, 1, 1) * 2),
        helper.make_node("Relu", ["c"], ["e"]),
        helper.make_node("Conv", ["e", "time"], ["f"], pads=(1, 0, 0) * 2),
        helper.make_node("Add", ["f", "p"], ["g"]),
        helper.make_node("Relu", ["g"], ["i"]),
        helper.make_node(
            "AveragePool", ["i"], ["j"], kernel_shape=(2, 2, 2), pads=(1,) * 6, strides=(2, 2, 2)
        ),
        helper.make_node("ConvTranspose", ["j", "grow"], ["k"], strides=(2, 2, 2)),
        helper.make_node("GlobalAveragePool", ["k"], ["m"]),
        helper.make_node("Flatten", ["m"], ["q"]),
        helper.make_node("Gemm", ["q", "last"], ["y"]),
    ]
    weights = [
        array("stem", 32, 3, 3, 7, 7),
        array("space", 80, 32, 1, 3, 3),
        array("time", 32, 80, 3, 1, 1),
        array("grow", 32, 16, 2, 2, 2),
        array("last", 16, 5),
    ]
    return model_of(nodes, weights, (dims[0], 3, *dims[1:]))


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_a_network(mode):
    model = residual()
    ours, peer = loaded(model, mode), peer_of(model)
    rng = np.random.default_rng(5)
    for n, *size in (*SIZES, (2, 3, 40, 36)):
        x = rng.standard_normal((n, 3, *size)).astype("float32")
        np.testing.assert_allclose(ours(x).numpy(), peer(x), rtol=1e-4, atol=1e-4)


def test_every_function_of_a_network_has_a_schedule():
    assert None not in rules_of(residual())
    assert None not in rules_of(residual((1, 8, 56, 56)))


def array_of(name, *shape):
    values = np.random.default_rng(len(shape)).standard_normal(shape) / 8
    return numpy_helper.from_array(values.astype("float32"), name)


MIXED = {  # nodes, weights, dimensions of x, sizes of x
    "images out of volumes": (
        [
            helper.make_node("Conv", ["x", "volume"], ["a"], pads=(1,) * 6),
            helper.make_node("ReduceMean", ["a"], ["b"], axes=[2], keepdims=0),
            helper.make_node("Conv", ["b", "image"], ["y"], pads=(1,) * 4),
        ],
        [array_of("volume", 32, 8, 3, 3, 3), array_of("image", 16, 32, 3, 3)],
        ("n", 8, "d", "h", "w"),
        (2, 8, 3, 9, 11),
    ),
    "volumes out of images": (
        [
            helper.make_node("Conv", ["x", "image"], ["a"], pads=(1,) * 4),
            helper.make_node("Unsqueeze", ["a", "axes"], ["b"]),
            helper.make_node("Conv", ["b", "volume"], ["y"], pads=(1,) * 6),
        ],
        [
            array_of("volume", 16, 32, 3, 3, 3),
            array_of("image", 32, 8, 3, 3),
            numpy_helper.from_array(np.array([2]), "axes"),
        ],
        ("n", 8, "h", "w"),
        (2, 8, 9, 11),
    ),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_volumes_and_images_in_one_network(name, mode):
    nodes, weights, dims, size = MIXED[name]
    model = model_of(nodes, weights, dims)
    x = np.random.default_rng(5).standard_normal(size).astype("float32")
    np.testing.assert_allclose(loaded(model, mode)(x).numpy(), peer_of(model)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FEW)
def test_nothing_is_read_or_written_outside(name):
    """Sanitized machine code checks every access; memory that nobody wrote is NaN."""
    model = network(**CASES[name])
    checked = heddle.compile(from_onnx(model), sanitize=True)
    ours, peer = heddle.relax.VirtualMachine(checked, heddle.cpu())["main"], peer_of(model)
    for n, *size in SIZES:
        x = np.random.default_rng(5).standard_normal((n, 4, *size)).astype("float32")
        np.testing.assert_allclose(ours(x).numpy(), peer(x), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("dtype", "wide", "tolerance"),
    [
        ("float64", "float64", 1e-12),
        ("float16", "float32", 2e-3),
        ("int8", "int32", 0),
        ("int32", "int32", 0),
    ],
)
@pytest.mark.parametrize("channels", [(16, 32), (5, 7)], ids=str)
def test_other_dtypes(dtype, wide, tolerance, channels):
    ins, outs = channels
    dims = (SizeVar("n"), ins, SizeVar("d"), SizeVar("h"), SizeVar("w"))
    rng = np.random.default_rng(1)
    weights = const(rng.integers(-9, 9, (outs, ins, 3, 1, 3)).astype(dtype))
    x = Var("x", TensorType(dims, dtype))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(op.nn.conv3d(x, weights, padding=(1, 0, 1), out_dtype=wide))
        builder.emit_func_output(out)
    mod = builder.get()
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    for n, *size in SIZES[2:5]:
        given = rng.integers(-9, 9, (n, ins, *size)).astype(dtype)
        wanted = GraphInterpreter(mod)["main"](given)
        got = machine["main"](given).numpy()
        assert got.dtype == wide
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
