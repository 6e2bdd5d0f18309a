"""qnn.*: results are those of integers without bounds, in the interpreter, on the machine and as a graph."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relay import Any as AnyDim
from heddle.relay import Function, TensorType, Tuple, Var, const, create_executor, parse, var
from heddle.relay.analysis import list_op_freqs
from heddle.relay.op_attrs import register_op_attr, register_qnn_legalize, reset_op_attr
from heddle.relay.qnn import op as qnn
from heddle.relay.qnn import transform
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain

RNG = np.random.default_rng(7)
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}


def run(build: Any, *values: Any, kinds: tuple[str, ...] = ("debug", "vm"), steps: int = 0) -> Any:
    """The result of a program over variables of the values' types, equal in every executor and after text.

    `steps`: by how many results may differ, 1 where a function of floats is between them: halves go
    either way by a last bit.
    """
    params = [var(f"x{k}", shape=v.shape, dtype=str(v.dtype)) for k, v in enumerate(values)]
    mod = IRModule.from_expr(Function(params, build(*params)))
    again = parse(mod.astext())
    found = [plain(create_executor(kind, mod).evaluate()(*values)) for kind in kinds]
    found.append(plain(create_executor("debug", again).evaluate()(*values)))
    plainly = transform.CanonicalizeOps()(mod)
    assert not any(name.startswith("qnn.") for name in list_op_freqs(plainly))
    assert_structural_equal(parse(plainly.astext()), plainly)
    found.append(plain(create_executor("debug", plainly).evaluate()(*values)))
    for other in found[1:]:
        assert other.dtype == found[0].dtype
        np.testing.assert_allclose(other, found[0], rtol=0, atol=steps)
    return found[0]


def integers(dtype: str, *shape: int) -> Any:
    low, high = RANGES[dtype]
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def wanted_step(value: int, source: float, target: float, rounding: str) -> int:
    """One element of requantize, by the rules, in integers without bounds."""
    ratio = float(np.float32(source)) / float(np.float32(target))
    part, exponent = math.frexp(ratio)
    significand = round(Fraction(part) * (1 << 31))
    if significand == 1 << 31:
        significand, exponent = 1 << 30, exponent + 1
    product = (value << max(exponent, 0)) * significand
    right = 31 + max(-exponent, 0)
    half = 1 << (right - 1)
    if rounding == "TONEAREST" and product < 0:
        half -= 1
    return (product + half) >> right


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("scales", [(0.37, 0.011), (0.011, 0.37), (0.5, 8.0), (1e-12, 3.0), (2.5, 2.5)])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8", "int32"])
def test_requantize_is_exact(rounding: str, scales: tuple[float, float], out_dtype: str) -> None:
    source, target = scales
    values = RNG.integers(-(1 << 20), 1 << 20, (5, 13)).astype("int32")
    found = run(
        lambda x: qnn.requantize(
            x, const(source), const(3), const(target), const(-2), rounding=rounding, out_dtype=out_dtype
        ),
        values,
    )
    low, high = RANGES[out_dtype]
    steps = [wanted_step(int(v) - 3, source, target, rounding) - 2 for v in values.flat]
    assert found.ravel().tolist() == [min(max(step, low), high) for step in steps]


@pytest.mark.parametrize("compute", ["int64", "float32", "float64"])
@pytest.mark.parametrize(
    ("rounding", "wanted"), [("UPWARD", [-2, -1, 0, 1, 2, 3]), ("TONEAREST", [-3, -2, -1, 1, 2, 3])]
)
def test_halves(compute: str, rounding: str, wanted: list[int]) -> None:
    values = np.array([-5, -3, -1, 1, 3, 5], "int32")
    found = run(
        lambda x: qnn.requantize(
            x, const(1.0), const(0), const(2.0), const(0), rounding=rounding, compute_dtype=compute
        ),
        values,
    )
    assert found.tolist() == wanted


def test_the_configuration_holds_where_a_call_says_none() -> None:
    values = np.array([-1, 1], "int32")

    def build(x: Any) -> Any:
        return qnn.requantize(x, const(1.0), const(0), const(2.0), const(0))

    assert run(build, values).tolist() == [0, 1]
    with qnn.requantize_config(rounding="TONEAREST", compute_dtype="float32") as config:
        assert qnn.current_requantize_config() is config
        assert run(build, values).tolist() == [-1, 1]
    assert qnn.current_requantize_config().rounding == "UPWARD"
    with pytest.raises(HeddleError, match="rounding is one of"), qnn.requantize_config(rounding="DOWN"):
        pass


def test_requantize_by_channels_and_with_scales_as_inputs() -> None:
    values, scales = integers("int32", 2, 3, 4) >> 12, np.array([0.1, 0.7, 2.0], "float32")
    wanted = np.zeros(values.shape, "int8")
    for place in np.ndindex(values.shape):
        step = wanted_step(int(values[place]), float(scales[place[1]]), 1.5, "UPWARD")
        wanted[place] = min(max(step, -128), 127)
    for build, given in (
        (lambda x: qnn.requantize(x, const(scales), const(0), const(1.5), const(0), axis=1), (values,)),
        (lambda x, s: qnn.requantize(x, s, const(0), const(1.5), const(0), axis=1), (values, scales)),
    ):
        np.testing.assert_array_equal(run(build, *given), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 3)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_quantize_and_dequantize(shape: tuple[int, ...], dtype: str) -> None:
    data = (RNG.standard_normal(shape) * 20).astype("float32")
    scale, zero = np.array([0.25, 0.5, 1.0][: shape[1]], "float32"), np.array([0, 3, -4][: shape[1]], "int32")
    found = run(lambda x: qnn.quantize(x, const(scale), const(zero), axis=1, out_dtype=dtype), data)
    steps = data / scale
    low, high = RANGES[dtype]
    wanted = np.clip(np.trunc(steps + np.copysign(0.5, steps)) + zero, low, high).astype(dtype)
    np.testing.assert_array_equal(found, wanted)
    back = run(lambda x: qnn.dequantize(x, const(scale), const(zero), axis=1), wanted)
    np.testing.assert_allclose(back, (wanted.astype("int64") - zero) * scale)


def test_halves_are_quantized_away_from_zero() -> None:
    data = np.array([0.5, 1.5, -0.5, -1.5, 0.49999997, 1e30, -1e30], "float32")
    found = run(lambda x: qnn.quantize(x, const(1.0), const(0)), data)
    assert found.tolist() == [1, 2, -1, -2, 0, 127, -128]


@pytest.mark.parametrize("zeros", [(0, 0), (5, -3), (200, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d(zeros: tuple[int, int], groups: int) -> None:
    dtype = "uint8" if zeros[0] > 127 else "int8"
    data, kernel = integers(dtype, 1, 4, 6, 5), integers("int8", 8, 4 // groups, 3, 3)
    found = run(
        lambda x: qnn.conv2d(
            x,
            const(kernel),
            const(zeros[0]),
            const(zeros[1]),
            const(0.5),
            const(0.25),
            kernel_size=(3, 3),
            channels=8,
            padding=(1, 1),
            groups=groups,
        ),
        data,
        kinds=("debug", "vm", "graph"),
    )
    x, w = data.astype("int64") - zeros[0], kernel.astype("int64") - zeros[1]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((1, 8, 6, 5), "int64")
    for k in range(8):
        first = (k * groups // 8) * (4 // groups)
        for i in range(6):
            for j in range(5):
                window = padded[0, first : first + 4 // groups, i : i + 3, j : j + 3]
                wanted[0, k, i, j] = (window * w[k]).sum()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)


def test_conv2d_transpose() -> None:
    torch = pytest.importorskip("torch")
    data, kernel = integers("int8", 2, 3, 4, 5), integers("int8", 3, 2, 3, 3)
    found = run(
        lambda x: qnn.conv2d_transpose(
            x,
            const(kernel),
            const(4),
            const(-1),
            const(0.5),
            const(0.25),
            strides=(2, 2),
            channels=2,
            kernel_size=(3, 3),
        ),
        data,
    )
    x, w = torch.from_numpy(data).double() - 4, torch.from_numpy(kernel).double() + 1
    wanted = torch.nn.functional.conv_transpose2d(x, w, stride=2).numpy()
    np.testing.assert_array_equal(found, wanted.astype("int64"))


@pytest.mark.parametrize("zeros", [(0, 0), (9, -7), (40000, 0)])
@pytest.mark.parametrize("rows", [1, 5])
def test_dense_and_batch_matmul(zeros: tuple[int, int], rows: int) -> None:
    data, weight = integers("int8", rows, 7), integers("int8", 16, 7)
    wanted = (data.astype("int64") - zeros[0]) @ (weight.astype("int64") - zeros[1]).T
    scales = const(zeros[0]), const(zeros[1]), const(0.5), const(0.5)
    found = run(
        lambda x: qnn.dense(x, const(weight), *scales, units=16), data, kinds=("debug", "vm", "graph")
    )
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(run(lambda x, w: qnn.dense(x, w, *scales, units=16), data, weight), wanted)
    found = run(lambda x, w: qnn.batch_matmul(x, w, *scales), data[None], weight[None])
    np.testing.assert_array_equal(found[0], wanted)
    packed = weight.reshape(2, 8, 7).transpose(0, 2, 1).copy()
    found = run(
        lambda x: qnn.contrib_dense_pack(x, const(packed), *scales, kernel_layout="NC8n", units=16), data
    )
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["add", "subtract", "mul"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_arithmetic(name: str, dtype: str) -> None:
    a, b = integers(dtype, 4, 5), integers(dtype, 5)
    found = run(
        lambda x, y: getattr(qnn, name)(
            x, y, const(0.3), const(2), const(0.9), const(-5), const(0.7), const(11)
        ),
        a,
        b,
    )
    low, high = RANGES[dtype]
    wanted = np.zeros((4, 5), "int64")
    for i, j in np.ndindex(4, 5):
        left, right = int(a[i, j]) - 2, int(b[j]) + 5
        if name == "mul":
            scale = float(np.float32(0.3) * np.float32(0.9))
            step = wanted_step(left * right, scale, 0.7, "UPWARD")
        else:
            other = wanted_step(right, 0.9, 0.7, "UPWARD")
            step = wanted_step(left, 0.3, 0.7, "UPWARD") + (other if name == "add" else -other)
        wanted[i, j] = min(max(step + 11, low), high)
    np.testing.assert_array_equal(found, wanted)


def test_concatenate() -> None:
    a, b = integers("uint8", 2, 3), integers("uint8", 2, 2)
    scales, zeros = (const(0.5), const(0.2)), (const(1), const(7))
    found = run(
        lambda x, y: qnn.concatenate(
            Tuple([x, y]), Tuple(scales), Tuple(zeros), const(0.5), const(4), axis=1
        ),
        a,
        b,
    )
    left = [min(max(int(v) - 1 + 4, 0), 255) for v in a.flat]
    right = [min(max(wanted_step(int(v) - 7, 0.2, 0.5, "UPWARD") + 4, 0), 255) for v in b.flat]
    assert found[:, :3].ravel().tolist() == left
    assert found[:, 3:].ravel().tolist() == right


FUNCTIONS = {
    "tanh": np.tanh,
    "exp": np.exp,
    "abs": np.abs,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "log": np.log,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """All 256 values; where they lie between two steps, rounding may differ by one."""
    data = np.arange(-128, 128).astype("int8")
    zero = -129 if name in ("sqrt", "rsqrt", "log") else 10
    found = run(
        lambda x: getattr(qnn, name)(x, const(0.03), const(zero), const(0.05), const(-3)), data, steps=1
    )
    real = FUNCTIONS[name]((data.astype("float64") - zero) * 0.03)
    wanted = np.clip(np.round(real / 0.05) - 3, -128, 127)
    assert np.abs(found - wanted).max() <= 1
    assert (found == wanted).mean() > 0.97


def test_softmax_leaky_relu_and_pools() -> None:
    data = integers("int8", 3, 9)
    real = (data.astype("float64") - 4) * 0.1
    found = run(lambda x: qnn.softmax(x, const(0.1), const(4), const(1 / 256), const(-128)), data, steps=1)
    powers = np.exp(real)
    wanted = np.clip(np.round(powers / powers.sum(-1, keepdims=True) * 256) - 128, -128, 127)
    assert np.abs(found - wanted).max() <= 1
    found = run(lambda x: qnn.leaky_relu(x, 0.3, const(0.1), const(4), const(0.2), const(1)), data, steps=1)
    wanted = np.clip(np.round(np.where(real < 0, 0.3 * real, real) / 0.2) + 1, -128, 127)
    assert np.abs(found - wanted).max() <= 1
    image = integers("uint8", 1, 6, 8, 3)
    for target in (0.5, 0.3):
        found = run(
            lambda x, target=target: qnn.avg_pool2d(
                x, const(0.5), const(7), const(target), const(7), (2, 2), (2, 2), (0, 0), (1, 1)
            ),
            image,
        )
        mean = (image.astype("float64") - 7).reshape(1, 3, 2, 4, 2, 3).mean((2, 4)) * 0.5
        assert np.abs(found - np.clip(np.round(mean / target) + 7, 0, 255)).max() <= 1


def test_simulated() -> None:
    data = (RNG.standard_normal((3, 4)) * 90).astype("float32")
    found = run(lambda x: qnn.simulated_quantize(x, const(0.5), const(2)), data)
    real = run(lambda x: qnn.quantize(x, const(0.5), const(2)), data)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, real)
    back = run(lambda x: qnn.simulated_dequantize(x, const(0.5), const(2)), found)
    np.testing.assert_array_equal(back, (real.astype("float32") - 2) * np.float32(0.5))
    assert (
        run(lambda x: qnn.simulated_quantize(x, const(0.5), const(2), out_dtype="disable"), data) is not None
    )


def test_onnx_runtime_gives_the_same_convolution() -> None:
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    data, kernel = integers("uint8", 1, 3, 8, 8), RNG.integers(-60, 60, (5, 3, 3, 3)).astype("int8")
    scales = np.array([0.01, 0.02, 0.03, 0.015, 0.007], "float32")
    helper, proto = onnx.helper, onnx.TensorProto
    values = {
        "xs": np.float32(0.05), "xz": np.uint8(120), "w": kernel, "ws": scales,
        "wz": np.zeros(5, "int8"), "ys": np.float32(0.4), "yz": np.uint8(100),
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], pads=[1] * 4
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", proto.UINT8, data.shape)],
        [helper.make_tensor_value_info("y", proto.UINT8, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": data})

    def build(x: Var) -> Any:
        sums = qnn.conv2d(
            x, const(kernel), const(120), const(0), const(0.05), const(scales), (3, 3), 5, padding=(1, 1)
        )
        by_channel = const(np.float32(0.05) * scales)
        return qnn.requantize(sums, by_channel, const(0), const(0.4), const(100), axis=1, out_dtype="uint8")

    found = run(build, data, kinds=("debug", "vm", "graph"))
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert (found == wanted).mean() > 0.99


def test_unknown_sizes() -> None:
    x = Var("x", TensorType((AnyDim(), 4), "int8"))
    body = qnn.requantize(
        qnn.dense(x, const(np.ones((3, 4), "int8")), const(1), const(0), const(1.0), const(1.0), units=3),
        const(1.0), const(0), const(2.0), const(0),
    )  # fmt: skip
    mod = IRModule.from_expr(Function([x], body))
    for rows in (0, 1, 5):
        data = integers("int8", rows, 4)
        found = [plain(create_executor(kind, mod).evaluate()(data)) for kind in ("debug", "vm")]
        wanted = np.clip(np.floor((data.astype(int) - 1).sum(1) / 2 + 0.5), -128, 127)
        for value in found:
            np.testing.assert_array_equal(value, np.repeat(wanted[:, None], 3, 1))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: qnn.requantize(x, const(1.0), const(0), const(0.0), const(0)), "scale of the result is 0"),
        (lambda x: qnn.requantize(x, const(1.0), const(0), const(2.0), const(0), rounding="UP"), "rounding"),
        (lambda x: qnn.requantize(x, const([1.0, 2.0]), const(0), const(2.0), const(0)), "axis 1 has 3"),
        (lambda x: qnn.quantize(x, const(1.0), const(0)), "float"),
        (lambda x: qnn.dense(x, const(np.ones((2, 3), "float32")), *[const(0)] * 4, units=2), "quantised"),
        (lambda x: qnn.requantize(x, const(1.0), const(0), const(2.0), const(0), out_dtype="bool"), "bool"),
    ],
)
def test_wrong_calls(build: Any, words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        run(build, integers("int8", 2, 3))


def test_users_say_what_calls_become() -> None:
    def doubled(attrs: Any, inputs: list[Any], types: list[Any]) -> Any:
        assert len(types) == len(inputs) + 1
        return None if inputs[0].name_hint == "kept" else qnn.dequantize(inputs[0], const(2.0), inputs[2])

    register_qnn_legalize("qnn.dequantize", doubled)
    try:
        for name, wanted in (("x", 2.0), ("kept", 1.0)):
            x = var(name, shape=(1,), dtype="int8")
            mod = IRModule.from_expr(Function([x], qnn.dequantize(x, const(1.0), const(0))))
            made = transform.Legalize()(mod)
            value = plain(create_executor("debug", made).evaluate()(np.ones(1, "int8")))
            assert value.tolist() == [wanted]
    finally:
        reset_op_attr("qnn.dequantize", "FTVMQnnLegalize")
    with pytest.raises(HeddleError, match="I0401"):
        register_op_attr("no.such", "FTVMLegalize", doubled)
