"""Operators at the edges of numbers, against onnx's reference: in vector bodies and tails."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from heddle.codegen.cache import KernelCache
from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.relax.interpreter import GraphInterpreter
from heddle.runtime.device import cpu
from heddle.target import Target
from heddle.vm.relax.machine import VirtualMachine
from tests.unit.frontend.onnx.models import model, node

NAN, INF = np.nan, np.inf
EDGES = np.array(
    [
        0.0,
        -0.0,
        1.5,
        2.5,
        -1.5,
        -2.5,
        3.0,
        -3.0,
        7.6,
        127.5,
        300.0,
        -300.0,
        3e9,
        -3e9,
        1e20,
        INF,
        -INF,
        NAN,
        1e-40,
    ],
    np.float32,
)
X, Y = (part.ravel() for part in np.meshgrid(EDGES, EDGES))


def results(made: onnx.ModelProto, *arrays: Any) -> list[tuple[str, list[Any]]]:
    """Of the graph interpreter, which takes operators' references, and of compiled code."""
    mod = from_onnx(made)
    machine = VirtualMachine(build(mod, Target("llvm"), cache=KernelCache(None)), cpu())
    found = []
    for engine, call in (("reference", GraphInterpreter(mod)["main"]), ("machine", machine["main"])):
        with np.errstate(all="ignore"):
            got = call(*(array.copy() for array in arrays))
        parts = [got] if hasattr(got, "dtype") else list(got)
        found.append(
            (engine, [np.asarray(part.numpy() if hasattr(part, "numpy") else part) for part in parts])
        )
    return found


def binary(nodes: list[Any], stored: dict[str, Any] | None = None, opset: int = 18) -> onnx.ModelProto:
    outputs = [each.output[0] for each in nodes]
    return model(nodes, {"x": ["n"], "y": ["n"]}, outputs, stored, opset=opset)


def test_float_operators_follow_numpy() -> None:
    stored = {"nan": np.float32(NAN), "one": np.float32(1), "two": np.float32(2), "inf": np.float32(INF)}
    nodes = [
        node("Mod", ["x", "y"], ["fmod"], fmod=1),
        node("Max", ["x", "y"], ["max"]),
        node("Min", ["x", "y"], ["min"]),
        node("Sign", ["x"], ["sign"]),
        node("Round", ["x"], ["round"]),
        node("Clip", ["x", "one", "two"], ["clipped"]),
        node("Clip", ["x", "two", "one"], ["crossed"]),
        node("Clip", ["x", "nan", "two"], ["low_nan"]),
        node("Clip", ["x", "one", "nan"], ["high_nan"]),
        node("Clip", ["x", "", "inf"], ["unbound"]),
    ]
    made = binary(nodes, stored)
    with np.errstate(all="ignore"):
        want = ReferenceEvaluator(made).run(None, {"x": X, "y": Y})
    for engine, got in results(made, X, Y):
        for each, mine, its in zip(nodes, got, want, strict=True):
            np.testing.assert_array_equal(mine, its, err_msg=f"{each.output[0]}, {engine}")


def test_the_remainder_of_a_division_by_infinity() -> None:
    """The standard defines fmod=0 for integers; for floats it is numpy's `mod`."""
    made = binary([node("Mod", ["x", "y"], ["z"], fmod=0)])
    with np.errstate(all="ignore"):
        want = np.mod(X, Y)
    assert want[(X == 3) & (Y == INF)] == 3
    for engine, (got,) in results(made, X, Y):
        np.testing.assert_array_equal(got, want, err_msg=engine)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_are_the_same_whatever_is_known_of_them(dtype: str) -> None:
    """Base and exponent stored or given: with C's special cases, as ONNX Runtime has them."""
    x = np.array([-INF, -0.0, 0.0, INF, -1, 4, NAN] * 5, dtype)
    for exponent in (0.5, 2.0, -1.0, 3.0, -0.5, 0.0, 1.0, INF):
        y = np.full(x.shape, exponent, dtype)
        given = {"x": x, "y": y[:1]}
        with np.errstate(all="ignore"):  # of long doubles numpy takes C's pow for every exponent
            want = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
        for stored in ((), ("x",), ("y",), ("x", "y")):
            free = {name: array for name, array in given.items() if name not in stored}
            inputs = {name: (list(array.shape), dtype) for name, array in free.items()}
            kept = {name: given[name] for name in stored}
            made = model([node("Pow", ["x", "y"], ["z"])], inputs, ["z"], kept)
            for engine, (got,) in results(made, *free.values()):
                where = f"{exponent}, {stored} stored, {engine}"
                np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=where)
                numbers = ~np.isnan(want)
                assert (np.signbit(got) == np.signbit(want))[numbers].all(), where


EXPONENTS = (0, 1, 2, 3, 5, 40, 63, 64, 65, 127, -1, -2, -3)


def powers_of_integers(x: Any, exponent: int) -> Any:
    """Modulo 2**bits; 1 / x**-y rounded to zero for negative ones."""
    bits = x.dtype.itemsize * 8
    of_units = [int(v) ** (exponent % 2) if abs(int(v)) == 1 else 0 for v in x]
    made = [pow(int(v), exponent, 1 << bits) for v in x] if exponent >= 0 else of_units
    return (np.array(made, object) & ((1 << bits) - 1)).astype(f"u{x.dtype}").astype(x.dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_powers_of_integers_wrap(kind: str, dtype: str) -> None:
    """Exponents of any type, stored (one, or one for each element) or given."""
    ends, number = np.iinfo(dtype), helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    x = np.array([0, 1, -1, 2, -3, 7, 10, ends.max, ends.min, -(1 << 31)], dtype)
    exponents = [y for y in EXPONENTS if y >= 0 or kind[0] != "u"]
    y = np.repeat(np.array(exponents, kind), len(x))
    made = binary_of(dtype, number, None)
    wanted = np.concatenate([powers_of_integers(x, exponent) for exponent in exponents])
    every = np.tile(x, len(exponents))
    for engine, (got,) in results(made, every, y):
        np.testing.assert_array_equal(got, wanted, err_msg=engine)
    for exponent in exponents[::3]:
        stored = onnx.numpy_helper.from_array(np.array([exponent], kind), "y")
        for engine, (got,) in results(binary_of(dtype, number, stored), x):
            np.testing.assert_array_equal(
                got, powers_of_integers(x, exponent), err_msg=f"{exponent} {engine}"
            )


def binary_of(dtype: str, number: int, stored: Any) -> onnx.ModelProto:
    """Pow of integers by an exponent of any type."""
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n"])]
    inputs += [helper.make_tensor_value_info("y", number, ["n"])] if stored is None else []
    outputs = [onnx.ValueInfoProto(name="z")]
    graph = helper.make_graph(
        [node("Pow", ["x", "y"], ["z"])], "powers", inputs, outputs, [] if stored is None else [stored]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_powers_of_integers_by_fractions_lose_theirs() -> None:
    x, y = np.array([2, 9, -8, 10, 0, 3], "int32"), np.array([0.5, 0.5, 1.5, -0.5, 0.5, 1e30], "float32")
    made = binary_of("int32", TensorProto.FLOAT, None)
    for engine, (got,) in results(made, x, y):
        assert got.tolist() == [1, 3, 0, 0, 0, 2**31 - 1], engine


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_casts_saturate(dtype: str) -> None:
    """The standard leaves out-of-range casts open; everywhere they give the nearest end, and 0 for NaN."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model([node("Cast", ["x"], ["z"], to=number)], {"x": ["n"]}, ["z"])
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    want = [0 if np.isnan(v) else high if v >= high else low if v <= low else int(v) for v in X.tolist()]
    for engine, (got,) in results(made, X):
        assert got.tolist() == want, engine


@pytest.mark.parametrize(("number", "signed"), [(TensorProto.INT4, True), (TensorProto.UINT4, False)])
def test_casts_to_four_bits_round_to_even(number: int, signed: bool) -> None:
    """Of onnx's page on int4: "rounding to the nearest integer (with ties to even)", then the low bits."""
    x = np.array([1.5, 2.5, 0.5, 3.4, 6.6, -0.5, -1.5, -2.5, 9.0, 21.0] * 4, np.float32)
    nodes = [node("Cast", ["x"], ["four"], to=number), node("Cast", ["four"], ["z"], to=TensorProto.INT32)]
    made = model(nodes, {"x": ["n"]}, ["z"], opset=21)
    want = np.rint(x).astype(np.int32) & 15
    want = (want ^ 8) - 8 if signed else want
    for engine, (got,) in results(made, x):
        assert got.tolist() == want.tolist(), engine


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_shifts_by_the_width_give_zero(dtype: str) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    bits = np.dtype(dtype).itemsize * 8
    x = np.full(41, np.iinfo(dtype).max, dtype)
    y = (np.arange(41) % (bits + 9)).astype(dtype)
    y[3] = np.iinfo(dtype).max
    graph = helper.make_graph(
        [node("BitShift", ["x", "y"], [way], direction=way) for way in ("LEFT", "RIGHT")],
        "graph",
        [helper.make_tensor_value_info(name, number, ["n"]) for name in "xy"],
        [onnx.ValueInfoProto(name=way) for way in ("LEFT", "RIGHT")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    for engine, (left, right) in results(made, x, y):
        np.testing.assert_array_equal(left, np.left_shift(x, y), err_msg=engine)
        np.testing.assert_array_equal(right, np.right_shift(x, y), err_msg=engine)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_sorted(dtype: str) -> None:
    """Comparisons of 16-bit floats, NaN among them."""
    number = TensorProto.BFLOAT16 if dtype == "bfloat16" else TensorProto.FLOAT16
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype("float16")
    graph = helper.make_graph(
        [
            node("Unique", ["x"], ["values", "", "", "counts"]),
            node("TopK", ["x", "k"], ["top", "where"]),
            node("ArgMax", ["x"], ["greatest"], axis=0),
        ],
        "graph",
        [helper.make_tensor_value_info("x", number, ["n"])],
        [onnx.ValueInfoProto(name=name) for name in ("values", "counts", "top", "where", "greatest")],
        [helper.make_tensor("k", TensorProto.INT64, [1], [5])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.array([3, -1, 2.5, 3, -INF, 0.125, 7, -1, 2.5, 7, 1, 4], np.float32).astype(kind)
    values, counts = np.unique(x.astype(np.float32), return_counts=True)
    order = np.argsort(-x.astype(np.float32), kind="stable")[:5]
    for engine, got in results(made, x):
        np.testing.assert_array_equal(got[0].astype(np.float32), values, err_msg=engine)
        np.testing.assert_array_equal(got[1], counts, err_msg=engine)
        np.testing.assert_array_equal(got[2].astype(np.float32), x[order].astype(np.float32), err_msg=engine)
        assert got[3].tolist() == order.tolist(), engine
        assert got[4].tolist() == [6], engine


@pytest.mark.parametrize("op", ["HardSigmoid", "LeakyRelu", "Selu", "ThresholdedRelu", "Elu", "Celu"])
def test_attributes_that_are_left_out_are_numbers_of_float32(op: str) -> None:
    """0.2 of HardSigmoid is that of float32, which float64 tells from 0.2, as one that is written is."""
    defaults = {item.name: item.default_value.f for item in onnx.defs.get_schema(op, 18).attributes.values()}
    nodes = [node(op, ["x"], ["left_out"]), node(op, ["x"], ["written"], **defaults)]
    made = model(nodes, {"x": ((9,), "float64")}, ["left_out", "written"], {}, 18)
    x = np.linspace(-2, 2, 9)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    for engine, (left_out, written) in results(made, x):
        np.testing.assert_array_equal(left_out, written, err_msg=engine)
        np.testing.assert_allclose(left_out, wanted, rtol=1e-14, err_msg=engine)
