"""Rows of transforms of signals and of loss functions."""

from __future__ import annotations

from benchmarks.onnx_ops.case import Case, Weight, below, integer, scalar, uniform

_LOSS = "float[n,k] x, int64[n] t"
_SMALL_LOSS = {"n": 16, "k": 10}
_LARGE_LOSS = {"n": 4096, "k": 1000}

SIGNALS: tuple[Case, ...] = (
    Case(
        "DFT",
        "float[b,t,1] x",
        "y = DFT<onesided=1>(x, , axis)",
        {"b": 1, "t": 256},
        {"b": 64, "t": 1024},
        form="onesided",
        weights={"axis": integer(1)},
        fills={"x": uniform(-1, 1)},
    ),
    Case(
        "DFT",
        "float[b,t,2] x",
        "y = DFT(x, , axis)",
        {"b": 1, "t": 400},
        {"b": 64, "t": 400},
        form="400 points",
        weights={"axis": integer(1)},
        fills={"x": uniform(-1, 1)},
    ),
    Case(
        "STFT",
        "float[b,t,1] x",
        "y = STFT(x, step, window)",
        {"b": 1, "t": 1024},
        {"b": 1, "t": 32_000},
        weights={"step": integer(128), "window": Weight((256,), fill=uniform(0, 1))},
    ),
    Case(
        "BlackmanWindow",
        "int64 n",
        "y = BlackmanWindow(n)",
        {"t": 256},
        {"t": 16_384},
        fills={"n": lambda rng, shape, sizes: rng.integers(sizes["t"], sizes["t"] + 1, shape)},
    ),
    Case(
        "HammingWindow",
        "int64 n",
        "y = HammingWindow(n)",
        {"t": 256},
        {"t": 16_384},
        fills={"n": lambda rng, shape, sizes: rng.integers(sizes["t"], sizes["t"] + 1, shape)},
    ),
    Case(
        "HannWindow",
        "int64 n",
        "y = HannWindow(n)",
        {"t": 256},
        {"t": 16_384},
        fills={"n": lambda rng, shape, sizes: rng.integers(sizes["t"], sizes["t"] + 1, shape)},
    ),
    Case(
        "MelWeightMatrix",
        "int64 n",
        "y = MelWeightMatrix(n, length, rate, low, high)",
        {"t": 8},
        {"t": 80},
        fills={"n": lambda rng, shape, sizes: rng.integers(sizes["t"], sizes["t"] + 1, shape)},
        weights={
            "length": integer(1024),
            "rate": integer(16_000),
            "low": scalar(0.0),
            "high": scalar(8000.0),
        },
    ),
    Case(
        "NegativeLogLikelihoodLoss",
        _LOSS,
        "y = NegativeLogLikelihoodLoss(x, t)",
        _SMALL_LOSS,
        _LARGE_LOSS,
        fills={"t": below("k")},
    ),
    Case(
        "SoftmaxCrossEntropyLoss",
        _LOSS,
        "y = SoftmaxCrossEntropyLoss(x, t)",
        _SMALL_LOSS,
        _LARGE_LOSS,
        fills={"t": below("k")},
    ),
)
