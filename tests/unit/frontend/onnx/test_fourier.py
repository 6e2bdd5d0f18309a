"""DFT with known and with free sizes: numpy's transforms."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, parser

from tests.unit.frontend.onnx.runtime_oracle import Compared


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
@pytest.mark.parametrize("length", [None, 7, 16])
@pytest.mark.parametrize(
    ("parts", "inverse", "onesided"), [(1, 0, 0), (2, 0, 0), (1, 0, 1), (1, 1, 0), (2, 1, 0)]
)
def test_transforms(parts, inverse, onesided, length, is_free):
    for size in (1, 2, 13, 16):
        form = f"b, t, {parts}" if is_free else f"3, {size}, {parts}"
        given = "" if length is None else f"length = Constant<value=int64 {{{length}}}>()"
        graph = parser.parse_graph(
            f"row (float[{form}] x) => (y) {{ {given} axis = Constant<value=int64 {{1}}>() "
            f"y = DFT<inverse={inverse}, onesided={onesided}>(x, {'length' if length else ''}, axis) }}"
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        x = np.random.default_rng().standard_normal((3, size, parts)).astype("float32")
        numbers = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        count = length or size
        wanted = (np.fft.ifft if inverse else np.fft.fft)(numbers, count, axis=1)
        wanted = wanted[:, : count // 2 + 1] if onesided else wanted
        pairs = np.stack([wanted.real, wanted.imag], -1).astype("float32")
        for machine in Compared(model).machines:
            np.testing.assert_allclose(machine["main"](x).numpy(), pairs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dims", ["b, t", "3, 40", "b, t, 1"])
@pytest.mark.parametrize("window", [True, False])
def test_frames_of_a_real_signal(dims, window):
    """`torch.stft` is exported without the last axis."""
    inputs = f"float[{dims}] x, float[16] w" if window else f"float[{dims}] x"
    graph = parser.parse_graph(
        f"row ({inputs}) => (y) {{ step = Constant<value=int64 {{4}}>() "
        f"length = Constant<value=int64 {{16}}>() y = STFT(x, step, {'w' if window else ', length'}) }}"
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    rng = np.random.default_rng()
    x, weights = rng.standard_normal((3, 40)).astype("float32"), rng.random(16).astype("float32")
    frames = np.lib.stride_tricks.sliding_window_view(x, 16, axis=1)[:, ::4]
    wanted = np.fft.rfft(frames * (weights if window else 1), axis=-1)
    pairs = np.stack([wanted.real, wanted.imag], -1).astype("float32")
    signal = x[..., None] if dims.count(",") == 2 else x
    for machine in Compared(model).machines:
        found = machine["main"](signal, *([weights] if window else [])).numpy()
        np.testing.assert_allclose(found, pairs, rtol=1e-4, atol=1e-4)
