"""Small networks with symbolic sizes, what they must give, and random inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import heddle
from heddle.script import from_source
from heddle.vm.relax import VMExecutable

_ENCODER = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("b", "s", 16), "float32"),
        w: R.Tensor((16, 48), "float32"),
        v: R.Tensor((16, 16), "float32"),
    ):
        b = T.int64()
        s = T.int64()
        with R.dataflow():
            qkv = R.matmul(x, w)
            parts = R.split(qkv, 3, axis=2)
            q = R.permute_dims(R.reshape(parts[0], R.shape([b, s, 4, 4])), axes=[0, 2, 1, 3])
            k = R.permute_dims(R.reshape(parts[1], R.shape([b, s, 4, 4])), axes=[0, 2, 3, 1])
            u = R.permute_dims(R.reshape(parts[2], R.shape([b, s, 4, 4])), axes=[0, 2, 1, 3])
            scores = R.nn.softmax(R.matmul(q, k), axis=-1)
            mixed = R.permute_dims(R.matmul(scores, u), axes=[0, 2, 1, 3])
            y = R.add(x, R.matmul(R.reshape(mixed, R.shape([b, s, 16])), v))
            z = R.nn.relu(y)
            R.output(y, z)
        return (y, z)
"""

_CONVOLUTION = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3, "h", "w"), "float32"), k: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, k, padding=(1, 1))
            b = R.nn.relu(a)
            c = R.nn.max_pool2d(b, pool_size=(2, 2), strides=(2, 2))
            d = R.mean(c, axis=[2, 3])
            R.output(d)
        return d
"""


@dataclass(frozen=True)
class Network:
    """`inputs(rng)`: random, their sizes too, with the values of the symbolic dims. `expected` is numpy's."""

    name: str
    source: str
    inputs: Callable[[np.random.Generator], tuple[list[Any], dict[str, int]]]
    expected: Callable[..., list[Any]]

    def executable(self, exec_mode: str) -> VMExecutable:
        made = heddle.compile(from_source(self.source), exec_mode=exec_mode)
        assert isinstance(made, VMExecutable)
        return made


def _encoder_inputs(rng: np.random.Generator) -> tuple[list[Any], dict[str, int]]:
    dims = {"b": int(rng.integers(1, 4)), "s": int(rng.integers(1, 48))}
    shapes = ((dims["b"], dims["s"], 16), (16, 48), (16, 16))
    # Small enough that rounding in the exponent of the softmax stays small.
    return [rng.standard_normal(shape).astype("float32") / 4 for shape in shapes], dims


def _encoder(x: Any, w: Any, v: Any) -> list[Any]:
    b, s, _ = x.shape
    q, k, u = ((x @ part).reshape(b, s, 4, 4).transpose(0, 2, 1, 3) for part in np.split(w, 3, 1))
    scores = q @ k.transpose(0, 1, 3, 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ u
    y = x + mixed.transpose(0, 2, 1, 3).reshape(b, s, 16) @ v
    return [y, np.maximum(y, 0)]


def _convolution_inputs(rng: np.random.Generator) -> tuple[list[Any], dict[str, int]]:
    dims = {"n": int(rng.integers(1, 4)), "h": int(rng.integers(2, 24)), "w": int(rng.integers(2, 24))}
    shapes = ((dims["n"], 3, dims["h"], dims["w"]), (4, 3, 3, 3))
    return [rng.standard_normal(shape).astype("float32") for shape in shapes], dims


def _convolution(x: Any, k: Any) -> list[Any]:
    n, _, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((n, 4, h, w), "float32")
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", padded[:, :, i : i + h, j : j + w], k[:, :, i, j])
    out = np.maximum(out, 0)[:, :, : h // 2 * 2, : w // 2 * 2]
    return [out.reshape(n, 4, h // 2, 2, w // 2, 2).max((3, 5)).mean((2, 3))]


ENCODER = Network("encoder", _ENCODER, _encoder_inputs, _encoder)
CONVOLUTION = Network("convolution", _CONVOLUTION, _convolution_inputs, _convolution)
NETWORKS = (ENCODER, CONVOLUTION)


def as_list(value: Any) -> list[Any]:
    return [item.numpy() for item in value] if isinstance(value, tuple) else [value.numpy()]


def largest_error(network: Network, inputs: list[Any], value: Any) -> float:
    """The largest difference from numpy's answer."""
    differences = [0.0]
    for got, want in zip(as_list(value), network.expected(*inputs), strict=True):
        assert got.shape == want.shape
        differences.append(float(np.abs(got - want).max(initial=0)))
    return max(differences)


def is_right(network: Network, inputs: list[Any], value: Any) -> bool:
    return largest_error(network, inputs, value) < 1e-4
