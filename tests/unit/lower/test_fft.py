"""Fourier transforms by machine code, for lengths that are known only at run time."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.graph.types import ShapeExpr, ShapeType
from heddle.ir.expr import Var
from heddle.prim.nodes import SizeVar, constant
from heddle.relax import BlockBuilder, TensorType, op

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 25, 30, 49, 64, 77, 101, 256, 400, 1009, 1024)
"""Powers, products of primes, and primes."""


def transform(parts: int, dtype: str, inverse: bool, onesided: bool):
    rows, size, length = SizeVar("rows"), SizeVar("size"), SizeVar("length")
    x = Var("x", TensorType((rows, size, constant(parts, "int64")), dtype))
    lengths = Var("lengths", ShapeType((length,)))
    builder = BlockBuilder()
    with builder.function("main", [x, lengths]):
        made = op.signal.fft(x, ShapeExpr((length,)), inverse=inverse, onesided=onesided)
        builder.emit_func_output(builder.emit(made))
    machine = heddle.relax.VirtualMachine(heddle.compile(builder.get()), heddle.cpu())
    return lambda x, length: machine["main"](heddle.tensor(x), heddle.runtime.Shape((length,))).numpy()


def wanted(x, length, inverse, onesided):
    numbers = x[..., 0].astype("complex128")
    if x.shape[2] == 2:
        numbers.imag = x[..., 1]
    if inverse and onesided:
        return np.fft.irfft(numbers, length, axis=1)[..., None]
    made = (np.fft.ifft if inverse else np.fft.fft)(numbers, length, axis=1)
    made = made[:, : length // 2 + 1] if onesided else made
    return np.stack([made.real, made.imag], axis=-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("inverse", "onesided", "parts"),
    [(False, False, 2), (False, True, 1), (True, False, 2), (True, True, 2)],
)
def test_transforms_of_any_length(dtype, inverse, onesided, parts):
    run, rng = transform(parts, dtype, inverse, onesided), np.random.default_rng(0)
    for length in LENGTHS:
        for rows in (1, 3, 17, 33):
            size = length // 2 + 1 if inverse and onesided else length
            x = rng.standard_normal((rows, size, parts)).astype(dtype)
            expected = wanted(x, length, inverse, onesided)
            scale = np.abs(expected).max()
            error = 4e-6 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(run(x, length) / scale, expected / scale, atol=error, rtol=0)


@pytest.mark.parametrize(("size", "length"), [(5, 8), (9, 4), (0, 3), (1, 1)])
def test_missing_elements_are_zero_and_more_do_not_count(size, length):
    x = np.random.default_rng(1).standard_normal((2, size, 1)).astype("float32")
    padded = np.zeros((2, max(size, length), 1), "float32")
    padded[:, :size] = x
    got = transform(1, "float32", False, False)(x, length)
    np.testing.assert_allclose(got, wanted(padded[:, :length], length, False, False), atol=1e-5)
