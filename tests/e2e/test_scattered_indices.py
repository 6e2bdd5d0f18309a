"""Scatters name the first index that is out of range, as it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import TrapIndexError

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
ELEMENTS = """
m (float[n] x, int64[k] i, float[k] u) => (float[n] y) {{
  y = ScatterElements<axis=0, reduction="{0}">(x, i, u) }}"""
PLACES = """
m (float[n, c] x, int64[k, 2] i, float[k] u) => (float[n, c] y) {{
  y = ScatterND<reduction="{0}">(x, i, u) }}"""


def model_and_arrays(text: str, how: str, count: int) -> tuple[Any, list[np.ndarray]]:
    rng, is_flat = np.random.default_rng(count), text is ELEMENTS
    x = rng.random((7,) if is_flat else (9, 7), "float32")
    places = np.stack([rng.permutation(63)[:count] // 7, rng.permutation(63)[:count] % 7], -1)
    flat = rng.permutation(7)[:count] if how == "none" else rng.integers(-7, 7, count)
    arrays = [x, flat if is_flat else places, rng.random(count, "float32")]
    return parser.parse_model(HEAD + text.format(how)), arrays


@pytest.mark.parametrize("how", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("text", [ELEMENTS, PLACES], ids=["elements", "places"])
def test_the_first_index_out_of_range_is_named(text: str, how: str) -> None:
    model, arrays = model_and_arrays(text, how, 7)
    peer = onnxruntime.InferenceSession(model.SerializeToString())
    for mode in ("compiled", "bytecode"):
        machine = relax.VirtualMachine(
            heddle.compile(from_onnx(model), target="llvm", exec_mode=mode), heddle.cpu()
        )
        for count in (0, 1, 7):
            _, given = model_and_arrays(text, how, count)
            (expected,) = peer.run(None, dict(zip(("x", "i", "u"), given, strict=True)))
            np.testing.assert_allclose(machine["main"](*given).numpy(), expected, rtol=1e-6)
        for wrong in (7, -8, 2**40, -(2**63), 2**63 - 1):
            bad = arrays[1].copy()
            bad[(3, 1) if bad.ndim > 1 else 3] = wrong
            bad[(5, 0) if bad.ndim > 1 else 5] = 1000
            with pytest.raises(TrapIndexError, match=f"index {wrong} is out of range for an axis of 7"):
                machine["main"](arrays[0], bad, arrays[2])
