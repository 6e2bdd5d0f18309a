"""Activations, products, normalisations and embeddings of com.microsoft."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.frontend.onnx.contrib import builders
from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import Case, check, check_sizes

BUILDERS = {
    "gelu": builders.elementwise("Gelu"),
    "bias_gelu": builders.elementwise("BiasGelu", with_bias=True),
    "fast_gelu": builders.elementwise("FastGelu"),
    "fast_gelu_bias": builders.elementwise("FastGelu", with_bias=True),
    "quick_gelu": builders.elementwise("QuickGelu"),
    "quick_gelu_alpha": builders.elementwise("QuickGelu", alpha=0.7),
    "product": builders.product(False, False, alpha=0.3),
    "product_a": builders.product(True, False),
    "product_b": builders.product(False, True, alpha=-2.0),
    "product_batch": builders.product(False, False, batch_first=False),
    "product_all": builders.product(True, True, batch_first=False, alpha=0.5),
    "skip": builders.skip_norm("SkipLayerNormalization", ("beta", "bias")),
    "skip_gamma": builders.skip_norm("SkipLayerNormalization", ()),
    "skip_bias": builders.skip_norm("SkipLayerNormalization", ("bias",)),
    "skip_rank_2": builders.skip_norm("SkipLayerNormalization", ("beta",), skip_rank=2),
    "skip_simplified": builders.skip_norm("SkipSimplifiedLayerNormalization", ()),
    "skip_simplified_bias": builders.skip_norm("SkipSimplifiedLayerNormalization", ("bias",)),
    "simplified": builders.simplified_norm,
    "embedding": builders.embedding(("segments", "mask")),
    "embedding_words": builders.embedding(()),
    "embedding_positions": builders.embedding(("segments", "mask", "positions")),
    "rotary": builders.rotary(3, 8, False),
    "rotary_interleaved": builders.rotary(3, 8, True),
    "rotary_heads": builders.rotary(4, 8, False),
    "rotary_heads_interleaved": builders.rotary(4, 8, True, one_position=True),
    "rotary_part": builders.rotary(3, 4, False),
    "rotary_part_interleaved": builders.rotary(3, 4, True, one_position=True),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_free_sizes(name: str) -> None:
    check_sizes(BUILDERS[name])


@pytest.mark.parametrize("name", [name for name in BUILDERS if "_" not in name])
def test_float16(name: str) -> None:
    check(replace(BUILDERS[name](2, 5), free={}).as_type("float16"))


def test_vectors() -> None:
    """A vector has nothing to transpose."""
    rng = generator(3)
    check(Case("FusedMatMul", {"a": normal(rng, 5), "b": normal(rng, 5, 4)}, {"transA": 1}))


@pytest.mark.parametrize(
    ("activation", "attrs"),
    [
        ("Relu", {}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("LeakyRelu", {"activation_alpha": 0.2}),
        ("Elu", {"activation_alpha": 0.7}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("Softplus", {}),
    ],
)
def test_fused_gemm(activation: str, attrs: dict[str, float]) -> None:
    rng = generator(7)
    feed = {"a": normal(rng, 8, 5), "b": normal(rng, 6, 8), "c": normal(rng, 5, 6)}
    own = {"alpha": 0.3, "beta": 0.5, "transA": 1, "transB": 1}
    check(Case("FusedGemm", feed, {**own, "activation": activation, **attrs}))


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.1]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_fused_conv(activation: str, parameters: list[float], added: bool) -> None:
    rng = generator(5)
    feed = {
        "x": normal(rng, 2, 4, 9, 8),
        "w": normal(rng, 6, 2, 3, 3),
        "b": normal(rng, 6),
        "z": normal(rng, 2, 6, 5, 4) if added else None,
    }
    attrs = {"activation": activation, "group": 2, "pads": [1, 1, 1, 1], "strides": [2, 2]}
    if parameters:
        attrs["activation_params"] = parameters
    check(Case("FusedConv", feed, attrs, stored=("w", "b")))


def test_statistics_of_skip_norm() -> None:
    """ONNX Runtime has no kernel that gives the mean and the inverse deviation; these are their formulas."""
    rng = generator(11)
    x, skip, gamma = normal(rng, 2, 5, 24), normal(rng, 2, 5, 24), normal(rng, 24)
    case = Case(
        "SkipLayerNormalization",
        {"x": x, "skip": skip, "gamma": gamma},
        {"epsilon": 1e-5},
        outputs=("y", "mean", "inverse", "total"),
    )
    total = (x + skip).astype(np.float64)
    mean = total.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(((total - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    wanted = [(total - mean) * inverse * gamma, mean, inverse, total]
    check(case, [array.astype(np.float32) for array in wanted])
