"""Quantised models as exporters write them; onnx's reference evaluator is the oracle.

It computes with floats where the compiler adds up integers, and a sum that falls between two quantised values
may round to either: results differ by one step at most, and in few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import heddle.backend
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import heddle
from heddle.driver.stages import stage_modules, stage_text
from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Constant
from heddle.ir.visitor import walk
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.script import from_source

WIRE = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT}
HASWELL = "llvm -mcpu=x86-64-v3"


class Graph:
    """Nodes and initializers as they are added; every result has a name of its own."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.stored: list[Any] = []

    def const(self, value: Any) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attrs))
        return name

    def scale(self, low: float = 0.01, high: float = 0.05, size: Any = None) -> Any:
        return (
            self.rng.uniform(low, high, size).astype("float32")
            if size
            else np.float32(self.rng.uniform(low, high))
        )

    def integers(self, dtype: str, shape: Any = ()) -> Any:
        limits = np.iinfo(dtype)
        return np.asarray(self.rng.integers(limits.min, limits.max + 1, shape)).astype(dtype)

    def requantised(self, x: str, dtype: str, scale: float, zero: int) -> str:
        q = self.node("QuantizeLinear", x, self.const(np.float32(scale)), self.const(np.array(zero, dtype)))
        return self.node(
            "DequantizeLinear", q, self.const(np.float32(scale)), self.const(np.array(zero, dtype))
        )

    def weight(self, dtype: str, shape: Sequence[int], axis: int | None, zero: Any = None) -> str:
        """Dequantised weights: of one scale, or one for each index of an axis."""
        size = None if axis is None else (shape[axis],)
        zeros = np.zeros(size or (), dtype) if zero is None else np.full(size or (), zero, dtype)
        attrs = {} if axis is None else {"axis": axis}
        values, scale = self.const(self.integers(dtype, shape)), self.const(self.scale(0.002, 0.01, size))
        return self.node("DequantizeLinear", values, scale, self.const(zeros), **attrs)

    def model(self, inputs: dict[str, tuple[str, Sequence[Any]]]) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(name, WIRE[ty], shape) for name, (ty, shape) in inputs.items()]
        result = helper.make_empty_tensor_value_info(self.nodes[-1].output[0])
        graph = helper.make_graph(self.nodes, "g", given, [result], self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def agree(got: Any, expected: Any, step: float) -> None:
    """At most one step apart, and that in few elements."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    apart = np.abs(got.astype("float64") - expected.astype("float64"))
    assert (apart <= step * 1.001).all()
    assert (apart > step * 0.01).mean() <= 0.02 if apart.size > 200 else True


def check(model: onnx.ModelProto, inputs: Sequence[Any], step: float = 1.0, **options: Any) -> Any:
    (expected,) = ReferenceEvaluator(model).run(
        None, dict(zip([value.name for value in model.graph.input], inputs, strict=True))
    )
    (got,) = heddle.backend.run_model(model, list(inputs), **options)
    agree(got, expected, step)
    return got


def dense(
    graph: Graph, x: str, weights: str, k: int, n: int, axis: int | None, zero: Any = None, out: str = "uint8"
) -> str:
    made = graph.node("MatMul", x, graph.weight(weights, (k, n), axis, zero))
    made = graph.node("Add", made, graph.const(graph.rng.standard_normal(n).astype("float32")))
    return graph.requantised(made, out, 0.05, 7)


def noise(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# ---- quantise, dequantise around products


SIZES = [
    (1, 768, 96),
    (5, 33, 17),
    (13, 31, 64),
    (7, 1, 8),
    (1, 2, 1),
    (0, 6, 8),
    (3, 30, 61),
    (29, 254, 127),
]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_between_quantised_tensors(m: int, k: int, n: int) -> None:
    graph = Graph(m * 31 + k + n)
    x = graph.requantised("x", "uint8", 0.02, 121)
    dense(graph, x, "int8", k, n, 1)
    check(graph.model({"x": ("float32", (m, k))}), [noise(k, m, k)], 0.05)


@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("data", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("target", ["llvm", HASWELL])
def test_signs_zero_points_and_scales(data: str, weights: str, axis: int | None, target: str) -> None:
    for zero in (0, np.iinfo(weights).max):
        graph = Graph(zero)
        x = graph.requantised("x", data, 0.03, np.iinfo(data).min + 50)
        dense(graph, x, weights, 38, 24, axis, zero, data)
        check(graph.model({"x": ("float32", (6, 38))}), [noise(3, 6, 38)], 0.05, target=target)


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_one_program_for_any_number_of_rows(mode: str) -> None:
    graph = Graph(4)
    dense(graph, graph.requantised("x", "int8", 0.02, -3), "int8", 66, 72, 1, out="int8")
    model = graph.model({"x": ("float32", ("m", 66))})
    machine = heddle.relax.VirtualMachine(heddle.compile(from_onnx(model), exec_mode=mode), heddle.cpu())
    for m in (0, 1, 2, 6, 7, 41):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": noise(m, m, 66)})
        agree(machine["main"](noise(m, m, 66)).numpy(), expected, 0.05)


def test_transposed_weights() -> None:
    for turned in (False, True):
        graph = Graph(8)
        x = graph.requantised("x", "uint8", 0.02, 128)
        w = graph.weight("int8", (40, 22), 0)
        if turned:
            graph.node("MatMul", x, graph.node("Transpose", w, perm=[1, 0]))
        else:
            graph.node("Gemm", x, w, graph.const(noise(1, 40)), transB=1)
        model = graph.model({"x": ("float32", (9, 22))})
        assert "pmadd" in stage_text(from_onnx(model), "asm", HASWELL)
        check(model, [noise(2, 9, 22)], 1e-3)


def test_weights_of_four_bits() -> None:
    for kind in (TensorProto.INT4, TensorProto.UINT4):
        graph = Graph(5)
        low = -8 if kind == TensorProto.INT4 else 0
        values = graph.rng.integers(low, low + 16, (34, 24))
        graph.stored.append(helper.make_tensor("w", kind, (34, 24), values.reshape(-1).tolist()))
        graph.stored.append(helper.make_tensor("z", kind, (24,), [low + 5] * 24))
        w = graph.node("DequantizeLinear", "w", graph.const(graph.scale(size=24)), "z", axis=1)
        graph.node("MatMul", graph.requantised("x", "uint8", 0.02, 9), w)
        model = graph.model({"x": ("float32", (6, 34))})
        assert "pmadd" in stage_text(from_onnx(model), "asm", HASWELL)
        check(model, [np.abs(noise(6, 6, 34))], 1e-3)


CONVOLUTIONS = [
    {"c": 16, "o": 24, "k": 3, "pads": 1},
    {"c": 8, "o": 8, "k": 1},
    {"c": 3, "o": 16, "k": 7, "stride": 2, "pads": 3},
    {"c": 1, "o": 8, "k": 3, "pads": 1},
    {"c": 12, "o": 12, "k": 3, "pads": 1, "group": 12},
    {"c": 24, "o": 16, "k": 3, "pads": 2, "group": 2, "dilation": 2},
    {"c": 10, "o": 7, "k": 3, "pads": 1},
    {"c": 64, "o": 40, "k": 1, "stride": 2},
    {"c": 5, "o": 32, "k": 5, "pads": 2},
]


def convolved(graph: Graph, x: str, of: dict[str, int], weights: str, axis: int | None, zero: Any) -> str:
    w = graph.weight(weights, (of["o"], of["c"] // of.get("group", 1), of["k"], of["k"]), axis, zero)
    made = graph.node(
        "Conv",
        x,
        w,
        graph.const(noise(1, of["o"])),
        pads=[of.get("pads", 0)] * 4,
        strides=[of.get("stride", 1)] * 2,
        dilations=[of.get("dilation", 1)] * 2,
        group=of.get("group", 1),
    )
    return graph.requantised(graph.node("Relu", made), "uint8", 0.05, 0)


@pytest.mark.parametrize("of", CONVOLUTIONS)
@pytest.mark.parametrize("size", [(11, 9), ("h", "w")])
def test_convolutions_between_quantised_tensors(of: dict[str, int], size: tuple[Any, ...]) -> None:
    """Padding counts as the number zero, whatever the zero point."""
    graph = Graph(of["c"])
    x = graph.requantised("x", "uint8", 0.02, 100)
    convolved(graph, x, of, "int8", 0, None)
    model = graph.model({"x": ("float32", (2, of["c"], *size))})
    check(model, [noise(7, 2, of["c"], 11, 9)], 0.05)


def test_convolutions_with_zero_points_of_weights() -> None:
    for weights, zero in (("uint8", 128), ("uint8", 3), ("int8", -128)):
        graph = Graph(3)
        x = graph.requantised("x", "int8", 0.02, -100)
        convolved(graph, x, {"c": 16, "o": 8, "k": 3, "pads": 1}, weights, None, zero)
        check(graph.model({"x": ("float32", (1, 16, 6, 7))}), [noise(1, 1, 16, 6, 7)], 0.05)


def test_sequences() -> None:
    graph = Graph(9)
    x = graph.requantised("x", "uint8", 0.02, 100)
    made = graph.node("Conv", x, graph.weight("int8", (24, 16, 3), 0), pads=[1, 1])
    graph.requantised(made, "uint8", 0.05, 100)
    check(graph.model({"x": ("float32", (2, 16, 29))}), [noise(1, 2, 16, 29)], 0.05)


@pytest.mark.parametrize("threads", [1, 2])
def test_branches_that_meet(threads: int) -> None:
    """A tensor that a product and an addition read; the threads change nothing."""
    graph = Graph(6)
    x = graph.requantised("x", "uint8", 0.02, 128)
    y = convolved(graph, x, {"c": 16, "o": 32, "k": 1}, "int8", 0, None)
    y = convolved(graph, y, {"c": 32, "o": 16, "k": 3, "pads": 1}, "int8", 0, None)
    graph.requantised(graph.node("Add", x, y), "uint8", 0.06, 90)
    before = native_library().num_threads
    set_num_threads(threads)
    try:
        check(graph.model({"x": ("float32", (1, 16, 9, 9))}), [noise(1, 1, 16, 9, 9)], 0.06)
    finally:
        set_num_threads(before)


# ---- products of integers


@pytest.mark.parametrize("data", ["int8", "uint8"])
@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_integer_products_are_exact(data: str, weights: str, mode: str) -> None:
    """Also of the largest factors, which instructions for pairs of bytes would limit."""
    for k, n, column in ((33, 24, False), (64, 40, True), (2, 8, False), (1, 1, False), (70, 5, True)):
        graph = Graph(k)
        x, w = graph.integers(data, (6, k)), graph.integers(weights, (k, n))
        x[0], w[:, 0] = np.iinfo(data).max, np.iinfo(weights).max
        x[-1] = np.iinfo(data).min
        xz, wz = graph.integers(data), graph.integers(weights, n if column else ())
        graph.node("MatMulInteger", "x", graph.const(w), graph.const(xz), graph.const(wz))
        model = graph.model({"x": (data, ("m", k))})
        (got,) = heddle.backend.run_model(model, [x], exec_mode=mode)
        expected = (x.astype("int32") - xz.astype("int32")) @ (w.astype("int32") - wz.astype("int32"))
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == np.int32


@pytest.mark.parametrize("kind", ["MatMulInteger", "QLinearMatMul"])
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("rows", [0, 1, 7, 33])
def test_products_whose_inner_dimension_is_free(rows: int, mode: str, kind: str) -> None:
    """The weights know it: bytes are multiplied as where it is stated. Another one is refused."""
    graph, models = Graph(rows), []
    x, w, z = graph.integers("uint8", (rows, 96)), graph.integers("int8", (96, 40)), np.uint8(117)
    own = [graph.const(w), graph.const(np.int8(0))]
    if kind == "QLinearMatMul":
        scale = graph.const(np.float32(0.02))
        own = [scale, graph.const(z), own[0], scale, own[1], graph.const(np.float32(1)), graph.const(z)]
    else:
        own.insert(1, graph.const(z))
    graph.node(kind, "x", *own)
    models = [graph.model({"x": ("uint8", (first, inner))}) for first, inner in (("m", "k"), ("m", 96))]
    free, known = (heddle.backend.run_model(model, [x], exec_mode=mode)[0] for model in models)
    np.testing.assert_array_equal(free, known)
    if kind == "MatMulInteger":
        np.testing.assert_array_equal(free, (x.astype("int32") - int(z)) @ w.astype("int32"))
    with pytest.raises(heddle.HeddleError, match="96"):
        heddle.backend.run_model(models[0], [x[:, 1:]], exec_mode=mode)
    texts = [stage_text(from_onnx(model), "scheduled", "llvm -mcpu=cascadelake") for model in models]
    assert all("int16" not in text for text in texts)


def test_integer_products_of_two_inputs() -> None:
    graph = Graph(2)
    graph.node("MatMulInteger", "x", "w", "xz")
    x, w, z = graph.integers("uint8", (5, 33)), graph.integers("int8", (33, 17)), graph.integers("uint8")
    model = graph.model({"x": ("uint8", (5, 33)), "w": ("int8", (33, 17)), "xz": ("uint8", ())})
    (got,) = heddle.backend.run_model(model, [x, w, z])
    np.testing.assert_array_equal(got, (x.astype("int32") - z) @ w.astype("int32"))


@pytest.mark.parametrize("of", CONVOLUTIONS)
def test_integer_convolutions_are_exact(of: dict[str, int]) -> None:
    graph = Graph(of["k"])
    w = graph.integers("int8", (of["o"], of["c"] // of.get("group", 1), of["k"], of["k"]))
    attrs = {"pads": [of.get("pads", 0)] * 4, "strides": [of.get("stride", 1)] * 2}
    attrs |= {"dilations": [of.get("dilation", 1)] * 2, "group": of.get("group", 1)}  # type: ignore[dict-item]
    graph.node("ConvInteger", "x", graph.const(w), graph.const(np.uint8(131)), **attrs)
    x = graph.integers("uint8", (1, of["c"], 9, 10))
    model = graph.model({"x": ("uint8", (1, of["c"], "h", "w"))})
    (got,) = heddle.backend.run_model(model, [x])
    real = helper.make_model(
        helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["y"], **attrs)],
            "g",
            [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in "xw"],
            [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
        )
    )
    (expected,) = ReferenceEvaluator(real).run(
        None, {"x": x.astype("float64") - 131, "w": w.astype("float64")}
    )
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("data", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [False, True])
def test_qlinear_products(data: str, channels: bool) -> None:
    graph = Graph(1)
    zero = np.array(9, data)
    factors = [graph.const(np.float32(0.02)), graph.const(zero)]
    w = graph.integers("int8", (34, 24))
    scale = graph.scale(0.002, 0.01, 24 if channels else None)
    own = [graph.const(w), graph.const(scale), graph.const(np.zeros(24 if channels else (), "int8"))]
    graph.node("QLinearMatMul", "x", *factors, *own, graph.const(np.float32(0.05)), graph.const(zero))
    check(graph.model({"x": (data, ("m", 34))}), [graph.integers(data, (7, 34))])


@pytest.mark.parametrize("of", CONVOLUTIONS)
@pytest.mark.parametrize("data", ["int8", "uint8"])
def test_qlinear_convolutions(of: dict[str, int], data: str) -> None:
    graph = Graph(of["o"])
    zero = np.array(9, data)
    shape = of["o"], of["c"] // of.get("group", 1), of["k"], of["k"]
    graph.node(
        "QLinearConv",
        "x",
        *[graph.const(np.float32(0.02)), graph.const(zero), graph.const(graph.integers("int8", shape))],
        *[graph.const(graph.scale(0.002, 0.01, of["o"])), graph.const(np.zeros(of["o"], "int8"))],
        *[graph.const(np.float32(0.09)), graph.const(zero)],
        graph.const(graph.rng.integers(-999, 999, of["o"]).astype("int32")),
        pads=[of.get("pads", 0)] * 4,
        strides=[of.get("stride", 1)] * 2,
        dilations=[of.get("dilation", 1)] * 2,
        group=of.get("group", 1),
    )
    check(graph.model({"x": (data, (1, of["c"], 8, 9))}), [graph.integers(data, (1, of["c"], 8, 9))])


@pytest.mark.parametrize("m", [1, 23])
def test_dynamically_quantised(m: int) -> None:
    graph = Graph(m)
    graph.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]))
    w, scale = graph.integers("int8", (50, 40)), graph.scale()
    sums = graph.node("Cast", graph.node("MatMulInteger", "q", graph.const(w), "z"), to=TensorProto.FLOAT)
    graph.node("Mul", sums, graph.node("Mul", "s", graph.const(scale)))
    model = graph.model({"x": ("float32", ("m", 50))})
    assert "pmadd" in stage_text(from_onnx(model), "asm", HASWELL)
    x = noise(m, m, 50)
    step = float(x.max() - x.min()) / 255 * 127 * float(scale)  # of one factor that rounds the other way
    check(model, [x], step)


def test_sums_that_could_overflow_stay_floats() -> None:
    graph = Graph(1)
    w = graph.const(np.full((70000, 8), 127, "int8"))
    v = graph.node("DequantizeLinear", w, graph.const(np.float32(1e-5)))
    graph.node("MatMul", graph.requantised("x", "uint8", 0.02, 0), v)
    x = np.full((1, 70000), 5.1, "float32")
    check(
        graph.model({"x": ("float32", (1, 70000))}), [x], 1.0
    )  # floats that add up 70000 equal terms are off by a thousandth


def test_printed_saved_and_loaded(tmp_path: Path) -> None:
    """Programs of quantised tensors are text, and files, as all programs are; files hold bytes."""
    graph = Graph(2)
    x = graph.requantised("x", "uint8", 0.02, 121)
    dense(graph, x, "int8", 256, 128, 1)
    mod = from_onnx(graph.model({"x": ("float32", ("m", 256))}))
    again = from_source(mod.script(show_meta=True))
    given, path = noise(3, 5, 256), tmp_path / "quantised.heddle"
    expected = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](given).numpy()
    heddle.compile(again).export_library(str(path))
    machine = heddle.relax.VirtualMachine(heddle.runtime.load_module(str(path)), heddle.cpu())
    np.testing.assert_array_equal(machine["main"](given).numpy(), expected)
    constants = stage_modules(mod)["scheduled"]["main"]
    stored = [node.data for node in walk(constants) if isinstance(node, Constant) and node.data.ndim == 4]
    assert [str(data.dtype) for data in stored] == ["int8"]


def test_images_of_bytes_with_free_channels_beside_a_convolution() -> None:
    """Their number is not known, so that they are in no blocks."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[d, c, 4, e] x, float[5, 2, 1, 1] v, float s) => (uint8[d, c, 4, p] y, float[a, b, f, h] z)
        <uint8 k = {1}, uint8[1, 4] w = {6, 12, 4, 1}, uint8 m = {3}, float r = {0.05},
         float[1, 2, 1, 1] u = {1, 0.25}>
        {
            q = QuantizeLinear (x, s, k)
            o = DequantizeLinear (q, s, k)
            y = QLinearMatMul (q, r, m, w, r, k, r, m)
            t = Conv (v, u)
            z = Mul (o, t)
        }"""
    )
    rng = np.random.default_rng()
    x = rng.standard_normal((5, 3, 4, 1)).astype("float32")
    v, s = rng.standard_normal((5, 2, 1, 1)).astype("float32"), np.float32(0.03)
    expected = ReferenceEvaluator(model).run(None, {"x": x, "v": v, "s": s})
    made = heddle.backend.prepare(model).run([x, v, s])
    np.testing.assert_allclose(made[1], expected[1], rtol=1e-4, atol=1e-5)
    assert np.abs(made[0].astype(int) - expected[0].astype(int)).max() <= 1
