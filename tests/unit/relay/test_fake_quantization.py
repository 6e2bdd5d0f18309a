"""Floats between quantised values become integers, within one step of the scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir import TensorAffineType
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.op_attrs import register_fake_quantization_to_integer, reset_op_attr
from heddle.support.diagnostics import UsageError
from tests.unit.relay.programs import plain, run

QNN = relay.qnn.op
KEY = "FTVMFakeQuantizationToInteger"


def _f(value: Any) -> Any:
    return relay.const(np.asarray(value, "float32"))


def _i(value: Any) -> Any:
    return relay.const(np.asarray(value, "int32"))


def _data(name: str, shape: tuple[int, ...], dtype: str = "int8", scale: Any = 0.05, zero: int = 3) -> Any:
    var = relay.var(name, shape=shape, dtype=dtype)
    axis = 0 if np.ndim(scale) else -1
    return var, QNN.dequantize(var, _f(scale), _i(zero), axis=axis)


def _weight(shape: tuple[int, ...], scale: Any = 0.02) -> Any:
    value = np.random.default_rng().integers(-127, 127, shape, "int8")
    return QNN.dequantize(relay.const(value), _f(scale), _i(np.zeros(np.shape(scale))), axis=0)


def _closed(inputs: list[Any], value: Any, scale: float = 0.1, zero: int = -4, dtype: str = "int8") -> Any:
    made = QNN.quantize(value, _f(scale), _i(zero), out_dtype=dtype)
    return passes.InferType()(relay_module(relay.Function(inputs, made)))


def relay_module(func: Any) -> Any:
    from heddle import IRModule

    return IRModule.from_expr(func)


def _two(op: Any, dtype: str = "int8") -> Any:
    x, a = _data("x", (2, 3), dtype)
    y, b = _data("y", (2, 3), dtype, 0.03, -2)
    return _closed([x, y], op(a, b), dtype=dtype)


def _one(op: Any, shape: tuple[int, ...] = (2, 4, 6, 6), **ends: Any) -> Any:
    x, a = _data("x", shape)
    return _closed([x], op(a), **ends)


def _split(a: Any) -> Any:
    parts = relay.split(a, 2, axis=1)
    return relay.concatenate([parts[1], parts[0]], axis=1)


PROGRAMS = {
    "relu": lambda: _one(relay.nn.relu),
    "clip": lambda: _one(lambda a: relay.clip(a, -1.0, 2.0)),
    "moves": lambda: _one(lambda a: relay.reshape(relay.transpose(a), newshape=(6, -1))),
    "max pool": lambda: _one(lambda a: relay.nn.max_pool2d(a, (3, 3), padding=(1, 1))),
    "avg pool": lambda: _one(lambda a: relay.nn.avg_pool2d(a, (2, 2), strides=(2, 2))),
    "global pool": lambda: _one(relay.nn.global_avg_pool2d, scale=0.01),
    "global pool of NHWC": lambda: _one(lambda a: relay.nn.global_avg_pool2d(a, layout="NHWC"), scale=0.01),
    "mean": lambda: _one(lambda a: relay.mean(a, axis=[1, 2]), scale=0.01),
    "sum": lambda: _one(lambda a: relay.sum(a, axis=[1], keepdims=True), scale=0.5),
    "pad": lambda: _one(lambda a: relay.nn.pad(a, ((0, 0), (0, 0), (1, 2), (1, 0)), 1.5)),
    "split": lambda: _one(_split),
    "tanh": lambda: _one(relay.tanh, scale=0.01),
    "sigmoid": lambda: _one(relay.sigmoid, scale=0.01),
    "leaky": lambda: _one(lambda a: relay.nn.leaky_relu(a, 0.25)),
    "add": lambda: _two(relay.add),
    "add of uint8": lambda: _two(relay.add, "uint8"),
    "subtract": lambda: _two(relay.subtract),
    "multiply": lambda: _two(relay.multiply),
    "greatest": lambda: _two(relay.maximum),
    "least": lambda: _two(relay.minimum),
    "a constant": lambda: _one(lambda a: relay.add(a, _f([[1.0], [2.5], [-1.0], [0.5]])), (2, 4, 3)),
    "all at once": lambda: _two(lambda a, b: relay.concatenate([a, b], axis=1)),
    "no operator": lambda: _one(lambda a: a),
    "dense": lambda: _one(lambda a: relay.nn.dense(a, _weight((5, 7))), (2, 7), scale=0.3),
    "dense with a bias": lambda: _one(
        lambda a: relay.nn.relu(relay.nn.bias_add(relay.nn.dense(a, _weight((5, 7))), _f(np.arange(5)))),
        (2, 7),
        scale=0.3,
    ),
    "dense by channels": lambda: _one(
        lambda a: relay.nn.bias_add(relay.nn.dense(a, _weight((3, 7), [0.01, 0.02, 0.03])), _f(np.ones(3))),
        (2, 7),
        scale=0.3,
    ),
    "conv": lambda: _one(
        lambda a: relay.nn.relu(relay.nn.conv2d(a, _weight((3, 4, 3, 3)), padding=(1, 1))), scale=0.5
    ),
    "conv by channels": lambda: _one(
        lambda a: relay.nn.relu(
            relay.nn.bias_add(relay.nn.conv2d(a, _weight((3, 4, 3, 3), [0.01, 0.02, 0.03])), _f(np.ones(3)))
        ),
        scale=0.5,
    ),
}


def _inputs(mod: Any) -> list[Any]:
    make = np.random.default_rng()
    ends = [np.iinfo(str(p.ty.dtype)) for p in mod["main"].params]
    sizes = [[d.value for d in p.ty.dims] for p in mod["main"].params]
    return [make.integers(e.min, e.max, n, str(e.dtype), True) for e, n in zip(ends, sizes, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_stay_within_a_step(name: str) -> None:
    mod = PROGRAMS[name]()
    made = passes.FakeQuantizationToInteger(hard_fail=True)(mod)
    names = relay.analysis.list_op_freqs(made)
    assert "qnn.dequantize" not in {key for key in names if names[key]}
    assert_structural_equal(relay.parse(made.astext()), made)
    assert passes.FakeQuantizationToInteger()(made) is made
    args = _inputs(mod)
    wanted = run(mod, *args)
    for found in (run(made, *args), plain(relay.create_executor("vm", made).evaluate()(*args))):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert np.abs(found.astype("int32") - wanted.astype("int32")).max() <= 1


def test_what_has_no_rule_stays() -> None:
    for op in (relay.cumsum, relay.nn.softmax):
        mod = _one(op, (2, 4))
        assert passes.FakeQuantizationToInteger()(mod) is mod
        with pytest.raises(UsageError, match="Q0502"):
            passes.FakeQuantizationToInteger(hard_fail=True)(mod)
    x = relay.var("x", shape=(2, 4))
    _, a = _data("y", (2, 4))
    mod = _closed([x, _], relay.add(a, x))
    assert passes.FakeQuantizationToInteger()(mod) is mod


def test_softmax_is_asked_for() -> None:
    mod = _one(relay.nn.softmax, (2, 4), scale=1 / 256, zero=-128)
    made = passes.FakeQuantizationToInteger(True, optional_qnn_ops=("nn.softmax",))(mod)
    assert "qnn.softmax" in relay.analysis.list_op_freqs(made)
    args = _inputs(mod)
    assert np.abs(run(made, *args).astype(int) - run(mod, *args).astype(int)).max() <= 2


def test_users_register_rules() -> None:
    def rule(expr: Any, types: Any) -> Any:
        of = types[expr.args[0]]
        assert isinstance(of, TensorAffineType) and types[expr].dtype == "int8"
        return [relay.reverse(expr.args[0], axis=0), of]

    register_fake_quantization_to_integer("cumsum", rule)
    try:
        made = passes.FakeQuantizationToInteger(True)(_one(lambda a: relay.cumsum(a, axis=0), (2, 4)))
        assert "reverse" in relay.analysis.list_op_freqs(made)
    finally:
        reset_op_attr("cumsum", KEY)


def test_operators_that_give_floats() -> None:
    x, a = _data("x", (2, 7))
    mod = passes.InferType()(relay_module(relay.Function([x], relay.exp(relay.nn.dense(a, _weight((5, 7)))))))
    assert passes.FakeQuantizationToInteger()(mod) is mod
    made = passes.FakeQuantizationToInteger(use_qat=True)(mod)
    assert "qnn.dense" in relay.analysis.list_op_freqs(made)
    args = [np.random.default_rng().integers(-20, 20, (2, 7), "int8")]
    np.testing.assert_allclose(run(made, *args), run(mod, *args), rtol=1e-4)
