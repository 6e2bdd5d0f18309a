"""Norms of 16-bit floats are rounded once: their squares neither overflow nor vanish."""

from __future__ import annotations

import heddle.backend
import ml_dtypes
import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node

X = np.array([[300.0, -500.0, 0.25, 8.168e-4], [1e-3, 2e-3, -3e-3, 1e-4]])
SUMS = {
    "ReduceL2": lambda x: np.sqrt((x**2).sum(-1, keepdims=True)),
    "ReduceSumSquare": lambda x: (x**2).sum(-1, keepdims=True),
    "ReduceLogSum": lambda x: np.log(np.abs(x).sum(-1, keepdims=True)),
    "ReduceLogSumExp": lambda x: np.log(np.exp(x / 100).sum(-1, keepdims=True)),
}


def run(op: str, x: np.ndarray, **attrs: object) -> np.ndarray:
    made = model([node(op, ["x"], ["y"], **attrs)], {"x": ([*x.shape], str(x.dtype))}, ["y"], opset=13)
    return np.asarray(heddle.backend.prepare(made).run([x])[0]).astype("float64")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", SUMS)
def test_reductions(op: str, dtype: type) -> None:
    x = np.abs(X) if op == "ReduceLogSum" else X / 100 if op == "ReduceLogSumExp" else X
    if op == "ReduceSumSquare":
        x = x / 4  # so that the result is no infinity
    given = x.astype(dtype)
    wide = given.astype("float64") * (100 if op == "ReduceLogSumExp" else 1)
    expected = SUMS[op](wide)
    got = run(op, given, keepdims=1, axes=[-1])
    np.testing.assert_allclose(got, expected, rtol=float(ml_dtypes.finfo(dtype).eps), atol=1e-7)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_normalisation_of_one_element(dtype: type, p: int) -> None:
    alone = X.reshape(8, 1).astype(dtype)
    np.testing.assert_array_equal(
        run("LpNormalization", alone, axis=1, p=p), np.sign(alone.astype("float64"))
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_pools(dtype: type) -> None:
    given = X.reshape(1, 1, 8).astype(dtype)
    wide = given.astype("float64").reshape(4, 2)
    got = run("LpPool", given, kernel_shape=[2], strides=[2], p=2)
    np.testing.assert_allclose(
        got.reshape(4), np.sqrt((wide**2).sum(1)), rtol=float(ml_dtypes.finfo(dtype).eps)
    )
