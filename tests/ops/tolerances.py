"""How far results may lie apart: one row a dtype and class of operator. Widening a row needs a reason.

- exact: moves and compares elements, integer arithmetic
- rounded: some correctly rounded operations
- transcendental: elementary functions of at most 4 ulp, and short formulas of them
- accumulated: sums, whose order is free
"""

from __future__ import annotations

import numpy as np

TOLERANCES: dict[tuple[str, str], tuple[float, float]] = {
    ("rounded", "float64"): (1e-14, 1e-14),
    ("rounded", "float32"): (1e-6, 1e-6),
    ("rounded", "float16"): (2e-3, 1e-3),
    ("rounded", "bfloat16"): (1.6e-2, 8e-3),
    ("transcendental", "float64"): (1e-12, 1e-12),
    ("transcendental", "float32"): (2e-6, 2e-6),
    ("transcendental", "float16"): (4e-3, 2e-3),
    ("transcendental", "bfloat16"): (3.2e-2, 1.6e-2),
    ("accumulated", "float64"): (1e-12, 1e-12),
    ("accumulated", "float32"): (2e-5, 2e-5),
    ("accumulated", "float16"): (4e-3, 4e-3),
    ("accumulated", "bfloat16"): (1.6e-2, 1.6e-2),
}
"""(class, dtype) → relative and absolute tolerance."""

_ROUNDED = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "mod",
    "floor_mod",
    "floor_divide",
    "square",
    "ewise_fma",
    "sqrt",
}
_ACCUMULATED = {"matmul", "sum", "prod", "mean", "variance", "std", "cumsum", "cumprod", "einsum", "linear"}
_ACCUMULATED |= {"collapse_sum_to", "collapse_sum_like", "scatter_elements", "scatter_nd", "index_put"}
_ACCUMULATING_FAMILIES = (
    "nn.conv",
    "nn.avg_pool",
    "nn.sum_pool",
    "nn.adaptive",
    "nn.attention",
    "image.",
    "nn.cross",
    "nn.nll",
)


def operator_class(name: str) -> str:
    """The class of an operator."""
    if name in _ACCUMULATED or name.endswith("norm") or name.startswith(_ACCUMULATING_FAMILIES):
        return "accumulated"
    return "rounded" if name in _ROUNDED else "transcendental"


def assert_close(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Compare dtype, shape and values; NaN equals NaN."""
    assert got.dtype == want.dtype, f"{name}: dtype {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{name}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    rtol, atol = TOLERANCES[(operator_class(name), str(got.dtype))]
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)
