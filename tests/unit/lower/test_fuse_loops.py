"""Loops whose turns are counted become one loop function, and compute what they did."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import heddle
from heddle import relax
from heddle.driver.opt import OptOptions, run_passes
from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.script import parse
from heddle.support.diagnostics import Trap, TrapIndexError
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

TARGET = Target("llvm")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
ROWS, WIDE = np.arange(12, dtype="float32").reshape(4, 3) / 7, np.float32([[1.5, -2, 0.25]])

SWAPPED = """
m (float[a, b] x, float[a, b] y, int64 n) => (float[a, b] p, float[a, b] q) {
  p, q = Loop <body = body (int64 i, bool go, float[a, b] u, float[a, b] v)
      => (bool on, float[a, b] nv, float[a, b] nu) {
    on = Identity (go)
    s = Add (u, v)
    nu = Identity (s)
    nv = Identity (v)
  }> (n, , x, y)
}"""
COUNTER = """
m (float[a, b] x, int64 n) =>
  (float[a, b] p, int64[t] numbers, float[t, a, b] before, float[t, a, b] after) {
  p, numbers, before, after = Loop <body = body (int64 i, bool go, float[a, b] u)
      => (bool on, float[a, b] w, int64 c, float[a, b] old, float[a, b] new) {
    on = Identity (go)
    f = Cast <to = 1> (i)
    half = Constant <value_float = 0.5> ()
    d = Mul (u, half)
    w = Add (d, f)
    c = Mul (i, i)
    old = Identity (u)
    new = Identity (w)
  }> (n, , x)
}"""
CONDITION = """
m (float[a, b] x, int64 n, bool first) => (float[a, b] p, float[t, a] sums) {
  p, sums = Loop <body = body (int64 i, bool go, float[a, b] u) => (bool on, float[a, b] w, float[a] s) {
    on = Constant <value = bool {1}> ()
    two = Constant <value_float = 2.0> ()
    w = Mul (u, two)
    s = ReduceSum <keepdims = 0> (w, axis)
  }> (n, first, x)
}"""
WHILE = """
m (float[a, b] x, int64 n) => (float[a, b] p) {
  p = Loop <body = body (int64 i, bool go, float[a, b] u) => (bool on, float[a, b] w) {
    two = Constant <value_float = 2.0> ()
    w = Mul (u, two)
    most = ReduceMax <keepdims = 0> (w)
    limit = Constant <value_float = 40.0> ()
    on = Less (most, limit)
  }> (n, , x)
}"""
PARTS = """
m (float[a, b] x, int64 n) => (float[a, b] p, int64[t, a, k] places) {
  p, places = Loop <body = body (int64 i, bool go, float[a, b] u)
      => (bool on, float[a, b] w, int64[a, k] at) {
    on = Identity (go)
    k = Constant <value_ints = [2]> ()
    best, at = TopK (u, k)
    least = ReduceMin <axes = [1]> (u)
    w = Sub (u, least)
  }> (n, , x)
}"""
SCANS = """
m (float[a, b] x, float[t, a, b] s) => (float[a, b] p, float[t, a, b] out) {
  p, out = Scan <num_scan_inputs = 1, body = outer (float[a, b] u, float[a, b] e)
      => (float[a, b] w, float[a, b] row) {
    zero = ReduceMean <axes = [0], keepdims = 0> (e)
    last, rows = Scan <num_scan_inputs = 1, body = inner (float[b] c, float[b] r)
        => (float[b] d, float[b] g) {
      d = Add (c, r)
      g = Tanh (d)
    }> (zero, u)
    w = Add (rows, e)
    row = Mul (w, last)
  }> (x, s)
}"""
NESTED = """
m (float[a, b] x, int64 n) => (float[a, b] p) {
  p = Loop <body = body (int64 i, bool go, float[a, b] u) => (bool on, float[a, b] w) {
    on = Identity (go)
    three = Constant <value = int64 {3}> ()
    w = Loop <body = inner (int64 j, bool goes, float[a, b] v) => (bool still, float[a, b] z) {
      still = Identity (goes)
      k = Add (i, j)
      f = Cast <to = 1> (k)
      t = Tanh (v)
      z = Add (t, f)
    }> (three, , u)
  }> (n, , x)
}"""


def model_of(text: str) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + text)
    if "axis)" in text:
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    return made


def scheduled(model: onnx.ModelProto) -> IRModule:
    return scheduled_graph(from_onnx(model))


def scheduled_graph(mod: IRModule) -> IRModule:
    optimized = run_passes(mod, OptOptions(pipeline="optimize", target=TARGET))
    return run_passes(optimized, OptOptions(pipeline="legalize", target=TARGET))


@cache
def machine(model: bytes, mode: str) -> relax.VirtualMachine:
    """A model is compiled once for all that it is run with."""
    executable = heddle.compile(from_onnx(onnx.load_from_string(model)), target="llvm", exec_mode=mode)
    return relax.VirtualMachine(executable, heddle.cpu())


def check(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    content = model.SerializeToString(deterministic=True)
    expected = onnxruntime.InferenceSession(content).run(None, feed)
    for mode in ("compiled", "bytecode"):
        got: Any = machine(content, mode)["main"](*feed.values())
        results = list(got) if len(expected) > 1 else [got]
        for mine, theirs in zip(results, expected, strict=True):
            array = mine.numpy()
            assert array.dtype == theirs.dtype
            if not theirs.size:  # ONNX Runtime forgets the sizes of rows that there are none of
                assert array.shape[0] == 0
                continue
            np.testing.assert_allclose(array, theirs, rtol=1e-5, atol=1e-6)
    return list(expected)


@pytest.mark.parametrize("turns", [0, 1, 2, 7, -3])
@pytest.mark.parametrize(
    "text", [SWAPPED, COUNTER, PARTS, NESTED], ids=["swapped", "counter", "parts", "nested"]
)
def test_loops_turn_as_often_as_they_are_told(text: str, turns: int) -> None:
    model = model_of(text)
    feed: dict[str, np.ndarray] = {"x": ROWS}
    if "float[a, b] y" in text:
        feed["y"] = ROWS[::-1].copy()
    check(model, feed | {"n": np.array(turns)})


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("turns", [0, 3])
def test_the_first_condition_decides_whether_a_loop_turns(first: bool, turns: int) -> None:
    check(model_of(CONDITION), {"x": ROWS, "n": np.array(turns), "first": np.array(first)})


@pytest.mark.parametrize("turns", [1, 4, 30])
def test_a_condition_that_is_computed_ends_a_loop(turns: int) -> None:
    check(model_of(WHILE), {"x": WIDE, "n": np.array(turns)})


@pytest.mark.parametrize("length", [1, 5])
def test_scans_in_scans(length: int) -> None:
    check(model_of(SCANS), {"x": ROWS, "s": np.random.default_rng().random((length, 4, 3), "float32")})


def test_a_scan_of_nothing_keeps_its_state() -> None:
    """ONNX Runtime refuses it."""
    machine = relax.VirtualMachine(heddle.compile(from_onnx(model_of(SCANS)), target="llvm"), heddle.cpu())
    state, out = machine["main"](ROWS, np.zeros((0, 4, 3), "float32"))
    np.testing.assert_array_equal(state.numpy(), ROWS)
    assert out.shape == (0, 4, 3)


@pytest.mark.parametrize(
    ("text", "fused"),
    [(SWAPPED, 1), (COUNTER, 1), (CONDITION, 1), (PARTS, 1), (WHILE, 0)],
    ids=["swapped", "counter", "condition", "parts", "while"],
)
def test_counted_loops_leave_the_machine(text: str, fused: int) -> None:
    """A condition that each turn computes keeps its loop on the machine."""
    mod = scheduled(model_of(text))
    loops = [func for var, func in mod.functions.items() if var.name_hint.startswith("loop_")]
    recursive = [func for func in loops if isinstance(func, Function)]
    assert len(recursive) == 1 - fused
    if fused:
        assert sum(isinstance(func, PrimFunc) for func in loops) == 2  # the loop, and its number of turns


def test_loops_in_loops_become_one_function() -> None:
    mod = scheduled(model_of(NESTED))
    graphs = [var.name_hint for var, func in mod.functions.items() if isinstance(func, Function)]
    assert graphs == ["main"]


def test_a_number_of_turns_that_is_known_is_not_asked_for() -> None:
    """The turns of a Scan are a size of its input."""
    assert "loop_turns" not in {var.name_hint for var in scheduled(model_of(SCANS)).functions}


def test_the_turns_are_in_the_cost() -> None:
    model = model_of(COUNTER)
    machine = relax.VirtualMachine(heddle.compile(from_onnx(model), target="llvm"), heddle.cpu())
    flops = []
    for turns in (10, 20):
        calls = machine.profile("main", ROWS, np.array(turns)).calls
        [loop] = [call for call in calls if call.name.startswith("loop_") and call.name != "loop_turns"]
        flops.append(loop.flops)
    assert 0 < flops[0] * 2 == flops[1]


HAND_WRITTEN = """
@I.ir_module
class Module:
    @R.function(private=True)
    def loop(i: R.Tensor((), "int64"), n: R.Tensor((), "int64"), x: R.Tensor(("m",), "float32")) \
-> R.Tuple(R.Tensor(("m",), "float32"), R.Tensor((), "int64")):
        go = R.less(i, n)
        if go:
            y = R.add(x, x)
            j = R.add(i, R.const({step}, "int64"))
            again = Module.loop(j, n, y)
            out = again
        else:
            out = (x, i)
        return out

    @R.function
    def main(x: R.Tensor(("m",), "float32"), n: R.Tensor((), "int64")) \
-> R.Tuple(R.Tensor(("m",), "float32"), R.Tensor((), "int64")):
        r = Module.loop(R.const({start}, "int64"), n, x)
        return r
"""


@pytest.mark.parametrize(
    ("start", "step", "is_kernel"), [(0, 1, True), (3, 1, True), (0, 2, False), (-2, 1, False)]
)
def test_what_counts_decides(start: int, step: int, is_kernel: bool) -> None:
    """A function in text is a loop by what it computes, and gives its counter too."""
    mod = parse(HAND_WRITTEN.format(start=start, step=step))
    loops = [f for var, f in scheduled_graph(mod).functions.items() if var.name_hint.startswith("loop")]
    assert all(isinstance(func, PrimFunc) for func in loops) == is_kernel
    for turns in (0, 4, 5):
        x = np.float32([1, -2])
        got = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())["main"](
            x, np.array(turns)
        )
        count = max(0, -(-(turns - start) // step))
        np.testing.assert_array_equal(got[0].numpy(), x * 2.0**count)
        assert int(got[1].numpy()) == start + count * step


LOOKUPS = """
m (float[r, c] table, int64[t, k] places, float[k, c] x) => (float[k, c] p, float[t, k, c] rows) {
  p, rows = Scan <num_scan_inputs = 1, body = body (float[k, c] u, int64[k] at)
      => (float[k, c] w, float[k, c] row) {
    row = Gather <axis = 0> (table, at)
    s = Sin (u)
    w = Add (s, row)
  }> (x, places)
}"""


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize(
    ("places", "wrong"), [([[0, 1], [3, -9], [7, 2]], -9), ([[0, 1], [2, 4], [-8, 5]], 4)]
)
def test_an_index_out_of_range_in_a_loop_names_its_node(
    mode: str, places: list[list[int]], wrong: int
) -> None:
    model = model_of(LOOKUPS)
    body = model.graph.node[0].attribute
    inner = next(attr.g for attr in body if attr.name == "body")
    inner.node[0].name = "look"
    executable = heddle.compile(from_onnx(model), target="llvm", exec_mode=mode)
    machine = relax.VirtualMachine(executable, heddle.cpu())
    with pytest.raises(TrapIndexError, match=f"index {wrong} is out of range for an axis of 4") as caught:
        machine["main"](np.zeros((4, 3), "float32"), np.array(places), np.zeros((2, 3), "float32"))
    assert '"look" (Gather)' in str(caught.value)


def test_turns_that_an_input_states_have_a_limit() -> None:
    """Nothing else would end a loop that collects no rows."""
    with heddle.config.limits(loop_turns=5):
        machine = relax.VirtualMachine(
            heddle.compile(from_onnx(model_of(NESTED)), target="llvm"), heddle.cpu()
        )
    machine["main"](ROWS, np.array(5))
    machine["main"](ROWS, np.array(-(2**63)))
    for turns in (6, 2**62, 2**63 - 1):
        with pytest.raises(
            Trap, match=f"would turn {turns} times, and the limit 'loop_turns' is 5"
        ) as caught:
            machine["main"](ROWS, np.array(turns))
        assert caught.value.code == "U0604"
