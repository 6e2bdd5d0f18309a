"""Squeeze without axes: free dimensions that may be 1 decide the rank when the model runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.graph.nodes import BindingBlock
from heddle.ir.expr import If
from heddle.ir.visitor import walk
from tests.unit.frontend.onnx.runtime_oracle import Compared


def model(body: str, inputs: str, opset: int = 17, more: str = "") -> onnx.ModelProto:
    sets = f'"" : {opset}' + (', "own" : 1' if more else "")
    made = parser.parse_model(
        f"<ir_version: 9, opset_import: [{sets}]> agraph ({inputs}) => (float[] y) {{ {body} }} {more}"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def values(*shape: int) -> Any:
    return np.random.default_rng().standard_normal(shape).astype("float32")


BODIES = {
    "at the end": "y = Squeeze(x)",
    "ranks that differ to the end": "t = Squeeze(x) y = Relu(t)",
    "ranks that agree again": "t = Squeeze(x) r = Relu(t) s = Constant<value_ints=[-1]>() y = Reshape(r, s)",
    "twice": "t = Squeeze(x) r = Relu(t) y = Squeeze(r)",
    "the sum over what is left": "t = Squeeze(x) y = ReduceSum(t)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("dims", ["n, 5", "n, m", "n, m, 1, k"])
def test_free_dimensions_of_one_are_dropped(body: str, opset: int, dims: str) -> None:
    if opset == 11:
        body = body.replace("value_ints=[-1]", "value=int64[1] {-1}")
    compared = Compared(model(body, f"float[{dims}] x", opset))
    for n, m, k in [*product((1, 3), (1, 2), (1, 4)), (0, 2, 4)]:
        free = {"n": n, "m": m, "k": k}
        shape = [free[dim] if dim in free else int(dim) for dim in dims.split(", ")]
        assert compared.check({"x": values(*shape)}, rtol=1e-4) == "equal"


@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
def test_rows_of_a_batch_of_one(op: str) -> None:
    """What a classifier ends with: ONNX Runtime takes a vector for one row."""
    compared = Compared(model(f"t = Squeeze(x) y = {op}(t, w)", "float[n, 4, 1, 1] x, float[4, 3] w"))
    for count in (1, 2, 3):
        assert compared.check({"x": values(count, 4, 1, 1), "w": values(4, 3)}, rtol=1e-4) == "equal"


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_an_axis_that_what_follows_needs_stays(mode: str) -> None:
    """ONNX Runtime refuses a batch of one here."""
    made = model("t = Squeeze(x) y = Conv(t, k)", "float[n, 2, h, 4] x, float[2, 2, 1, 1] k")
    machine = relax.VirtualMachine(heddle.compile(from_onnx(made), exec_mode=mode), heddle.cpu())
    for batch, height in ((1, 1), (1, 3), (2, 1), (2, 3)):
        x, weights = values(batch, 2, height, 4), values(2, 2, 1, 1)
        found = machine["main"](x, weights).numpy()
        np.testing.assert_allclose(
            found, np.einsum("nchw,oc->nohw", x, weights[:, :, 0, 0]), rtol=1e-4, atol=1e-5
        )


def test_two_after_another_whose_axes_what_follows_needs() -> None:
    """As in the body of AffineGrid: a batch of one keeps its axis in both."""
    body = (
        "a = Squeeze(x) b = Squeeze(z) p, q = Split<axis=1>(a) r, s = Split<axis=1>(b) "
        "t = Add(p, r) y = Mul(t, q)"
    )
    made = model(body, "float[n, 1, 2] x, float[n, 1, 2] z", 13)
    machine = relax.VirtualMachine(heddle.compile(from_onnx(made)), heddle.cpu())
    for count in (1, 3):
        x, z = values(count, 1, 2), values(count, 1, 2)
        (p, q), (r, _) = (np.split(item[:, 0], 2, 1) for item in (x, z))
        np.testing.assert_allclose(machine["main"](x, z).numpy(), (p + r) * q, rtol=1e-5)


INSIDE = {
    "a function": (
        "y = own.drop(x)",
        '<domain: "own", opset_import: ["" : 17]> drop (a) => (b) { b = Squeeze(a) }',
    ),
    "a branch": (
        "y = If (c) <then_branch = t () => (float[] s) { s = Squeeze(x) }, "
        "else_branch = e () => (float[n, m] k) { k = Neg(x) }>",
        "",
    ),
    "a loop": (
        "count = Constant<value=int64 {2}>() going = Constant<value=bool {1}>() "
        "zero = Constant<value=float {0}>() y = Loop (count, going, zero) "
        "<body = b (int64 i, bool g, float before) => (bool h, float after) "
        "{ h = Identity(g) q = Squeeze(x) t = ReduceSum<keepdims=0>(q) after = Add(before, t) }>",
        "",
    ),
}


@pytest.mark.parametrize(("body", "more"), INSIDE.values(), ids=INSIDE)
def test_inside(body: str, more: str) -> None:
    has_choice = "If" in body
    compared = Compared(model(body, "float[n, m] x, bool c" if has_choice else "float[n, m] x", more=more))
    for count, width, choice in product((1, 3), (1, 2), (True, False)):
        feed = {"x": values(count, width), **({"c": np.array(choice)} if has_choice else {})}
        assert compared.check(feed, rtol=1e-4) == "equal"


def test_a_graph_whose_ranks_are_known_stays_straight() -> None:
    """PyTorch writes sizes as Squeeze of a part of a shape."""
    sizes = "d = Shape<start=0, end=1>(x) n = Squeeze(d) f = Cast<to=1>(n) "
    mod = from_onnx(model(f"{sizes} y = Mul(x, f)", "float[n, 5] x"))
    assert any(isinstance(node, BindingBlock) and node.is_dataflow for node in walk(mod["main"]))
    mod = from_onnx(model("y = Squeeze(x)", "float[n, 5] x"), {"x": (2, 5)})
    assert not any(isinstance(node, If) for node in walk(mod["main"]))
    mod = from_onnx(model("y = Squeeze(x)", "float[n, 5] x"))
    assert sum(isinstance(node, If) for node in walk(mod["main"])) == 1
