"""relay.quantize: networks keep what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.graph import calibration
from heddle.ir.module import IRModule
from heddle.relax.transform.contract_quantized import ContractQuantized
from heddle.relay.analysis import list_op_freqs
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain

CLASSES = 10


def weights(rng: Any, *shape: int) -> Any:
    fan = int(np.prod(shape[1:]))
    return relay.const((rng.standard_normal(shape) * (2 / fan) ** 0.5).astype("float32"))


def _normed(rng: Any, x: Any, channels: int) -> Any:
    vectors = [rng.uniform(0.5, 1.5, channels), rng.normal(0, 0.3, channels), rng.normal(0, 0.3, channels)]
    spread = rng.uniform(0.5, 1.5, channels)
    given = [relay.const(each.astype("float32")) for each in (*vectors, spread)]
    return relay.nn.batch_norm(x, *given)[0]


def _conv(
    rng: Any, x: Any, inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1
) -> Any:
    weight = weights(rng, outputs, inputs // groups, size, size)
    found = relay.nn.conv2d(
        x, weight, strides=(stride, stride), padding=(size // 2, size // 2), groups=groups,
        channels=outputs, kernel_size=(size, size),
    )  # fmt: skip
    return _normed(rng, found, outputs)


def _pooled(x: Any) -> Any:
    return relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x))


def resnet_like(rng: Any, x: Any) -> Any:
    x = relay.nn.relu(_conv(rng, x, 3, 16))
    for outputs, stride in ((16, 1), (32, 2)):
        inner = relay.nn.relu(_conv(rng, x, 16, outputs, stride=stride))
        inner = _conv(rng, inner, outputs, outputs)
        x = inner + (x if stride == 1 else _conv(rng, x, 16, outputs, 1, stride))
        x = relay.nn.relu(x)
    return _pooled(x)


def mobilenet_like(rng: Any, x: Any) -> Any:
    x = relay.clip(_conv(rng, x, 3, 16, stride=2), 0.0, 6.0)
    for _ in range(2):
        inner = relay.clip(_conv(rng, x, 16, 48, 1), 0.0, 6.0)
        inner = relay.clip(_conv(rng, inner, 48, 48, groups=48), 0.0, 6.0)
        x = x + _conv(rng, inner, 48, 16, 1)
    return _pooled(x)


def mlp(rng: Any, x: Any) -> Any:
    x = relay.nn.batch_flatten(x)
    for inputs, outputs in ((3 * 16 * 16, 128), (128, 64)):
        x = relay.nn.relu(relay.nn.dense(x, weights(rng, outputs, inputs), units=outputs))
    return x


NETWORKS = {"resnet": resnet_like, "mobilenet": mobilenet_like, "mlp": mlp}


def network(name: str, seed: int = 3) -> tuple[IRModule, Any]:
    """A network with random weights, and a maker of batches of images of 10 kinds.

    Its last layer tells the kinds apart by the features' means: a class is more than noise."""
    rng = np.random.default_rng(seed)
    x = relay.var("x", shape=(64, 3, 16, 16))
    features = NETWORKS[name](rng, x)
    kinds = rng.standard_normal((CLASSES, 3, 4, 4)).repeat(4, 2).repeat(4, 3)

    def images(labels: Any) -> Any:
        return (kinds[labels] + 0.5 * rng.standard_normal((64, 3, 16, 16))).astype("float32")

    run = relay.create_executor("vm", IRModule.from_expr(relay.Function([x], features))).evaluate()
    means = np.stack([plain(run(images(np.full(64, kind)))).mean(0) for kind in range(CLASSES)])
    center = means.mean(0)
    weight = relay.const((means - center).astype("float32"))
    bias = relay.const((-((means**2).sum(1) - (center**2).sum()) / 2).astype("float32"))
    logits = relay.nn.bias_add(relay.nn.dense(features, weight, units=CLASSES), bias)
    return IRModule.from_expr(relay.Function([x], logits)), lambda: images(rng.integers(0, CLASSES, 64))


@pytest.mark.parametrize("mode", ["max", "percentile", "kl_divergence"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_their_floats(name: str, mode: str) -> None:
    mod, images = network(name)
    config = relay.quantize.qconfig(
        calibrate_mode=mode, weight_scale="max", skip_dense_layer=False, skip_conv_layers=None
    )
    with config:
        made = relay.quantize.quantize(mod, dataset=[{"x": images()} for _ in range(4)])
    counts = list_op_freqs(made)
    assert counts["qnn.quantize"] > 2 and counts["qnn.dequantize"] > counts["qnn.quantize"]
    before, after = (relay.create_executor("vm", each).evaluate() for each in (mod, made))
    same = total = 0
    for _ in range(8):
        batch = images()
        wanted, found = plain(before(batch)), plain(after(batch))
        same += int((wanted.argmax(1) == found.argmax(1)).sum())
        total += len(wanted)
    assert same / total >= 0.99


def small(outputs: int = 8) -> tuple[IRModule, Any]:
    rng = np.random.default_rng(1)
    x = relay.var("x", shape=(1, 4, 6, 6))
    first = relay.nn.conv2d(x, weights(rng, 8, 4, 3, 3), channels=8, kernel_size=(3, 3))
    second = relay.nn.conv2d(
        relay.nn.relu(first), weights(rng, outputs, 8, 3, 3), channels=outputs, kernel_size=(3, 3)
    )
    flat = relay.nn.batch_flatten(second)
    body = relay.nn.dense(flat, weights(rng, 5, 4 * outputs), units=5)
    return IRModule.from_expr(relay.Function([x], body)), rng.standard_normal((1, 4, 6, 6)).astype("float32")


def test_by_default_the_first_convolution_and_dense_products_stay() -> None:
    mod, _ = small()
    counts = list_op_freqs(relay.quantize.quantize(mod))
    assert (counts["qnn.quantize"], counts["qnn.dequantize"]) == (1, 2)
    with relay.quantize.qconfig(skip_conv_layers=[0, 1]):
        assert "qnn.quantize" not in list_op_freqs(relay.quantize.quantize(mod))
    assert relay.quantize.current_qconfig().skip_conv_layers == (0,)


@pytest.mark.parametrize("weight_scale", ["max", "power2"])
@pytest.mark.parametrize("bits", [8, 6])
def test_simulation_is_what_integers_do(weight_scale: str, bits: int) -> None:
    mod, data = small()
    found = []
    for do_simulation in (False, True):
        with relay.quantize.qconfig(
            calibrate_mode="max",
            weight_scale=weight_scale,
            nbit_input=bits,
            nbit_weight=bits,
            do_simulation=do_simulation,
            skip_conv_layers=[],
            skip_dense_layer=False,
            calibrate_chunk_by=1,
        ):
            made = relay.quantize.quantize(mod, dataset=[{"x": data}])
        assert relay.parse(made.astext()) is not None
        found.append(plain(relay.create_executor("vm", made).evaluate()(data)))
    wanted = plain(relay.create_executor("vm", mod).evaluate()(data))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    assert np.abs(found[0] - wanted).max() < (0.06 if bits == 8 else 0.25) * np.abs(wanted).max()


def test_products_of_a_quantised_network_are_those_of_integers() -> None:
    mod, data = small()
    with relay.quantize.qconfig(skip_conv_layers=[], skip_dense_layer=False, calibrate_mode="max"):
        made = relay.quantize.quantize(mod, dataset=[{"x": data}])
    text = ContractQuantized()(relay.to_relax(made)).script()
    assert text.count('out_dtype="int32"') == 2  # and that to 5 columns is of whole numbers in float32


def test_wrong_settings() -> None:
    mod, _ = small()
    for words, settings in (
        ("'calibrate_mode' of qconfig", {"calibrate_mode": "best"}),
        ("'weight_scale' of qconfig", {"weight_scale": "min"}),
        ("no setting", {"nbits": 8}),
        ("'nbit_input' of qconfig", {"nbit_input": 16}),
        ("int8", {"dtype_input": "uint8"}),
    ):
        with pytest.raises(HeddleError, match=words) as raised:
            relay.quantize.qconfig(**settings)
        assert isinstance(raised.value, ValueError)
    with relay.quantize.qconfig(calibrate_mode="max"), pytest.raises(HeddleError, match="needs a dataset"):
        relay.quantize.quantize(mod)


def test_ranges_of_samples() -> None:
    rng = np.random.default_rng(0)
    none, zeros = np.zeros(0, "float32"), np.zeros(5, "float32")
    for rule in (calibration.largest, calibration.percentile, calibration.divergence):
        assert rule(none) == rule(zeros) == 0
        assert rule(-np.ones(4, "float32")) == pytest.approx(1)
    normal = rng.standard_normal(200_000).astype("float32")
    outlier = np.append(normal, np.float32(100))
    assert calibration.largest(outlier) == 100
    assert calibration.percentile(outlier) < 6
    assert calibration.divergence(outlier) < 20
    assert calibration.divergence(rng.uniform(-1, 1, 200_000)) > 0.9
    assert calibration.divergence(np.clip(normal, 0, 1)) == pytest.approx(1)
