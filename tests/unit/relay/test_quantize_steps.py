"""Quantising step by step: each gives a program that runs, and all of them what `quantize` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.relay import quantize as steps
from heddle.relay.analysis import list_op_freqs
from heddle.relay.transform.rewriting import call
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import program, run, value

RNG = np.random.default_rng(4)
SIMULATED = "relay.op.annotation.simulated_quantize"
ALL = {"skip_conv_layers": None, "skip_dense_layer": False}


def _network(rows: Any = 2) -> IRModule:
    """Two products of one tensor, a computed weight, and a function that `main` calls."""
    c = lambda *shape: relay.const(RNG.uniform(-1, 1, shape).astype("float32"))  # noqa: E731
    x = relay.var("x", shape=(rows, 4))
    mod = program("def @double(%a: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { %a + %a }")
    y = relay.nn.relu(relay.Call(mod.get_global_var("double"), (x,)))
    both = relay.nn.dense(y, c(3, 4)) + relay.nn.dense(y, c(3, 4)) * relay.nn.dense(x, relay.tanh(c(3, 4)))
    mod["main"] = relay.Function([x], both)
    return relay.transform.InferType()(mod)


def _step(step: Any, mod: IRModule) -> IRModule:
    return step.transform(mod, None)  # type: ignore[no-any-return]


@pytest.mark.parametrize("rows", [2, relay.Any()])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("mode", ["global_scale", "max"])
def test_steps_one_by_one(rows: Any, bits: int, mode: str) -> None:
    mod, x = _network(rows), RNG.uniform(-1, 1, (2, 4)).astype("float32")
    with steps.qconfig(**ALL, calibrate_mode=mode, nbit_input=bits, nbit_weight=bits, global_scale=2.0):
        marked = _step(steps.partition(), mod)
        simulated = _step(steps.annotate(), marked)
        calibrated = steps.calibrate([{"x": x}])(simulated)
        made = _step(steps.realize(), calibrated)
        assert_structural_equal(_step(steps.annotate(), mod), simulated)
    assert list_op_freqs(marked)["annotation.cast_hint"] == 3
    assert list_op_freqs(calibrated)[SIMULATED] == 3
    counts = list_op_freqs(made)
    assert (counts["qnn.quantize"], counts["qnn.dequantize"], SIMULATED in counts) == (1, 3, False)
    wanted = run(mod, x)
    np.testing.assert_array_equal(run(marked, x), wanted)
    near = (0.05 if bits == 8 else 0.7) * np.abs(wanted).max()
    np.testing.assert_allclose(run(calibrated, x), wanted, atol=near)
    np.testing.assert_allclose(run(made, x), run(calibrated, x), rtol=1e-4, atol=1e-4)
    assert relay.parse(made.astext()) is not None and relay.parse(simulated.astext()) is not None


@pytest.mark.parametrize("shape", [(0, 3), (1,), (7, 3), (2, 5, 3)])
def test_simulated_values_are_whole_steps(shape: Any) -> None:
    x = RNG.uniform(-3, 3, shape).astype("float32")
    limits = relay.const(-4.0), relay.const(5.0)
    scales = np.array([0.5, 0.25, 1.0][-shape[-1] :], "float32")
    found = value(call(SIMULATED, relay.const(x), relay.const(scales), *limits, kind=2, axis=-1))
    rounded = np.trunc(x / scales + np.copysign(0.5, x))
    np.testing.assert_allclose(found, np.clip(rounded, -4, 5) * scales, rtol=1e-6)
    same = value(call(SIMULATED, relay.const(x), relay.const(0.5), *limits, kind=0))
    np.testing.assert_array_equal(same, x)
    with pytest.raises(HeddleError, match="rounding"):
        value(call(SIMULATED, relay.const(x), relay.const(0.5), *limits, kind=1, rounding="up"))


def test_what_eight_bits_do_not_hold_stays_simulated() -> None:
    x = relay.var("x", shape=(3,))
    wide = call(SIMULATED, x, relay.const(0.5), relay.const(-200.0), relay.const(200.0), kind=1)
    free = call(SIMULATED, x, relay.var("s", shape=()), relay.const(-8.0), relay.const(7.0), kind=1)
    itself = call(SIMULATED, x, relay.const(0.5), relay.const(-8.0), relay.const(7.0), kind=0)
    mod = relay.transform.InferType()(
        IRModule.from_expr(relay.Function([x, free.args[1]], relay.Tuple([wide, free, itself])))
    )
    assert _step(steps.realize(), mod) is mod


def test_modules_without_a_main_stay() -> None:
    mod = program("def @f(%x: float32) -> float32 { %x }")
    for step in (steps.partition(), steps.annotate(), steps.realize()):
        assert _step(step, mod) is mod


def test_what_a_context_leaves_alone() -> None:
    x = relay.var("x", shape=(1, 2, 4, 4))
    conv = relay.nn.conv2d(x, relay.const(np.ones((2, 2, 1, 1), "float32")))
    dense = relay.nn.dense(relay.nn.batch_flatten(x), relay.const(np.ones((2, 32), "float32")))
    with steps.QuantizeContext() as context:
        assert steps.quantize_context() is context
        assert [context.check_to_skip(conv) for _ in range(3)] == [True, False, False]
        assert context.check_to_skip(dense)
        context.stop_quantize()
        assert context.check_to_skip(conv)
        context.reset()
        assert context.check_to_skip(conv) and not context.check_to_skip(conv)
    assert steps.quantize_context() is not context
    with steps.qconfig(debug_enabled_ops=["nn.dense"], **ALL) as config:
        assert config.guard(dense) and not config.guard(conv)
        assert steps.quantize_context().check_to_skip(conv)
        assert not steps.quantize_context().check_to_skip(dense)


def test_kinds_have_bits_and_dtypes() -> None:
    kinds, config = steps.QAnnotateKind, steps.qconfig(nbit_weight=5)
    assert [steps.kind2str(kind) for kind in kinds] == ["identity", "input", "weight", "activation"]
    assert [config.get_nbit_by_kind(kind) for kind in (1, 2, 3)] == [8, 5, 32]
    assert [config.get_dtype_by_kind(kind) for kind in (kinds.INPUT, kinds.ACTIVATION)] == ["int8", "int32"]
    for make in (
        lambda: steps.kind2str(4),
        lambda: config.get_nbit_by_kind(0),
        lambda: config.get_dtype_by_kind(-1),
        lambda: steps.kind2str("a"),
    ):
        with pytest.raises(HeddleError, match="Q0101"):
            make()
