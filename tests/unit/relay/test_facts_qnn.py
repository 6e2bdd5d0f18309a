"""Quantised operators and `quantize`, by the numbered facts that users' programs rely on and no other test
states."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import heddle as tvm
from heddle import relay
from heddle.relay.qnn import op as qnn
from heddle.relay.quantize import qconfig, quantize
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, run

_UNARY = "x scale zero_point output_scale output_zero_point"
_BINARY = (
    "lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point output_scale output_zero_point "
    "lhs_axis=-1 rhs_axis=-1"
)
SIGNATURES = {
    "requantize": "data input_scale input_zero_point output_scale output_zero_point axis=-1 rounding='None' "
    "compute_dtype='None' out_dtype='int8'",
    "quantize": "data output_scale output_zero_point axis=-1 out_dtype='int8'",
    "dequantize": "data input_scale input_zero_point axis=-1 out_dtype='float32'",
    "simulated_quantize": "data output_scale output_zero_point axis=-1 out_dtype='int8'",
    "simulated_dequantize": "data input_scale input_zero_point axis=-1 in_dtype='int8'",
    "concatenate": "data input_scales input_zero_points output_scale output_zero_point axis",
    "dense": "data weight input_zero_point kernel_zero_point input_scale kernel_scale units "
    "out_dtype='int32'",
    "batch_matmul": "x y x_zero_point y_zero_point x_scale y_scale out_dtype='int32'",
    "conv2d": "data kernel input_zero_point kernel_zero_point input_scale kernel_scale kernel_size channels "
    "strides padding dilation groups=1 data_layout='NCHW' kernel_layout='OIHW' out_layout='' "
    "out_dtype='int32'",
    "leaky_relu": "x alpha input_scale input_zero_point output_scale output_zero_point",
    "softmax": f"{_UNARY} axis=-1",
    "avg_pool2d": "data input_scale input_zero_point output_scale output_zero_point pool_size strides "
    "padding dilation ceil_mode=False count_include_pad=True layout='NHWC'",
    **dict.fromkeys(("add", "subtract", "mul"), _BINARY),
    **dict.fromkeys(("tanh", "exp", "sqrt", "rsqrt", "erf", "abs", "sigmoid", "hardswish", "log"), _UNARY),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_9_1_parameters(name: str) -> None:
    """In this order; a default where the facts state one."""
    found = [*inspect.signature(getattr(qnn, name)).parameters.values()]
    wanted = [part.partition("=")[::2] for part in SIGNATURES[name].split()]
    assert [each.name for each in found][: len(wanted)] == [word for word, _ in wanted]
    for each, (_, default) in zip(found, wanted, strict=False):
        assert not default or repr(each.default) == default


def const(value: Any, dtype: str | None = None) -> Any:
    return relay.const(value, dtype)


def value(expr: Any) -> Any:
    return run(tvm.IRModule.from_expr(relay.Function([], expr)))


def test_9_2_scales_are_floats_and_zero_points_integers() -> None:
    data = const(np.array([[3, -4], [5, 6]], "int8"))
    scales, zeros = np.array([0.5, 2.0], "float32"), np.array([1, -1], "int32")
    found = value(qnn.dequantize(data, const(scales), const(zeros), axis=1))
    np.testing.assert_array_equal(found, (data.data.numpy() - zeros) * scales)
    for scale in (const(np.ones(3, "float32")), const(np.ones((2, 2), "float32"))):
        with pytest.raises((TypeError, HeddleError)):
            value(qnn.dequantize(data, scale, const(0), axis=1))


def test_9_6_what_requantize_refuses() -> None:
    data = const(np.ones(3, "int32"))
    for options in ({"rounding": "DOWN"}, {"compute_dtype": "int8"}):
        with pytest.raises(HeddleError):
            value(qnn.requantize(data, const(1.0), const(0), const(1.0), const(0), **options))
    nothing = qnn.requantize(data, const(1.0), const(0), const(0.0), const(0))
    with pytest.raises(HeddleError, match="scale of the result is 0"):
        relay.vm.compile(tvm.IRModule.from_expr(relay.Function([], nothing)))
    for options in ({"rounding": "DOWN"}, {"compute_dtype": "int8"}):
        with pytest.raises(HeddleError), qnn.requantize_config(**options):
            pass


def test_9_9_what_calls_become_is_done_when_a_program_is_built() -> None:
    x, w = relay.var("x", shape=(3, 8), dtype="int8"), relay.var("w", shape=(5, 8), dtype="int8")
    product = qnn.dense(x, w, const(3), const(-2), const(0.1), const(0.2), 5)
    body = qnn.requantize(product, const(0.02), const(0), const(1.5), const(4))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], body)))
    steps = tvm.transform.Sequential([relay.qnn.transform.Legalize(), relay.qnn.transform.CanonicalizeOps()])
    plain = steps(mod)
    assert not any(name.startswith("qnn.") for name in relay.analysis.list_op_freqs(plain))
    rng = np.random.default_rng()
    a, b = (rng.integers(-128, 128, shape).astype("int8") for shape in ((3, 8), (5, 8)))
    sums = (a.astype("int64") - 3) @ (b.astype("int64") + 2).T
    wanted = np.clip(np.floor(sums * float(np.float32(0.02)) / 1.5 + 0.5) + 4, -128, 127)
    for made in (mod, plain):
        for kind in ("debug", "graph", "vm", "aot"):
            found = relay.create_executor(kind, made).evaluate()(a, b).numpy()
            assert found.dtype == np.int8 and np.abs(found - wanted).max() <= 1
    np.testing.assert_array_equal(run(plain, a, b), run(mod, a, b))


# ---- quantize

DEFAULTS = {
    "nbit_input": 8,
    "nbit_weight": 8,
    "nbit_activation": 32,
    "dtype_input": "int8",
    "dtype_weight": "int8",
    "dtype_activation": "int32",
    "calibrate_mode": "global_scale",
    "global_scale": 8.0,
    "weight_scale": "power2",
    "skip_dense_layer": True,
    "skip_conv_layers": [0],
    "do_simulation": False,
    "round_for_shift": True,
    "debug_enabled_ops": None,
    "rounding": "UPWARD",
    "calibrate_chunk_by": -1,
    "partition_conversions": "disabled",
}


def net() -> tuple[Any, Any]:
    """Two products, and data in which the samples for ranges lie as well."""
    x = relay.var("x", shape=(50, 8))
    y = relay.nn.relu(relay.nn.dense(x, relay.const(floats(16, 8) / 4)))
    body = relay.nn.dense(y, relay.const(floats(4, 16) / 4))
    return tvm.IRModule.from_expr(relay.Function([x], body)), floats(50, 8)


def test_9_10_settings_have_the_defaults() -> None:
    found = qconfig()
    for name, wanted in DEFAULTS.items():
        given = getattr(found, name)
        assert (list(given) if isinstance(given, tuple) else given) == wanted
    with qconfig(**DEFAULTS) as given:
        assert given.global_scale == 8.0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rounding", "TONEAREST"),
        ("rounding", "DOWN"),
        ("round_for_shift", False),
        ("partition_conversions", "enabled"),
        ("partition_conversions", "fully_integral"),
        ("calibrate_mode", "best"),
        ("weight_scale", "log"),
        ("dtype_input", "uint8"),
        ("dtype_activation", "int16"),
        ("nbit_activation", 16),
        ("nbit_input", 9),
        ("unknown", 1),
    ],
)
def test_9_10_settings_that_nothing_reads_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"(I0508|Q0101).*{name}"):
        qconfig(**{name: wrong})


@pytest.mark.parametrize("mode", ["global_scale", "kl_divergence", "percentile"])
@pytest.mark.parametrize("scale", ["power2", "max"])
def test_9_10_quantised_networks(mode: str, scale: str) -> None:
    mod, given = net()
    wanted = run(mod, given)
    data = [{"x": given}] if mode != "global_scale" else None
    settings = {"calibrate_mode": mode, "weight_scale": scale, "skip_dense_layer": False}
    with qconfig(**settings):
        made = quantize(mod, dataset=data)
    assert any(name.startswith("qnn.") for name in relay.analysis.list_op_freqs(made))
    assert np.abs(run(made, given) - wanted).mean() < 0.1 * np.abs(wanted).mean()
    with qconfig(**settings, do_simulation=True):
        simulated = quantize(mod, dataset=data)
    names = relay.analysis.list_op_freqs(simulated)
    assert any("simulated_quantize" in name for name in names)
    assert not any(name.startswith("qnn.") for name in names)
    with qconfig(skip_dense_layer=True):
        left = quantize(mod)
    np.testing.assert_allclose(run(left, given), wanted, rtol=1e-5, atol=1e-5)


def test_9_10_weights_of_power2_have_steps_of_a_power_of_two() -> None:
    weight = np.array([[0.3, -1.7], [0.0, 0.0], [4.0, 0.1]], "float32")
    x = relay.var("x", shape=(1, 2))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weight))))
    with qconfig(skip_dense_layer=False, do_simulation=True, weight_scale="power2"):
        made = quantize(mod)
    dense = made["main"].body
    scale = dense.args[1].args[1].data.numpy()
    np.testing.assert_array_equal(np.ravel(scale) * 128, [2.0, 1.0, 4.0])
