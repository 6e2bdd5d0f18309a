"""LSTM, GRU and RNN against ONNX Runtime: directions, states, peepholes, lengths, layouts of random sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import heddle
from heddle import relax
from heddle.driver.opt import OptOptions, run_passes
from heddle.frontend.onnx import from_onnx
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.target import Target
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import For, IfThenElse, PrimFunc

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUT, HIDDEN = 7, 3, 5, 6


def case(
    kind: str,
    direction: str,
    lengths: list[int] | None,
    with_states: bool,
    attrs: dict[str, Any] | None = None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rng = np.random.default_rng(len(kind) + len(direction))
    ways, rows = (2 if direction == "bidirectional" else 1), GATES[kind] * HIDDEN
    arrays = {
        "x": rng.standard_normal((STEPS, BATCH, INPUT)),
        "w": rng.standard_normal((ways, rows, INPUT)) * 0.3,
        "r": rng.standard_normal((ways, rows, HIDDEN)) * 0.3,
        "b": rng.standard_normal((ways, 2 * rows)) * 0.3,
    }
    names = ["x", "w", "r", "b", "", ""]
    if with_states:
        arrays["h"] = rng.standard_normal((ways, BATCH, HIDDEN))
        names[5] = "h"
        if kind == "LSTM":
            arrays["c"] = rng.standard_normal((ways, BATCH, HIDDEN))
            arrays["p"] = rng.standard_normal((ways, 3 * HIDDEN)) * 0.3
            names += ["c", "p"]
    feed = {name: array.astype(np.float32) for name, array in arrays.items()}
    if lengths is not None:
        feed["lengths"], names[4] = np.array(lengths, np.int32), "lengths"
    outputs = ["y", "y_h", *(["y_c"] if kind == "LSTM" else [])]
    node = helper.make_node(kind, names, outputs, direction=direction, hidden_size=HIDDEN, **(attrs or {}))
    constants = [
        onnx.numpy_helper.from_array(feed[name], name) for name in ("w", "r", "b", "p") if name in feed
    ]
    inputs = {name: array for name, array in feed.items() if name not in ("w", "r", "b", "p")}
    infos = [
        helper.make_tensor_value_info(
            name, TensorProto.INT32 if name == "lengths" else TensorProto.FLOAT, array.shape
        )
        for name, array in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "recurrent", infos, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), inputs


def check(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    machine = relax.VirtualMachine(heddle.compile(from_onnx(model), target="llvm"), heddle.cpu())
    got = machine["main"](*feed.values())
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.numpy().shape == theirs.shape
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_different_lengths(kind: str, direction: str) -> None:
    check(*case(kind, direction, [7, 2, 5], with_states=True))


@pytest.mark.parametrize("kind", GATES)
def test_without_lengths_and_states(kind: str) -> None:
    check(*case(kind, "bidirectional", None, with_states=False))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_one_program_takes_any_lengths(kind: str) -> None:
    model, feed = case(kind, "reverse", [7, 7, 7], with_states=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    machine = relax.VirtualMachine(heddle.compile(from_onnx(model), target="llvm"), heddle.cpu())
    for lengths in ([7, 7, 7], [1, 2, 3], [1, 1, 1]):
        feed["lengths"] = np.array(lengths, np.int32)
        got, expected = machine["main"](*feed.values()), session.run(None, feed)
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_gru_that_resets_after_its_product(direction: str) -> None:
    check(*case("GRU", direction, [3, 7, 1], with_states=True, attrs={"linear_before_reset": 1}))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_steps_behind_the_longest_sequence_are_zero_and_not_run(
    kind: str, direction: str, exec_mode: str
) -> None:
    model, feed = case(kind, direction, [2, 0, 3], with_states=True)
    ways = 2 if direction == "bidirectional" else 1
    machine = relax.VirtualMachine(
        heddle.compile(from_onnx(model), target="llvm", exec_mode=exec_mode), heddle.cpu()
    )
    for lengths in ([2, 0, 3], [0, 0, 0], [7, 7, 7]):
        feed["lengths"] = np.array(lengths, np.int32)
        got = [item.numpy() for item in machine["main"](*feed.values())]
        assert not got[0][max(lengths) :].any()
        if min(lengths):
            expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
            for mine, theirs in zip(got, expected, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
        states = got[1][:, np.array(lengths) == 0]
        np.testing.assert_array_equal(states, feed["h"][:, np.array(lengths) == 0])
        profile = machine.profile("main", *feed.values())
        loops = [call for call in profile.calls if call.name.startswith("loop_y")]
        turns = [int(call.argument_text.split(", ")[-1]) for call in loops for _ in range(call.count)]
        assert turns == [max(lengths)] * ways


def test_clipped_gates() -> None:
    check(*case("LSTM", "forward", [3, 7, 6], with_states=True, attrs={"clip": 0.5}))


def of_any_batch(kind: str, hidden: int, with_lengths: bool) -> onnx.ModelProto:
    rng, rows = np.random.default_rng(hidden), GATES[kind] * hidden
    constants = [
        onnx.numpy_helper.from_array((0.3 * rng.standard_normal(shape)).astype("float32"), name)
        for name, shape in (("w", (2, rows, INPUT)), ("r", (2, rows, hidden)), ("b", (2, 2 * rows)))
    ]
    names = ["x", "w", "r", "b", "lengths" if with_lengths else "", "h"]
    node = helper.make_node(kind, names, ["y", "y_h"], direction="bidirectional", hidden_size=hidden)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", INPUT]),
        helper.make_tensor_value_info("h", TensorProto.FLOAT, [2, "batch", hidden]),
    ]
    if with_lengths:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "y_h")]
    graph = helper.make_graph([node], "recurrent", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("hidden", [6, 64])
@pytest.mark.parametrize("kind", GATES)
def test_one_program_takes_any_batch(kind: str, hidden: int, with_lengths: bool) -> None:
    """One of them has turns of their own."""
    model = of_any_batch(kind, hidden, with_lengths)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    machines = [
        relax.VirtualMachine(heddle.compile(from_onnx(model), exec_mode=mode), heddle.cpu())
        for mode in ("compiled", "bytecode")
    ]
    rng, before = np.random.default_rng(), native_library().num_threads
    for batch in (1, 2, 7):
        feed = {
            "x": rng.standard_normal((9, batch, INPUT)).astype("float32"),
            "h": rng.standard_normal((2, batch, hidden)).astype("float32"),
        }
        if with_lengths:
            feed["lengths"] = rng.integers(1, 10, batch).astype("int32")
        expected = session.run(None, feed)
        for machine in machines:
            for threads in (1, 2):
                set_num_threads(threads)
                for mine, theirs in zip(machine["main"](*feed.values()), expected, strict=True):
                    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-5)
    set_num_threads(before)


@pytest.mark.parametrize("kind", GATES)
def test_turns_of_one_row_are_their_own(kind: str) -> None:
    mod = from_onnx(of_any_batch(kind, 64, False))
    optimized = run_passes(mod, OptOptions(pipeline="optimize", target=Target("llvm")))
    mod = run_passes(optimized, OptOptions(pipeline="legalize", target=Target("llvm")))
    loops = [func for var, func in mod.functions.items() if var.name_hint.startswith("loop_")]
    assert len(loops) == 2  # forward and backward
    for func in loops:
        assert isinstance(func, PrimFunc)
        choices = [node for node in walk_stmts(func.body) if isinstance(node, IfThenElse)]
        assert str(choices[0].condition).endswith("== 1")
        for turns in (choices[0].then_case, choices[0].else_case):
            assert isinstance(turns, For) and str(turns.extent) == "turns"
